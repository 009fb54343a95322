import FreeStyleLibre
import HealthReadings

/// A sensor as it should be read, and the memory that says so: for tests, and for readers that are emulated.
public struct EncodedSensor: Sendable {
    /// Numbers of a record at a minute; nil leaves its slot empty.
    public typealias Rule = @Sendable (_ source: SensorFacts.Source, _ minute: Int) -> RawRecord?

    /// The number on the air.
    public var uid: UInt64 = 0xE007_A000_00C0_FFEE
    /// What it tells of its model.
    public var patchInformation: [UInt8] = [0xDF, 0x00, 0x00, 0x01, 0x01, 0x02]
    /// Its state.
    public var state = SensorState.active
    /// What it failed with, whatever its state; 3 and its life where it has come to its end.
    public var failure: SensorFailure?
    /// Minutes since its start.
    public var age: UInt16
    /// The age at which it has stopped writing records, if it has.
    public var stoppedAt: UInt16?
    /// How often it was started.
    public var initialisations: UInt8 = 1
    /// Where it was sold.
    public var region = SensorRegion.europe
    /// The minutes it measures for.
    public var maximumLife: UInt16 = 20_880
    /// The factory's numbers.
    public var calibration = FactoryCalibration(i1: 3, i2: 500, i3: 10, i4: 6000, i5: 4800, i6: 8000)
    /// Whether the history ring has gone on one minute before its time: has an effect only at the ages 15 n + 2.
    public var hasAdvancedEarly = false
    /// Minutes that the newest trend record is behind the age: 1 if the age was counted on before the record was written.
    public var trendLag = 0
    /// The slot of the trend ring as the memory tells it, where that is to be wrong.
    public var trendIndex: UInt8?
    /// The slot of the history ring as the memory tells it, where that is to be wrong.
    public var historyIndex: UInt8?
    /// Parts that are damaged after their CRC was made.
    public var damaged: Set<LibreMemory.Part> = []
    /// Its records.
    public var rule: Rule

    /// A sensor of an age, with records by a rule.
    public init(age: UInt16, rule: @escaping Rule = EncodedSensor.wave) {
        self.age = age
        self.rule = rule
    }

    /// Numbers that rise and fall, of no person: about 70 … 250 mg/dL by the calibration a sensor has here.
    public static let wave: Rule = { source, minute in
        let phase = minute % 240
        let height = phase < 120 ? phase : 240 - phase
        return RawRecord(
            glucose: UInt16(700 + 10 * height + minute % (source == .trend ? 7 : 5)),
            quality: minute % 11 == 0 ? 0 : 0x120,
            temperature: UInt16(6800 + minute / 7 % 25 * 4), adjustment: Int16(minute / 15 % 9 * 4 - 16))
    }

    /// How many history records it has written.
    public var historyCount: Int {
        let since = max(0, Int(stoppedAt ?? age) - 3)
        return since / 15 + (hasAdvancedEarly && since % 15 == 14 ? 1 : 0)
    }

    private var newestTrendMinute: Int { Int(stoppedAt ?? age) - trendLag }

    /// The minutes of a ring's records, oldest first.
    public func minutes(of source: SensorFacts.Source) -> [Int] {
        switch source {
        case .trend:
            // The first record is the one of minute 1, in slot 0.
            Array((max(1, newestTrendMinute - 15)..<max(1, newestTrendMinute + 1)))
        case .history: historyCount == 0 ? [] : (max(1, historyCount - 31)...historyCount).map { 15 * $0 }
        }
    }

    /// The 344 octets.
    public var memory: [UInt8] {
        var octets = [UInt8](repeating: 0, count: LibreMemory.size)
        octets[4] = state.rawValue
        if let failure {
            octets[6] = failure.code
            octets.put(failure.ageMinutes ?? 0, at: 7)
        }
        octets.put(UInt16(calibration.i1 & 7 | calibration.i2 << 3), at: 2)
        octets[26] = trendIndex ?? UInt8(max(0, newestTrendMinute) % 16)
        octets[27] = historyIndex ?? UInt8(historyCount % 32)
        for minute in minutes(of: .trend) {
            octets.put(rule(.trend, minute), at: 28 + 6 * ((minute - 1) % 16))
        }
        for minute in minutes(of: .history) {
            octets.put(rule(.history, minute), at: 124 + 6 * ((minute / 15 - 1) % 32))
        }
        octets.put(age, at: 316)
        octets[318] = initialisations
        octets[323] = region.rawValue
        octets.put(maximumLife, at: 326)
        octets[336] = UInt8(abs(calibration.i3))
        octets[337] = UInt8(calibration.i4 & 0xFF)
        octets[338] = UInt8(calibration.i4 >> 8)
        octets[340] = calibration.i3 < 0 ? 2 : 0
        octets[341] = UInt8(calibration.i5 >> 2 & 0xFF)
        octets[342] = UInt8(calibration.i5 >> 10) | UInt8((calibration.i6 >> 2 & 0xF) << 4)
        octets[343] = UInt8(calibration.i6 >> 6)
        Self.seal(&octets)
        for part in damaged { octets[part.octets.upperBound - 1] ^= 0x10 }
        return octets
    }

    /// Puts the right CRC into each part of a memory.
    public static func seal(_ octets: inout [UInt8]) {
        for part in LibreMemory.Part.allCases {
            let range = part.octets
            octets.put(crc(octets[(range.lowerBound + 2)..<range.upperBound]), at: range.lowerBound)
        }
    }

    /// The UID as it is sent: the lowest octet first.
    public var uidOnAir: [UInt8] { (0..<8).map { UInt8(truncatingIfNeeded: uid >> UInt64(8 * $0)) } }

    /// The payload of a frame of the format `libre1Scan`.
    public var payload: [UInt8] { uidOnAir + [UInt8(patchInformation.count)] + patchInformation + memory }

    /// Bit by bit, the lowest of an octet first, into a register that shifts to the left: the same as the reflected CRC with
    /// its bits reversed at the end.
    private static func crc(_ octets: ArraySlice<UInt8>) -> UInt16 {
        var register: UInt16 = 0xFFFF
        for octet in octets {
            for place in 0..<8 {
                let bit = UInt16(octet >> UInt8(place) & 1)
                let carry = register >> 15 ^ bit
                register = register << 1 ^ (carry == 0 ? 0 : 0x1021)
            }
        }
        return register
    }
}

extension [UInt8] {
    fileprivate mutating func put(_ word: UInt16, at place: Int) {
        self[place] = UInt8(truncatingIfNeeded: word)
        self[place + 1] = UInt8(truncatingIfNeeded: word >> 8)
    }

    fileprivate mutating func put(_ record: RawRecord?, at place: Int) {
        guard let record else { return }
        var bits = UInt64(record.glucose & 0x3FFF) | UInt64(record.quality & 0x1FF) << 14
        bits |= UInt64(record.flags & 3) << 23 | (record.hasError ? 1 << 25 : 0)
        bits |= UInt64(record.temperature >> 2 & 0xFFF) << 26 | UInt64(abs(record.adjustment) >> 2 & 0x1FF) << 38
        bits |= record.adjustment < 0 ? 1 << 47 : 0
        for octet in 0..<6 { self[place + octet] = UInt8(truncatingIfNeeded: bits >> UInt64(8 * octet)) }
    }
}
