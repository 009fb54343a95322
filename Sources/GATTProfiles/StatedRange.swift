import HealthReadings

/// A range of plausible values, and where it is from.
public struct StatedRange: Sendable, Hashable {
    /// The kind of reading.
    public var kind: ReadingKind
    /// The range, with its units.
    public var range: String
    /// What it rests on.
    public var source: String
}

extension Plausibility {
    /// The range of each kind that is measured. A value outside is kept, and marked `implausible`.
    public static let stated: [StatedRange] = [
        StatedRange(
            kind: .glucose,
            range: "above 0, at most \(highestGlucoseMilligramsPerDecilitre) mg/dL or "
                + "\(highestGlucoseMillimolesPerLitre) mmol/L",
            source:
                "meters measure up to 600 mg/dL and say \"high\" beyond (manuals of Accu-Chek Guide and Contour Next "
                + "One), sensors up to 500 (FreeStyle Libre)"),
        StatedRange(
            kind: .bloodPressure,
            range: "above 0, at most \(highestPressureMillimetresOfMercury) mmHg or \(highestPressureKilopascal) kPa, "
                + "the diastolic not above the systolic",
            source: "no cuff for adults may reach more than 300 mmHg (IEC 80601-2-30)"),
        StatedRange(
            kind: .heartRate, range: "\(text(heartRates)) bpm",
            source: "monitors count 30 to 250 at least (IEC 60601-2-27)"),
        StatedRange(
            kind: .hrv, range: "\(text(variabilities)) ms",
            source: "the most that the intervals of two beats between 20 and 300 a minute can differ"),
        StatedRange(
            kind: .spo2, range: "\(text(saturations)) %",
            source: "what the definition allows, zero excepted; oximeters show 0 to 100 (ISO 80601-2-61)"),
        StatedRange(
            kind: .temperature, range: "\(text(temperatures)) °C",
            source:
                "the lowest and highest that people are documented to have survived are 13.7 (Gilbert et al., Lancet "
                + "2000) and 46.5 (Slovis et al., Annals of Emergency Medicine 1982)"),
        StatedRange(
            kind: .weight, range: "\(text(weights)) kg",
            source: "from the lightest surviving newborn (Tiny Baby Registry, 0.2) to the heaviest documented person "
                + "(Guinness World Records, 635), with room for a scale's error"),
        StatedRange(
            kind: .bodyComposition, range: "body fat \(text(bodyFats)) %",
            source: "scales for use at home show 5 to 75 (manuals of Tanita's)"),
    ]

    /// The range of what stands beside a main value. Outside it the value loses its number, and the reading stays.
    public static let statedBeside: [(value: String, range: String, source: String)] =
        SecondaryQuantity.allCases.map { quantity in
            let ranges = quantity.bounds.map { "\($0.lowest) … \($0.highest) \($0.unit.symbol)" }
            return (quantity.rawValue, ranges.joined(separator: " or "), quantity.source)
        }

    private static func text(_ range: ClosedRange<Double>) -> String {
        func number(_ value: Double) -> String { value == value.rounded() ? "\(Int(value))" : "\(value)" }
        return "\(number(range.lowerBound)) … \(number(range.upperBound))"
    }
}
