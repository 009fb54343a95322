import Foundation
import HealthReadings
import ReadingStore
import TestSupport
import Testing
import VitalClient

@testable import ReadingDelivery
@testable import VitalDestination

@Suite("Conversion at the sink")
struct ConversionTests {
    /// Foundation's decimal arithmetic (38 digits, banker's rounding): the model that is not ours.
    private static func model(_ value: ExactDecimal, times factor: String, dividing: Bool, places: Int) -> Decimal? {
        guard let number = Decimal(string: value.description), let factor = Decimal(string: factor) else { return nil }
        var (exact, rounded) = (dividing ? number / factor : number * factor, Decimal())
        NSDecimalRound(&rounded, &exact, places, .bankers)
        return rounded
    }

    private func glucose(_ value: ExactDecimal, _ unit: MeasurementUnit) throws -> QuantitySample {
        let reading = Self.reading(
            .glucose(GlucoseValue(concentration: Quantity(value, unit), sampleType: .capillaryWholeBlood)))
        guard
            case .quantity(let sample) = try SampleConversion().sample(
                of: reading, provider: "accuchek_ble", at: Self.time)
        else { throw ConversionError(reason: "not glucose") }
        return sample
    }

    private func pressure(_ value: BloodPressureValue) throws -> BloodPressureSample {
        let reading = Self.reading(.bloodPressure(value))
        guard
            case .bloodPressure(let sample) = try SampleConversion().sample(
                of: reading, provider: "omron_ble", at: Self.time)
        else { throw ConversionError(reason: "no pressure") }
        return sample
    }

    private static let time = Instant(seconds: 1_700_000_000)

    private static func reading(_ value: RecordValue, device: DeviceDescription? = nil, excluded: Exclusion? = nil)
        -> Reading
    {
        Reading(
            id: ReadingID(high: 0x9f1c_0c8e, low: 10), record: Record(value: value),
            device: device ?? DeviceDescription(address: nil), time: ResolvedTime(instant: time, basis: .corrected),
            excluded: excluded, receivedAt: time)
    }

