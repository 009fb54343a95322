import Crypto

/// The identity of a reading: the first 16 octets of a SHA-256 over what makes the record that record.
public struct ReadingID: Sendable, Hashable, Comparable {
    /// The first eight octets, big-endian.
    public let high: UInt64
    /// The last eight octets, big-endian.
    public let low: UInt64

    /// Makes an id of its two halves.
    public init(high: UInt64, low: UInt64) {
        self.high = high
        self.low = low
    }

    /// The 16 octets.
    public var octets: [UInt8] {
        (0..<16).map { UInt8(truncatingIfNeeded: ($0 < 8 ? high : low) >> (8 * UInt64(7 - $0 % 8))) }
    }

    /// Orders as the hexadecimal text does.
    public static func < (lhs: ReadingID, rhs: ReadingID) -> Bool { (lhs.high, lhs.low) < (rhs.high, rhs.low) }
}

extension ReadingID: CustomStringConvertible {
    /// 32 hexadecimal digits in lower case.
    public var description: String {
        String(unsafeUninitializedCapacity: 32) { octets in
            write(to: octets)
            return 32
        }
    }

    /// Writes the 32 digits.
    func write(to octets: UnsafeMutableBufferPointer<UInt8>) {
        for place in 0..<32 {
            let half = place < 16 ? high : low
            let nibble = UInt8(truncatingIfNeeded: half >> UInt64(60 - 4 * (place % 16))) & 15
            octets[place] = nibble + (nibble < 10 ? UInt8(ascii: "0") : UInt8(ascii: "a") - 10)
        }
    }

    /// Reads 32 hexadecimal digits; nil for anything else.
    public init?(_ text: some StringProtocol) {
        guard text.utf8.count == 32, text.allSatisfy(\.isHexDigit), let high = UInt64(text.prefix(16), radix: 16),
            let low = UInt64(text.suffix(16), radix: 16)
        else { return nil }
        self.init(high: high, low: low)
    }
}

/// What a record is identified by.
public enum ReadingIdentity: Sendable, Hashable {
    /// A record with a number: device, sequence epoch, sequence, base time. `clash` counts the records that share all
    /// of these with another value, from 0.
    case numbered(sequence: UInt16, epoch: Int, baseTime: WallTime?, clash: Int)
    /// A record with a time but no number: device, user slot, time, values.
    case timed(userSlot: UInt8?, baseTime: WallTime, value: RecordValue)
    /// A record of a memory that may hold equal ones: device, user slot, time if it has one, values, and which of the equal
    /// records it is, from 0.
    case recalled(userSlot: UInt8?, baseTime: WallTime?, value: RecordValue, occurrence: UInt8)
    /// A recording with a time: device and when it began. Its values are left out, because a recording that goes on is the same
    /// one with more samples. `clash` counts the recordings that share all of these and do not continue each other, from 0.
    case recording(start: WallTime, clash: Int)
    /// A record with neither: the contact it came in, its ordinal there, values.
    case untimed(contactStart: Instant, ordinal: Int, value: RecordValue)
    /// A sensor's record: the sensor's serial number, its sequence epoch, its minute and the ring it stood in. `clash` counts
    /// the records that share all of these with another value, from 0.
    case sensor(serial: String, epoch: Int, minute: UInt16, source: SensorFacts.Source, clash: Int)
    /// What a person entered: whose it is, when it was measured, values, meal and note.
    case entered(person: String, time: Instant, value: RecordValue, meal: String?, note: String?)
    /// What came out of another program's data: whose it is, provider, source, start, end, values in one unit, and what
    /// else tells it apart.
    case imported(ImportedSample)
    /// What came out of the data of a program that names its records: whose it is, provider and that name.
    case named(String, person: String, provider: String)

    /// The identity of a record that came as `frame` of a device with this serial number, in a contact begun at
    /// `contactStart`.
    public init(
        of record: Record, serial: String? = nil, epoch: Int, frame: Frame, contactStart: Instant, clash: Int = 0
    ) {
        if let sensor = record.sensor {
            self = .sensor(
                serial: serial ?? "", epoch: epoch, minute: sensor.minute, source: sensor.source, clash: clash)
        } else if let sequence = record.sequence {
            self = .numbered(sequence: sequence, epoch: epoch, baseTime: record.baseTime, clash: clash)
        } else if let occurrence = record.occurrence {
            self = .recalled(
                userSlot: record.userSlot, baseTime: record.baseTime, value: record.value, occurrence: occurrence)
        } else if let baseTime = record.baseTime, record.value.series != nil {
            self = .recording(start: baseTime, clash: clash)
        } else if let baseTime = record.baseTime {
            self = .timed(userSlot: record.userSlot, baseTime: baseTime, value: record.value)
        } else {
            self = .untimed(contactStart: contactStart, ordinal: frame.ordinal, value: record.value)
        }
    }

    /// Whether another record may have this identity but for its `clash`. Where it is made of the value, a record that is
    /// stored with another one is the same: it has been read otherwise since.
    package var countsClashes: Bool {
        switch self {
        case .numbered, .recording, .sensor: true
        case .timed, .recalled, .untimed, .entered, .imported, .named: false
        }
    }

