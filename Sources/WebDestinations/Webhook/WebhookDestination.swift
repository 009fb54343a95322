import Foundation
import HealthReadings
import Logging
import NIOHTTP1
import OutgoingHTTP
import ReadingDelivery
import ReadingFormats
import ReadingStore

/// Posts each reading to a URL of the owner's, in a format of the owner's choice (``WebhookFormat``).
///
/// | format | a request is | a repeat has | what is taken back |
/// |---|---|---|---|
/// | `standard`, `cloudevents` | an event | the same `webhook-id` | an event of its own |
/// | `open_mhealth` | the data points of a reading | the same `webhook-id`, and data points with the same ids | is left there |
/// | `terra` | all that the receiver is to have of a person's day | the same timestamp, or a later one | the day without it |
/// | `rook` | an event document | the same `document_version` | is left there |
/// | `rook_summary` | as `terra`, as one summary | the same `document_version`, or a later one | the day without it |
///
/// | the receiver answers | failure |
/// |---|---|
/// | 2xx | none |
/// | 410 | the destination is switched off in the store, until its owner switches it on again |
/// | 3xx | the destination's: redirects are not followed |
/// | 401, 403 | the destination's; needs a person |
/// | 429, 502, 504 | the destination's, not before `Retry-After`, or five minutes |
/// | 400, 409, 422 | the reading's, if others are taken; with whole days the target's |
/// | anything else | the target's |
public struct WebhookDestination: Destination {
    /// The destination's name in the settings.
    public let name: String
    /// `webhook`.
    public let kind = "webhook"
    /// What the format can express.
    public var rules: DestinationRules { format.rules }

    let server: WebServer
    let format: WebhookFormat
    private let secret: WebhookSecret
    let store: ReadingStore
    let days: WebhookDays
    let order: WebhookOrder
    let sender: WebhookSender
    private let connections: CheckedConnections
    let clock: SyncClock
    private let logger: Logger

    /// Creates a destination; nothing is sent yet.
    ///
    /// - Parameters:
    ///   - name: its name in the settings.
    ///   - server: the URL, with a query or without.
    ///   - secret: what signs requests.
    ///   - format: what bodies are.
    ///   - store: the store, which knows the gateway's id and a day's other readings, and switches the destination off if
    ///     its receiver is gone.
    ///   - sender: what documents say of the gateway and of its devices.
    ///   - allowsPrivate: whether the URL may lead to an address of this machine or its network.
    ///   - clock: tells the time that is signed.
    ///   - logger: gets a line a request at debug level.
    public init(
        name: String, server: WebServer, secret: WebhookSecret, format: WebhookFormat = .standard, store: ReadingStore,
        sender: WebhookSender, allowsPrivate: Bool = false, clock: SyncClock = .system,
        logger: Logger = Logger(label: "healthrelay.webhook")
    ) {
        self.init(
            name: name, server: server, secret: secret, format: format, store: store, sender: sender,
            allowsPrivate: allowsPrivate, clock: clock, limits: HTTPLimits(call: .seconds(20), responseBytes: 1 << 16),
            resolve: HostNames.addresses, logger: logger)
    }

    init(
        name: String, server: WebServer, secret: WebhookSecret, format: WebhookFormat, store: ReadingStore,
        sender: WebhookSender, allowsPrivate: Bool, clock: SyncClock, limits: HTTPLimits,
        resolve: @escaping CheckedConnections.Resolver, logger: Logger
    ) {
        self.name = name
        self.server = server
        self.secret = secret
        self.format = format
        self.store = store
        self.sender = sender
        days = WebhookDays(destination: name, store: store, sender: sender, format: format)
        order = WebhookOrder(format)
        self.clock = clock
        self.logger = logger
        connections = CheckedConnections(server, allowsPrivate: allowsPrivate, limits: limits, resolve: resolve)
    }

