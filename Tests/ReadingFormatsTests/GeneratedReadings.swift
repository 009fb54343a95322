import HealthReadings
import TestSupport

/// Any reading: each kind, with values that devices send and with values that none does.
struct GeneratedReadings {
    private var random: SeededGenerator

    init(seed: UInt64) { random = SeededGenerator(seed: seed) }

    mutating func reading() -> Reading {
        let kind = ReadingKind.allCases.randomElement(using: &random) ?? .glucose
        let seconds = Int64.random(in: 1_262_304_000...4_000_000_000, using: &random)
        let time = Instant(
            microseconds: seconds * 1_000_000 + (chance(4) ? Int64.random(in: 0..<1_000_000, using: &random) : 0))
        let basis = TimeBasis.allCases.randomElement(using: &random) ?? .unknown
        let hasClock = basis == .corrected
        return Reading(
            id: ReadingID(high: random.next(), low: random.next()),
            record: Record(
                value: value(of: kind), sequence: chance(2) ? UInt16.random(in: 0...UInt16.max, using: &random) : nil,
                baseTime: chance(4) ? nil : WallTime(secondsSinceEpoch: seconds + 3600),
                timeOffsetMinutes: chance(3) ? Int16.random(in: -1439...1439, using: &random) : nil,
                status: ReadingStatus(rawValue: chance(2) ? UInt32.random(in: 0...UInt32.max, using: &random) : 0),
                userSlot: chance(3) ? UInt8.random(in: 0...254, using: &random) : nil,
                sensor: kind == .glucose && chance(6) ? sensor() : nil),
            context: kind == .glucose && chance(2) ? context() : nil, device: device(),
            time: ResolvedTime(
                instant: chance(20) ? nil : time, basis: basis, uncertaintyMinutes: chance(5) ? 60 : nil,
                clock: hasClock
                    ? ClockComparison(
                        differenceSeconds: Int64.random(in: -100_000...100_000, using: &random), readAt: time) : nil),
            excluded: chance(8) ? Exclusion.allCases.randomElement(using: &random) : nil, receivedAt: time)
    }

    private mutating func chance(_ oneIn: Int) -> Bool { Int.random(in: 0..<oneIn, using: &random) == 0 }

    private mutating func device() -> DeviceDescription {
        DeviceDescription(
            address: chance(5)
                ? nil
                : DeviceAddress(bits: random.next(), kind: chance(2) ? .public : .random),
            model: chance(3) ? nil : "accuchek_guide", serial: chance(2) ? nil : "\"äß\\ \u{1F9EA}\n4711",
            name: chance(2) ? nil : "meter+123")
    }

    private mutating func sensor() -> SensorFacts {
        SensorFacts(
            source: chance(2) ? .trend : .history, minute: 77, glucose: 1000, temperature: 5000, adjustment: -5,
            quality: 0,
            flags: 0, hasError: false, calibration: chance(2) ? .none : .factoryEstimate)
    }

    private mutating func context() -> GlucoseContext {
        var context = GlucoseContext()
        context.meal = ["preprandial", "postprandial", "fasting", "casual", "bedtime", "reserved"].randomElement(
            using: &random)
        context.tester = chance(2) ? nil : "self"
        context.health = chance(2) ? nil : ["under_stress", "not_available", "reserved"].randomElement(using: &random)
        if chance(2) {
            context.carbohydrate = .init(id: chance(5) ? "reserved" : "lunch", amount: quantity(.grams, 0...90))
        }
        if chance(2) {
            context.medication = .init(
                id: "rapid_acting_insulin", amount: quantity(chance(2) ? .milligrams : .millilitres, 0...20))
        }
        if chance(2) {
            context.exercise = .init(
                seconds: chance(2) ? nil : 600, intensityPercent: UInt8.random(in: 0...255, using: &random))
        }
        context.hba1c = chance(2) ? nil : quantity(.percent, 4...12)
        return context
    }

