import HealthFigures
import HealthReadings
import Languages

/// Lines of glucose that a person wants to be compared with; they are no bounds of classes.
public struct GlucoseLine: Sendable, Hashable {
    /// The lower line.
    public var low: ExactDecimal
    /// The upper line.
    public var high: ExactDecimal
    /// The unit of both.
    public var unit: MeasurementUnit

    /// Reads `80-150` or `4.4-8.3`; `nil` for anything else. Nobody has a line of more than 40 mmol/L, or of less than 40 mg/dL.
    public init?(_ text: String) {
        let parts = text.split(separator: "-", omittingEmptySubsequences: false)
        guard parts.count == 2, let low = ExactDecimal(parts[0]), let high = ExactDecimal(parts[1]),
            low.significand > 0, low.isNumericallyLess(than: high), high.approximation <= 600
        else { return nil }
        (self.low, self.high) = (low, high)
        unit = high.approximation < 40 ? .millimolesPerLitre : .milligramsPerDecilitre
    }

    /// `80 to 150 mg/dL`.
    public var text: String { text(in: .english) }

    /// The lines in a language.
    func text(in words: Language) -> String { words("\(low) to \(high) \(unit.symbol)") }

    /// The lines in a language and a unit, as people read numbers of it.
    func text(in words: Language, unit target: MeasurementUnit) -> String {
        guard target != unit, let low = low.shown(unit, in: target), let high = high.shown(unit, in: target) else {
            return text(in: words)
        }
        return words("\(low) to \(high) \(target.symbol)")
    }

    var document: JSONValue { .object(["low": .number(low), "high": .number(high), "unit": .string(unit.symbol)]) }

    /// How many values are below the lower and above the upper line; each is compared in the line's unit.
    func count(beyond points: [GlucosePoint]) -> (below: Int, above: Int) {
        var counts = (below: 0, above: 0)
        for point in points {
            switch point.level {
            case .below: counts.below += 1
            case .above: counts.above += 1
            case .number:
                guard let value = point.number?.shown(point.unit, in: unit, places: 6) else { continue }
                if value.isNumericallyLess(than: low) { counts.below += 1 }
                if high.isNumericallyLess(than: value) { counts.above += 1 }
            }
        }
        return counts
    }
}

extension GlucoseAxis {
    /// The person's lines, broken, each with its name where there is room for it.
    func drawLines(into plot: inout Plot, labelled: Bool) {
        guard let line else { return }
        for (number, name) in [(line.low, words("your line low")), (line.high, words("your line high"))] {
            let value = (number.shown(line.unit, in: unit, places: 2) ?? number).approximation
            let y = plot.y(min(value, top))
            plot.line(
                plot.left, y, plot.width - plot.right, y, color: Palette.line, width: labelled ? 1 : 0.5, dash: "5 3")
            guard labelled else { continue }
            plot.text(
                name, plot.width - plot.right - 2, y - 2, size: 7, anchor: "end", color: Palette.line)
        }
    }
}

/// A weight that a person wants to be compared with.
public struct WeightLine: Sendable, Hashable {
    /// The weight.
    public var weight: ExactDecimal
    /// kg or lb.
    public var unit: MeasurementUnit

    /// Reads `72.5 kg` or `160 lb`, 1 … 1000; `nil` for anything else.
    public init?(_ text: String) {
        let parts = text.split(separator: " ")
        guard parts.count == 2, let weight = ExactDecimal(parts[0]), (1...1000).contains(weight.approximation),
            let unit = [MeasurementUnit.kilograms, .pounds].first(where: { $0.symbol == parts[1] })
        else { return nil }
        (self.weight, self.unit) = (weight, unit)
    }

    /// `72.5 kg`.
    public var text: String { text(in: .english) }

    func text(in words: Language) -> String { "\(words.number(weight)) \(unit.symbol)" }

    var document: JSONValue { .object(["weight": .number(weight), "unit": .string(unit.symbol)]) }

    func place(in target: MeasurementUnit) -> Double {
        (weight.shown(unit, in: target, places: 3) ?? weight).approximation
    }
}