    /// A part for a few readings, whose delivery is noted together; for whole days, one for each day.
    public func parts(_ batch: DeliveryBatch) async throws(DeliveryFailure) -> [DeliveryPart] {
        if format.hasWholeDays { return try await dayParts(batch) }
        return batch.parts(of: Self.notedTogether)
    }

    /// As many readings are posted at most again, under the same ids, if the gateway is killed before they are noted.
    private static let notedTogether = 32
    /// From then on no other reading is posted before those are noted: a receiver may be slow.
    private static let longestUnnoted = Duration.seconds(1)
    /// As many requests are on their way at a time.
    private static let requestsAtOnce = 4

    /// Posts a part's readings, or their day: the oldest alone, and the others a few at a time once that was taken. The newest
    /// of all that waits is posted when the others are there: some receivers take what comes last for what was measured
    /// last.
    public func send(_ part: DeliveryPart) async throws(DeliveryFailure) -> [Outcome] {
        if let words = format.refusal(of: part.person.clientUserID) {
            return part.items.map { Outcome($0.id, .refused(words)) }
        }
        if format.hasWholeDays { return try await sendDay(part) }
        let gateway = try await gatewayID()
        let start = clock.uptime()
        let (items, person) = (part.items, part.person)
        let results = await withTaskGroup(of: (Int, Outcome.Result).self) { group in
            var results = [Outcome.Result?](repeating: nil, count: items.count)
            var (next, running, atOnce, goesOn) = (0, 0, 1, true)
            while true {
                while goesOn, next < items.count, running < (part.isLast && next == items.count - 1 ? 1 : atOnce) {
                    let index = next
                    group.addTask { (index, await post(items[index], of: person, gateway: gateway)) }
                    (next, running) = (next + 1, running + 1)
                }
                guard let (index, result) = await group.next() else { return results }
                running -= 1
                results[index] = result
                switch result {
                case .delivered: atOnce = Self.requestsAtOnce
                // Before anything was taken it is not known whether this is about the one reading.
                case .failed(let failure) where !failure.isAboutItems || atOnce == 1: goesOn = false
                default: break
                }
                goesOn = goesOn && clock.uptime() - start < Self.longestUnnoted
            }
        }
        return zip(items, results).compactMap { item, result in result.map { Outcome(item.id, $0) } }
    }

    private func post(_ item: OutboxItem, of person: StoreUser, gateway: String) async -> Outcome.Result {
        let messages: [WebhookFormat.Message]
        do throws(FormatOmission) {
            messages = try self.messages(item, of: person, gateway: gateway)
        } catch {
            return .refused("not sent: \(error)")
        }
        var repeated: DeliveryFailure?
        do throws(DeliveryFailure) {
            for message in messages {
                do throws(DeliveryFailure) {
                    try await post(message)
                } catch  where error.code == Self.conflict {
                    // The receiver may have one of ROOK's documents of a reading, and lack the others.
                    repeated = error
                }
            }
        } catch {
            return .failed(error)
        }
        return repeated.map(Outcome.Result.failed) ?? .delivered
    }

    /// What is posted of a reading.
    private func messages(
        _ item: OutboxItem, of person: StoreUser, gateway: String
    ) throws(FormatOmission) -> [WebhookFormat.Message] {
        guard format == .rook || format == .openMHealth else {
            let event = WebhookEvent(
                item.reading, at: item.timestamp, revision: item.id.revision, isUpdate: item.wasDelivered)
            return [format.message(event, gateway: gateway)]
        }
        guard let zone = ZoneRules.named(item.timeZone ?? person.timeZone) else { throw FormatOmission(.notKnown) }
        let context = FormatContext(
            person: item.reading.person ?? person.clientUserID, zone: zone,
            gateway: GatewayFacts(id: gateway, version: sender.version), device: sender.facts(item.reading.device.model)
        )
        guard format == .rook else {
            let event = WebhookEvent(
                item.reading, at: item.timestamp, revision: item.id.revision, isUpdate: item.wasDelivered)
            return [
                WebhookFormat.Message(
                    .array(try OpenMHealth.dataPoints(of: item.reading, in: context).document), .standard(id: event.id),
                    mediaType: ReadingFormat.openMHealth.mediaType)
            ]
        }
        var reading = item.reading
        reading.time.instant = item.timestamp
        return try RookEvents.documents(
            of: reading, in: context, clientUUID: sender.clientUUID ?? gateway,
            documentVersion: Int(item.id.revision) + 1
        ).document.map { document in
            WebhookFormat.Message(
                document, .rook(hashed: RookEvents.hashedText(of: document)), mediaType: ReadingFormat.rook.mediaType)
        }
    }

