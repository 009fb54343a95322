/// A blood-pressure record's values, each in the unit the cuff sent (mmHg or kPa).
public struct BloodPressureValue: Sendable, Hashable {
    /// Systolic pressure.
    public var systolic: Quantity
    /// Diastolic pressure.
    public var diastolic: Quantity
    /// Mean arterial pressure; often not a number.
    public private(set) var meanArterial: Quantity
    /// Pulse rate in beats per minute; nil where the record carries none.
    public private(set) var pulse: Quantity?

    /// Makes a blood-pressure value. A mean or a pulse that cannot be a person's loses its number.
    public init(systolic: Quantity, diastolic: Quantity, meanArterial: Quantity, pulse: Quantity? = nil) {
        self.systolic = systolic
        self.diastolic = diastolic
        self.meanArterial = meanArterial.judged(as: .meanPressure)
        self.pulse = pulse?.judged(as: .pulse)
    }
}
