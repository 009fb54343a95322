import NIOCore
import NIOSSL
import Synchronization

/// A server on a loopback socket that speaks HTTP/2 over TLS. It takes each request to its end and then resets the stream with
/// INTERNAL_ERROR (RFC 9113, 6.4), as a proxy does whose backend fails.
public final class ResettingServer: Sendable {
    /// The port on 127.0.0.1.
    public let port: Int
    private let counter: Counter

    private final class Counter: Sendable {
        let requests = Mutex(0)
    }

    private init(port: Int, counter: Counter) {
        self.port = port
        self.counter = counter
    }

    /// The base of URLs: `https://127.0.0.1:4711`.
    public var baseURL: String { "https://127.0.0.1:\(port)" }

    /// How many requests came whole.
    public var requests: Int { counter.requests.withLock { $0 } }

    /// Starts a server, calls `body` and stops the server, whatever `body` does.
    ///
    /// - Parameter tls: what it speaks TLS with; it has to offer `h2`.
    public static func with<Result: Sendable>(
        tls: NIOSSLContext, body: @Sendable (ResettingServer) async throws -> Result
    ) async throws -> Result {
        let counter = Counter()
        return try await Loopback.with(tls: tls) { pipeline in
            try pipeline.addHandler(Handler(counter: counter))
        } body: { port in
            try await body(ResettingServer(port: port, counter: counter))
        }
    }

    private final class Handler: ChannelInboundHandler {
        typealias InboundIn = ByteBuffer
        typealias OutboundOut = ByteBuffer

        /// The octets of the client's preface (RFC 9113, 3.4).
        private static let preface = 24
        private let counter: Counter
        private var received: [UInt8] = []
        private var isBegun = false

        init(counter: Counter) { self.counter = counter }

        func channelRead(context: ChannelHandlerContext, data: NIOAny) {
            received.append(contentsOf: unwrapInboundIn(data).readableBytesView)
            if !isBegun {
                guard received.count >= Self.preface else { return }
                received.removeFirst(Self.preface)
                isBegun = true
                // SETTINGS without any, and one that accepts the client's.
                write([0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 4, 1, 0, 0, 0, 0], context)
            }
            while received.count >= 9 {
                let length = Int(received[0]) << 16 | Int(received[1]) << 8 | Int(received[2])
                guard received.count >= 9 + length else { return }
                let (type, flags, stream) = (received[3], received[4], Array(received[5..<9]))
                received.removeFirst(9 + length)
                // DATA and HEADERS with END_STREAM.
                guard type <= 1, flags & 1 == 1 else { continue }
                counter.requests.withLock { $0 += 1 }
                // RST_STREAM.
                write([0, 0, 4, 3, 0] + stream + [0, 0, 0, 2], context)
            }
        }

        private func write(_ octets: [UInt8], _ context: ChannelHandlerContext) {
            context.writeAndFlush(wrapOutboundOut(ByteBuffer(bytes: octets)), promise: nil)
        }

        func errorCaught(context: ChannelHandlerContext, error: any Error) { context.close(promise: nil) }
    }
}
