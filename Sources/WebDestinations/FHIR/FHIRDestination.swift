import Foundation
import HealthReadings
import Logging
import NIOHTTP1
import OutgoingHTTP
import ReadingDelivery
import ReadingFormats
import ReadingStore

/// Sends readings to a FHIR R4 server, as Observations of the Personal Health Device guide in transaction bundles.
///
/// Each Observation is created on the condition that the server has none with its identifier, so a bundle whose answer was
/// lost can be sent again: the server then answers 200 in place of 201, and has each Observation once. After a 200 the
/// destination asks for the server's Observation and replaces it if it differs: it may be withdrawn, or another person's.
/// If a reading has changed since it was sent, its Observation is updated (`amended`). If it is taken back, its Observation
/// stays without its values (`entered-in-error`).
///
/// | the server answers | failure |
/// |---|---|
/// | a `transaction-response` whose entries are 200 or 201 | none |
/// | 400, 404 with an OperationOutcome, 412, 422 | the items': a transaction fails whole, so it is halved until the reading at fault stands alone |
/// | 401 | none if a new token helps, else the destination's; needs a person |
/// | 403 | the target's; needs a person |
/// | 408, 409, 500 | the target's |
/// | 429, 502, 503, 504 | the destination's, not before `Retry-After` |
/// | 404 otherwise | the destination's: `url` names another place |
///
/// When a reading is refused alone, the server is asked for the patient and for what has the reading's identifier. No
/// patient, or several, hold the person's readings; several Observations of the reading set it aside.
public struct FHIRDestination: Destination {
    /// What proves to the server who sends.
    public struct Credential: Sendable, CustomReflectable {
        struct Service: Sendable {
            var client: String
            var key: FHIRClientKey
            var endpoint: WebServer?
            var scope: String
        }

        enum Kind: Sendable {
            case none
            case token(Masked)
            case service(Service)
        }

        let kind: Kind

        /// What a token is asked to permit: to create, read, update and search Observations, to create, read and search
        /// Devices, and to read and search Patients.
        public static let standardScope =
            "system/Observation.crus system/Device.crs system/Patient.rs"

        /// Nothing: the server asks nobody.
        public static let none = Credential(kind: .none)

        /// A token that does not change.
        public static func token(_ text: String) -> Credential { Credential(kind: .token(Masked(text))) }

        /// SMART Backend Services: the client proves with its key who it is, and gets tokens of a few minutes.
        ///
        /// - Parameters:
        ///   - client: the id that the server gave the client.
        ///   - key: the client's private key, whose public key the server knows.
        ///   - endpoint: where tokens are asked for; `nil`: where the server's SMART configuration says, if that is on the
        ///     server's own host.
        ///   - scope: what a token is asked to permit.
        public static func service(
            client: String, key: FHIRClientKey, endpoint: WebServer? = nil, scope: String = standardScope
        ) -> Credential {
            Credential(kind: .service(Service(client: client, key: key, endpoint: endpoint, scope: scope)))
        }

        /// Shows nothing.
        public var customMirror: Mirror { Mirror(self, children: []) }
    }

    /// Who sends, as the bundles say it.
    public struct Sender: Sendable {
        /// The version of the program.
        public var version: String
        /// What is known of a model beyond what a reading says, by the model's id.
        public var device: @Sendable (String) -> DeviceFacts?

        /// Creates a sender.
        public init(version: String, device: @escaping @Sendable (String) -> DeviceFacts? = { _ in nil }) {
            self.version = version
            self.device = device
        }
    }

    /// The destination's name in the settings.
    public let name: String
    /// `fhir`.
    public let kind = "fhir"
    /// Every kind that is delivered; readings are known by their id, and stay withdrawn at the server when they are taken back.
    public var rules: DestinationRules { Self.rules }

    /// What every such server can express.
    public static let rules = DestinationRules(
        kinds: ReadingKind.delivered, hasUniqueSeconds: false, needsSource: false,
        canRetract: true)

    let client: WebClient
    let tokens: FHIRTokens
    let patients: [String: PatientIdentifier]
    private let store: ReadingStore
    private let sender: Sender

