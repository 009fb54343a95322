import HealthReadings

/// Makes readings of a phone's samples.
///
/// What the gateway understands becomes a reading of its kind: heart rate, variability, blood pressure, oxygen saturation,
/// temperature, weight, body fat and glucose. Everything else is kept as it came: as activity, as sleep, or as other. A sample
/// whose unit or value is not as HealthKit writes it is kept as other, too: nothing is guessed.
///
/// Give it pages as they come, newest first, and end it with ``finish()``: the two samples of a blood pressure may come in two
/// pages.
public struct PhoneSampleImport: Sendable {
    /// The slug of the data's provider.
    public static let provider = "apple_health_kit"

    /// The client's id of the person whose samples they are.
    public let person: String
    /// How many blood pressures were put together of two samples.
    public private(set) var joined = 0
    /// How many samples of blood pressures were kept by themselves, because what belongs to them can't be told.
    public private(set) var unpaired = 0

    /// Pressures whose other half may still come.
    private var pressures: [Measurement: [HealthSyncSample]] = [:]

    /// What two samples of one blood pressure share.
    private enum Measurement: Hashable {
        case correlation(String)
        /// The app sends no correlation: both samples have the times and the source of the measurement.
        case moment(start: Instant, end: Instant, source: String)

        init(_ sample: HealthSyncSample) {
            self =
                sample.metadata("correlationId").map(Measurement.correlation)
                ?? .moment(start: sample.start, end: sample.end, source: sample.sourceName)
        }
    }

    /// Begins an import.
    public init(person: String) { self.person = person }

    /// Makes readings of a page.
    ///
    /// - Returns: what can be stored now; a pressure whose other half may come with the next page is not among it.
    public mutating func take(_ samples: [HealthSyncSample]) -> [ImportedSample] {
        var made: [ImportedSample] = []
        made.reserveCapacity(samples.count)
        for sample in samples {
            if Self.pressureTypes.contains(sample.type) {
                pressures[Measurement(sample), default: []].append(sample)
            } else {
                made.append(imported(sample))
            }
        }
        guard !pressures.isEmpty, let oldest = samples.last?.start.flooredToSecond else { return made }
        // What begins in the last second of this page may have its other half in the next one.
        return made + settle { $0.contains { $0.start.flooredToSecond > oldest } }
    }

    /// Makes readings of the pressures that are left.
    public mutating func finish() -> [ImportedSample] { settle { _ in true } }

    private static let pressureTypes: Set<String> = ["bloodPressureSystolic", "bloodPressureDiastolic"]

    private mutating func settle(_ isWhole: ([HealthSyncSample]) -> Bool) -> [ImportedSample] {
        let whole = pressures.filter { isWhole($0.value) }
        var made: [ImportedSample] = []
        for (measurement, samples) in whole {
            pressures[measurement] = nil
            if let pressure = pressure(samples) {
                joined += 1
                made.append(pressure)
            } else {
                unpaired += samples.count
                made += samples.map { kept($0, .other) }
            }
        }
        return made
    }

    /// The measurement that two samples are the halves of; `nil` if these are not one systolic and one diastolic pressure.
    private func pressure(_ samples: [HealthSyncSample]) -> ImportedSample? {
        guard samples.count == 2, samples.allSatisfy({ $0.unit == "mmHg" }),
            let systolic = samples.first(where: { $0.type == "bloodPressureSystolic" }),
            let diastolic = samples.first(where: { $0.type == "bloodPressureDiastolic" }),
            systolic.start == diastolic.start
        else { return nil }
        let value = BloodPressureValue(
            systolic: Quantity(systolic.value, .millimetresOfMercury),
            diastolic: Quantity(diastolic.value, .millimetresOfMercury),
            meanArterial: Quantity(.notANumber, .millimetresOfMercury), pulse: nil)
        return imported(systolic, .bloodPressure(value), originals: [systolic, diastolic])
    }

