import HealthReadings

/// Oxygen saturation and pulse rate, as pulse oximeters send them together. Pulse Oximeter Service 1.0.1, 3.1.
public struct SaturationAndPulse: Sendable, Hashable {
    /// Peripheral oxygen saturation (SpO2) in per cent.
    public var saturation: MedFloat16
    /// Pulse rate in beats per minute.
    public var pulseRate: MedFloat16

    /// Makes a pair.
    public init(saturation: MedFloat16, pulseRate: MedFloat16) {
        self.saturation = saturation
        self.pulseRate = pulseRate
    }

    init(_ octets: RawSpan, after cursor: inout OctetCursor) throws(MalformedFrame) {
        saturation = try cursor.decimal("SpO2", of: octets)
        pulseRate = try cursor.decimal("pulse rate", of: octets)
    }

    func append(to octets: inout [UInt8]) {
        octets.append(word: saturation.rawValue)
        octets.append(word: pulseRate.rawValue)
    }
}

/// What an oximeter thinks of a measurement.
public struct PulseOximeterStatus: Sendable, Hashable {
    /// The sixteen bits of Measurement Status; nil where none were sent.
    public var measurement: UInt16?
    /// The 24 bits of Device and Sensor Status; nil where none were sent.
    public var device: UInt32?

    /// Makes a status.
    public init(measurement: UInt16? = nil, device: UInt32? = nil) {
        self.measurement = measurement
        self.device = device.map { $0 & 0xFF_FFFF }
    }

    private static let measurementNames = [
        "measurement_ongoing", "early_estimated_data", "validated_data", "fully_qualified_data",
        "data_from_measurement_storage", "data_for_demonstration", "data_for_testing", "calibration_ongoing",
        "measurement_unavailable", "questionable_measurement", "invalid_measurement",
    ]
    private static let deviceNames = [
        "extended_display_update_ongoing", "equipment_malfunction", "signal_processing_irregularity",
        "inadequate_signal", "poor_signal", "low_perfusion", "erratic_signal", "nonpulsatile_signal",
        "questionable_pulse", "signal_analysis_ongoing", "sensor_interference", "sensor_unconnected_to_user",
        "unknown_sensor_connected", "sensor_displaced", "sensor_malfunction", "sensor_disconnected",
    ]

    /// The names of the set bits; reserved bits have none.
    public var names: [String] {
        // Bits 0 … 4 of Measurement Status are reserved.
        setBitNames((measurement ?? 0) >> 5, Self.measurementNames) + setBitNames(device ?? 0, Self.deviceNames)
    }

    /// Whether the oximeter says that it has sent the measurement from its memory: data from measurement storage 9.
    public var isFromStorage: Bool { (measurement ?? 0) & 0b10_0000_0000 != 0 }

    /// Measurement Status: demonstration 10, testing 11, calibration ongoing 12, unavailable 13, invalid 15. Device and Sensor
    /// Status: equipment malfunction 1, sensor unconnected to the user 11, malfunction 14, disconnected 15.
    private static let excluding: UInt64 = 0b1011_1100_0000_0000 | 0b1100_1000_0000_0010 << 16
    /// Measurement Status: early estimated 6, questionable 14. Device and Sensor Status: signal processing irregularity 2,
    /// inadequate 3, poor 4, low perfusion 5, erratic 6, nonpulsatile 7, questionable pulse 8, signal analysis ongoing 9,
    /// interference 10, unknown sensor 12, sensor displaced 13.
    private static let doubting: UInt64 = 0b0100_0000_0100_0000 | 0b0011_0111_1111_1100 << 16

    var verdict: MeasurementVerdict {
        MeasurementVerdict(
            UInt64(measurement ?? 0) | UInt64(device ?? 0) << 16, excluding: Self.excluding, doubting: Self.doubting)
    }

    /// Whether the number is no value of a person: invalid, unavailable, made for a demonstration or a test, measured during a
    /// calibration, or with a sensor or an oximeter that fails.
    public var saysNoValue: Bool { verdict.isNoValue }

    /// Whether the oximeter doubts the number: early or questionable data, or a weak or disturbed signal.
    public var saysDoubt: Bool { verdict.status.contains(.questionable) }

    /// What ``saysNoValue`` was when blocks of the first version were recorded: calibrating and a malfunction of the oximeter
    /// said nothing. These blocks are read so for ever.
    package var saidNoValue: Bool {
        (measurement ?? 0) & 0b1010_1100_0000_0000 != 0 || (device ?? 0) & 0b1100_1000_0000_0000 != 0
    }
}

/// One finished measurement of a pulse oximeter: PLX Spot-Check Measurement (2A5E). Pulse Oximeter Service 1.0.1, 3.2.
public struct PulseOximeterSpotCheck: CharacteristicCoding {
    /// 2A5E.
    public static let assignedNumber: UInt16 = 0x2A5E

    /// Saturation and pulse.
    public var value: SaturationAndPulse
    /// The oximeter's clock; nil where none was sent.
    public var timeStamp: DateTime?
    /// What the oximeter thinks of it.
    public var status: PulseOximeterStatus
    /// Pulse amplitude index in per cent; nil where none was sent.
    public var pulseAmplitudeIndex: MedFloat16?
    /// Whether the oximeter says that its clock was never set.
    public var clockIsNotSet: Bool