    /// Creates a destination; nothing is sent yet.
    ///
    /// - Parameters:
    ///   - name: its name in the settings.
    ///   - server: the server's base URL.
    ///   - credential: what proves who sends.
    ///   - patients: each person's identifier at the server. Readings of a person who is not among them wait.
    ///   - sender: who sends, as the bundles say it.
    ///   - store: the store, which knows the gateway's id.
    ///   - clock: the clock that assertions are dated by.
    ///   - logger: gets a line a request at debug level.
    public init(
        name: String, server: WebServer, credential: Credential, patients: [String: PatientIdentifier], sender: Sender,
        store: ReadingStore, clock: SyncClock = .system, logger: Logger = Logger(label: "healthrelay.fhir")
    ) {
        self.init(
            name: name, server: server, credential: credential, patients: patients, sender: sender, store: store,
            limits: HTTPLimits(call: .seconds(60), responseBytes: 8 << 20), clock: clock, logger: logger)
    }

    init(
        name: String, server: WebServer, credential: Credential, patients: [String: PatientIdentifier], sender: Sender,
        store: ReadingStore, limits: HTTPLimits, clock: SyncClock, logger: Logger
    ) {
        self.name = name
        self.patients = patients
        self.sender = sender
        self.store = store
        client = WebClient(server, secrets: [], limits: limits, logger: logger)
        tokens = FHIRTokens(credential, at: server, limits: limits, clock: clock, logger: logger)
    }

    /// Holds the readings of a person whose patient the settings do not name.
    public func hold(_ target: DeliveryTarget, of person: StoreUser) async throws(DeliveryFailure) -> DeliveryHold? {
        guard patients[person.clientUserID] == nil else { return nil }
        return DeliveryHold(.noPatient, reason: "`patients` of the destination names no patient for this person")
    }

    /// Bundles of about a hundred entries at most: servers limit them, and say so nowhere.
    public func parts(_ batch: DeliveryBatch) async throws(DeliveryFailure) -> [DeliveryPart] {
        batch.parts(of: Self.readingsInBundle(of: batch.target.resource))
    }

    /// A blood pressure is two Observations, and a scale's reading up to ten.
    static func readingsInBundle(of kind: ReadingKind) -> Int {
        switch kind {
        case .glucose, .temperature: 90
        case .bodyComposition, .weight: 9
        case .bloodPressure, .spo2, .heartRate, .hrv, .activity, .sleep, .other: 45
        }
    }

    // MARK: Sending

    /// What is sent together, and which entries are whose.
    struct Shipment {
        var document: JSONValue
        var items: [OutboxItem] = []
        /// For each item the places of its Observations among the entries.
        var places: [OutboxID: [Int]] = [:]
        /// What is created, unless the server has it.
        var created: Set<OutboxID> = []
        var patient: PatientIdentifier
    }

    /// What became of a shipment.
    private struct Answer {
        var outcomes: [Outcome]
        /// What the server had already under a reading's identifier, and has left as it was.
        var matched: Set<OutboxID>
    }

    /// A bundle that is being filled.
    private struct Load {
        var bundle = FHIRBundle()
        var items: [OutboxItem] = []
        var created: Set<OutboxID> = []
        var outcomes: [Outcome] = []

        mutating func add(_ item: OutboxItem, in context: FormatContext, as change: FHIRChange) throws(FormatOmission) {
            try bundle.add(item.reading, in: context, as: change)
            items.append(item)
            if change == .new { created.insert(item.id) }
        }

        mutating func refuse(_ item: OutboxItem, _ omission: FormatOmission) {
            outcomes.append(Outcome(item.id, .refused("not sent: \(omission)")))
        }

        func shipment(for patient: PatientIdentifier) -> Shipment {
            var shipment = Shipment(document: bundle.document, items: items, created: created, patient: patient)
            let owners = Dictionary(
                items.flatMap { item in FHIRBundle.identifiers(of: item.reading).map { ($0, item.id) } }
            ) { first, _ in first }
            for (place, entry) in (shipment.document["entry"]?.elements ?? []).enumerated() {
                guard let owner = entry["fullUrl"]?.string.flatMap({ owners[$0] }) else { continue }
                shipment.places[owner, default: []].append(place)
            }
            return shipment
        }
    }

