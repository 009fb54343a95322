import HealthReadings

/// What a cuff can detect: Blood Pressure Feature (2A49), sixteen bits. Blood Pressure Service 1.1.1, 3.3.
public struct BloodPressureFeature: OptionSet, CharacteristicCoding {
    /// 2A49.
    public static let assignedNumber: UInt16 = 0x2A49

    /// The bits as sent, reserved ones included.
    public let rawValue: UInt16

    /// Makes a feature set of its bits.
    public init(rawValue: UInt16) { self.rawValue = rawValue }

    /// Body movement.
    public static let bodyMovementDetection = BloodPressureFeature(rawValue: 1 << 0)
    /// A cuff that is too loose.
    public static let cuffFitDetection = BloodPressureFeature(rawValue: 1 << 1)
    /// An irregular pulse.
    public static let irregularPulseDetection = BloodPressureFeature(rawValue: 1 << 2)
    /// A pulse rate out of range.
    public static let pulseRateRangeDetection = BloodPressureFeature(rawValue: 1 << 3)
    /// An improper position.
    public static let measurementPositionDetection = BloodPressureFeature(rawValue: 1 << 4)
    /// More than one bond.
    public static let multipleBond = BloodPressureFeature(rawValue: 1 << 5)
    /// Values can carry a checksum.
    public static let endToEndCRC = BloodPressureFeature(rawValue: 1 << 6)
    /// The User Data Service knows the users.
    public static let userDataService = BloodPressureFeature(rawValue: 1 << 7)
    /// Stored records carry the time the user sees.
    public static let userFacingTime = BloodPressureFeature(rawValue: 1 << 8)

    private static let allNames = [
        "body_movement_detection", "cuff_fit_detection", "irregular_pulse_detection", "pulse_rate_range_detection",
        "measurement_position_detection", "multiple_bond", "e2e_crc", "user_data_service", "user_facing_time",
    ]

    /// The names of the set bits in the order of the bits; reserved bits have none.
    public var names: [String] { setBitNames(rawValue, Self.allNames) }

    /// Reads a feature set.
    public init(decoding octets: RawSpan) throws(MalformedFrame) {
        var cursor = OctetCursor("Blood Pressure Feature (2A49)")
        self.init(rawValue: try cursor.word("blood pressure feature", of: octets))
    }

    /// Two octets.
    public var encoded: [UInt8] { [UInt8(truncatingIfNeeded: rawValue), UInt8(truncatingIfNeeded: rawValue >> 8)] }
}
