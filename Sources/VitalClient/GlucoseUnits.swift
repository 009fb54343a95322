import HealthFigures
import HealthReadings

extension QuantitySample {
    /// Decimal places of a concentration that is converted: a ten-thousandth of a mmol/L is a fiftieth of a mg/dL, so that
    /// two values a meter tells apart stay apart.
    public static let concentrationPlaces = ConversionFactor.concentrationPlaces

    /// The sample in mmol/L, the unit in which the server stores glucose; `nil` if it is in another unit than mmol/L or
    /// mg/dL, or does not fit 64 bits.
    ///
    /// A concentration in mmol/L keeps its digits. One in mg/dL is divided by 18.0156, a tenth of the molar mass of glucose
    /// (180.156 g/mol; HealthKit, from which the vendor's own client reads, takes 180.15588), in exact decimal arithmetic,
    /// and rounded half to even at 4 places. What was measured stays in the metadata, as `measured_value` and
    /// `measured_unit`.
    public var inMillimolesPerLitre: QuantitySample? {
        switch unit {
        case .millimolesPerLitre: return self
        case .milligramsPerDecilitre:
            let factor = ConversionFactor.milligramsPerDecilitreInOneMillimolePerLitre
            guard let converted = value.divided(by: factor, places: Self.concentrationPlaces) else { return nil }
            var sample = self
            (sample.value, sample.unit) = (converted, .millimolesPerLitre)
            let measured = ["measured_value": value.description, "measured_unit": unit.rawValue]
            sample.metadata.merge(measured) { own, _ in own }
            return sample
        default: return nil
        }
    }
}

extension TimeSeriesData {
    /// The samples in the units in which the server stores them; `nil` if a glucose concentration has none there.
    var inServerUnits: TimeSeriesData? {
        guard case .glucose(let samples) = self else { return self }
        guard samples.contains(where: { $0.unit != .millimolesPerLitre }) else { return self }
        var converted: [QuantitySample] = []
        converted.reserveCapacity(samples.count)
        for sample in samples {
            guard let sample = sample.inMillimolesPerLitre else { return nil }
            converted.append(sample)
        }
        return .glucose(converted)
    }
}
