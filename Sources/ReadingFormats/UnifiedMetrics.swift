import HealthFigures
import HealthReadings

extension ReadingFormat {
    /// What a person's devices have measured last, in one document.
    public static let unifiedMetrics = ReadingFormat(name: "metrics", mediaType: "application/json")
}

/// Merges what a person's devices have measured last into one document: version 1 of Synheart's schema of metrics.
///
/// ```json
/// {"timestamp":"2026-11-22T07:15:00Z","device_id":"7d5e0c41b2a99f03","source":"omron_ble",
///  "metrics":{"hr":64,"systolic_mmhg":127,"diastolic_mmhg":79,"glucose_mg_dl":95},
///  "meta":{"battery":0.87,"synced":true,"schema_version":"1","max_age_seconds":86400,"measured":{"hr":{"timestamp":"…","device_id":"…","source":"omron_ble"},…}}}
/// ```
///
/// The newest reading gives the document its time, device and source. Each metric is the newest that is fresh enough, and
/// `meta.measured` says where it is from. What was not measured lately is left out. Numbers are in the units that the names say:
/// `hr` and pulses in beats a minute, variability in milliseconds, temperatures in °C, masses in kg, `stress` as a part of 1, and the
/// others as named.
///
/// `steps` and `stress` are of the newest day that a watch's vendor has summed up, as Garmin does in its dailies: the steps of that day
/// so far, and its average stress, 0 (none) to 1. Such a day counts as measured when it ends, or up to where it goes so far. A
/// phone's samples are not summed up: a phone and a watch count the same steps, and nothing tells which of them to leave out.
///
/// Source: synheart-wear, `schema/metrics.schema.json`; synheart-wear-swift, `GarminProvider`, for steps and stress. The schema
/// lets `metrics` and `meta` have further members. Of its own the document lacks `calories`: what another program says of these is
/// kept as it came (`KeptSample`). Intervals between beats are not in the schema.
public struct UnifiedMetrics: Sendable {
    /// What is known of a device beyond a reading.
    public struct DeviceFigures: Sendable, Hashable {
        /// An id that tells neither an address nor a serial number, and never changes.
        public var id: String
        /// Its battery, 0 … 100 per cent; `nil` if unknown.
        public var batteryPercent: UInt8?

        /// Makes the figures.
        public init(id: String, batteryPercent: UInt8?) {
            self.id = id
            self.batteryPercent = batteryPercent
        }
    }

    private struct Metric {
        var name: String
        var number: ExactDecimal
        var reading: Reading
        var instant: Instant
    }

    private var metrics: [Metric] = []
    private let earliest: Instant
    private let latest: Instant
    private let age: Int64

    /// Begins a document.
    ///
    /// - Parameters:
    ///   - now: what the gateway's clock shows.
    ///   - age: how old a value may be, in seconds.
    public init(at now: Instant, age: Int64 = 86_400) {
        self.age = age
        latest = now
        earliest = Instant(microseconds: now.microseconds - age * 1_000_000)
    }

    /// Whether nothing that was added is fresh enough.
    public var isEmpty: Bool { metrics.isEmpty }

    /// Adds what a reading says that is newer than what was added before.
    ///
    /// A reading that is excluded, has no time, is too old or from the future adds nothing, and nor does a value without a
    /// number.
    ///
    /// - Returns: whether the reading is fresh, and has a number of a metric.
    @discardableResult
    public mutating func add(_ reading: Reading) -> Bool {
        guard reading.excluded == nil, let instant = moment(of: reading), instant >= earliest, instant <= latest else {
            return false
        }
        let numbers = Self.numbers(of: reading)
        for (name, number) in numbers {
            let metric = Metric(name: name, number: number, reading: reading, instant: instant)
            if let place = metrics.firstIndex(where: { $0.name == name }) {
                if metrics[place].instant < instant { metrics[place] = metric }
            } else {
                metrics.append(metric)
            }
        }
        return !numbers.isEmpty
    }

    /// When a reading was measured; of a day that was summed up, when it ended, or up to where it goes so far.
    private func moment(of reading: Reading) -> Instant? {
        guard let begin = reading.time.instant else { return nil }
        guard reading.summedDay != nil, let end = reading.record.imported?.end, end >= begin, end <= latest else {
            return begin
        }
        return end
    }