    /// Sends a part's readings in one bundle, and in a second those that the server had and has to replace.
    public func send(_ part: DeliveryPart) async throws(DeliveryFailure) -> [Outcome] {
        guard let patient = patients[part.person.clientUserID] else {
            throw DeliveryFailure(DeliveryHold(.noPatient))
        }
        let gateway: String
        do { gateway = try await store.gatewayID() } catch { throw DeliveryFailure(error) }
        // What the server has may have changed since, here or there.
        let repeated = part.items.filter(\.wasDelivered)
        var load = Load()
        let (stored, subjects) = try await present(repeated, patient)
        for item in part.items {
            do throws(FormatOmission) {
                let context = try context(of: item, part.person, gateway, patient)
                guard item.wasDelivered else {
                    try load.add(item, in: context, as: .new)
                    continue
                }
                if let change = try Self.change(of: item, in: context, stored, subjects: subjects) {
                    try load.add(item, in: context, as: change)
                } else {
                    load.outcomes.append(Outcome(item.id, .delivered))
                }
            } catch {
                load.refuse(item, error)
            }
        }
        guard !load.items.isEmpty else { return load.outcomes }
        let answer = try await send(load.shipment(for: patient))
        let outcomes = load.outcomes + answer.outcomes
        guard !answer.matched.isEmpty else { return outcomes }
        let replaced = try await replace(
            load.items.filter { answer.matched.contains($0.id) }, of: part.person, gateway, patient)
        let ids = Set(replaced.map(\.id))
        return outcomes.filter { !ids.contains($0.id) } + replaced
    }

    /// Replaces what the server has of readings that it was to create, unless it is what they are: it was withdrawn when
    /// they were taken back, or is another person's. An answer that was lost leaves nothing to replace.
    ///
    /// - Returns: what became of those that were to be replaced.
    private func replace(
        _ items: [OutboxItem], of person: StoreUser, _ gateway: String, _ patient: PatientIdentifier
    ) async throws(DeliveryFailure) -> [Outcome] {
        let (stored, subjects) = try await present(items, patient)
        var load = Load()
        for item in items {
            do throws(FormatOmission) {
                let context = try context(of: item, person, gateway, patient)
                guard try Self.change(of: item, in: context, stored, subjects: subjects) != nil else { continue }
                try load.add(item, in: context, as: .revised)
            } catch {
                load.refuse(item, error)
            }
        }
        guard !load.items.isEmpty else { return load.outcomes }
        return load.outcomes + (try await send(load.shipment(for: patient))).outcomes
    }

    /// What the server has of readings, and what it calls their patient; `nil` if it does not say.
    private func present(
        _ items: [OutboxItem], _ patient: PatientIdentifier
    ) async throws(DeliveryFailure) -> (stored: [String: [AnswerJSON]]?, subjects: Set<String>) {
        guard !items.isEmpty else { return ([:], []) }
        let stored = try await permitted { () async throws(DeliveryFailure) -> [String: [AnswerJSON]] in
            try await self.stored(items.map(\.reading))
        }
        return (stored, try await ids(of: patient))
    }

    private func context(
        of item: OutboxItem, _ person: StoreUser, _ gateway: String, _ patient: PatientIdentifier
    ) throws(FormatOmission) -> FormatContext {
        guard let zone = ZoneRules.named(item.timeZone ?? person.timeZone) else {
            throw FormatOmission(.notKnown, of: "time_zone")
        }
        return FormatContext(
            person: person.clientUserID, zone: zone, gateway: GatewayFacts(id: gateway, version: sender.version),
            device: item.reading.device.model.flatMap(sender.device) ?? DeviceFacts(), patient: patient)
    }

    private func send(_ shipment: Shipment) async throws(DeliveryFailure) -> Answer {
        var body: [UInt8] = []
        shipment.document.write(into: &body)
        var request = WebRequest(url: client.server.url, route: "POST /")
        request.headers = [
            ("content-type", Masked(ReadingFormat.fhir.mediaType)), ("prefer", Masked("return=minimal")),
        ]
        request.body = body
        CrashPoint.reach("fhir.before")
        let (answer, client) = try await send(request)
        CrashPoint.reach("fhir.after")
        guard answer.isGood, !answer.isPage else {
            throw try await failure(of: answer, client, request.route, shipment)
        }
        guard let response = answer.json, response["resourceType"]?.text == "Bundle",
            response["type"]?.text == "transaction-response" || response["type"]?.text == "batch-response",
            let entries = response["entry"]?.elements, entries.count == shipment.document["entry"]?.elements.count
        else {
            throw DeliveryFailure(
                .destination, code: "unexpected_answer",
                message: "\(request.route): the answer is no response to a transaction (status \(answer.status))",
                serverSaid: client.said(answer))
        }
        let matched = shipment.items.filter { item in
            shipment.created.contains(item.id)
                && (shipment.places[item.id] ?? []).contains { place in
                    Self.status(of: entries[place]["response"] ?? .null) == 200
                }
        }
        let outcomes = try await outcomes(of: entries, shipment, client, request.route)
        let delivered = Set(outcomes.filter { $0.result == .delivered }.map(\.id))
        return Answer(outcomes: outcomes, matched: delivered.intersection(matched.map(\.id)))
    }

