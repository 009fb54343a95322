/// What the person told the meter about a glucose record: the values of Glucose Measurement Context (2A34).
///
/// Names are the specification's in snake_case; numbers it reserves appear as `reserved`.
public struct GlucoseContext: Sendable, Hashable {
    /// A substance with the amount taken: a carbohydrate or a medication.
    public struct Intake: Sendable, Hashable {
        /// What was taken: `breakfast` … `brunch` for carbohydrates, `rapid_acting_insulin` … for medication.
        public var id: String
        /// How much: grams for carbohydrates; milligrams or millilitres for medication.
        public private(set) var amount: Quantity

        /// Makes an intake. An amount that nobody takes loses its number.
        public init(id: String, amount: Quantity) {
            self.id = id
            self.amount = amount.judged(as: amount.unit == .grams ? .carbohydrate : .medication)
        }
    }

    /// Physical exercise before the measurement.
    public struct Exercise: Sendable, Hashable {
        /// Seconds, 0 … 65534; nil where the meter says "overrun" (65535).
        public var seconds: UInt16?
        /// Intensity in per cent, as sent; see ``plausibleIntensity``.
        public var intensityPercent: UInt8
        /// The intensity; nil where it is more than 100 %.
        public var plausibleIntensity: UInt8? { intensityPercent > 100 ? nil : intensityPercent }

        /// Makes an exercise.
        public init(seconds: UInt16?, intensityPercent: UInt8) {
            self.seconds = seconds
            self.intensityPercent = intensityPercent
        }
    }

    /// Carbohydrate intake in grams.
    public var carbohydrate: Intake?
    /// `preprandial`, `postprandial`, `fasting`, `casual`, `bedtime`.
    public var meal: String?
    /// Who tested: `self`, `health_care_professional`, `lab_test`, `not_available`.
    public var tester: String?
    /// `minor_health_issues`, `major_health_issues`, `during_menses`, `under_stress`, `no_health_issues`, `not_available`.
    public var health: String?
    /// Exercise.
    public var exercise: Exercise?
    /// Medication.
    public var medication: Intake?
    /// Glycated haemoglobin in per cent; without a number where it is implausible.
    public var hba1c: Quantity? { didSet { hba1c = hba1c?.judged(as: .hba1c) } }
    /// Whether the meter says by it that its record is a ketone: the meaning some makers give a reserved meal.
    public var isOfKetone = false

    /// Makes an empty context.
    public init() {}
}
