import NIOCore
import NIOHTTP1
import NIOPosix
import NIOSSL
import Synchronization

/// A request as it came in.
public struct ReceivedRequest: Sendable {
    /// The method: `POST`.
    public var method: String
    /// The path with its query, as sent.
    public var path: String
    /// Headers by name in lower case.
    public var headers: [String: String]
    /// The body as it came over the wire.
    public var body: [UInt8]
}

/// What the server does with a request.
public enum ScriptedAnswer: Sendable {
    /// Answers with JSON.
    case json(Int, String, headers: [String: String] = [:])
    /// Answers with something else.
    case other(Int, String, type: String)
    /// Waits, then answers.
    indirect case late(Duration, ScriptedAnswer)
    /// Sends the head and one octet of the body a tenth of a second, for ever.
    case drip
    /// Sends half an answer and closes.
    case half(Int, String)
    /// Closes without an answer.
    case cut

    /// 200 and `null`.
    public static let ok = ScriptedAnswer.json(200, "null")
}

/// A real HTTP server on a loopback socket whose answers a test decides.
public final class ScriptedServer: Sendable {
    /// Decides about a request.
    public typealias Script = @Sendable (ReceivedRequest) async -> ScriptedAnswer

    /// The port on 127.0.0.1.
    public let port: Int
    private let channel: any Channel
    private let received = Mutex<[ReceivedRequest]>([])
    private let script: Script

    private final class Box: Sendable {
        let server = Mutex<ScriptedServer?>(nil)
    }

    private init(channel: any Channel, isSecure: Bool, script: @escaping Script) {
        self.isSecure = isSecure
        self.channel = channel
        self.script = script
        port = channel.localAddress?.port ?? 0
    }

    /// The base of URLs: `http://127.0.0.1:4711`.
    public var baseURL: String { "\(isSecure ? "https" : "http")://127.0.0.1:\(port)" }
    private let isSecure: Bool

    /// Every request so far, in order of arrival.
    public var requests: [ReceivedRequest] { received.withLock { $0 } }

    /// Starts a server, calls `body` and stops the server, whatever `body` does.
    ///
    /// - Parameter tls: what it speaks TLS with; nil: it speaks none.
    public static func with<Result: Sendable>(
        _ script: @escaping Script, tls: NIOSSLContext? = nil, body: @Sendable (ScriptedServer) async throws -> Result
    ) async throws -> Result {
        let box = Box()
        let channel = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .serverChannelOption(.backlog, value: 64)
            .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
            .childChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    if let tls {
                        try channel.pipeline.syncOperations.addHandler(NIOSSLServerHandler(context: tls))
                    }
                    try channel.pipeline.syncOperations.configureHTTPServerPipeline()
                    try channel.pipeline.syncOperations.addHandler(Handler(box: box))
                }
            }
            .bind(host: "127.0.0.1", port: 0).get()
        let server = ScriptedServer(channel: channel, isSecure: tls != nil, script: script)
        box.server.withLock { $0 = server }
        do {
            let result = try await body(server)
            try? await channel.close()
            return result
        } catch {
            try? await channel.close()
            throw error
        }
    }

    private func answer(_ request: ReceivedRequest) async -> ScriptedAnswer {
        received.withLock { $0.append(request) }
        return await script(request)
    }

    private final class Handler: ChannelInboundHandler {
        typealias InboundIn = HTTPServerRequestPart
        typealias OutboundOut = HTTPServerResponsePart

        private let box: Box
        private var head: HTTPRequestHead?
        private var body: [UInt8] = []

        init(box: Box) { self.box = box }

        func channelRead(context: ChannelHandlerContext, data: NIOAny) {
            switch unwrapInboundIn(data) {
            case .head(let head):
                self.head = head
                body = []
            case .body(let part):
                body.append(contentsOf: part.readableBytesView)
            case .end:
                guard let head, let server = box.server.withLock({ $0 }) else { return }
                let request = ReceivedRequest(
                    method: head.method.rawValue, path: head.uri,
                    headers: Dictionary(
                        head.headers.map { ($0.name.lowercased(), $0.value) }, uniquingKeysWith: { $0 + "," + $1 }),
                    body: body)
                let channel = context.channel
                Task {
                    let answer = await server.answer(request)
                    await Writer.write(answer, to: channel)
                }
            }
        }

        func errorCaught(context: ChannelHandlerContext, error: any Error) { context.close(promise: nil) }
    }
}

/// Writes answers to a connection.
private enum Writer {
    static func write(_ answer: ScriptedAnswer, to channel: any Channel) async {
        switch answer {
        case .json(let status, let text, let headers):
            await send(status, text, "application/json", headers, to: channel)
        case .other(let status, let text, let type): await send(status, text, type, [:], to: channel)
        case .late(let delay, let answer):
            try? await Task.sleep(for: delay)
            await write(answer, to: channel)
        case .drip:
            try? await channel.writeAndFlush(head(200, 5000, "application/json", [:]))
            while channel.isActive {
                try? await channel.writeAndFlush(bytes(" "))
                try? await Task.sleep(for: .milliseconds(100))
            }
        case .half(let status, let text):
            try? await channel.writeAndFlush(head(status, text.utf8.count * 2, "application/json", [:]))
            try? await channel.writeAndFlush(bytes(text))
            try? await channel.close()
        case .cut: try? await channel.close()
        }
    }

    private static func send(
        _ status: Int, _ text: String, _ type: String, _ headers: [String: String], to channel: any Channel
    ) async {
        channel.write(head(status, text.utf8.count, type, headers), promise: nil)
        if !text.isEmpty { channel.write(bytes(text), promise: nil) }
        try? await channel.writeAndFlush(HTTPServerResponsePart.end(nil))
    }

    private static func head(
        _ status: Int, _ length: Int, _ type: String, _ headers: [String: String]
    ) -> HTTPServerResponsePart {
        var fields = HTTPHeaders(headers.map { ($0.key, $0.value) })
        fields.add(name: "content-length", value: String(length))
        fields.add(name: "content-type", value: type)
        return .head(HTTPResponseHead(version: .http1_1, status: .init(statusCode: status), headers: fields))
    }

    private static func bytes(_ text: String) -> HTTPServerResponsePart {
        .body(.byteBuffer(ByteBuffer(string: text)))
    }
}
