import NIOCore
import NIOHTTP1
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
    private let isSecure: Bool
    private let desk: Desk

    /// Answers the requests.
    private final class Desk: Sendable {
        let received = Mutex<[ReceivedRequest]>([])
        private let script: Script

        init(_ script: @escaping Script) { self.script = script }

        func answer(_ request: ReceivedRequest) async -> ScriptedAnswer {
            received.withLock { $0.append(request) }
            return await script(request)
        }
    }

    private init(port: Int, isSecure: Bool, desk: Desk) {
        self.port = port
        self.isSecure = isSecure
        self.desk = desk
    }

    /// The base of URLs: `http://127.0.0.1:4711`.
    public var baseURL: String { "\(isSecure ? "https" : "http")://127.0.0.1:\(port)" }

    /// Every request so far, in order of arrival.
    public var requests: [ReceivedRequest] { desk.received.withLock { $0 } }

    /// Starts a server, calls `body` and stops the server, whatever `body` does.
    ///
    /// - Parameter tls: what it speaks TLS with; nil: it speaks none.
    public static func with<Result: Sendable>(
        _ script: @escaping Script, tls: NIOSSLContext? = nil, body: @Sendable (ScriptedServer) async throws -> Result
    ) async throws -> Result {
        let desk = Desk(script)
        return try await Loopback.with(tls: tls) { pipeline in
            try pipeline.configureHTTPServerPipeline()
            try pipeline.addHandler(Handler(desk: desk))
        } body: { port in
            try await body(ScriptedServer(port: port, isSecure: tls != nil, desk: desk))
        }
    }

    private final class Handler: ChannelInboundHandler {
        typealias InboundIn = HTTPServerRequestPart
        typealias OutboundOut = HTTPServerResponsePart

        private let desk: Desk
        private var head: HTTPRequestHead?
        private var body: [UInt8] = []

        init(desk: Desk) { self.desk = desk }

        func channelRead(context: ChannelHandlerContext, data: NIOAny) {
            switch unwrapInboundIn(data) {
            case .head(let head):
                self.head = head
                body = []
            case .body(let part):
                body.append(contentsOf: part.readableBytesView)
            case .end:
                guard let head else { return }
                let request = ReceivedRequest(
                    method: head.method.rawValue, path: head.uri,
                    headers: Dictionary(
                        head.headers.map { ($0.name.lowercased(), $0.value) }, uniquingKeysWith: { $0 + "," + $1 }),
                    body: body)
                let channel = context.channel
                Task { [desk] in
                    let answer = await desk.answer(request)
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