    /// Tells the receiver of each reading that is taken back.
    public func retract(
        _ items: [Retraction]
    ) async throws(DeliveryFailure) -> [RetractionKey: Outcome.Result] {
        if format.hasWholeDays { return try await retractDays(items) }
        let gateway = try await gatewayID()
        var outcomes: [RetractionKey: Outcome.Result] = [:]
        for item in items {
            let event = WebhookEvent(
                retracting: item.reading, kind: item.kind, person: item.person, at: item.timestamp,
                number: item.key.rawValue)
            do {
                try await post(format.message(event, gateway: gateway))
                outcomes[item.key] = .delivered
            } catch {
                guard outcomes.isEmpty || error.isCancellation else { return outcomes }
                throw error
            }
        }
        return outcomes
    }

    /// The code of what the receiver says it has already.
    private static let conflict = "conflict"

    private func gatewayID() async throws(DeliveryFailure) -> String {
        do { return try await store.gatewayID() } catch { throw DeliveryFailure(error) }
    }

    func post(_ message: WebhookFormat.Message) async throws(DeliveryFailure) {
        var request = WebRequest(url: server.url, route: "POST \(server.host)")
        request.headers = [("content-type", Masked(message.mediaType))] + proof(of: message)
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
        case 409 where !answer.isPage:
            // Many receivers answer so to what they have already, such as a repeat of an event whose answer was lost. It is about
            // the one event, which would otherwise keep all behind it waiting for ever.
            (failure.scope, failure.code) = (.items, Self.conflict)
        case 429, 502, 504:
            failure.scope = .destination
            failure.retryAfter = failure.retryAfter ?? .seconds(300)
        default: break
        }
        throw failure
    }

    private func proof(of message: WebhookFormat.Message) -> [(name: String, value: Masked)] {
        let timestamp = clock.now().seconds
        switch message.proof {
        case .standard(let id):
            let signature = secret.signature(id: id, timestamp: timestamp, body: message.body)
            return [
                ("webhook-id", Masked(id)), ("webhook-timestamp", Masked("\(timestamp)")),
                ("webhook-signature", Masked(signature)),
            ]
        case .terra(let trace, let ordering):
            let signature = Masked(secret.terraSignature(timestamp: timestamp, body: message.body))
            // Terra sends the newer name and the older one.
            return [
                ("x-terra-signature", signature), ("terra-signature", signature),
                ("x-terra-ordering-timestamp", Masked("\(ordering)")), ("x-terra-trace-id", Masked(trace)),
            ]
        case .rook(let text): return [("x-rook-hash", Masked(secret.rookHash(of: text)))]
        }
    }

    /// Sends a request to the first address that answers.
    func send(_ request: WebRequest) async throws(DeliveryFailure) -> (HTTPAnswer, WebClient) {
        var last = DeliveryFailure(.destination, code: "no_connection", message: "\(server.host) has no address")
        var mayHaveArrived = false
        for pool in try await connections.pools() {
            let client = WebClient(
                server, secrets: secret.secrets + server.querySecrets, connections: pool, logger: logger)
            do {
                return (try await client.send(request), client)
            } catch  where error.code == "no_connection" {
                mayHaveArrived = mayHaveArrived || error.mayHaveArrived
                last = error
            }
        }
        last.mayHaveArrived = mayHaveArrived
        await connections.forget()
        throw last
    }
}
