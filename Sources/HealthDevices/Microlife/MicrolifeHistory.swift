import GATTProfiles
import HealthReadings

/// A Microlife monitor's answer to the question for a memory: who its user is, and the records, oldest first.
///
/// So by a monitor of the present generation. One of the generation before has records of 7 octets, behind 28 others.
///
/// | octets of the message | what |
/// |---|---|
/// | 5 | how it measures |
/// | 7 | how many records there are |
/// | 8 | the user: 1, 2, or 3 for a guest |
/// | 12 … 41 | the measurement that goes on: 0 unless the monitor is measuring, and then no record follows |
/// | 42 … | records of 10 octets |
struct MicrolifeHistory: Sendable, Hashable {
    /// 1, 2, or 3 for a guest.
    let user: UInt8
    /// The octets of each record.
    let records: [[UInt8]]
    /// Whether the monitor is measuring, and sends its memory only when it has done so.
    let isMeasuring: Bool

    /// Octets of the message's data in front of the records.
    private static let head = 37

    /// - Throws: `MalformedFrame` for a message that is no such answer.
    init(_ frame: MicrolifeFrame) throws(MalformedFrame) {
        func malformed(_ expected: String, _ octet: Int, _ found: String) -> MalformedFrame {
            MalformedFrame(subject: "Microlife history", expected: expected, octet: octet, found: found)
        }
        let data = frame.data
        guard frame.side == MicrolifeFrame.Side.monitor.rawValue else {
            throw malformed(
                "0x3A (a monitor of the present generation)", 1, "0x" + frame.side.hexadecimal(uppercase: true))
        }
        guard frame.command == MicrolifeFrame.Command.history.rawValue else {
            throw malformed("0x00 (history)", 4, "0x" + frame.command.hexadecimal(uppercase: true))
        }
        guard data.count >= Self.head else {
            throw malformed("at least \(Self.head + 5) octets", data.count + 5, "the end")
        }
        user = data[3]
        let octets = data.dropFirst(Self.head)
        isMeasuring = octets.isEmpty && data[7..<Self.head].contains { $0 != 0 }
        let count = Int(data[2])
        guard isMeasuring || octets.count == count * MicrolifeRecord.length else {
            throw malformed("\(count) records of \(MicrolifeRecord.length) octets", 7, "\(octets.count) octets")
        }
        records = stride(from: octets.startIndex, to: octets.endIndex, by: MicrolifeRecord.length).map { place in
            Array(octets[place..<(place + MicrolifeRecord.length)])
        }
    }

    /// The records as frames of `FrameFormat.microlifeRecord`, without those in which nothing was recorded.
    ///
    /// Two records may be equal, as the monitor's clock has no seconds and may never have been set. Each is numbered among
    /// its equals, so that it stays the same however often the memory is read.
    var payloads: [[UInt8]] {
        var seen: [Record: UInt8] = [:]
        return records.filter { !MicrolifeRecord.isEmpty($0) }.map { octets in
            guard case .record(var record)? = try? MicrolifeRecord.decode(octets, of: user, occurrence: 0) else {
                return [user, 0] + octets
            }
            // What tells it from others is its time and its values, not its flags.
            (record.status, record.exclusion) = ([], nil)
            let occurrence = seen[record] ?? 0
            seen[record] = occurrence &+ 1
            return [user, occurrence] + octets
        }
    }
}

/// What a Microlife monitor says of itself.
struct MicrolifeIdentity: Sendable, Hashable {
    /// How many users it keeps apart.
    let users: UInt8

    /// - Returns: `nil` for another message, or one that does not reach as far.
    init?(_ frame: MicrolifeFrame) {
        // Octet 54 of the message.
        let place = 49
        guard frame.command == MicrolifeFrame.Command.identity.rawValue, frame.data.count > place,
            (1...2).contains(frame.data[place])
        else { return nil }
        users = frame.data[place]
    }
}

/// A record of a Microlife monitor: systolic, diastolic, pulse, year - 2000, month, day, hour, minute, flags, 0.
///
/// Flags: 80 the cuff fitted, 40 the pulse was irregular, 20 atrial fibrillation was detected, 18 how it was measured.
/// Pressures are in mmHg, the pulse in beats a minute. The time is the monitor's own, without a zone and seconds.
public enum MicrolifeRecord {
    /// Octets of a record.
    static let length = 10

    /// Decodes a frame of `FrameFormat.microlifeRecord`.
    public static func decode(_ payload: [UInt8]) -> DecodedFrame {
        do throws(MalformedFrame) {
            guard payload.count == length + 2 else {
                throw MalformedFrame(
                    subject: "Microlife record", expected: "\(length + 2) octets",
                    octet: min(payload.count, length + 2),
                    found: "\(payload.count)")
            }
            return try decode(Array(payload.dropFirst(2)), of: payload[0], occurrence: payload[1])
        } catch {
            return .malformed(error)
        }
    }

    /// Whether nothing was recorded.
    static func isEmpty(_ octets: [UInt8]) -> Bool {
        octets.allSatisfy { $0 == 0xFF } || octets.allSatisfy { $0 == 0 }
    }

    /// - Throws: `MalformedFrame` where the date cannot be.
    static func decode(
        _ octets: [UInt8], of user: UInt8, occurrence: UInt8
    ) throws(MalformedFrame) -> DecodedFrame {
        if isEmpty(octets) { return .nothing }
        let parts = octets[3..<8].map(Int.init)
        let time = WallTime(
            year: 2000 + parts[0], month: parts[1], day: parts[2], hour: parts[3], minute: parts[4], second: 0)
        // Until its clock is set a monitor records no month.
        guard time != nil || parts[1] == 0 else {
            throw MalformedFrame(
                subject: "Microlife record", expected: "a date and time", octet: 3,
                found: "year \(parts[0]), month \(parts[1]), day \(parts[2]), \(parts[3]):\(parts[4])")
        }
        func pressure(_ octet: UInt8) -> Quantity {
            Quantity(ExactDecimal(significand: Int64(octet)), .millimetresOfMercury)
        }
        var status: ReadingStatus = []
        if octets[8] & 0x80 == 0 { status.insert(.cuffTooLoose) }
        if octets[8] & 0x60 != 0 { status.insert(.irregularPulse) }
        let (systolic, diastolic) = (pressure(octets[0]), pressure(octets[1]))
        return .record(
            Record(
                value: .bloodPressure(
                    BloodPressureValue(
                        systolic: systolic, diastolic: diastolic,
                        meanArterial: Quantity(.notANumber, .millimetresOfMercury),
                        pulse: octets[2] == 0
                            ? nil : Quantity(ExactDecimal(significand: Int64(octets[2])), .beatsPerMinute))),
                baseTime: time, status: status, userSlot: user == 0 ? nil : user, occurrence: occurrence,
                exclusion: Plausibility.isPlausible(systolic: systolic, diastolic: diastolic) ? nil : .implausible))
    }
}
