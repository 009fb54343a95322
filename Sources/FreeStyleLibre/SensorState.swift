/// What a sensor says of its own life (octet 4 of its memory).
public enum SensorState: Sendable, Hashable {
    case notActivated
    /// The first hour: its values are not yet right.
    case warmingUp
    case active
    /// Over its life. It writes no more records in the half day until it shuts down, while its age goes on.
    case expired
    /// It measures no more.
    case shutDown
    /// It has found a fault in itself: ``LibreMemory/failure``.
    case failure
    /// A number without a public meaning.
    case unknown(UInt8)

    /// Names the number.
    public init(rawValue: UInt8) {
        self =
            switch rawValue {
            case 1: .notActivated
            case 2: .warmingUp
            case 3: .active
            case 4: .expired
            case 5: .shutDown
            case 6: .failure
            default: .unknown(rawValue)
            }
    }

    /// The number in the memory.
    public var rawValue: UInt8 {
        switch self {
        case .notActivated: 1
        case .warmingUp: 2
        case .active: 3
        case .expired: 4
        case .shutDown: 5
        case .failure: 6
        case .unknown(let rawValue): rawValue
        }
    }

    /// Whether the sensor measures, so that its age certainly goes on.
    public var isRunning: Bool {
        switch self {
        case .warmingUp, .active: true
        case .notActivated, .expired, .shutDown, .failure, .unknown: false
        }
    }

    /// The name in documents.
    public var name: String {
        switch self {
        case .notActivated: "not_activated"
        case .warmingUp: "warming_up"
        case .active: "active"
        case .expired: "expired"
        case .shutDown: "shut_down"
        case .failure: "failure"
        case .unknown: "unknown"
        }
    }
}

/// The fault a failed sensor has found in itself.
public struct SensorFailure: Sendable, Hashable {
    /// The vendor's number of it, 0 … 255; its meaning is not public.
    public let code: UInt8
    /// The sensor's age then, in minutes; nil where it did not note it.
    public let ageMinutes: UInt16?

    /// Makes a failure.
    public init(code: UInt8, ageMinutes: UInt16?) {
        self.code = code
        self.ageMinutes = ageMinutes
    }
}

/// Where a sensor is sold (octet 323 of its memory).
public enum SensorRegion: Sendable, Hashable {
    case europe, unitedStates, australiaAndCanada, restOfWorld
    /// A number without a public meaning.
    case unknown(UInt8)

    /// Names the number.
    public init(rawValue: UInt8) {
        self =
            switch rawValue {
            case 1: .europe
            case 2: .unitedStates
            case 4: .australiaAndCanada
            case 8: .restOfWorld
            default: .unknown(rawValue)
            }
    }

    /// The number in the memory.
    public var rawValue: UInt8 {
        switch self {
        case .europe: 1
        case .unitedStates: 2
        case .australiaAndCanada: 4
        case .restOfWorld: 8
        case .unknown(let rawValue): rawValue
        }
    }

    /// The name in documents.
    public var name: String {
        switch self {
        case .europe: "europe"
        case .unitedStates: "united_states"
        case .australiaAndCanada: "australia_canada"
        case .restOfWorld: "rest_of_world"
        case .unknown: "unknown"
        }
    }
}
