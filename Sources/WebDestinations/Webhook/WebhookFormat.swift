import HealthReadings
import ReadingDelivery
import ReadingFormats
import ReadingStore

/// What the body of a webhook's request is, and how the request is signed.
///
/// A new format is a case here, with the body that it makes of a reading and of one that is taken back.
public enum WebhookFormat: String, Sendable, Hashable, CaseIterable {
    /// `{"type","timestamp","data"}`, as Standard Webhooks advises.
    case standard
    /// CloudEvents 1.0 in JSON, in structured mode.
    case cloudevents
    /// The data points of a reading, an array; signed as Standard Webhooks signs.
    case openMHealth = "open_mhealth"
    /// A person's whole day as Terra's `body` event, with Terra's signature.
    case terra
    /// ROOK's event documents, one a request, with ROOK's hash.
    case rook
    /// A person's whole day as ROOK's `body_summary`, with ROOK's hash.
    case rookSummary = "rook_summary"

    /// What a webhook with this format can express.
    public var rules: DestinationRules {
        var kinds = ReadingKind.delivered
        // There is no schema for it.
        if self == .openMHealth { kinds.remove(.hrv) }
        // A receiver of ROOK's documents keeps one for each kind and second.
        return DestinationRules(
            kinds: kinds, hasUniqueSeconds: self == .rook, needsSource: false,
            canRetract: self != .openMHealth && self != .rook, isOneSeries: self == .rook,
            takesContexts: self != .rook && self != .rookSummary, hasWholeDays: hasWholeDays)
    }

    /// The waits after failures, as the format's own senders have them.
    ///
    /// | format | waits |
    /// |---|---|
    /// | Standard Webhooks and what is signed like it | 5 s, 5 min, 30 min, 2 h, 5 h, 10 h, 14 h, 20 h, 24 h |
    /// | Terra | 5 min, 30 min, 1 h, 2 h, 4 h |
    /// | ROOK's events and summaries | 2 h, 24 h, 48 h |
    public var backoff: Backoff {
        let seconds: [Int64] =
            switch self {
            case .standard, .cloudevents, .openMHealth:
                [5, 300, 1800, 7200, 18_000, 36_000, 50_400, 72_000, 86_400]
            case .terra: [300, 1800, 3600, 7200, 14_400]
            case .rook, .rookSummary: [7200, 86_400, 172_800]
            }
        return Backoff(schedule: seconds.map { .seconds($0) })
    }

    /// Whether the secret is a `whsec_…` of Standard Webhooks; otherwise it is the word that the receiver has.
    public var hasStandardSecret: Bool { self != .terra && !isRook }

    /// Whether documents name the receiver's account, as ROOK's do.
    public var isRook: Bool { self == .rook || self == .rookSummary }

    /// Why nothing can be sent of a person, whatever was measured; `nil` if something can.
    func refusal(of person: String) -> String? {
        let isPlain = person.utf8.allSatisfy { octet in
            switch octet {
            case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"):
                true
            default: false
            }
        }
        guard isRook, !isPlain || !(1...50).contains(person.utf8.count) else { return nil }
        let omission = FormatOmission(.noPlace, of: "person")
        return "not sent: \(omission): ROOK takes ids of 1 to 50 letters of ASCII, digits and hyphens"
    }

    /// Whether a request carries a person's whole day, and replaces what the receiver has of it.
    public var hasWholeDays: Bool { self == .terra || self == .rookSummary }

    /// What the format's documents are called.
    var readingFormat: ReadingFormat {
        switch self {
        case .standard: .standardWebhook
        case .cloudevents: .cloudEvent
        case .openMHealth: .openMHealth
        case .terra: .terra
        case .rook, .rookSummary: .rook
        }
    }

    /// How a request proves where it comes from.
    enum Proof {
        /// By the `webhook-id`, which is the same each time that the event is sent.
        case standard(id: String)
        /// By Terra's signature over time and body.
        case terra(trace: String, ordering: Int64)
        /// By ROOK's hash over this text, which is part of the body.
        case rook(hashed: String)
    }

    /// A body, and how it is signed.
    struct Message {
        var proof: Proof
        var mediaType: String
        var body: [UInt8]

        init(_ document: JSONValue, _ proof: Proof, mediaType: String) {
            self.proof = proof
            self.mediaType = mediaType
            body = []
            document.write(into: &body)
        }
    }

    /// The message of an event.
    func message(_ event: WebhookEvent, gateway: String) -> Message {
        let (document, format) =
            switch self {
            case .cloudevents: (event.cloudEvent(gateway: gateway), ReadingFormat.cloudEvent)
            default: (event.standard, ReadingFormat.standardWebhook)
            }
        return Message(document, .standard(id: event.id), mediaType: format.mediaType)
    }
}

/// What documents say of the gateway and of its devices.
public struct WebhookSender: Sendable {
    /// The version of the program.
    public var version: String
    /// What documents call a device of a model.
    public var facts: @Sendable (String?) -> DeviceFacts
    /// The account that ROOK's documents name; `nil` for other formats.
    public var clientUUID: String?

    /// Makes a sender.
    ///
    /// - Parameters:
    ///   - version: the version of the program.
    ///   - clientUUID: the account that ROOK's documents name.
    ///   - facts: what documents call a device of a model.
    public init(
        version: String, clientUUID: String? = nil,
        facts: @escaping @Sendable (String?) -> DeviceFacts = { _ in DeviceFacts() }
    ) {
        (self.version, self.clientUUID, self.facts) = (version, clientUUID, facts)
    }
}
