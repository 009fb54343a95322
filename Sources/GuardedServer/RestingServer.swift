import HTTPTypes
import HealthReadings
import Hummingbird
import HummingbirdCore
import LocalAccess
import Logging
import NIOCore
import NIOPosix
import NIOSSL
import ServiceLifecycle

/// A Hummingbird server that sleeps while nobody asks.
///
/// `Hummingbird.Application` formats the date of its responses once a second, asked or not; a gateway that waits for its
/// meters all day is not to be woken for that.
package struct RestingServer<Responder: HTTPResponder>: Service
where Responder.Context: InitializableFromSource<ApplicationRequestContextSource> {
    private let responder: Responder
    private let address: BindAddress
    private let logger: Logger
    private let guarding: ServerGuard
    private let onServerRunning: @Sendable (any Channel) async -> Void

    package init<Builder: HTTPResponderBuilder>(
        router: Builder, address: BindAddress, logger: Logger, guarding: ServerGuard = ServerGuard(),
        onServerRunning: @escaping @Sendable (any Channel) async -> Void
    ) where Builder.Responder == Responder {
        responder = router.buildResponder()
        self.address = address
        self.logger = logger
        self.guarding = guarding
        self.onServerRunning = onServerRunning
    }

    package func run() async throws {
        let server = try guarding.builder.buildServer(
            configuration: ServerConfiguration(
                address: address, serverName: "healthrelay",
                availableConnectionsDelegate: MaximumAvailableConnections(guarding.limits.connections)),
            eventLoopGroup: MultiThreadedEventLoopGroup.singleton, logger: logger
        ) { request, writer, channel in
            // HEAD is answered as GET is, without the content (RFC 9110, section 9.3.2).
            let isHead = request.method == .head
            let response = await respond(to: isHead ? request.asGet : request, on: channel)
            if isHead { return try await writer.write(response: response.head, body: ResponseBody()) }
            // Who asks for a page and does not take it holds it no longer than this.
            let isStream = response.headers[.contentType].map(Self.streams.contains) ?? false
            let deadline =
                isStream
                ? nil
                : channel.eventLoop.scheduleTask(in: guarding.limits.answer) { channel.close(promise: nil) }
            defer { deadline?.cancel() }
            try await writer.write(response: response.head, body: response.body)
        } onServerRunning: {
            await onServerRunning($0)
        }
        try await server.run()
    }

    /// The types of answers that go on.
    private static var streams: [String] { ["text/event-stream", "application/x-ndjson"] }

    private func respond(to request: Request, on channel: any Channel) async -> Response {
        var response: Response
        do {
            let context = Responder.Context(source: .init(channel: channel, logger: logger))
            response = try await responder.respond(to: request, context: context)
        } catch {
            logger.debug("a request was not answered", metadata: ["error": "\(error)"])
            response = Response(status: .internalServerError)
        }
        response.headers[.date] = Instant.systemClock.httpDate
        response.headers[.server] = "healthrelay"
        return response
    }
}

extension Request {
    /// The same request with the method GET.
    fileprivate var asGet: Request {
        var head = head
        head.method = .get
        return Request(head: head, body: body)
    }
}

/// What a server does about clients that are too many, too slow or too talkative.
package struct ServerGuard: Sendable {
    /// What the next connection speaks TLS with; `nil`: connections are plain.
    package var tls: (@Sendable () -> NIOSSLContext)?
    package var limits: ServerLimits

    /// A server that speaks TLS as `tls` says for each connection.
    package init(tls: (@Sendable () -> NIOSSLContext)?, limits: ServerLimits = ServerLimits()) {
        self.tls = tls
        self.limits = limits
    }

    /// A server that shows the gateway's certificate; `nil`: one without TLS.
    package init(certificates: CertificateKeeper? = nil, limits: ServerLimits = ServerLimits()) {
        guard let certificates else {
            self.init(tls: nil, limits: limits)
            return
        }
        self.init(tls: { certificates.context }, limits: limits)
    }

    /// Makes the server's connections.
    var builder: HTTPServerBuilder {
        let (limits, tls) = (limits, tls)
        let census = ConnectionCensus(limits)
        return HTTPServerBuilder { responder in
            let configuration = HTTP1Channel.Configuration(
                additionalChannelHandlers: [RequestGuard(limits)], idleTimeout: limits.idle,
                httpDecoderConfiguration: .init(
                    maxHeaderFieldSize: limits.headerOctets, maxHeaderListSize: limits.headerOctets,
                    maxHeaderFieldCount: 100))
            return GuardedChannel(
                base: HTTP1Channel(responder: responder, configuration: configuration), tls: tls, census: census,
                limits: limits)
        }
    }
}

extension Instant {
    /// The date as HTTP writes it (RFC 9110, section 5.6.7): `Sun, 06 Nov 1994 08:49:37 GMT`.
    package var httpDate: String {
        let wall = WallTime(secondsSinceEpoch: seconds)
        let (date, time) = (wall.date, wall.timeOfDay)
        let days = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"]
        let months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
        let day = seconds.quotientAndRemainder(dividingBy: 86400)
        let sinceEpoch = day.remainder < 0 ? day.quotient - 1 : day.quotient
        func two(_ number: Int) -> String { number < 10 ? "0\(number)" : "\(number)" }
        return "\(days[Int((sinceEpoch % 7 + 7) % 7)]), \(two(date.day)) \(months[date.month - 1]) \(date.year) "
            + "\(two(time.hour)):\(two(time.minute)):\(two(time.second)) GMT"
    }
}

extension Logger {
    /// The same logger for a library whose ordinary progress is of interest at debug only.
    package static func quiet(_ logger: Logger) -> Logger {
        var quiet = logger
        quiet.logLevel = max(logger.logLevel, logger.logLevel <= .debug ? .debug : .critical)
        return quiet
    }
}
