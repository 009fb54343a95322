import HealthReadings

/// A blood-pressure record as a cuff sends it: Blood Pressure Measurement (2A35), 7 to 19 octets.
///
/// Blood Pressure Service 1.1.1, 3.1. ``IntermediateCuffPressure`` has the same fields.
public struct BloodPressureMeasurement: CharacteristicCoding {
    /// 2A35.
    public static let assignedNumber: UInt16 = 0x2A35

    /// The units pressures are sent in.
    public enum PressureUnit: Sendable, Hashable, CaseIterable {
        case millimetresOfMercury
        case kilopascal

        /// The unit of a quantity.
        public var measurementUnit: MeasurementUnit {
            switch self {
            case .millimetresOfMercury: .millimetresOfMercury
            case .kilopascal: .kilopascal
            }
        }
    }

    /// The unit of the three pressures.
    public var unit: PressureUnit
    /// Systolic pressure; in 2A36 the current cuff pressure.
    public var systolic: MedFloat16
    /// Diastolic pressure; NaN in 2A36.
    public var diastolic: MedFloat16
    /// Mean arterial pressure; often NaN.
    public var meanArterialPressure: MedFloat16
    /// The cuff's clock; nil where none was sent.
    public var timeStamp: DateTime?
    /// Beats per minute; nil where none was sent.
    public var pulseRate: MedFloat16?
    /// The user's slot as sent; 255 is unknown, nil where none was sent.
    public var userID: UInt8?
    /// The sixteen bits of Measurement Status; nil where none were sent.
    public var measurementStatus: UInt16?

    /// The user ID that says the user is unknown.
    public static let unknownUser: UInt8 = 255

    /// Makes a record.
    public init(
        unit: PressureUnit, systolic: MedFloat16, diastolic: MedFloat16, meanArterialPressure: MedFloat16,
        timeStamp: DateTime? = nil, pulseRate: MedFloat16? = nil, userID: UInt8? = nil,
        measurementStatus: UInt16? = nil
    ) {
        self.unit = unit
        self.systolic = systolic
        self.diastolic = diastolic
        self.meanArterialPressure = meanArterialPressure
        self.timeStamp = timeStamp
        self.pulseRate = pulseRate
        self.userID = userID
        self.measurementStatus = measurementStatus
    }

    /// Reads a record; takes nothing from the heap.
    public init(decoding octets: RawSpan) throws(MalformedFrame) {
        try self.init(decoding: octets, subject: "Blood Pressure Measurement (2A35)")
    }

    @inline(__always)
    init(decoding octets: RawSpan, subject: StaticString) throws(MalformedFrame) {
        var cursor = OctetCursor(subject)
        let flags = try cursor.octet("flags", of: octets)
        unit = flags & 0x01 == 0 ? .millimetresOfMercury : .kilopascal
        systolic = try cursor.decimal("systolic pressure", of: octets)
        diastolic = try cursor.decimal("diastolic pressure", of: octets)
        meanArterialPressure = try cursor.decimal("mean arterial pressure", of: octets)
        timeStamp = flags & 0x02 == 0 ? nil : try cursor.dateTime("time stamp", of: octets)
        pulseRate = flags & 0x04 == 0 ? nil : try cursor.decimal("pulse rate", of: octets)
        userID = flags & 0x08 == 0 ? nil : try cursor.octet("user ID", of: octets)
        measurementStatus = flags & 0x10 == 0 ? nil : try cursor.word("measurement status", of: octets)
    }

    /// 7 to 19 octets.
    public var encoded: [UInt8] {
        var flags: UInt8 = unit == .kilopascal ? 0x01 : 0
        if timeStamp != nil { flags |= 0x02 }
        if pulseRate != nil { flags |= 0x04 }
        if userID != nil { flags |= 0x08 }
        if measurementStatus != nil { flags |= 0x10 }
        var octets = [flags]
        octets.append(word: systolic.rawValue)
        octets.append(word: diastolic.rawValue)
        octets.append(word: meanArterialPressure.rawValue)
        if let timeStamp { octets += timeStamp.encoded }
        if let pulseRate { octets.append(word: pulseRate.rawValue) }
        if let userID { octets.append(userID) }
        if let measurementStatus { octets.append(word: measurementStatus) }
        return octets
    }
}
