/// How a reading stands with one of the destinations that may get it.
public struct DestinationDelivery: Sendable, Hashable {
    /// The destination's name, `[a-z0-9_-]`.
    public var destination: String
    /// How far the reading has come.
    public var state: DeliveryState
    /// The second that was chosen for it there, once and for ever, if it isn't the reading's own: another reading of the
    /// series has that one. `nil`: the reading's own.
    public var sentTime: Instant?

    /// Makes a delivery.
    public init(destination: String, state: DeliveryState, sentTime: Instant? = nil) {
        self.destination = destination
        self.state = state
        self.sentTime = sentTime
    }

    /// Why the reading waits beyond the next delivery; `nil` if nothing holds it.
    public var hold: Hold? { if case .held(let hold) = state { hold } else { nil } }
}

/// How far a reading has come on its way to a destination.
public enum DeliveryState: Sendable, Hashable {
    /// The next delivery takes it.
    case waiting
    /// The destination has it and has not confirmed yet that it keeps it.
    case handedOver
    /// The destination has confirmed that it keeps it.
    case delivered
    /// The destination refused it, in these words. They may repeat a value and belong into no log.
    case refused(words: String)
    /// It waits for something other than the next delivery.
    case held(Hold)
    /// It was delivered and has been taken back.
    case retracted

    /// The name that documents use: `handed_over`.
    public var name: String {
        switch self {
        case .waiting: "waiting"
        case .handedOver: "handed_over"
        case .delivered: "delivered"
        case .refused: "refused"
        case .held: "held"
        case .retracted: "retracted"
        }
    }

    /// The hold's name or the receiver's words; `nil` for the other states.
    public var reason: String? {
        switch self {
        case .refused(let words): words
        case .held(let hold): hold.rawValue
        case .waiting, .handedOver, .delivered, .retracted: nil
        }
    }
}

extension DestinationDelivery {
    /// `{"destination", "state", "reason"}`, and `sent_time` if it isn't the reading's own time.
    public var document: JSONValue {
        .object(
            [
                .init("destination", .string(destination)), .init("state", .string(state.name)),
                .init("reason", .optional(state.reason)),
            ] + (sentTime.map { [.init("sent_time", .string($0.description))] } ?? []))
    }
}
