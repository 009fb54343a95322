import GATTProfiles
import HealthReadings

/// A measurement as a Xiaomi scale advertises it, while it measures and for some seconds after.
///
/// | what | octets of 181B (13) | octets of 181D (10) |
/// |---|---|---|
/// | flags | 0, 1 | 0 |
/// | year, month, day, hour, minute, second | 2 … 8 | 3 … 9 |
/// | impedance in Ω | 9, 10 | – |
/// | weight in 1/200 kg, or 1/100 lb or jin | 11, 12 | 1, 2 |
///
/// Numbers have the low octet first. Bit 2 of 181B's octet 0, and bit 6 of 181D's, say that a thing was weighed, not a person
/// (Theengs' decoder; for 181D also what an owner has logged for its pull requests 71 and 76). The flags' other bits are not
/// known, and accepted.
public struct XiaomiMeasurement: Sendable, Hashable {
    /// What the scale shows its weights in.
    public enum Unit: Sendable, Hashable, CaseIterable {
        case kilograms
        case pounds
        /// Half a kilogram.
        case jin
    }

    /// Which of the two formats it has.
    let format: FrameFormat
    /// The scale's unit.
    public var unit: Unit
    /// Whether the weight no longer changes.
    public var isStable: Bool
    /// Whether the person has left the scale.
    public var isRemoved: Bool
    /// Whether the scale was weighing a thing: it has a mode of its own for that.
    public var isOfThing: Bool
    /// In ohms; `nil` where none was measured.
    public var impedance: UInt16?
    /// Year, month, day, hour, minute and second of the scale's clock, as sent.
    var moment: [UInt16]
    /// In 1/200 kg, or 1/100 of the other units.
    public var rawWeight: UInt16

    /// Makes a measurement.
    init(
        _ format: FrameFormat, unit: Unit = .kilograms, isStable: Bool = true, isRemoved: Bool = false,
        isOfThing: Bool = false, impedance: UInt16? = nil, time: WallTime, rawWeight: UInt16
    ) {
        self.format = format
        (self.unit, self.isStable, self.isRemoved, self.isOfThing) = (unit, isStable, isRemoved, isOfThing)
        self.impedance = impedance
        let shown = DateTime(time)
        moment = [shown.year] + [shown.month, shown.day, shown.hour, shown.minute, shown.second].map(UInt16.init)
        self.rawWeight = rawWeight
    }

    /// What the scale's clock showed when the weight became stable; `nil` for what is no time.
    public var time: WallTime? {
        let parts = moment.map(Int.init)
        return WallTime(
            year: parts[0], month: parts[1], day: parts[2], hour: parts[3], minute: parts[4], second: parts[5])
    }

    static func length(of format: FrameFormat) -> Int { format == .xiaomiComposition ? 13 : 10 }

    /// The bit of octet 0 that says that a thing was weighed.
    private static func thing(in format: FrameFormat) -> UInt8 { format == .xiaomiComposition ? 0x04 : 0x40 }

    /// Impedances that say that there is none.
    private static func isNone(_ impedance: UInt16) -> Bool { impedance == 0 || impedance >= 0xFFFD }