    /// The id of this record of this device.
    public func id(device: DeviceAddress?, kind: ReadingKind) -> ReadingID {
        var key = KeyOctets()
        key.append(UInt64(kind.number))
        key.append(device.map { $0.bits << 8 | ($0.kind == .public ? 1 : 2) } ?? 0)
        switch self {
        case .numbered(let sequence, let epoch, let baseTime, let clash):
            key.append(1)
            key.append(UInt64(sequence))
            key.append(UInt64(bitPattern: Int64(epoch)))
            key.append(UInt64(bitPattern: baseTime?.secondsSinceEpoch ?? .min))
            key.append(UInt64(bitPattern: Int64(clash)))
        case .timed(let userSlot, let baseTime, let value):
            key.append(2)
            key.append(userSlot.map(UInt64.init) ?? .max)
            key.append(UInt64(bitPattern: baseTime.secondsSinceEpoch))
            key.append(value)
        case .recording(let start, let clash):
            key.append(9)
            key.append(UInt64(bitPattern: start.secondsSinceEpoch))
            key.append(UInt64(bitPattern: Int64(clash)))
        case .untimed(let contactStart, let ordinal, let value):
            key.append(3)
            key.append(UInt64(bitPattern: contactStart.microseconds))
            key.append(UInt64(bitPattern: Int64(ordinal)))
            key.append(value)
        case .sensor(let serial, let epoch, let minute, let source, let clash):
            key.append(4)
            key.append(serial)
            key.append(UInt64(minute))
            key.append(UInt64(source.rawValue))
            key.append(UInt64(bitPattern: Int64(clash)))
            // Nearly every sensor is started once.
            if epoch > 0 { key.append(UInt64(epoch)) }
        case .recalled(let userSlot, let baseTime, let value, let occurrence):
            key.append(5)
            key.append(userSlot.map(UInt64.init) ?? .max)
            key.append(UInt64(bitPattern: baseTime?.secondsSinceEpoch ?? .min))
            key.append(UInt64(occurrence))
            key.append(value)
        case .entered(let person, let time, let value, let meal, let note):
            key.append(6)
            key.append(person)
            key.append(UInt64(bitPattern: time.seconds))
            key.append(value)
            key.append(meal ?? "")
            key.append(note ?? "")
        case .named(let name, let person, let provider):
            key.append(8)
            key.append(person)
            key.append(provider)
            key.append(name)
        case .imported(let sample):
            key.append(7)
            key.append(sample.person)
            key.append(sample.provider)
            key.append(sample.source ?? "")
            // Without an offset the instant depends on the person's zone, which may be another one next time.
            let wall = sample.time.localTime
            key.append(wall == nil ? 0 : 1)
            key.append(UInt64(bitPattern: wall?.secondsSinceEpoch ?? sample.time.instant.seconds))
            key.append(UInt64(bitPattern: sample.end?.seconds ?? .min))
            key.append(sample.value.comparable)
            if let distinction = sample.distinction { key.append(distinction) }
        }
        return key.digest()
    }
}

extension ReadingKind {
    /// The kind's number in identities and in the store: one that is given is never given again.
    package var number: UInt8 {
        switch self {
        case .glucose: 1
        case .bloodPressure: 2
        case .heartRate: 3
        case .hrv: 4
        case .spo2: 5
        case .temperature: 6
        case .weight: 7
        case .bodyComposition: 8
        case .activity: 9
        case .sleep: 10
        case .other: 11
        }
    }
}

/// The octets an identity is hashed over: 64-bit big-endian words, so that no two keys share an encoding.
private struct KeyOctets {
    private var octets: [UInt8] = []

    init() { octets.reserveCapacity(160) }

    mutating func append(_ word: UInt64) {
        for shift in stride(from: 56, through: 0, by: -8) {
            octets.append(UInt8(truncatingIfNeeded: word >> UInt64(shift)))
        }
    }

    /// The count of its octets in UTF-8, then these.
    mutating func append(_ text: String) {
        append(UInt64(text.utf8.count))
        octets += text.utf8
    }

    mutating func append(_ value: RecordValue) {
        switch value {
        case .glucose(let glucose):
            append(glucose.concentration)
            append(glucose.sampleType.map { UInt64($0.rawValue) } ?? .max)
            append(glucose.sampleLocation.map { UInt64($0.rawValue) } ?? .max)
        case .bloodPressure(let pressure):
            append(pressure.systolic)
            append(pressure.diastolic)
            append(pressure.meanArterial)
            append(pressure.pulse)
        case .vital(let vital):
            // The impedance of a weight comes after it, and joins it.
            for measured in vital.quantities where vital.kind != .weight || measured.part != .impedance {
                append(UInt64(measured.part.rawValue))
                append(measured.quantity)
            }
            append(vital.site ?? "")
        case .kept(let sample):
            // What stands beside it is written otherwise by other ways of the same program.
            append(sample.type)
            append(sample.unit)
            append(UInt64(bitPattern: sample.value.significand))
            append(UInt64(bitPattern: Int64(sample.value.exponent)))
        }
    }

    private mutating func append(_ quantity: Quantity?) {
        guard let quantity else { return append(UInt64.max) }
        append(UInt64(quantity.unit.rawValue))
        switch quantity.number {
        // What is implausible is told from other records by its digits as ever.
        case .value(let value), .implausible(let value):
            append(UInt64(bitPattern: value.significand))
            append(UInt64(bitPattern: Int64(value.exponent)))
        case .notANumber: append(1 << 32)
        case .notAtThisResolution: append(2 << 32)
        case .positiveInfinity: append(3 << 32)
        case .negativeInfinity: append(4 << 32)
        case .reserved: append(5 << 32)
        }
    }

    func digest() -> ReadingID {
        SHA256.hash(data: octets).withUnsafeBytes { hash in
            func half(_ start: Int) -> UInt64 { hash[start..<(start + 8)].reduce(0) { $0 << 8 | UInt64($1) } }
            return ReadingID(high: half(0), low: half(8))
        }
    }
}