    @Test("mg/dL to mmol/L agrees with Foundation's decimals for every value a meter can show")
    func everyMilligram() throws {
        for value in 0...1000 {
            let measured = ExactDecimal(significand: Int64(value))
            let sample = try glucose(measured, .milligramsPerDecilitre)
            #expect(
                Decimal(string: sample.value.description)
                    == Self.model(measured, times: "18.0156", dividing: true, places: 4))
            #expect(sample.unit == .millimolesPerLitre)
        }
    }

    @Test("conversions of any digits and precision agree with Foundation's decimals")
    func property() throws {
        let seed = UInt64.random(in: .min ... .max)
        print("seed \(seed)")
        var generator = SeededGenerator(seed: seed)
        for _ in 0..<2000 {
            let measured = ExactDecimal(
                significand: Int64.random(in: -99_999...99_999, using: &generator),
                exponent: .random(in: -6...2, using: &generator))
            let molar = try glucose(measured, .milligramsPerDecilitre).value
            #expect(
                Decimal(string: molar.description) == Self.model(measured, times: "18.0156", dividing: true, places: 4))
            let kept = try glucose(measured, .millimolesPerLitre).value
            #expect(Decimal(string: kept.description) == Self.model(measured, times: "1", dividing: false, places: 4))
            let value = BloodPressureValue(
                systolic: Quantity(measured, .kilopascal), diastolic: Quantity(measured, .millimetresOfMercury),
                meanArterial: Quantity(.notANumber, .kilopascal))
            let sample = try pressure(value)
            #expect(
                Decimal(string: sample.systolic.value.description)
                    == Self.model(measured, times: "7.500617", dividing: false, places: 2))
            #expect(
                Decimal(string: sample.diastolic.value.description)
                    == Self.model(measured, times: "1", dividing: false, places: 2))
        }
    }

    @Test("an implausible pulse and mean are left out, and the pressures are sent")
    func implausibleParts() throws {
        func millimetres(_ value: Int64) -> Quantity {
            Quantity(ExactDecimal(significand: value), .millimetresOfMercury)
        }
        for garbage in [
            ExactDecimal(significand: -256, exponent: 3), ExactDecimal(significand: 0), .init(significand: 301),
        ] {
            let sample = try pressure(
                BloodPressureValue(
                    systolic: millimetres(127), diastolic: millimetres(79),
                    meanArterial: Quantity(garbage.scaled(byPowerOfTen: 1), .millimetresOfMercury),
                    pulse: Quantity(garbage, .beatsPerMinute)))
            #expect(sample.pulse == nil && sample.systolic.metadata["measured_mean"] == nil)
            #expect(sample.systolic.value == ExactDecimal(significand: 127))
        }
        let saturation = try vital(
            .spo2,
            [
                .init(.saturation, Quantity(ExactDecimal(significand: 97), .percent)),
                .init(.pulse, Quantity(ExactDecimal(significand: 511), .beatsPerMinute)),
            ])
        #expect(saturation.metadata["measured_pulse"] == nil)
    }

    private func vital(
        _ kind: ReadingKind, _ quantities: [VitalValue.Measured], site: String? = nil
    ) throws -> QuantitySample {
        let reading = Self.reading(.vital(VitalValue(kind: kind, quantities, site: site)))
        guard
            case .quantity(let sample) = try SampleConversion().sample(of: reading, provider: "manual", at: Self.time)
        else { throw ConversionError(reason: "no quantity") }
        return sample
    }

    private func body(
        _ kind: ReadingKind, _ quantities: [VitalValue.Measured], ownWeight: OwnWeight = .sent
    ) throws -> BodySample {
        let reading = Self.reading(.vital(VitalValue(kind: kind, quantities)))
        guard
            case .body(let sample) = try SampleConversion().sample(
                of: reading, provider: "omron_ble", at: Self.time, ownWeight: ownWeight)
        else { throw ConversionError(reason: "no body") }
        return sample
    }

    @Test("what a device says of a measurement goes with each of its quantities")
    func status() throws {
        var reading = Self.reading(
            .vital(
                VitalValue(
                    kind: .spo2, [.init(.saturation, Quantity(ExactDecimal(significand: 88), .percent))])))
        reading.record.status = .questionable
        guard
            case .quantity(let saturation) = try SampleConversion().sample(
                of: reading, provider: "omron_ble", at: Self.time)
        else { throw ConversionError(reason: "no quantity") }
        #expect(
            saturation.metadata == ["measured_value": "88", "measured_unit": "%", "status": "questionable"])
        reading = Self.reading(
            .bloodPressure(
                BloodPressureValue(
                    systolic: Quantity(ExactDecimal(significand: 127), .millimetresOfMercury),
                    diastolic: Quantity(ExactDecimal(significand: 79), .millimetresOfMercury),
                    meanArterial: Quantity(.notANumber, .millimetresOfMercury),
                    pulse: Quantity(ExactDecimal(significand: 64), .beatsPerMinute))))
        reading.record.status = [.irregularPulse, .cuffTooLoose]
        guard
            case .bloodPressure(let pressure) = try SampleConversion().sample(
                of: reading, provider: "omron_ble", at: Self.time)
        else { throw ConversionError(reason: "no pressure") }
        let parts = [pressure.systolic, pressure.diastolic, pressure.pulse].compactMap(\.self)
        #expect(parts.count == 3 && parts.allSatisfy { $0.metadata["status"] == "cuff_too_loose irregular_pulse" })
    }

    @Test("a saturation keeps its digits and has its pulse beside it; a temperature is in °C, a weight in kg")
    func vitals() throws {
        let saturation = try vital(
            .spo2,
            [
                .init(.saturation, Quantity(ExactDecimal(significand: 977, exponent: -1), .percent)),
                .init(.pulse, Quantity(ExactDecimal(significand: 72), .beatsPerMinute)),
            ])
        #expect(saturation.value.description == "97.7" && saturation.unit == .percent && saturation.source == .unknown)
        #expect(saturation.metadata["measured_pulse"] == "72" && saturation.metadata["measured_unit"] == "%")
        func temperature(_ digits: Int64, _ unit: MeasurementUnit) throws -> QuantitySample {
            try vital(
                .temperature, [.init(.temperature, Quantity(ExactDecimal(significand: digits, exponent: -1), unit))],
                site: "ear")
        }
        let celsius = try temperature(366, .degreesCelsius)
        #expect(
            celsius.value.description == "36.6" && celsius.unit == .degreesCelsius && celsius.metadata["site"] == "ear")
        let fahrenheit = try temperature(986, .degreesFahrenheit)
        #expect(fahrenheit.value.description == "37.00" && fahrenheit.metadata["measured_value"] == "98.6")
        func weight(_ digits: Int64, _ exponent: Int16, _ unit: MeasurementUnit) throws -> QuantitySample? {
            try body(.weight, [.init(.weight, Quantity(ExactDecimal(significand: digits, exponent: exponent), unit))])
                .mass
        }
        let kilograms = try #require(try weight(70_500, -3, .kilograms))
        #expect(kilograms.value.description == "70.500" && kilograms.unit == .kilograms && kilograms.source == .scale)
        #expect(try weight(15_543, -2, .pounds)?.value.description == "70.502")
        let rate = try vital(.heartRate, [.init(.heartRate, Quantity(ExactDecimal(significand: 72), .beatsPerMinute))])
        #expect(rate.value.description == "72" && rate.unit == .beatsPerMinute)
        let variability = Quantity(ExactDecimal(significand: 4123, exponent: -2), .milliseconds)
        let rmssd = try vital(.hrv, [.init(.rmssd, variability)])
        #expect(rmssd.value.description == "41.23" && rmssd.unit == .rootMeanSquareOfSuccessiveDifferences)
        #expect(throws: ConversionError.self) { try vital(.hrv, [.init(.sdnn, variability)]) }
    }

    @Test("a weight brings the index its scale found; a composition its fat, lean mass and weight, each once")
    func bodies() throws {
        func quantity(_ digits: Int64, _ exponent: Int16, _ unit: MeasurementUnit) -> Quantity {
            Quantity(ExactDecimal(significand: digits, exponent: exponent), unit)
        }
        let mass = VitalValue.Measured(.weight, quantity(70_500, -3, .kilograms))
        let fat = VitalValue.Measured(.bodyFat, quantity(225, -1, .percent))
        let height = VitalValue.Measured(.height, quantity(1750, -3, .metres))
        let weighed = try body(
            .weight, [mass, .init(.bodyMassIndex, quantity(230, -1, .kilogramsPerSquareMetre)), height])
        #expect(weighed.massIndex?.value.description == "23.0" && weighed.massIndex?.unit == .index)
        #expect(weighed.fatPercentage == nil && weighed.leanMass == nil)

        let alone = try body(.bodyComposition, [fat])
        #expect(alone.fatPercentage?.value.description == "22.5" && alone.fatPercentage?.source == .scale)
        #expect(alone.mass == nil && alone.leanMass == nil && alone.massIndex == nil)

        // 70.500 kg × 77.5 % = 54.6375 kg; 70.5 / 1.75² = 23.02.
        let whole = try body(.bodyComposition, [fat, mass, height])
        #expect(whole.mass?.value.description == "70.500")
        #expect(whole.leanMass?.value.description == "54.638")
        #expect(whole.leanMass?.metadata == ["derived_from": "weight,body_fat"])
        #expect(whole.massIndex?.value.description == "23.0")
        #expect(whole.massIndex?.metadata == ["derived_from": "weight,height"])
        let inches = VitalValue.Measured(.height, quantity(689, -1, .inches))
        #expect(try body(.bodyComposition, [fat, mass, inches]).massIndex?.value.description == "23.0")

        let measured = try body(
            .bodyComposition, [fat, .init(.fatFreeMass, quantity(54_400, -3, .kilograms)), mass],
            ownWeight: .sentByItself)
        #expect(measured.leanMass?.value.description == "54.400" && measured.mass == nil && measured.massIndex == nil)
        #expect(measured.leanMass?.metadata["measured_unit"] == "kg")
        let withheld = try body(.bodyComposition, [fat, mass, height], ownWeight: .withheld)
        #expect(withheld.fatPercentage != nil)
        #expect(withheld.mass == nil && withheld.leanMass == nil && withheld.massIndex == nil)
        let failed = try body(.bodyComposition, [fat, .init(.weight, quantity(327_675, -3, .kilograms)), height])
        #expect(failed.mass == nil && failed.leanMass == nil && failed.massIndex == nil)
        let soft = try body(.bodyComposition, [fat, .init(.softLeanMass, quantity(50_000, -3, .kilograms))])
        #expect(soft.leanMass == nil)
    }

    @Test("degrees Fahrenheit and pounds agree with Foundation's decimals for every step a device can show")
    func imperial() throws {
        for tenths in stride(from: Int64(560), through: 1170, by: 1) {
            let measured = ExactDecimal(significand: tenths, exponent: -1)
            let sample = try vital(.temperature, [.init(.temperature, Quantity(measured, .degreesFahrenheit))])
            #expect(
                Decimal(string: sample.value.description)
                    == Self.model(
                        ExactDecimal(significand: tenths - 320, exponent: -1), times: "1.8", dividing: true, places: 2))
            let weight = try body(.weight, [.init(.weight, Quantity(measured, .pounds))]).mass
            #expect(
                weight.flatMap { Decimal(string: $0.value.description) }
                    == Self.model(measured, times: "0.45359237", dividing: false, places: 3))
        }
    }

    @Test("what has no number, an unknown unit, or no time series at the server is no sample")
    func noVital() {
        for (kind, part, quantity) in [
            (.spo2, .saturation, Quantity(.notANumber, .percent)),
            (.temperature, .temperature, Quantity(ExactDecimal(significand: 310), .percent)),
            (.bodyComposition, .weight, Quantity(ExactDecimal(significand: 22), .kilograms)),
            (.heartRate, .heartRate, Quantity(ExactDecimal(significand: 72), .percent)),
        ] as [(ReadingKind, VitalValue.Part, Quantity)] {
            #expect(throws: ConversionError.self) { try vital(kind, [.init(part, quantity)]) }
        }
        #expect(throws: ConversionError.self) { try vital(.weight, []) }
    }

    @Test("a continuous sensor's glucose is automatic, whatever it samples")
    func continuous() throws {
        let reading = Self.reading(
            .glucose(
                GlucoseValue(
                    concentration: Quantity(ExactDecimal(significand: 95), .milligramsPerDecilitre),
                    sampleType: .interstitialFluid, continuous: ContinuousGlucoseFacts())))
        guard
            case .quantity(let sample) = try SampleConversion().sample(of: reading, provider: "manual", at: Self.time)
        else { return }
        #expect(sample.source == .automatic && sample.unit == .millimolesPerLitre)
    }

    @Test(
        "known values: 95 mg/dL is 5.2732 mmol/L, 5.5 mmol/L stays 5.5, 16.9 kPa is 126.76 mmHg, 127.0 keeps its digits"
    )
    func knownValues() throws {
        #expect(try glucose(ExactDecimal(significand: 95), .milligramsPerDecilitre).value.description == "5.2732")
        #expect(
            try glucose(ExactDecimal(significand: 55, exponent: -1), .millimolesPerLitre).value.description == "5.5")
        #expect(
            try glucose(ExactDecimal(significand: 123_455, exponent: -5), .millimolesPerLitre).value.description
                == "1.2346")
        #expect(
            try glucose(ExactDecimal(significand: 123_465, exponent: -5), .millimolesPerLitre).value.description
                == "1.2346")
        let value = BloodPressureValue(
            systolic: Quantity(ExactDecimal(significand: 169, exponent: -1), .kilopascal),
            diastolic: Quantity(ExactDecimal(significand: 105, exponent: -1), .kilopascal),
            meanArterial: Quantity(ExactDecimal(significand: 126, exponent: -1), .kilopascal),
            pulse: Quantity(ExactDecimal(significand: 690, exponent: -1), .beatsPerMinute))
        let sample = try pressure(value)
        #expect(sample.systolic.value.description == "126.76")
        #expect(sample.diastolic.value.description == "78.76")
        #expect(sample.pulse?.value.description == "69.0")
        #expect(
            sample.systolic.metadata == ["measured_value": "16.9", "measured_unit": "kPa", "measured_mean": "12.6"])
        #expect(sample.diastolic.metadata == ["measured_value": "10.5", "measured_unit": "kPa"])
        #expect(sample.pulse?.metadata == ["measured_value": "69.0", "measured_unit": "bpm"])
        #expect(sample.systolic.source == .cuff && sample.pulse?.source == .cuff)
    }

    @Test("a sample carries the reading's id, its second and how it was taken")
    func identity() throws {
        let sample = try glucose(ExactDecimal(significand: 95), .milligramsPerDecilitre)
        #expect(sample.id == "000000009f1c0c8e000000000000000a")
        #expect(sample.startDate == Self.time && sample.endDate == Self.time)
        #expect(sample.source == .fingerprick)
        #expect(sample.metadata == ["measured_value": "95", "measured_unit": "mg/dL"])
        let fluid = Self.reading(
            .glucose(
                GlucoseValue(
                    concentration: Quantity(ExactDecimal(significand: 95), .milligramsPerDecilitre),
                    sampleType: .interstitialFluid)))
        guard
            case .quantity(let scanned) = try SampleConversion().sample(
                of: fluid, provider: "freestyle_libre_ble", at: Self.time)
        else { return }
        #expect(scanned.source == .manualScan)
    }

    @Test("a manual provider's samples name brand and model; a moved second keeps the original time")
    func metadata() throws {
        var sensor = Record(
            value: .glucose(
                GlucoseValue(
                    concentration: Quantity(ExactDecimal(significand: 121, exponent: 0), .milligramsPerDecilitre),
                    sampleType: .interstitialFluid)))
        sensor.sensor = SensorFacts(
            source: .history, minute: 600, glucose: 1058, temperature: 6868, adjustment: -12, quality: 288, flags: 0,
            hasError: false, calibration: .factoryEstimate)
        let estimate = Reading(
            id: ReadingID(high: 1, low: 2), record: sensor,
            device: DeviceDescription(address: nil, provider: "freestyle_libre_ble"),
            time: ResolvedTime(instant: Self.time, basis: .sensorStart), receivedAt: Self.time)
        let sent = try SampleConversion().sample(of: estimate, provider: "freestyle_libre_ble", at: Self.time)
        guard case .quantity(let quantity) = sent else { throw ConversionError(reason: "no glucose") }
        #expect(quantity.source == .manualScan && quantity.value.description == "6.7164")
        #expect(
            quantity.metadata == [
                "calibration": "factory_estimate", "measured_value": "121", "measured_unit": "mg/dL",
            ])

        let value = RecordValue.glucose(
            GlucoseValue(concentration: Quantity(ExactDecimal(significand: 95), .milligramsPerDecilitre)))
        func metadata(_ device: DeviceDescription, _ provider: String, original: Instant? = nil) throws -> [String:
            String]
        {
            let conversion = SampleConversion { $0 == "and_ua651" ? ModelName(brand: "A&D", model: "UA-651BLE") : nil }
            guard
                case .quantity(let sample) = try conversion.sample(
                    of: Self.reading(value, device: device), provider: provider, at: Self.time, originalTime: original)
            else { return [:] }
            return sample.metadata.filter { !$0.key.hasPrefix("measured") }
        }
        let known = DeviceDescription(address: nil, model: "and_ua651", name: "A&D_UA-651BLE")
        let unknown = DeviceDescription(address: nil, name: "Meter 9")
        #expect(try metadata(known, "manual") == ["brand": "A&D", "model": "UA-651BLE"])
        #expect(try metadata(unknown, "manual") == ["model": "Meter 9"])
        #expect(try metadata(known, "omron_ble").isEmpty)
        #expect(
            try metadata(known, "omron_ble", original: Self.time.advanced(bySeconds: -1))
                == ["original_time": "2023-11-14T22:13:19Z"])
        #expect(try metadata(known, "omron_ble", original: Instant(microseconds: 1_700_000_000_250_000)).isEmpty)
    }

    @Test("promise 6: what is no number, no glucose or excluded is no sample")
    func refused() {
        let nan = Quantity(.notANumber, .millimetresOfMercury)
        let fine = Quantity(ExactDecimal(significand: 80), .millimetresOfMercury)
        for reading in [
            Self.reading(.glucose(GlucoseValue(concentration: nil))),
            Self.reading(.glucose(GlucoseValue(concentration: Quantity(.positiveInfinity, .milligramsPerDecilitre)))),
            Self.reading(.glucose(GlucoseValue(concentration: Quantity(ExactDecimal(significand: 5), .kilopascal)))),
            Self.reading(.bloodPressure(BloodPressureValue(systolic: nan, diastolic: fine, meanArterial: fine))),
            Self.reading(.bloodPressure(BloodPressureValue(systolic: fine, diastolic: nan, meanArterial: fine))),
            Self.reading(
                .bloodPressure(BloodPressureValue(systolic: fine, diastolic: fine, meanArterial: fine)),
                excluded: .controlSolution),
        ] {
            #expect(throws: ConversionError.self) {
                try SampleConversion().sample(of: reading, provider: "manual", at: Self.time)
            }
        }
    }

    @Test("a pulse that is no number leaves the pressures what they are")
    func pulse() throws {
        let fine = Quantity(ExactDecimal(significand: 80), .millimetresOfMercury)
        let sample = try pressure(
            BloodPressureValue(
                systolic: fine, diastolic: fine, meanArterial: Quantity(.notANumber, .millimetresOfMercury),
                pulse: Quantity(.notANumber, .beatsPerMinute)))
        #expect(sample.pulse == nil && sample.systolic.metadata["measured_mean"] == nil)
    }
}