    /// The document; `nil` if nothing that was added is fresh enough.
    ///
    /// - Parameter figures: what is known of a reading's device.
    public func document(_ figures: (DeviceDescription) -> DeviceFigures) -> JSONValue? {
        guard let newest = metrics.max(by: { $0.instant < $1.instant }) else { return nil }
        let device = figures(newest.reading.device)
        var meta: [JSONValue.Member] = []
        if let percent = device.batteryPercent {
            meta.append(.init("battery", .number(ExactDecimal(significand: Int64(percent), exponent: -2))))
        }
        let waits = metrics.contains {
            $0.reading.deliveries.contains { $0.state == .waiting || $0.state == .handedOver }
        }
        meta += [
            .init("synced", .bool(!waits)), .init("schema_version", "1"), .init("max_age_seconds", .integer(age)),
            .init(
                "measured",
                .object(
                    metrics.map { metric in
                        .init(
                            metric.name,
                            .object([
                                "timestamp": .string(metric.instant.description),
                                "device_id": .string(figures(metric.reading.device).id),
                                "source": .string(metric.reading.device.provider),
                            ]))
                    })),
        ]
        return .object([
            .init("timestamp", .string(newest.instant.description)), .init("device_id", .string(device.id)),
            .init("source", .string(newest.reading.device.provider)),
            .init("metrics", .object(metrics.map { .init($0.name, .number($0.number)) })),
            .init("meta", .object(meta)),
        ])
    }

    // MARK: Numbers

    private static func numbers(of reading: Reading) -> [(name: String, number: ExactDecimal)] {
        func number(
            _ name: String, _ quantity: Quantity?, _ unit: MeasurementUnit, _ places: Int16
        ) -> (name: String, number: ExactDecimal)? {
            quantity?.number(in: unit, places: places).map { (name, $0) }
        }
        let pressure = ConversionFactor.pressurePlaces
        switch reading.record.value {
        case .glucose(let glucose):
            return [number("glucose_mg_dl", glucose.concentration, .milligramsPerDecilitre, pressure)]
                .compactMap(\.self)
        case .bloodPressure(let value):
            return [
                number("systolic_mmhg", value.systolic, .millimetresOfMercury, pressure),
                number("diastolic_mmhg", value.diastolic, .millimetresOfMercury, pressure),
                number("mean_arterial_mmhg", value.meanArterial, .millimetresOfMercury, pressure),
                number("hr", value.pulse, .beatsPerMinute, pressure),
            ].compactMap(\.self)
        case .vital(let vital):
            return VitalValue.Part.allCases.compactMap { part in
                named(part).flatMap { number($0.name, vital[part], $0.unit, $0.places) }
            }
        case .kept:
            guard let day = reading.summedDay else { return [] }
            var numbers = [(name: "steps", number: day.value)]
            if let stress = stress(of: day) { numbers.append((name: "stress", number: stress)) }
            return numbers
        }
    }

    /// The average of a day, 0 … 100, as a part of 1. Garmin writes a negative number where it has none.
    private static func stress(of day: KeptSample) -> ExactDecimal? {
        guard let level = day.metadata["averageStressLevel"].flatMap({ ExactDecimal($0) }), !level.isNegative,
            !ExactDecimal(significand: 100).isNumericallyLess(than: level)
        else { return nil }
        return level.scaled(byPowerOfTen: -2)
    }

    /// Nil for what is no metric of its own.
    private static func named(_ part: VitalValue.Part) -> (name: String, unit: MeasurementUnit, places: Int16)? {
        let (vital, mass) = (ConversionFactor.vitalPlaces, ConversionFactor.weightPlaces)
        return switch part {
        case .heartRate, .pulse: ("hr", .beatsPerMinute, vital)
        case .rmssd: ("hrv_rmssd", .milliseconds, vital)
        case .sdnn: ("hrv_sdnn", .milliseconds, vital)
        case .saturation: ("spo2_percent", .percent, vital)
        case .temperature: ("temperature_c", .degreesCelsius, vital)
        case .weight: ("weight_kg", .kilograms, mass)
        case .bodyFat: ("body_fat_percent", .percent, vital)
        case .bodyMassIndex, .height, .basalMetabolism, .musclePercentage, .muscleMass, .fatFreeMass, .softLeanMass,
            .bodyWaterMass, .impedance:
            nil
        }
    }
}

extension Reading {
    /// The day with its steps that a watch's vendor has summed up; `nil` for every other reading.
    fileprivate var summedDay: KeptSample? {
        guard case .kept(let sample) = record.value, device.provider == "garmin", sample.type == "dailies",
            sample.unit == "count", !sample.value.isNegative
        else { return nil }
        return sample
    }
}

extension ExactDecimal {
    fileprivate var isNegative: Bool { significand < 0 }
}
