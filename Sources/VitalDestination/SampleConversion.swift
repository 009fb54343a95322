import HealthFigures
import HealthReadings
import ReadingDelivery
import ReadingStore
import VitalClient

/// Why a reading cannot be a sample.
public struct ConversionError: Error, Sendable, Hashable, CustomStringConvertible {
    /// What is missing or does not fit, without the value.
    public var reason: String

    /// One line for people.
    public var description: String { "not sent: \(reason)" }
}

/// What is known of a model beyond what it says of itself.
public struct ModelName: Sendable, Hashable {
    /// The brand's name: `A&D`.
    public var brand: String
    /// The model's name: `UA-651BLE`.
    public var model: String

    /// Makes a name.
    public init(brand: String, model: String) {
        self.brand = brand
        self.model = model
    }
}

/// A reading in the server's shape.
public enum Sample: Sendable, Hashable {
    /// A glucose concentration in mmol/L, an oxygen saturation in per cent, a temperature in °C, a heart rate in beats
    /// per minute or its variability in milliseconds.
    case quantity(QuantitySample)
    /// A blood pressure in mmHg with its pulse in beats per minute.
    case bloodPressure(BloodPressureSample)
    /// The samples of a recording, one a second, in the same units.
    case series([QuantitySample])
    /// A weight or a body composition: what of it the body summary has a list for.
    case body(BodySample)
}

/// Makes samples of readings: the one place where a measured value changes its unit.
///
/// Exact decimal arithmetic, rounded half to even at 4 places (mmol/L), 3 (kg) or 2 (mmHg, bpm, %, °C). A value that is in the
/// server's unit already keeps its digits, up to those places. Every quantity carries what was measured in its
/// metadata:
///
/// | key | where | content |
/// |---|---|---|
/// | `measured_value`, `measured_unit` | every quantity | the device's own digits and unit |
/// | `measured_mean` | systolic | mean arterial pressure, in `measured_unit`, where the cuff sent one |
/// | `measured_pulse` | oxygen saturation | the pulse in beats per minute, where the oximeter sent one |
/// | `derived_from` | lean mass and body mass index that were computed | what they were computed from |
/// | `sdnn_ms` | heart-rate variability | SDNN of the same window in milliseconds |
/// | `site` | temperature | where it was measured, where the thermometer says so |
/// | `calibration` | a sensor's glucose | how its value was found: `factory_estimate` |
/// | `status` | every quantity whose device said something of the measurement | the names of `ReadingStatus`, with spaces between |
/// | `note` | every quantity that was entered by hand | what the person wrote beside it |
/// | `brand`, `model` | every quantity where the provider is `manual` | which device it was |
/// | `original_time` | every quantity that was moved by a second | the reading's own time, RFC 3339 |
public struct SampleConversion: Sendable {
    private let name: @Sendable (_ model: String) -> ModelName?

    /// - Parameter name: the brand and name of a model of the catalogue; nil for an unknown one.
    public init(name: @escaping @Sendable (_ model: String) -> ModelName? = { _ in nil }) { self.name = name }

    /// The sample of an item of the outbox.
    ///
    /// - Parameters:
    ///   - item: the item.
    ///   - provider: the slug it is delivered under.
    ///   - taken: seconds that another device has.
    public func sample(
        of item: OutboxItem, provider: String, besides taken: Set<Instant> = []
    ) throws(ConversionError) -> Sample {
        try sample(
            of: item.reading, provider: provider, at: item.timestamp, originalTime: item.originalTime,
            ownWeight: item.ownWeight, besides: taken)
    }

    /// The sample of a reading.
    ///
    /// - Parameters:
    ///   - reading: the reading; one that is excluded has no sample.
    ///   - provider: the slug it is delivered under.
    ///   - timestamp: the server's key, whole seconds.
    ///   - originalTime: the reading's own time where `timestamp` is another second.
    ///   - ownWeight: what becomes of the weight that came with a body composition.
    ///   - taken: seconds that no sample of a recording may have, since another device has them.
    public func sample(
        of reading: Reading, provider: String, at timestamp: Instant, originalTime: Instant? = nil,
        ownWeight: OwnWeight = .sent, besides taken: Set<Instant> = []
    ) throws(ConversionError) -> Sample {
        guard reading.excluded == nil else { throw ConversionError(reason: "the reading is excluded") }
        var common: [String: String] = [:]
        if let originalTime, originalTime.flooredToSecond != timestamp.flooredToSecond {
            common["original_time"] = originalTime.description
        }
        if provider == "manual" { common.merge(names(of: reading.device)) { own, _ in own } }
        common["note"] = reading.record.entry?.note
        if !reading.record.status.isEmpty {
            common["status"] = reading.record.status.names.joined(separator: " ")
        }
        common["calibration"] =
            reading.record.sensor?.calibration.name
            ?? (reading.record.isEstimate ? SensorFacts.Calibration.factoryEstimate.name : nil)
        let sender = Sender(
            id: reading.id.description, time: timestamp.flooredToSecond, common: common,
            source: reading.record.samplingMethod.map(SampleSource.init) ?? .unknown)
        switch reading.record.value {
        case .glucose(let glucose): return .quantity(try sender.concentration(glucose))
        case .bloodPressure(let pressure): return .bloodPressure(try sender.pressures(pressure))
        case .vital(let vital):
            switch vital.kind {
            case .weight: return .body(try sender.weight(vital))
            case .bodyComposition: return .body(try sender.composition(vital, ownWeight: ownWeight))
            case .heartRate where vital.series != nil, .spo2 where vital.series != nil:
                return .series(try sender.series(vital, of: reading, besides: taken))
            default: return .quantity(try sender.vital(vital))
            }
        case .kept: throw ConversionError(reason: "the reading is kept and not interpreted")
        }
    }

