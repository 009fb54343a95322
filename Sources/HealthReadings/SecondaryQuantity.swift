/// What stands beside a record's main value, with the range a person's can be in.
///
/// A main value outside its range excludes the record. One of these only loses its number: a cuff's pressures are not
/// wrong because its pulse is. The ranges are wider than what devices measure, as those of the main values are.
public enum SecondaryQuantity: String, Sendable, Hashable, CaseIterable {
    /// Mean arterial pressure.
    case meanPressure = "mean"
    /// Pulse beside a pressure or a saturation.
    case pulse
    case bodyMassIndex = "body_mass_index"
    case height
    case basalMetabolism = "basal_metabolism"
    case musclePercentage = "muscle_percentage"
    /// The mass of a body, or of a part of it.
    case mass
    case impedance
    /// Carbohydrates eaten.
    case carbohydrate
    /// Medication taken.
    case medication
    case hba1c
    /// How fast a continuous sensor's glucose changes.
    case trend
    /// The quality of a continuous sensor's value.
    case quality

    /// The lowest and the highest plausible number in a unit.
    public struct Bounds: Sendable, Hashable {
        /// The unit of both.
        public var unit: MeasurementUnit
        /// The lowest number.
        public var lowest: ExactDecimal
        /// The highest number.
        public var highest: ExactDecimal

        fileprivate init(_ unit: MeasurementUnit, _ lowest: Int64, _ highest: Int64, exponent: Int16 = 0) {
            self.unit = unit
            self.lowest = ExactDecimal(significand: lowest, exponent: exponent)
            self.highest = ExactDecimal(significand: highest, exponent: exponent)
        }
    }

    /// The range in a unit; nil for a unit the quantity is never sent in.
    public func bounds(in unit: MeasurementUnit) -> Bounds? {
        switch (self, unit) {
        case (.meanPressure, .millimetresOfMercury): Bounds(unit, 1, 400)
        case (.meanPressure, .kilopascal): Bounds(unit, 1, 533, exponent: -1)
        case (.pulse, .beatsPerMinute): Bounds(unit, 20, 300)
        case (.bodyMassIndex, .kilogramsPerSquareMetre): Bounds(unit, 5, 250)
        case (.height, .metres): Bounds(unit, 2, 28, exponent: -1)
        case (.height, .inches): Bounds(unit, 8, 110)
        case (.basalMetabolism, .kilojoules): Bounds(unit, 100, 50_000)
        case (.musclePercentage, .percent): Bounds(unit, 1, 100)
        case (.mass, .kilograms): Bounds(unit, 1, 70_000, exponent: -2)
        case (.mass, .pounds): Bounds(unit, 1, 154_300, exponent: -2)
        case (.impedance, .ohms): Bounds(unit, 1, 5000)
        case (.carbohydrate, .grams): Bounds(unit, 0, 1000)
        case (.medication, .milligrams): Bounds(unit, 0, 100_000)
        case (.medication, .millilitres): Bounds(unit, 0, 1000)
        case (.hba1c, .percent): Bounds(unit, 1, 30)
        case (.trend, .milligramsPerDecilitrePerMinute): Bounds(unit, -50, 50)
        case (.quality, .percent): Bounds(unit, 0, 100)
        default: nil
        }
    }

    /// The range in each unit the quantity is sent in.
    public var bounds: [Bounds] { MeasurementUnit.allCases.compactMap(bounds(in:)) }

    /// What the range rests on.
    public var source: String {
        switch self {
        case .meanPressure: "as the pressures"
        case .pulse: "as the heart rate"
        case .bodyMassIndex: "the highest documented are about 200 (Guinness World Records); newborns have 10 to 15"
        case .height: "from newborns of 0.24 m (Tiny Baby Registry) to 2.72 m (Guinness World Records)"
        case .basalMetabolism:
            "from the lightest newborns to the heaviest people, by the equations of Schofield (1985) and Mifflin and "
                + "St Jeor (1990)"
        case .musclePercentage, .quality: "what the definition allows, no muscle at all excepted"
        case .mass: "no part weighs more than the heaviest person"
        case .impedance: "a body has some hundred ohms between hand and foot (Kyle et al., Clinical Nutrition 2004)"
        case .carbohydrate: "no public source; no meal has a kilogram"
        case .medication: "no public source; doses of insulin are millilitres, those of tablets grams at most"
        case .hba1c: "no public source; far beyond what analysers show"
        case .trend: "no public source; far beyond what sensors show"
        }
    }
}

extension Quantity {
    /// The quantity, its number marked as implausible where it is outside the range of what it stands for.
    ///
    /// A unit in which the quantity is never sent has no range, and keeps its number.
    public func judged(as quantity: SecondaryQuantity?) -> Quantity {
        guard let quantity, case .value(let value) = number,
            let bounds = quantity.bounds(in: unit),
            value.isNumericallyLess(than: bounds.lowest) || bounds.highest.isNumericallyLess(than: value)
        else { return self }
        return Quantity(.implausible(value), unit)
    }
}
