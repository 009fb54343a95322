import HealthReadings

/// What a glucose meter can detect: Glucose Feature (2A51), sixteen bits. Glucose Service 1.0.1, 3.3.
public struct GlucoseFeature: OptionSet, CharacteristicCoding {
    /// 2A51.
    public static let assignedNumber: UInt16 = 0x2A51

    /// The bits as sent, reserved ones included.
    public let rawValue: UInt16

    /// Makes a feature set of its bits.
    public init(rawValue: UInt16) { self.rawValue = rawValue }

    /// Low battery during the measurement.
    public static let lowBatteryDetection = GlucoseFeature(rawValue: 1 << 0)
    /// Sensor malfunction.
    public static let sensorMalfunctionDetection = GlucoseFeature(rawValue: 1 << 1)
    /// Sample size.
    public static let sensorSampleSize = GlucoseFeature(rawValue: 1 << 2)
    /// Strip insertion errors.
    public static let sensorStripInsertionErrorDetection = GlucoseFeature(rawValue: 1 << 3)
    /// Strip type errors.
    public static let sensorStripTypeErrorDetection = GlucoseFeature(rawValue: 1 << 4)
    /// Results above or below the range.
    public static let sensorResultHighLowDetection = GlucoseFeature(rawValue: 1 << 5)
    /// Temperature above or below the range.
    public static let sensorTemperatureHighLowDetection = GlucoseFeature(rawValue: 1 << 6)
    /// Reading interrupted.
    public static let sensorReadInterruptDetection = GlucoseFeature(rawValue: 1 << 7)
    /// General device faults.
    public static let generalDeviceFault = GlucoseFeature(rawValue: 1 << 8)
    /// Clock faults.
    public static let timeFault = GlucoseFeature(rawValue: 1 << 9)
    /// More than one bond.
    public static let multipleBond = GlucoseFeature(rawValue: 1 << 10)

    private static let allNames = [
        "low_battery_detection", "sensor_malfunction_detection", "sensor_sample_size",
        "sensor_strip_insertion_error_detection", "sensor_strip_type_error_detection",
        "sensor_result_high_low_detection", "sensor_temperature_high_low_detection",
        "sensor_read_interrupt_detection", "general_device_fault", "time_fault", "multiple_bond",
    ]

    /// The names of the set bits in the order of the bits; reserved bits have none.
    public var names: [String] { setBitNames(rawValue, Self.allNames) }

    /// Reads a feature set.
    public init(decoding octets: RawSpan) throws(MalformedFrame) {
        var cursor = OctetCursor("Glucose Feature (2A51)")
        self.init(rawValue: try cursor.word("glucose feature", of: octets))
    }

    /// Two octets.
    public var encoded: [UInt8] { [UInt8(truncatingIfNeeded: rawValue), UInt8(truncatingIfNeeded: rawValue >> 8)] }
}

/// The names of the set bits, bit 0 first.
func setBitNames(_ bits: some BinaryInteger, _ names: [String]) -> [String] {
    names.enumerated().compactMap { bits >> $0.offset & 1 == 1 ? $0.element : nil }
}
