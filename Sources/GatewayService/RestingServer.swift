import HTTPTypes
import HealthReadings
import Hummingbird
import HummingbirdCore
import Logging
import NIOCore
import NIOPosix
import ServiceLifecycle

/// A Hummingbird server that sleeps while nobody asks.
///
/// `Hummingbird.Application` formats the date of its responses once a second, asked or not; a gateway that waits for its
/// meters all day is not to be woken for that.
struct RestingServer<Responder: HTTPResponder>: Service
where Responder.Context: InitializableFromSource<ApplicationRequestContextSource> {
    let responder: Responder
    let address: BindAddress
    let logger: Logger
    let onServerRunning: @Sendable (any Channel) async -> Void

    init<Builder: HTTPResponderBuilder>(
        router: Builder, address: BindAddress, logger: Logger,
        onServerRunning: @escaping @Sendable (any Channel) async -> Void
    ) where Builder.Responder == Responder {
        responder = router.buildResponder()
        self.address = address
        self.logger = logger
        self.onServerRunning = onServerRunning
    }

    func run() async throws {
        let server = try HTTPServerBuilder.http1().buildServer(
            configuration: ServerConfiguration(address: address, serverName: "healthrelay"),
            eventLoopGroup: MultiThreadedEventLoopGroup.singleton, logger: logger
        ) { request, writer, channel in
            let response = await respond(to: request, on: channel)
            try await writer.write(response: response.head, body: response.body)
        } onServerRunning: {
            await onServerRunning($0)
        }
        try await server.run()
    }

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

extension Instant {
    /// The date as HTTP writes it (RFC 9110, section 5.6.7): `Sun, 06 Nov 1994 08:49:37 GMT`.
    var httpDate: String {
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
