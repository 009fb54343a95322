import HealthReadings

extension ReadingFormat {
    /// Events as Standard Webhooks writes them.
    public static let standardWebhook = ReadingFormat(name: "standard", mediaType: "application/json")
    /// Events as CloudEvents 1.0 writes them in JSON, in structured mode.
    public static let cloudEvent = ReadingFormat(name: "cloudevents", mediaType: "application/cloudevents+json")
}

/// Something that happened to a reading, as it is told to a webhook.
///
/// ```json
/// {"type":"blood_pressure.created","timestamp":"2026-11-22T07:15:00Z","data":{"id":"9f1c…","kind":"blood_pressure",…}}
/// ```
///
/// `data` is the reading's own document without `deliveries`; of a reading that was taken back it is `id`, `kind`, `person` and
/// `retracted`.
public struct WebhookEvent: Sendable, Hashable {
    /// What happened.
    public enum Change: String, Sendable, Hashable, CaseIterable {
        /// The reading is new there.
        case created
        /// What the reading says has changed.
        case updated
        /// The reading does not count any more.
        case retracted
    }

    /// What happened.
    public let change: Change
    /// The kind of the reading.
    public let kind: ReadingKind
    /// The event's name, the same each time that it is sent, without a dot: `msg_9f1c0c8e00000000000000000000000a_0`.
    public let id: String
    /// When the measurement was made.
    public let time: Instant
    /// What it is about.
    public let data: JSONValue

    /// An event about a reading.
    ///
    /// - Parameters:
    ///   - reading: the reading.
    ///   - timestamp: the time it is delivered at.
    ///   - revision: how often what is sent has changed, from 0.
    ///   - isUpdate: whether an earlier revision was delivered.
    public init(_ reading: Reading, at timestamp: Instant, revision: Int64, isUpdate: Bool) {
        var reading = reading
        reading.deliveries = []
        var data = reading.document
        if case .object(let members) = data { data = .object(members.filter { $0.key != "deliveries" }) }
        self.init(
            isUpdate ? .updated : .created, reading.kind, id: "msg_\(reading.id)_\(revision)", time: timestamp,
            data: data)
    }

    /// The event that a reading was taken back.
    ///
    /// - Parameters:
    ///   - reading: the reading's id.
    ///   - kind: its kind.
    ///   - person: whose it is.
    ///   - timestamp: the time it was delivered at.
    ///   - number: tells this event from another that takes back the same reading.
    public init(
        retracting reading: ReadingID, kind: ReadingKind, person: String, at timestamp: Instant, number: Int64
    ) {
        self.init(
            .retracted, kind, id: "msg_\(reading)_retracted_\(number)", time: timestamp,
            data: .object([
                "id": .string(reading.description), "kind": .string(kind.rawValue), "person": .string(person),
                "retracted": .bool(true),
            ]))
    }

    private init(_ change: Change, _ kind: ReadingKind, id: String, time: Instant, data: JSONValue) {
        (self.change, self.kind, self.id, self.time, self.data) = (change, kind, id, time, data)
    }

    /// `glucose.created`.
    public var type: String { "\(kind.rawValue).\(change.rawValue)" }

    /// The event as Standard Webhooks writes one.
    public var standard: JSONValue {
        .object(["type": .string(type), "timestamp": .string(time.flooredToSecond.description), "data": data])
    }

    /// The event as CloudEvents 1.0 writes one. (`source`, `id`) names it.
    ///
    /// - Parameter gateway: the id of the gateway that sends it.
    public func cloudEvent(gateway: String) -> JSONValue {
        .object([
            "specversion": .string("1.0"), "id": .string(id), "source": .string("urn:healthrelay:gateway:\(gateway)"),
            "type": .string("org.healthrelay.\(type)"), "time": .string(time.flooredToSecond.description),
            "datacontenttype": .string("application/json"), "data": data,
        ])
    }
}