    private mutating func value(of kind: ReadingKind) -> RecordValue {
        switch kind {
        case .glucose:
            let isMolar = chance(2)
            return .glucose(
                GlucoseValue(
                    concentration: chance(10)
                        ? nil
                        : isMolar ? quantity(.millimolesPerLitre, 2...20) : quantity(.milligramsPerDecilitre, 20...500),
                    sampleType: chance(6) ? nil : GlucoseSampleType.allCases.randomElement(using: &random),
                    sampleLocation: GlucoseSampleLocation.allCases.randomElement(using: &random),
                    continuous: chance(5)
                        ? ContinuousGlucoseFacts(
                            trend: quantity(.milligramsPerDecilitrePerMinute, -3...3),
                            quality: quantity(.percent, 0...100))
                        : nil))
        case .bloodPressure:
            let unit: MeasurementUnit = chance(4) ? .kilopascal : .millimetresOfMercury
            let range: ClosedRange<Int64> = unit == .kilopascal ? 5...30 : 40...250
            return .bloodPressure(
                BloodPressureValue(
                    systolic: quantity(unit, range), diastolic: quantity(unit, range),
                    meanArterial: quantity(unit, range),
                    pulse: chance(4) ? nil : quantity(.beatsPerMinute, 40...180)))
        case .heartRate:
            return vital(kind, [(.heartRate, .beatsPerMinute, 40...180)])
        case .hrv:
            return vital(kind, [(.rmssd, .milliseconds, 10...90), (.sdnn, .milliseconds, 10...90)])
        case .spo2:
            return vital(kind, [(.saturation, .percent, 70...100), (.pulse, .beatsPerMinute, 40...180)])
        case .temperature:
            let isFahrenheit = chance(3)
            return vital(
                kind,
                [
                    (
                        .temperature, isFahrenheit ? .degreesFahrenheit : .degreesCelsius,
                        isFahrenheit ? 95...105 : 35...42
                    )
                ],
                site: ["ear", "mouth", "reserved", nil].randomElement(using: &random) ?? nil)
        case .weight:
            let isImperial = chance(3)
            return vital(
                kind,
                [
                    (.weight, isImperial ? .pounds : .kilograms, 40...200),
                    (.bodyMassIndex, .kilogramsPerSquareMetre, 0...40),
                    (.height, isImperial ? .inches : .metres, isImperial ? 40...80 : 1...2),
                ])
        case .bodyComposition:
            return vital(
                kind,
                [
                    (.bodyFat, .percent, 5...60), (.basalMetabolism, .kilojoules, 4000...9000),
                    (.musclePercentage, .percent, 10...60), (.muscleMass, .kilograms, 10...60),
                    (.fatFreeMass, .kilograms, 30...80), (.softLeanMass, .kilograms, 30...80),
                    (.bodyWaterMass, .kilograms, 20...60), (.impedance, .ohms, 0...900),
                    (.weight, .kilograms, 40...120),
                    (.height, .metres, 1...2),
                ])
        case .activity, .sleep, .other:
            return .kept(
                KeptSample(
                    kind: kind, type: chance(2) ? "steps" : "a \"b\", ü",
                    value: ExactDecimal(
                        significand: Int64.random(in: -9999...9999, using: &random),
                        exponent: Int16.random(in: -12...3, using: &random)),
                    unit: chance(2) ? "count" : "mL/min·kg", metadata: chance(2) ? [:] : ["b": "1\n", "a": "é"]))
        }
    }

    private mutating func vital(
        _ kind: ReadingKind, _ parts: [(VitalValue.Part, MeasurementUnit, ClosedRange<Int64>)], site: String? = nil
    ) -> RecordValue {
        var quantities: [VitalValue.Measured] = []
        for (part, unit, range) in parts { quantities.append(.init(part, quantity(unit, range))) }
        return .vital(
            VitalValue(
                kind: kind, quantities, site: site,
                intervals: kind == .heartRate ? [ExactDecimal(significand: 83_105, exponent: -2)] : [],
                hasContact: kind == .heartRate ? true : nil, windowSeconds: kind == .hrv ? 60 : nil))
    }

    /// A number of a range with up to three decimal places; now and then one of the special values.
    private mutating func quantity(_ unit: MeasurementUnit, _ range: ClosedRange<Int64>) -> Quantity {
        if chance(8) {
            let specials: [MeasuredNumber] = [
                .notANumber, .notAtThisResolution, .positiveInfinity, .negativeInfinity, .reserved,
                .implausible(ExactDecimal(significand: 9999)),
            ]
            return Quantity(specials.randomElement(using: &random) ?? .notANumber, unit)
        }
        let places = Int16.random(in: 0...3, using: &random)
        let scale = (0..<places).reduce(1 as Int64) { power, _ in power * 10 }
        let number = Int64.random(in: (range.lowerBound * scale)...(range.upperBound * scale), using: &random)
        return Quantity(ExactDecimal(significand: number, exponent: -places), unit)
    }
}
