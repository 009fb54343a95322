import HealthReadings

/// What a model can measure, as its manual says, in one of the units it sends.
///
/// A number outside it by more than one step is none that the model measured as what it was sent for: meters say "high"
/// or "low" instead.
public struct MeasuringRange: Sendable, Hashable {
    /// The kind of reading.
    public var kind: ReadingKind
    /// The unit of the numbers.
    public var unit: MeasurementUnit
    /// The lowest number the model shows; nil where it is not known, so that nothing is too low.
    public var lowest: ExactDecimal?
    /// The highest number the model shows; nil where it is not known.
    public var highest: ExactDecimal?
    /// The step in which the model shows numbers.
    public var step: ExactDecimal
    /// The document it is from, and where in it.
    public var source: String

    /// The side on which a number is outside by more than one step; nil for one that the model can have measured.
    func side(of number: ExactDecimal) -> Side? {
        // |bound| and step have few digits: their sum is exact at the finer precision.
        if let lowest, number.isNumericallyLess(than: lowest.adding(step, times: -1)) { return .below }
        if let highest, highest.adding(step, times: 1).isNumericallyLess(than: number) { return .above }
        return nil
    }

    enum Side { case below, above }
}

extension MeasuringRange: CustomStringConvertible {
    /// `20 … 600 mg/dL`.
    public var description: String {
        switch (lowest, highest) {
        case (let lowest?, let highest?): "\(lowest) … \(highest) \(unit.symbol)"
        case (nil, let highest?): "up to \(highest) \(unit.symbol)"
        case (let lowest?, nil): "from \(lowest) \(unit.symbol)"
        case (nil, nil): "not known"
        }
    }

    /// The entry of a model as `catalog --json` shows it.
    var document: JSONValue {
        .object([
            "kind": .string(kind.rawValue), "unit": .string(unit.symbol),
            "lowest": lowest.map(JSONValue.number) ?? .null, "highest": highest.map(JSONValue.number) ?? .null,
            "step": .number(step), "source": .string(source),
        ])
    }
}

extension [MeasuringRange] {
    /// The ranges of a glucose meter in both units: whole mg/dL and tenths of a mmol/L are what meters show.
    ///
    /// - Parameters:
    ///   - milligrams: the lowest and highest mg/dL.
    ///   - millimoles: the same in hundredths of a mmol/L, as the manual prints them.
    static func glucose(
        milligrams: (lowest: Int64?, highest: Int64?), centimillimoles: (lowest: Int64?, highest: Int64?),
        source: String
    ) -> [MeasuringRange] {
        func hundredths(_ digits: Int64?) -> ExactDecimal? {
            guard let digits else { return nil }
            return digits % 10 == 0
                ? ExactDecimal(significand: digits / 10, exponent: -1) : ExactDecimal(significand: digits, exponent: -2)
        }
        return [
            MeasuringRange(
                kind: .glucose, unit: .milligramsPerDecilitre,
                lowest: milligrams.lowest.map { ExactDecimal(significand: $0) },
                highest: milligrams.highest.map { ExactDecimal(significand: $0) }, step: ExactDecimal(significand: 1),
                source: source),
            MeasuringRange(
                kind: .glucose, unit: .millimolesPerLitre, lowest: hundredths(centimillimoles.lowest),
                highest: hundredths(centimillimoles.highest), step: ExactDecimal(significand: 1, exponent: -1),
                source: source),
        ]
    }
}

extension DeviceModel {
    /// Why a record is none that this model measured: a concentration outside its range, in the unit of the record.
    ///
    /// A result that the meter itself calls too high or too low is one that it did not put into numbers, and is left as
    /// it is; so is what is excluded for another reason.
    func exclusion(of record: Record) -> Exclusion? {
        guard !ranges.isEmpty, record.exclusion == nil, case .glucose(let glucose) = record.value,
            let concentration = glucose.concentration, let number = concentration.number.number,
            let range = ranges.first(where: { $0.kind == .glucose && $0.unit == concentration.unit })
        else { return nil }
        return switch range.side(of: number) {
        case .below: record.status.contains(.resultTooLow) ? nil : .implausible
        case .above: record.status.contains(.resultTooHigh) ? nil : .implausible
        case nil: nil
        }
    }

    /// What its ranges are, to tell whether they have changed; empty where it has none.
    var rules: String { ranges.map { "\($0.kind.rawValue) \($0) by \($0.step)" }.joined(separator: "; ") }
}
