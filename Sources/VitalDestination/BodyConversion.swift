import HealthFigures
import HealthReadings
import ReadingDelivery
import ReadingStore
import VitalClient

/// What a scale measured, in the shape of the body summary; nil for what it did not measure.
public struct BodySample: Sendable, Hashable {
    /// The weight in kg.
    public var mass: QuantitySample?
    /// The share of fat in per cent.
    public var fatPercentage: QuantitySample?
    /// The body mass index.
    public var massIndex: QuantitySample?
    /// The mass without fat in kg.
    public var leanMass: QuantitySample?
}

extension ConversionFactor {
    /// Decimal places of a share of fat in per cent and of a body mass index.
    static let bodyPlaces: Int16 = 2
    /// Decimal places of a body mass index that is computed: scales that compute it themselves send one.
    static let computedIndexPlaces: Int16 = 1
}

extension SampleConversion.Sender {
    /// A weight, with the body mass index that the scale itself found.
    func weight(_ value: VitalValue) throws(ConversionError) -> BodySample {
        guard let measured = value.main else { throw ConversionError(reason: "it has no value") }
        let number = try Self.number(measured, "weight")
        var sample = BodySample()
        sample.mass = try quantity(measured, number, try kilograms(measured), .kilograms)
        if let index = value[.bodyMassIndex], let number = index.number.number, number.significand > 0 {
            sample.massIndex = try quantity(
                index, number, number.rounded(toPlaces: ConversionFactor.bodyPlaces), .index)
        }
        return sample
    }

    /// A body composition: the share of fat, the mass without fat, and the weight that came with it.
    ///
    /// The scale's fat-free mass is the lean body mass. Without it the lean mass is what is left of the weight of the same
    /// measurement. Soft lean mass is another quantity, since it leaves the bones out: it is never sent as lean mass.
    func composition(_ value: VitalValue, ownWeight: OwnWeight) throws(ConversionError) -> BodySample {
        guard let fat = value[.bodyFat], fat.unit == .percent else { throw ConversionError(reason: "it has no value") }
        let share = try Self.number(fat, "body fat")
        var sample = BodySample()
        sample.fatPercentage = try quantity(
            fat, share, share.rounded(toPlaces: ConversionFactor.bodyPlaces), .percent)
        let weight = value[.weight].flatMap { Self.isMeasured($0) ? $0 : nil }
        if let lean = value[.fatFreeMass], Self.isMeasured(lean), let number = lean.number.number {
            sample.leanMass = try quantity(lean, number, try kilograms(lean), .kilograms)
        } else if let weight, ownWeight != .withheld, let mass = try kilograms(weight) {
            let rest = ExactDecimal(
                significand: 100_00 - (share.multiplied(by: ExactDecimal(significand: 1), places: 2)?.significand ?? 0),
                exponent: -4)
            sample.leanMass = derived(
                mass.multiplied(by: rest, places: ConversionFactor.weightPlaces), .kilograms, "weight,body_fat")
        }
        guard ownWeight == .sent, let weight, let number = weight.number.number, let mass = try kilograms(weight) else {
            return sample
        }
        sample.mass = try quantity(weight, number, mass, .kilograms)
        if let height = value[.height].flatMap(Self.metres),
            let square = height.multiplied(by: height, places: 8)
        {
            sample.massIndex = derived(
                mass.divided(by: square, places: ConversionFactor.computedIndexPlaces), .index, "weight,height")
        }
        return sample
    }

    private func kilograms(_ measured: Quantity) throws(ConversionError) -> ExactDecimal? {
        let number = try Self.number(measured, "weight")
        let places = ConversionFactor.weightPlaces
        switch measured.unit {
        case .kilograms: return number.rounded(toPlaces: places)
        case .pounds: return number.multiplied(by: ConversionFactor.kilogramsInOnePound, places: places)
        default: throw ConversionError(reason: "a weight in \(measured.unit.symbol)")
        }
    }

    private static func metres(_ height: Quantity) -> ExactDecimal? {
        guard let number = height.number.number, number.significand > 0 else { return nil }
        return height.unit == .metres
            ? number
            : height.unit == .inches ? number.multiplied(by: ConversionFactor.metresInOneInch, places: 5) : nil
    }

    /// Whether a mass was measured: scales send 0, or the field's highest value, where it was not.
    private static func isMeasured(_ mass: Quantity) -> Bool {
        guard let number = mass.number.number, number.significand > 0 else { return false }
        return ![ExactDecimal(significand: 327_675, exponent: -3), ExactDecimal(significand: 65_535, exponent: -2)]
            .contains { number.isNumericallyEqual(to: $0) }
    }

    private func derived(_ value: ExactDecimal?, _ unit: SampleUnit, _ origin: String) -> QuantitySample? {
        guard let value, value.significand > 0 else { return nil }
        var metadata = common
        metadata["derived_from"] = origin
        return QuantitySample(id: id, value: value, unit: unit, at: time, source: source, metadata: metadata)
    }
}

extension BodySummary {
    /// The summary of a batch, in its order.
    ///
    /// - Parameter timeZone: the zone of items that have none of their own.
    init(_ batch: [Prepared], timeZone: String) {
        self.init()
        var zones: [String: String] = [:]
        for prepared in batch {
            guard case .body(let sample) = prepared.sample else { continue }
            bodyMass += [sample.mass].compactMap(\.self)
            bodyFatPercentage += [sample.fatPercentage].compactMap(\.self)
            bodyMassIndex += [sample.massIndex].compactMap(\.self)
            leanBodyMass += [sample.leanMass].compactMap(\.self)
            let zone = prepared.timeZone ?? timeZone
            guard let rules = ZoneRules.named(zone) else { continue }
            zones[String(rules.wallTime(at: prepared.timestamp).description.prefix(10))] = zone
        }
        timeZones = zones.sorted { $0.key < $1.key }.map { DayZone(day: $0.key, timeZone: $0.value) }
    }
}