    /// Reads what a scale advertises.
    ///
    /// - Parameter format: `FrameFormat.xiaomiComposition` or `FrameFormat.xiaomiWeight`.
    init(decoding octets: [UInt8], as format: FrameFormat) throws(MalformedFrame) {
        let length = Self.length(of: format)
        guard octets.count == length else {
            throw MalformedFrame(
                subject: "Xiaomi scale", expected: "\(length) octets", octet: min(octets.count, length),
                found: "\(octets.count)")
        }
        func word(_ place: Int) -> UInt16 { UInt16(octets[place]) | UInt16(octets[place + 1]) << 8 }
        func moment(_ place: Int) -> [UInt16] { [word(place)] + octets[(place + 2)..<(place + 7)].map(UInt16.init) }
        self.format = format
        let (flags, isInJin): (UInt8, Bool)
        if format == .xiaomiComposition {
            (flags, isInJin) = (octets[1], octets[1] & 0x40 != 0)
            self.moment = moment(2)
            impedance = flags & 0x02 != 0 && !Self.isNone(word(9)) ? word(9) : nil
            rawWeight = word(11)
        } else {
            (flags, isInJin) = (octets[0], octets[0] & 0x10 != 0)
            self.moment = moment(3)
            impedance = nil
            rawWeight = word(1)
        }
        let isInPounds = octets[0] & 0x01 != 0
        guard !isInPounds || !isInJin else {
            throw MalformedFrame(
                subject: "Xiaomi scale", expected: "one unit", octet: format == .xiaomiComposition ? 1 : 0,
                found: "the bits of pounds and jin")
        }
        unit = isInPounds ? .pounds : isInJin ? .jin : .kilograms
        (isStable, isRemoved) = (flags & 0x20 != 0, flags & 0x80 != 0)
        isOfThing = octets[0] & Self.thing(in: format) != 0
    }

    /// 10 or 13 octets.
    var encoded: [UInt8] {
        func octets(_ word: UInt16) -> [UInt8] { [UInt8(truncatingIfNeeded: word), UInt8(word >> 8)] }
        let shown = octets(moment[0]) + moment.dropFirst().map { UInt8(truncatingIfNeeded: $0) }
        let state: UInt8 = (isStable ? 0x20 : 0) | (isRemoved ? 0x80 : 0)
        let thing: UInt8 = isOfThing ? Self.thing(in: format) : 0
        guard format == .xiaomiComposition else {
            let unit: UInt8 =
                switch self.unit {
                case .kilograms: 0x02
                case .pounds: 0x03
                case .jin: 0x12
                }
            return [state | thing | unit] + octets(rawWeight) + shown
        }
        let shownAs: UInt8 = (unit == .pounds ? 0x03 : 0x02) | thing
        let flags: UInt8 = state | 0x04 | (impedance == nil ? 0 : 0x02) | (unit == .jin ? 0x40 : 0)
        return [shownAs, flags] + shown + octets(impedance ?? 0) + octets(rawWeight)
    }

    // MARK: The record

    /// Decodes a frame of one of the two formats.
    public static func decode(_ payload: [UInt8], as format: FrameFormat) -> DecodedFrame {
        do throws(MalformedFrame) {
            let measurement = try XiaomiMeasurement(decoding: payload, as: format)
            return measurement.isStable ? .record(measurement.record) : .nothing
        } catch {
            return .malformed(error)
        }
    }

    /// The record this is. A weight in jin is the same number of half kilograms. A thing's weight is no person's.
    ///
    /// A scale whose clock shows no time is believed to measure now, but for what it still shows when the person has left:
    /// nobody knows when that was.
    private var record: Record {
        let weight = WeightMeasurement(isImperial: unit == .pounds, rawWeight: rawWeight).record
        guard case .vital(let value) = weight.value else { return weight }
        let impedance = impedance.map {
            VitalValue.Measured(.impedance, Quantity(ExactDecimal(significand: Int64($0)), .ohms))
        }
        return Record(
            value: .vital(VitalValue(kind: .weight, value.quantities + [impedance].compactMap(\.self))),
            baseTime: time, occurrence: time == nil && isRemoved ? 0 : nil,
            exclusion: isOfThing && !mayBePerson ? .errorRecord : weight.exclusion)
    }

    /// Whether somebody may have stood on a scale that was weighing things.
    ///
    /// One that only weighs does so once it was tapped, and many people tap a scale before they step onto it: openScale's page on it
    /// shows 94.3 kg of that kind. Beyond 10 kg a person is believed.
    private var mayBePerson: Bool { format == .xiaomiWeight && rawWeight > (unit == .pounds ? 2205 : 2000) }
}

extension FrameFormat {
    /// What a Xiaomi scale advertises under 181B.
    public static let xiaomiComposition = FrameFormat(rawValue: 0x1_0020)
    /// What a Xiaomi scale advertises under 181D.
    public static let xiaomiWeight = FrameFormat(rawValue: 0x1_0021)
}
