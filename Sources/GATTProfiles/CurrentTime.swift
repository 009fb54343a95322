import HealthReadings

/// A device's clock: Current Time (2A2B), ten octets. Current Time Service 1.1, 3.1.
public struct CurrentTime: CharacteristicCoding {
    /// 2A2B.
    public static let assignedNumber: UInt16 = 0x2A2B

    /// Why the clock was last set.
    public struct AdjustReason: OptionSet, Sendable, Hashable {
        /// The bits as sent, reserved ones included.
        public let rawValue: UInt8

        /// Makes a set of its bits.
        public init(rawValue: UInt8) { self.rawValue = rawValue }

        /// Set by hand.
        public static let manualTimeUpdate = AdjustReason(rawValue: 1 << 0)
        /// Set from an external reference.
        public static let externalReferenceTimeUpdate = AdjustReason(rawValue: 1 << 1)
        /// The time zone changed.
        public static let changeOfTimeZone = AdjustReason(rawValue: 1 << 2)
        /// Daylight saving began or ended.
        public static let changeOfDST = AdjustReason(rawValue: 1 << 3)

        /// The names of the set bits in the order of the bits; reserved bits have none.
        public var names: [String] {
            setBitNames(
                rawValue,
                ["manual_time_update", "external_reference_time_update", "change_of_time_zone", "change_of_dst"])
        }
    }

    /// Date and time of day.
    public var dateTime: DateTime
    /// 1 Monday … 7 Sunday; 0 where unknown.
    public var dayOfWeek: UInt8
    /// 1/256 s into the second.
    public var fractions256: UInt8
    /// Why the clock was last set.
    public var adjustReason: AdjustReason

    /// Makes a value of its parts, which are not checked.
    public init(dateTime: DateTime, dayOfWeek: UInt8 = 0, fractions256: UInt8 = 0, adjustReason: AdjustReason = []) {
        self.dateTime = dateTime
        self.dayOfWeek = dayOfWeek
        self.fractions256 = fractions256
        self.adjustReason = adjustReason
    }

    /// The time on the device's wall, without the fraction; nil where it is unknown.
    public var wallTime: WallTime? { dateTime.wallTime }

    /// The name of the day; nil where it is unknown or out of range.
    public var dayName: String? {
        let names = ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"]
        return (1...7).contains(dayOfWeek) ? names[Int(dayOfWeek) - 1] : nil
    }

    /// Reads a value.
    public init(decoding octets: RawSpan) throws(MalformedFrame) {
        var cursor = OctetCursor("Current Time (2A2B)")
        dateTime = try cursor.dateTime("date and time", of: octets)
        dayOfWeek = try cursor.octet("day of week", of: octets)
        fractions256 = try cursor.octet("fractions of a second", of: octets)
        adjustReason = AdjustReason(rawValue: try cursor.octet("adjust reason", of: octets))
    }

    /// Ten octets.
    public var encoded: [UInt8] { dateTime.encoded + [dayOfWeek, fractions256, adjustReason.rawValue] }
}