    /// What became of each reading. Where a server treats a transaction as a batch, entries fail by themselves.
    private func outcomes(
        of entries: [AnswerJSON], _ shipment: Shipment, _ client: WebClient, _ route: String
    ) async throws(DeliveryFailure) -> [Outcome] {
        var (outcomes, failures): ([Outcome], [(status: Int, failure: DeliveryFailure)]) = ([], [])
        for item in shipment.items {
            let failed = (shipment.places[item.id] ?? []).lazy.map { entries[$0]["response"] ?? .null }
                .first { !(200..<300).contains(Self.status(of: $0)) }
            guard let failed else {
                outcomes.append(Outcome(item.id, .delivered))
                continue
            }
            let (status, said) = (Self.status(of: failed), failed["outcome"]?.words.flatMap(client.oneLine))
            let isItems = [400, 404, 410, 412, 422].contains(status)
            failures.append(
                (
                    status,
                    DeliveryFailure(
                        isItems ? .items : .target, code: isItems ? "validation_failed" : "refused",
                        message: "\(route): the server refuses an entry (status \(status))", serverSaid: said,
                        needsPerson: status == 401 || status == 403)
                ))
            if isItems {
                let words = status == 412 ? Self.ambiguous : "the server refuses it (status \(status))"
                outcomes.append(Outcome(item.id, .refused(said.map { "\(words): \($0)" } ?? words)))
            }
        }
        guard !outcomes.contains(where: { $0.result == .delivered }) else { return outcomes }
        // Nothing was taken: that says as much of the server as of the readings.
        guard let (status, failure) = failures.first(where: { $0.failure.scope != .items }) ?? failures.first else {
            return outcomes
        }
        guard failure.scope == .items, shipment.items.count == 1, let item = shipment.items.first else { throw failure }
        throw try await explained(failure, status, item, shipment)
    }

    /// The status of an entry: `201 Created`.
    private static func status(of response: AnswerJSON) -> Int {
        response["status"]?.text.flatMap { Int($0.prefix(3)) } ?? 0
    }

    /// What is said of a reading that the server has more than once.
    static let ambiguous =
        "the server has several Observations with the identifier of this reading: remove all but one there"

    // MARK: Requests

    /// Sends a request with a token, and once more with a new one if the server refuses it.
    func send(
        _ request: WebRequest, by other: WebClient? = nil
    ) async throws(DeliveryFailure) -> (HTTPAnswer, WebClient) {
        let client = other ?? client
        guard let token = try await tokens.current() else {
            return (try await client.send(authorized(request, nil)), client)
        }
        let first = client.masking(token.value)
        let answer = try await first.send(authorized(request, token))
        guard answer.status == 401, let renewed = try await tokens.renewed(after: token) else { return (answer, first) }
        let second = first.masking(renewed.value)
        return (try await second.send(authorized(request, renewed)), second)
    }

    private func authorized(_ request: WebRequest, _ token: FHIRTokens.Token?) -> WebRequest {
        var request = request
        request.headers.append(("accept", Masked(ReadingFormat.fhir.mediaType)))
        if let token { request.headers.append(("authorization", Masked("Bearer " + token.value.value))) }
        return request
    }
}

extension WebClient {
    /// The same client, that hides one more secret.
    fileprivate func masking(_ secret: Masked) -> WebClient {
        WebClient(server, secrets: secrets + [secret], connections: connections, logger: logger)
    }
}

extension JSONValue {
    var elements: [JSONValue] { if case .array(let elements) = self { elements } else { [] } }
    var members: [Member] { if case .object(let members) = self { members } else { [] } }
    var string: String? { if case .string(let text) = self { text } else { nil } }
}
