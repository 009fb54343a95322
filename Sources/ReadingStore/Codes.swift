import HealthReadings

/// GRDB has a type of this name; here a record is what a device sent.
typealias Record = HealthReadings.Record

/// The numbers that stand for names in the database. A number once given is never given again.
extension ReadingKind {
    var code: Int64 { Int64(number) }

    init(code: Int64) throws {
        switch code {
        case 1: self = .glucose
        case 2: self = .bloodPressure
        case 3: self = .heartRate
        case 4: self = .hrv
        case 5: self = .spo2
        case 6: self = .temperature
        case 7: self = .weight
        case 8: self = .bodyComposition
        case 9: self = .activity
        case 10: self = .sleep
        case 11: self = .other
        default: throw StoreError.corrupt(detail: "a reading's kind is \(code)")
        }
    }
}

extension Record {
    /// How it was taken, which is part of its key at the server; 0 where it has none there.
    var sampleTypeCode: Int64 {
        switch samplingMethod {
        case nil: 0
        case .fingerprick: 1
        case .cuff: 2
        case .manualScan: 3
        case .automatic: 4
        case .unknown: 5
        case .scale: 6
        }
    }
}

extension TimeBasis {
    var code: Int64 {
        switch self {
        case .corrected: 1
        case .assumedZone: 2
        case .reception: 3
        case .sensorStart: 4
        case .unknown: 5
        }
    }

    init(code: Int64) throws {
        switch code {
        case 1: self = .corrected
        case 2: self = .assumedZone
        case 3: self = .reception
        case 4: self = .sensorStart
        case 5: self = .unknown
        default: throw StoreError.corrupt(detail: "a reading's time basis is \(code)")
        }
    }
}

extension Exclusion {
    var code: Int64 {
        switch self {
        case .errorRecord: 1
        case .noValue: 2
        case .notANumber: 3
        case .controlSolution: 4
        case .ketone: 5
        case .intermediate: 6
        case .implausible: 7
        case .noTime: 8
        case .implausibleTime: 9
        case .otherUser: 10
        case .sensorNotActive: 11
        case .superseded: 12
        case .withdrawn: 13
        }
    }

    private static let byCode = Dictionary(uniqueKeysWithValues: allCases.map { ($0.code, $0) })

    init(code: Int64) throws {
        guard let exclusion = Self.byCode[code] else {
            throw StoreError.corrupt(detail: "a reading's exclusion is \(code)")
        }
        self = exclusion
    }
}

/// What a stored frame turned out to be.
enum FrameState: Int64 {
    case pending = 0
    case record, context, nothing, malformed

    /// Whether it belongs to no reading, and is found by its octets.
    var isApart: Bool { self != .record && self != .context }
}

/// What a frame is to a reading.
enum FrameRole: Int64 {
    case record = 1
    case context
    /// It withdraws the reading, or corrects it.
    case withdrawal
    /// It says whether the reading counts in figures.
    case figures
}

/// Where an outbox row stands.
enum OutboxState: Int64, CaseIterable {
    case waiting = 0
    case delivered, refused, withdrawn, handedOver
}

extension MeasuredNumber {
    /// The digits and exponent columns; a special value has no digits and its number for an exponent.
    var columns: (digits: Int64?, exponent: Int64) {
        switch self {
        // Whether a number is implausible is found anew each time a row is read: the digits are what is kept.
        case .value(let value), .implausible(let value): (value.significand, Int64(value.exponent))
        case .notANumber: (nil, 1)
        case .notAtThisResolution: (nil, 2)
        case .positiveInfinity: (nil, 3)
        case .negativeInfinity: (nil, 4)
        case .reserved: (nil, 5)
        }
    }

    init(digits: Int64?, exponent: Int64) throws {
        if let digits {
            guard let exponent = Int16(exactly: exponent), ExactDecimal.storableExponents.contains(exponent) else {
                throw StoreError.corrupt(detail: "a number has the exponent \(exponent), which no device sends")
            }
            self = .value(ExactDecimal(significand: digits, exponent: exponent))
            return
        }
        switch exponent {
        case 1: self = .notANumber
        case 2: self = .notAtThisResolution
        case 3: self = .positiveInfinity
        case 4: self = .negativeInfinity
        case 5: self = .reserved
        default: throw StoreError.corrupt(detail: "a quantity without digits has the reason \(exponent)")
        }
    }
}

extension String.StringInterpolation {
    /// A state in SQL, by its number: a bound parameter would keep SQLite from using an index over rows in that state.
    mutating func appendInterpolation(outbox state: OutboxState) { appendInterpolation(state.rawValue) }

    /// A frame's state in SQL, by its number.
    mutating func appendInterpolation(frame state: FrameState) { appendInterpolation(state.rawValue) }

    /// A frame's role in SQL, by its number.
    mutating func appendInterpolation(role: FrameRole) { appendInterpolation(role.rawValue) }

    /// A reading's kind in SQL, by its number.
    mutating func appendInterpolation(kind: ReadingKind) { appendInterpolation(kind.code) }

    /// The ring of a sensor's record in SQL, by its number.
    mutating func appendInterpolation(source: SensorFacts.Source) { appendInterpolation(source.rawValue) }

    /// A destination's state in SQL, by its number.
    mutating func appendInterpolation(destination state: StoredDestination.State) {
        appendInterpolation(state.rawValue)
    }

    /// What a destination is like in SQL, by its bits.
    mutating func appendInterpolation(trait: StoredDestination.Traits) { appendInterpolation(trait.rawValue) }
}
