import HealthReadings

/// The pressure in a cuff while it measures: Intermediate Cuff Pressure (2A36). Never a person's blood pressure.
///
/// Blood Pressure Service 1.1.1, 3.2: laid out as Blood Pressure Measurement, the cuff pressure in the systolic field,
/// NaN in the diastolic and mean fields.
public struct IntermediateCuffPressure: CharacteristicCoding {
    /// 2A36.
    public static let assignedNumber: UInt16 = 0x2A36

    /// The fields in the layout of 2A35.
    public var fields: BloodPressureMeasurement

    /// The current cuff pressure.
    public var cuffPressure: Quantity { Quantity(fields.systolic.number, fields.unit.measurementUnit) }

    /// Makes a value of its fields.
    public init(fields: BloodPressureMeasurement) { self.fields = fields }

    /// Reads a value.
    public init(decoding octets: RawSpan) throws(MalformedFrame) {
        fields = try BloodPressureMeasurement(decoding: octets, subject: "Intermediate Cuff Pressure (2A36)")
    }

    /// 7 to 19 octets.
    public var encoded: [UInt8] { fields.encoded }
}
