import HealthReadings
import NIOCore
import NIOHTTP1
import NIOPosix
import NIOSSL
import NIOTLS
import OutgoingHTTP
import Synchronization

/// Where a phone's server is, and what its certificate has to be.
struct PinnedServer: Sendable, Hashable {
    var host: String
    var port: Int
    var fingerprint: CertificateFingerprint

    /// The host as it stands in a URL and in the `Host` field.
    var authority: String {
        // A zone (`fe80::1%eth0`) is this machine's own and no part of the name.
        let name = host.split(separator: "%", maxSplits: 1).first.map(String.init) ?? host
        return (name.contains(":") ? "[\(name)]" : name) + ":\(port)"
    }
}

/// One request to a phone.
struct PhoneRequest: Sendable {
    var method: HTTPMethod
    var path: String
    var token: PhoneToken?
    var body: [UInt8]?

    var route: String { "\(method.rawValue) \(path)" }
}

/// An answer whose body is complete.
struct PhoneAnswer: Sendable {
    var status: Int
    var headers: HTTPHeaders
    var body: [UInt8]
}

/// One exchange over a connection of its own: the app closes the connection behind each answer.
///
/// The certificate's SHA-256 is all that is trusted: the certificate is self-signed, has no name of the host and may have
/// expired. The request is written only when the handshake is over, so a server with another certificate receives nothing.
enum PinnedExchange {
    static func send(
        _ request: PhoneRequest, to server: PinnedServer, _ limits: HealthSyncLimits
    ) async throws -> PhoneAnswer {
        let loop = MultiThreadedEventLoopGroup.singleton.any()
        let exchange = Exchange(loop.makePromise(of: PhoneAnswer.self))
        let deadline = loop.scheduleTask(in: .nanoseconds(limits.call.nanoseconds)) {
            exchange.fail(HealthSyncError(.timeout, route: request.route))
        }
        defer { deadline.cancel() }
        return try await withTaskCancellationHandler {
            if Task.isCancelled { exchange.fail(CancellationError()) }
            begin(exchange, request, server, limits, on: loop)
            return try await exchange.answer.get()
        } onCancel: {
            exchange.fail(CancellationError())
        }
    }

    private static func begin(
        _ exchange: Exchange, _ request: PhoneRequest, _ server: PinnedServer, _ limits: HealthSyncLimits,
        on loop: any EventLoop
    ) {
        let context: NIOSSLContext
        do {
            context = try Self.context.get()
        } catch {
            return exchange.fail(HealthSyncError(.tlsFailed, route: request.route, detail: TLSFailure.words(error)))
        }
        ClientBootstrap(group: loop)
            .connectTimeout(.nanoseconds(limits.connecting.nanoseconds))
            .channelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    let pipeline = channel.pipeline.syncOperations
                    try pipeline.addHandler(
                        NIOSSLClientHandler(
                            context: context, serverHostname: serverName(of: server),
                            customVerificationCallback: { chain, verdict in
                                let found = chain.first.flatMap { try? $0.toDERBytes() }
                                    .map(CertificateFingerprint.init(ofCertificate:))
                                exchange.found(found)
                                verdict.succeed(found == server.fingerprint ? .certificateVerified : .failed)
                            }))
                    try pipeline.addHTTPClientHandlers()
                    try pipeline.addHandler(ExchangeHandler(exchange, request, server, limits))
                }
            }
            .connect(host: server.host, port: server.port)
            .whenComplete { result in
                switch result {
                case .success(let channel): exchange.use(channel)
                case .failure(let error):
                    exchange.fail(Self.connectingError(error, request))
                }
            }
    }

    /// TLS 1.3 alone; the library's own check of certificates gives way to the comparison of fingerprints.
    private static let context = Result {
        var configuration = TLSConfiguration.makeClientConfiguration()
        configuration.minimumTLSVersion = .tlsv13
        configuration.maximumTLSVersion = .tlsv13
        configuration.certificateVerification = .noHostnameVerification
        configuration.applicationProtocols = ["http/1.1"]
        return try NIOSSLContext(configuration: configuration)
    }

    /// The name to ask for (RFC 6066, 3: never an address).
    private static func serverName(of server: PinnedServer) -> String? {
        let isAddress = server.host.contains(":") || (try? SocketAddress(ipAddress: server.host, port: 0)) != nil
        return isAddress ? nil : server.host
    }

    private static func connectingError(_ error: any Error, _ request: PhoneRequest) -> any Error {
        switch error {
        case is HealthSyncError, is CancellationError: return error
        case ChannelError.connectTimeout:
            return HealthSyncError(.noConnection, route: request.route, detail: "no connection in time")
        case let error as NIOConnectionError:
            let reasons =
                error.connectionErrors.map { "\($0.error)" }
                + [error.dnsAError, error.dnsAAAAError].compactMap {
                    $0.map { "\($0)" }
                }
            return HealthSyncError(
                .noConnection, route: request.route,
                detail: ServerText.oneLine(reasons.first ?? "the name cannot be resolved", masking: []))
        default:
            return HealthSyncError(
                .noConnection, route: request.route, detail: ServerText.oneLine("\(error)", masking: []))
        }
    }
}