    private func imported(_ sample: HealthSyncSample) -> ImportedSample {
        if let value = Self.value(of: sample) { return imported(sample, value, originals: [sample]) }
        if sample.type == "sleepAnalysis" || HealthSyncType.sleepStages.contains(sample.type) {
            return kept(sample, .sleep)
        }
        return kept(sample, Self.activities.contains(sample.type) ? .activity : .other)
    }

    private func kept(_ sample: HealthSyncSample, _ kind: ReadingKind) -> ImportedSample {
        // A stage comes under sleepAnalysis, too: it is the same sample.
        let type = kind == .sleep ? "sleepAnalysis" : sample.type
        let metadata = Dictionary(sample.metadata.map { ($0.key, $0.value) }) { first, _ in first }
        let value = KeptSample(kind: kind, type: type, value: sample.value, unit: sample.unit, metadata: metadata)
        return imported(sample, .kept(value), originals: [sample])
    }

    private func imported(
        _ sample: HealthSyncSample, _ value: RecordValue, originals: [HealthSyncSample]
    ) -> ImportedSample {
        ImportedSample(
            person: person, provider: Self.provider, source: sample.sourceName, value: value,
            time: ImportedTime(sample.start, utcOffsetMinutes: 0), end: sample.end,
            originals: originals.map { String(decoding: $0.json, as: UTF8.self) })
    }

    /// The types of what a person does in a day.
    private static let activities: Set<String> = [
        "steps", "distanceWalkingRunning", "distanceCycling", "distanceSwimming", "distanceDownhillSnowSports",
        "distanceWheelchair", "activeEnergyBurned", "basalEnergyBurned", "exerciseTime", "standHours", "appleMoveTime",
        "appleStandHour", "flightsClimbed", "swimmingStrokeCount", "pushCount", "workouts",
    ]

    /// The value that the gateway understands; `nil` for every other type, unit and range.
    static func value(of sample: HealthSyncSample) -> RecordValue? {
        func vital(_ kind: ReadingKind, _ part: VitalValue.Part, _ value: ExactDecimal, _ unit: MeasurementUnit)
            -> RecordValue
        {
            .vital(VitalValue(kind: kind, [.init(part, Quantity(value, unit))]))
        }
        switch (sample.type, sample.unit) {
        case ("heartRate", "count/min"): return vital(.heartRate, .heartRate, sample.value, .beatsPerMinute)
        case ("heartRateVariability", "s"):
            // HealthKit's is the standard deviation (SDNN).
            return vital(.hrv, .sdnn, sample.value.scaled(byPowerOfTen: 3).plain, .milliseconds)
        case ("heartRateVariability", "ms"): return vital(.hrv, .sdnn, sample.value, .milliseconds)
        case ("bloodOxygen", "%"): return percent(sample.value).map { vital(.spo2, .saturation, $0, .percent) }
        case ("bodyFatPercentage", "%"):
            return percent(sample.value).map { vital(.bodyComposition, .bodyFat, $0, .percent) }
        case ("bodyTemperature", "degC"): return vital(.temperature, .temperature, sample.value, .degreesCelsius)
        case ("weight", "kg"): return vital(.weight, .weight, sample.value, .kilograms)
        case ("bloodGlucose", "mg/dL"):
            return .glucose(GlucoseValue(concentration: Quantity(sample.value, .milligramsPerDecilitre)))
        default: return nil
        }
    }

    /// HealthKit's fraction of 1 as per cent; `nil` for what can be none: nobody knows what 97 means there.
    private static func percent(_ fraction: ExactDecimal) -> ExactDecimal? {
        guard let number = Double(fraction.description), (0...1).contains(number) else { return nil }
        return fraction.scaled(byPowerOfTen: 2).plain
    }
}

extension ExactDecimal {
    /// The number without a positive exponent, which would stand for fewer digits than there are.
    fileprivate var plain: ExactDecimal {
        guard exponent > 0 else { return self }
        return multiplied(by: ExactDecimal(significand: 1), places: 0) ?? self
    }
}