    private func names(of device: DeviceDescription) -> [String: String] {
        let known = device.model.flatMap(name)
        var names: [String: String] = [:]
        names["brand"] = known?.brand
        names["model"] = known?.model ?? device.model ?? device.name
        return names
    }

    /// What all quantities of one sample share.
    struct Sender {
        var id: String
        var time: Instant
        var common: [String: String]
        var source: SampleSource

        func concentration(_ glucose: GlucoseValue) throws(ConversionError) -> QuantitySample {
            guard let measured = glucose.concentration else { throw ConversionError(reason: "it has no concentration") }
            let number = try Self.number(measured, "concentration")
            let places = ConversionFactor.concentrationPlaces
            let converted: ExactDecimal? =
                switch measured.unit {
                case .millimolesPerLitre: number.rounded(toPlaces: places)
                case .milligramsPerDecilitre:
                    number.divided(
                        by: ConversionFactor.milligramsPerDecilitreInOneMillimolePerLitre, places: places)
                default: throw ConversionError(reason: "a concentration in \(measured.unit.symbol)")
                }
            return try quantity(measured, number, converted, .millimolesPerLitre)
        }

        func vital(_ value: VitalValue) throws(ConversionError) -> QuantitySample {
            guard let measured = value.main else { throw ConversionError(reason: "it has no value") }
            let number = try Self.number(measured, value.kind.rawValue)
            switch (value.kind, measured.unit) {
            case (.spo2, .percent):
                var sample = try quantity(
                    measured, number, number.rounded(toPlaces: ConversionFactor.vitalPlaces), .percent)
                sample.metadata["measured_pulse"] = value[.pulse]?.number.number?.description
                return sample
            case (.temperature, .degreesCelsius), (.temperature, .degreesFahrenheit):
                let celsius = measured.number(in: .degreesCelsius, places: ConversionFactor.vitalPlaces)
                var sample = try quantity(measured, number, celsius, .degreesCelsius)
                sample.metadata["site"] = value.site
                return sample
            case (.heartRate, .beatsPerMinute):
                return try quantity(
                    measured, number, number.rounded(toPlaces: ConversionFactor.vitalPlaces), .beatsPerMinute)
            case (.hrv, .milliseconds):
                guard value[.rmssd] == measured else { throw ConversionError(reason: "it has no RMSSD") }
                var sample = try quantity(
                    measured, number, number.rounded(toPlaces: ConversionFactor.vitalPlaces),
                    .rootMeanSquareOfSuccessiveDifferences)
                if let seconds = value.windowSeconds { sample.endDate = time.advanced(bySeconds: Int64(seconds)) }
                sample.metadata["sdnn_ms"] = value[.sdnn]?.number.number?.description
                return sample
            default: throw ConversionError(reason: "\(value.kind.rawValue) in \(measured.unit.symbol) is not delivered")
            }
        }

        func pressures(_ value: BloodPressureValue) throws(ConversionError) -> BloodPressureSample {
            var systolic = try pressure(value.systolic, "systolic pressure")
            if let mean = value.meanArterial.number.number, value.meanArterial.unit == value.systolic.unit {
                systolic.metadata["measured_mean"] = mean.description
            }
            return BloodPressureSample(
                systolic: systolic, diastolic: try pressure(value.diastolic, "diastolic pressure"),
                pulse: try pulse(value.pulse))
        }

        private func pressure(_ measured: Quantity, _ what: String) throws(ConversionError) -> QuantitySample {
            let number = try Self.number(measured, what)
            let places = ConversionFactor.pressurePlaces
            let converted: ExactDecimal? =
                switch measured.unit {
                case .millimetresOfMercury: number.rounded(toPlaces: places)
                case .kilopascal:
                    number.multiplied(by: ConversionFactor.millimetresOfMercuryInOneKilopascal, places: places)
                default: throw ConversionError(reason: "a \(what) in \(measured.unit.symbol)")
                }
            return try quantity(measured, number, converted, .millimetresOfMercury)
        }

        /// A pulse that is no number leaves the pressures what they are.
        private func pulse(_ measured: Quantity?) throws(ConversionError) -> QuantitySample? {
            guard let measured, let number = measured.number.number, measured.unit == .beatsPerMinute else {
                return nil
            }
            let converted = number.rounded(toPlaces: ConversionFactor.pressurePlaces)
            return try quantity(measured, number, converted, .beatsPerMinute)
        }

        func quantity(
            _ measured: Quantity, _ number: ExactDecimal, _ converted: ExactDecimal?, _ unit: SampleUnit
        ) throws(ConversionError) -> QuantitySample {
            guard let converted else { throw ConversionError(reason: "its value does not fit the server's unit") }
            var metadata = common
            metadata.reserveCapacity(common.count + 2)
            metadata["measured_value"] = number.description
            metadata["measured_unit"] = measured.unit.symbol
            return QuantitySample(
                id: id, value: converted, unit: unit, at: time, source: source, metadata: metadata)
        }

        static func number(_ quantity: Quantity, _ what: String) throws(ConversionError) -> ExactDecimal {
            guard let number = quantity.number.number else {
                throw ConversionError(reason: "its \(what) is not a number")
            }
            return number
        }
    }
}

extension SampleSource {
    /// The server's name of how a value was taken.
    fileprivate init(_ method: SamplingMethod) {
        self =
            switch method {
            case .fingerprick: .fingerprick
            case .cuff: .cuff
            case .manualScan: .manualScan
            case .automatic: .automatic
            case .scale: .scale
            case .unknown: .unknown
            }
    }
}
