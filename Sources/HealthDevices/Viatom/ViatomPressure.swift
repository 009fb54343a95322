import GATTProfiles
import HealthReadings

/// A record of a BP2's list of blood pressures.
///
/// | octets | what |
/// |---|---|
/// | 0 … 3 | the time, in seconds of the monitor's clock since 1970 |
/// | 4 … 7 | the user's number at the maker |
/// | 8 … 12 | how it was measured: 1 for the mean of three, and the seconds between them; a status |
/// | 13 … 18 | systolic, diastolic and mean pressure in mmHg |
/// | 19 | pulse in beats a minute |
/// | 20 | bit 0: the pulse was irregular, bit 1: its person moved |
///
/// Layout: the maker's own kit (LepuBle, `LeBp2wBpList`). Numbers have the low octet first. The monitor's clock shows the wall
/// clock of the place it was set at, and its time has no zone: the seconds are taken as those of that clock.
public enum ViatomPressure {
    /// Octets of a record.
    package static let length = 37
    /// Octets of the list in front of the records.
    package static let head = 10

    /// Decodes a frame of `FrameFormat.viatomPressure`.
    public static func decode(_ payload: [UInt8]) -> DecodedFrame {
        guard payload.count == length + 1 else {
            return .malformed(
                MalformedFrame(
                    subject: "Viatom record", expected: "\(length + 1) octets", octet: min(payload.count, length + 1),
                    found: "\(payload.count)"))
        }
        let octets = Array(payload.dropFirst())
        return isEmpty(octets) ? .nothing : .record(record(octets, occurrence: payload[0]))
    }

    /// Whether nothing was recorded.
    static func isEmpty(_ octets: [UInt8]) -> Bool {
        octets[13..<17].allSatisfy { $0 == 0 } || octets.allSatisfy { $0 == 0xFF }
    }

    /// Whose record it is: the user's number, brought into a slot's range.
    ///
    /// The number is the maker's, and says nothing but who is who. Two numbers may come to the same slot, one pair in two
    /// hundred and fifty.
    static func slot(_ user: UInt32) -> UInt8? { user == 0 ? nil : UInt8(1 + user % 250) }

    private static func record(_ octets: [UInt8], occurrence: UInt8) -> Record {
        func word(_ place: Int) -> UInt16 { UInt16(octets[place]) | UInt16(octets[place + 1]) << 8 }
        func long(_ place: Int) -> UInt32 { UInt32(word(place)) | UInt32(word(place + 2)) << 16 }
        func quantity(_ value: UInt16, _ unit: MeasurementUnit) -> Quantity {
            Quantity(ExactDecimal(significand: Int64(value)), unit)
        }
        let seconds = long(0)
        let time = seconds == 0 ? nil : WallTime(secondsSinceEpoch: Int64(seconds))
        let (systolic, diastolic) = (
            quantity(word(13), .millimetresOfMercury), quantity(word(15), .millimetresOfMercury)
        )
        let (mean, pulse, result) = (word(17), octets[19], octets[20])
        var status: ReadingStatus = []
        if result & 1 != 0 { status.insert(.irregularPulse) }
        if result & 2 != 0 { status.insert(.bodyMovement) }
        return Record(
            value: .bloodPressure(
                BloodPressureValue(
                    systolic: systolic, diastolic: diastolic,
                    meanArterial: mean == 0
                        ? Quantity(.notANumber, .millimetresOfMercury) : quantity(mean, .millimetresOfMercury),
                    pulse: pulse == 0 ? nil : quantity(UInt16(pulse), .beatsPerMinute))),
            baseTime: time, status: status, userSlot: slot(long(4)),
            occurrence: time == nil ? occurrence : nil,
            exclusion: Plausibility.isPlausible(systolic: systolic, diastolic: diastolic) ? nil : .implausible)
    }
}

/// The list of blood pressures as its octets come.
struct ViatomList: Sendable {
    /// How many octets it has.
    let size: Int
    private var octets: [UInt8] = []
    private var taken = 0
    private var seen: [[UInt8]: UInt8] = [:]

    /// The longest list that is believed.
    static let longest = 1 << 17

    /// - Throws: `MalformedFrame` for an answer that is no size of such a list.
    init(_ payload: [UInt8]) throws(MalformedFrame) {
        let size = payload.count == 4 ? payload.reversed().reduce(0) { $0 << 8 | Int($1) } : -1
        guard (0...Self.longest).contains(size) else {
            throw MalformedFrame(
                subject: "Viatom list", expected: "a size of up to \(Self.longest) octets (4 octets)", octet: 7,
                found: size < 0 ? "\(payload.count) octets" : "\(size)")
        }
        let records = size - ViatomPressure.head
        guard size == 0 || records >= 0 && records % ViatomPressure.length == 0 else {
            throw MalformedFrame(
                subject: "Viatom list", expected: "\(ViatomPressure.head) octets and \(ViatomPressure.length) a record",
                octet: 7, found: "\(size)")
        }
        self.size = size
    }

    /// How many octets have come.
    var count: Int { octets.count }
    /// Whether all have come.
    var isWhole: Bool { octets.count >= size }

    /// Takes the next octets.
    ///
    /// - Returns: the records that are whole now, as frames of `FrameFormat.viatomPressure`, without empty ones.
    mutating func take(_ piece: [UInt8]) -> [[UInt8]] {
        octets += piece.prefix(size - octets.count)
        var payloads: [[UInt8]] = []
        while true {
            let first = ViatomPressure.head + taken * ViatomPressure.length
            guard octets.count >= first + ViatomPressure.length else { return payloads }
            taken += 1
            let record = Array(octets[first..<(first + ViatomPressure.length)])
            guard !ViatomPressure.isEmpty(record) else { continue }
            // Time, user and values: what tells it from others.
            let key = Array(record[0..<8] + record[13..<20])
            let occurrence = seen[key] ?? 0
            seen[key] = occurrence &+ 1
            payloads.append([record[0..<4].allSatisfy { $0 == 0 } ? occurrence : 0] + record)
        }
    }
}

/// What a BP2 says of itself.
struct ViatomInformation: Sendable, Hashable {
    /// What its clock shows; `nil` where it was never set, or is no time.
    let time: WallTime?

    /// - Parameter payload: the answer's; `nil` for one that is too short.
    init?(_ payload: [UInt8]) {
        guard payload.count >= 31 else { return nil }
        let year = Int(payload[24]) | Int(payload[25]) << 8
        let parts = payload[26..<31].map(Int.init)
        time = WallTime(
            year: year, month: parts[0], day: parts[1], hour: parts[2], minute: parts[3], second: parts[4])
    }
}