    /// Makes a measurement.
    public init(
        value: SaturationAndPulse, timeStamp: DateTime? = nil, status: PulseOximeterStatus = PulseOximeterStatus(),
        pulseAmplitudeIndex: MedFloat16? = nil, clockIsNotSet: Bool = false
    ) {
        self.value = value
        self.timeStamp = timeStamp
        self.status = status
        self.pulseAmplitudeIndex = pulseAmplitudeIndex
        self.clockIsNotSet = clockIsNotSet
    }

    /// Reads a measurement.
    public init(decoding octets: RawSpan) throws(MalformedFrame) {
        var cursor = OctetCursor("PLX Spot-Check Measurement (2A5E)")
        let flags = try cursor.octet("flags", of: octets)
        value = try SaturationAndPulse(octets, after: &cursor)
        timeStamp = flags & 0x01 == 0 ? nil : try cursor.dateTime("time stamp", of: octets)
        status = PulseOximeterStatus()
        if flags & 0x02 != 0 { status.measurement = try cursor.word("measurement status", of: octets) }
        if flags & 0x04 != 0 { status.device = try cursor.triple("device and sensor status", of: octets) }
        pulseAmplitudeIndex = flags & 0x08 == 0 ? nil : try cursor.decimal("pulse amplitude index", of: octets)
        clockIsNotSet = flags & 0x10 != 0
    }

    /// 5 to 19 octets.
    public var encoded: [UInt8] {
        var flags: UInt8 = clockIsNotSet ? 0x10 : 0
        if timeStamp != nil { flags |= 0x01 }
        if status.measurement != nil { flags |= 0x02 }
        if status.device != nil { flags |= 0x04 }
        if pulseAmplitudeIndex != nil { flags |= 0x08 }
        var octets = [flags]
        value.append(to: &octets)
        if let timeStamp { octets += timeStamp.encoded }
        if let measurement = status.measurement { octets.append(word: measurement) }
        if let device = status.device { octets.append(triple: device) }
        if let pulseAmplitudeIndex { octets.append(word: pulseAmplitudeIndex.rawValue) }
        return octets
    }
}

/// What a pulse oximeter sends while it measures, about once a second: PLX Continuous Measurement (2A5F). Pulse Oximeter
/// Service 1.0.1, 3.3.
public struct PulseOximeterContinuous: CharacteristicCoding {
    /// 2A5F.
    public static let assignedNumber: UInt16 = 0x2A5F

    /// Saturation and pulse by the normal response.
    public var normal: SaturationAndPulse
    /// The same by the fast response; nil where none was sent.
    public var fast: SaturationAndPulse?
    /// The same by the slow response; nil where none was sent.
    public var slow: SaturationAndPulse?
    /// What the oximeter thinks of it.
    public var status: PulseOximeterStatus
    /// Pulse amplitude index in per cent; nil where none was sent.
    public var pulseAmplitudeIndex: MedFloat16?

    /// Makes a measurement.
    public init(
        normal: SaturationAndPulse, fast: SaturationAndPulse? = nil, slow: SaturationAndPulse? = nil,
        status: PulseOximeterStatus = PulseOximeterStatus(), pulseAmplitudeIndex: MedFloat16? = nil
    ) {
        self.normal = normal
        self.fast = fast
        self.slow = slow
        self.status = status
        self.pulseAmplitudeIndex = pulseAmplitudeIndex
    }

    /// Reads a measurement.
    public init(decoding octets: RawSpan) throws(MalformedFrame) {
        var cursor = OctetCursor("PLX Continuous Measurement (2A5F)")
        let flags = try cursor.octet("flags", of: octets)
        normal = try SaturationAndPulse(octets, after: &cursor)
        fast = flags & 0x01 == 0 ? nil : try SaturationAndPulse(octets, after: &cursor)
        slow = flags & 0x02 == 0 ? nil : try SaturationAndPulse(octets, after: &cursor)
        status = PulseOximeterStatus()
        if flags & 0x04 != 0 { status.measurement = try cursor.word("measurement status", of: octets) }
        if flags & 0x08 != 0 { status.device = try cursor.triple("device and sensor status", of: octets) }
        pulseAmplitudeIndex = flags & 0x10 == 0 ? nil : try cursor.decimal("pulse amplitude index", of: octets)
    }

    /// 5 to 20 octets.
    public var encoded: [UInt8] {
        var flags: UInt8 = fast == nil ? 0 : 0x01
        if slow != nil { flags |= 0x02 }
        if status.measurement != nil { flags |= 0x04 }
        if status.device != nil { flags |= 0x08 }
        if pulseAmplitudeIndex != nil { flags |= 0x10 }
        var octets = [flags]
        normal.append(to: &octets)
        fast?.append(to: &octets)
        slow?.append(to: &octets)
        if let measurement = status.measurement { octets.append(word: measurement) }
        if let device = status.device { octets.append(triple: device) }
        if let pulseAmplitudeIndex { octets.append(word: pulseAmplitudeIndex.rawValue) }
        return octets
    }
}

extension [UInt8] {
    mutating func append(triple: UInt32) {
        for shift: UInt32 in [0, 8, 16] { append(UInt8(truncatingIfNeeded: triple >> shift)) }
    }
}
