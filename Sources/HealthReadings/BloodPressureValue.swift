/// A blood-pressure record's values, each in the unit the cuff sent (mmHg or kPa).
public struct BloodPressureValue: Sendable, Hashable {
    /// Systolic pressure.
    public var systolic: Quantity
    /// Diastolic pressure.
    public var diastolic: Quantity
    /// Mean arterial pressure; often not a number.
    public var meanArterial: Quantity
    /// Pulse rate in beats per minute; nil where the record carries none.
    public var pulse: Quantity?

    /// Makes a blood-pressure value.
    public init(systolic: Quantity, diastolic: Quantity, meanArterial: Quantity, pulse: Quantity? = nil) {
        self.systolic = systolic
        self.diastolic = diastolic
        self.meanArterial = meanArterial
        self.pulse = pulse
    }
}