/// How one exchange ends: with the first outcome that is known, which closes the connection.
private final class Exchange: Sendable {
    private struct State {
        var channel: (any Channel)?
        var isOver = false
        var found: CertificateFingerprint?
        var isHandshakeOver = false
    }

    private let promise: EventLoopPromise<PhoneAnswer>
    private let state = Mutex(State())

    init(_ promise: EventLoopPromise<PhoneAnswer>) { self.promise = promise }

    var answer: EventLoopFuture<PhoneAnswer> { promise.futureResult }

    /// The fingerprint of the server's certificate, once it has shown one.
    var certificate: CertificateFingerprint? { state.withLock(\.found) }
    var isHandshakeOver: Bool { state.withLock(\.isHandshakeOver) }

    func found(_ fingerprint: CertificateFingerprint?) { state.withLock { $0.found = fingerprint } }
    func endHandshake() { state.withLock { $0.isHandshakeOver = true } }

    /// Takes the connection; it is closed at once if nobody waits for it any more.
    func use(_ channel: any Channel) {
        let isOver = state.withLock { state in
            state.channel = channel
            return state.isOver
        }
        if isOver { channel.close(promise: nil) }
    }

    func succeed(_ answer: PhoneAnswer) { end { promise.succeed(answer) } }
    func fail(_ error: any Error) { end { promise.fail(error) } }

    private func end(_ tell: () -> Void) {
        let (isFirst, channel) = state.withLock { state in
            defer { state.isOver = true }
            return (!state.isOver, state.channel)
        }
        guard isFirst else { return }
        tell()
        channel?.close(promise: nil)
    }
}

private final class ExchangeHandler: ChannelInboundHandler {
    typealias InboundIn = HTTPClientResponsePart
    typealias OutboundOut = HTTPClientRequestPart

    private let exchange: Exchange
    private let request: PhoneRequest
    private let server: PinnedServer
    private let limits: HealthSyncLimits
    private var head: HTTPResponseHead?
    private var body: [UInt8] = []

    init(_ exchange: Exchange, _ request: PhoneRequest, _ server: PinnedServer, _ limits: HealthSyncLimits) {
        self.exchange = exchange
        self.request = request
        self.server = server
        self.limits = limits
    }

    func handlerAdded(context: ChannelHandlerContext) {
        // The connection is open before the handshake is over, and both have one time limit together.
        let (exchange, route) = (exchange, request.route)
        context.eventLoop.scheduleTask(in: .nanoseconds(limits.connecting.nanoseconds)) {
            guard !exchange.isHandshakeOver else { return }
            exchange.fail(HealthSyncError(.noConnection, route: route, detail: "no TLS connection in time"))
        }
    }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        if case TLSUserEvent.handshakeCompleted? = event as? TLSUserEvent {
            exchange.endHandshake()
            write(context)
        }
        context.fireUserInboundEventTriggered(event)
    }

    private func write(_ context: ChannelHandlerContext) {
        var headers = HTTPHeaders([
            ("host", server.authority), ("accept", "application/json"), ("user-agent", "HealthRelay"),
            ("connection", "close"),
        ])
        if let token = request.token { headers.add(name: "authorization", value: "Bearer " + token.value) }
        if let body = request.body {
            headers.add(name: "content-type", value: "application/json")
            headers.add(name: "content-length", value: "\(body.count)")
        }
        let head = HTTPRequestHead(version: .http1_1, method: request.method, uri: request.path, headers: headers)
        context.write(wrapOutboundOut(.head(head)), promise: nil)
        if let body = request.body {
            context.write(wrapOutboundOut(.body(.byteBuffer(ByteBuffer(bytes: body)))), promise: nil)
        }
        context.writeAndFlush(wrapOutboundOut(.end(nil)), promise: nil)
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        switch unwrapInboundIn(data) {
        case .head(let head): self.head = head
        case .body(let part):
            guard body.count + part.readableBytes <= limits.responseBytes else {
                return exchange.fail(
                    HealthSyncError(
                        .answerTooLarge, route: request.route, detail: "more than \(limits.responseBytes) bytes"))
            }
            body.append(contentsOf: part.readableBytesView)
        case .end:
            guard let head else { return }
            exchange.succeed(PhoneAnswer(status: Int(head.status.code), headers: head.headers, body: body))
        }
    }

    func channelInactive(context: ChannelHandlerContext) { exchange.fail(lost("closed")) }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        exchange.fail(translated(error))
    }

    private func lost(_ words: String) -> HealthSyncError {
        guard exchange.isHandshakeOver else {
            return HealthSyncError(.tlsFailed, route: request.route, detail: "the server closed during the handshake")
        }
        return HealthSyncError(.connectionLost, route: request.route, detail: words)
    }

    private func translated(_ error: any Error) -> HealthSyncError {
        if exchange.isHandshakeOver { return lost(ServerText.oneLine("\(error)", masking: []) ?? "closed") }
        if let found = exchange.certificate, found != server.fingerprint {
            return HealthSyncError(
                .wrongCertificate, route: request.route,
                detail: "expected the certificate \(server.fingerprint), found \(found)")
        }
        return HealthSyncError(.tlsFailed, route: request.route, detail: TLSFailure.words(error))
    }
}
