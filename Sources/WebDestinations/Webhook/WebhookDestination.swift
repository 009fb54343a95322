import Foundation
import HealthReadings
import Logging
import NIOHTTP1
import OutgoingHTTP
import ReadingDelivery
import ReadingFormats
import ReadingStore

/// Posts an event for each reading to a URL of the owner's, signed as Standard Webhooks signs.
///
/// The receiver tells events apart by `webhook-id`, which is the same each time that an event is sent.
///
/// | the receiver answers | failure |
/// |---|---|
/// | 2xx | none |
/// | 410 | the destination is switched off in the store, until its owner switches it on again |
/// | 3xx | the destination's: redirects are not followed |
/// | 401, 403 | the destination's; needs a person |
/// | 429, 502, 504 | the destination's, not before `Retry-After`, or five minutes |
/// | 400, 422 | the reading's, if others are taken |
/// | anything else | the target's |
public struct WebhookDestination: Destination {
    /// The destination's name in the settings.
    public let name: String
    /// `webhook`.
    public let kind = "webhook"
    /// Every kind that is delivered; what is taken back is told by an event.
    public var rules: DestinationRules { Self.rules }

    /// What every webhook can express.
    public static let rules = DestinationRules(
        kinds: Set(ReadingKind.allCases.filter(\.isDelivered)), hasUniqueSeconds: false, needsSource: false,
        canRetract: true)

    /// The waits that Standard Webhooks advises: 5 s, 5 min, 30 min, 2 h, 5 h, 10 h, 14 h, 20 h, 24 h.
    public static let backoff = Backoff(
        schedule: [5, 300, 1800, 7200, 18_000, 36_000, 50_400, 72_000, 86_400].map { .seconds($0) })

    let server: WebServer
    let format: WebhookFormat
    private let secret: WebhookSecret
    private let store: ReadingStore
    private let connections: CheckedConnections
    private let clock: SyncClock
    private let logger: Logger

    /// Creates a destination; nothing is sent yet.
    ///
    /// - Parameters:
    ///   - name: its name in the settings.
    ///   - server: the URL, with a query or without.
    ///   - secret: what signs requests.
    ///   - format: what bodies are.
    ///   - store: the store, which knows the gateway's id and switches the destination off if its receiver is gone.
    ///   - allowsPrivate: whether the URL may lead to an address of this machine or its network.
    ///   - clock: tells the time that is signed.
    ///   - logger: gets a line a request at debug level.
    public init(
        name: String, server: WebServer, secret: WebhookSecret, format: WebhookFormat = .standard, store: ReadingStore,
        allowsPrivate: Bool = false, clock: SyncClock = .system, logger: Logger = Logger(label: "healthrelay.webhook")
    ) {
        self.init(
            name: name, server: server, secret: secret, format: format, store: store, allowsPrivate: allowsPrivate,
            clock: clock, limits: HTTPLimits(call: .seconds(20), responseBytes: 1 << 16),
            resolve: HostNames.addresses, logger: logger)
    }

    init(
        name: String, server: WebServer, secret: WebhookSecret, format: WebhookFormat, store: ReadingStore,
        allowsPrivate: Bool, clock: SyncClock, limits: HTTPLimits, resolve: @escaping CheckedConnections.Resolver,
        logger: Logger
    ) {
        self.name = name
        self.server = server
        self.secret = secret
        self.format = format
        self.store = store
        self.clock = clock
        self.logger = logger
        connections = CheckedConnections(server, allowsPrivate: allowsPrivate, limits: limits, resolve: resolve)
    }

    /// A request for each reading.
    public func parts(_ batch: DeliveryBatch) async throws(DeliveryFailure) -> [DeliveryPart] {
        batch.items.enumerated().map { index, item in
            DeliveryPart(
                target: batch.target, person: batch.person, items: [item],
                isLast: batch.isLast && index == batch.items.count - 1)
        }
    }

    /// Posts the events of a part's readings, one after the other.
    public func send(_ part: DeliveryPart) async throws(DeliveryFailure) -> [Outcome] {
        let gateway = try await gatewayID()
        var outcomes: [Outcome] = []
        for item in part.items {
            let message: WebhookFormat.Message
            do throws(FormatOmission) {
                message = try format.message(item, gateway: gateway)
            } catch {
                outcomes.append(Outcome(item.id, .refused("not sent: \(error)")))
                continue
            }
            do {
                try await post(message)
                outcomes.append(Outcome(item.id, .delivered))
            } catch {
                // What was taken is noted first; the rest is sent again.
                guard outcomes.isEmpty || error.isCancellation else { return outcomes }
                throw error
            }
        }
        return outcomes
    }

    /// Tells the receiver of each reading that is taken back.
    public func retract(
        _ items: [Retraction]
    ) async throws(DeliveryFailure) -> [RetractionKey: Outcome.Result] {
        let gateway = try await gatewayID()
        var outcomes: [RetractionKey: Outcome.Result] = [:]
        for item in items {
            do {
                try await post(format.message(item, gateway: gateway))
                outcomes[item.key] = .delivered
            } catch {
                guard outcomes.isEmpty || error.isCancellation else { return outcomes }
                throw error
            }
        }
        return outcomes
    }

    private func gatewayID() async throws(DeliveryFailure) -> String {
        do { return try await store.gatewayID() } catch { throw DeliveryFailure(error) }
    }

    private func post(_ message: WebhookFormat.Message) async throws(DeliveryFailure) {
        let timestamp = clock.now().seconds
        let signature = secret.signature(id: message.id, timestamp: timestamp, body: message.body)
        var request = WebRequest(url: server.url, route: "POST \(server.host)")
        request.headers = [
            ("content-type", Masked(message.mediaType)), ("webhook-id", Masked(message.id)),
            ("webhook-timestamp", Masked("\(timestamp)")), ("webhook-signature", Masked(signature)),
        ]
        request.body = message.body
        CrashPoint.reach("webhook.before")
        let (answer, client) = try await send(request)
        CrashPoint.reach("webhook.after")
        guard !answer.isGood else { return }
        var failure = client.failure(of: answer, request.route)
        switch answer.status {
        case 410:
            do { try await store.setDestinationEnabled(false, name) } catch { throw DeliveryFailure(error) }
            failure = DeliveryFailure(
                .destination, code: "gone",
                message:
                    "\(request.route): the receiver says that it is gone for good (status 410), so delivery is switched off; "
                    + "`healthrelay destination enable \(name)` switches it on again",
                serverSaid: failure.serverSaid, needsPerson: true)
        case 429, 502, 504:
            failure.scope = .destination
            failure.retryAfter = failure.retryAfter ?? .seconds(300)
        default: break
        }
        throw failure
    }

    /// Sends a request to the first address that answers.
    func send(_ request: WebRequest) async throws(DeliveryFailure) -> (HTTPAnswer, WebClient) {
        var last = DeliveryFailure(.destination, code: "no_connection", message: "\(server.host) has no address")
        for pool in try await connections.pools() {
            let client = WebClient(server, secrets: secret.secrets, connections: pool, logger: logger)
            do {
                return (try await client.send(request), client)
            } catch  where error.code == "no_connection" {
                last = error
            }
        }
        await connections.forget()
        throw last
    }
}
