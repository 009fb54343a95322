import HealthReadings

/// What a person's devices measured on one day: averages, extremes, and the values they are made of.
///
/// A summary takes the readings of the day in any order, and gives the same figures whatever the order. Excluded readings are counted
/// and not used. A number that can't be a person's (`MeasuredNumber.implausible`) is not used either.
public struct DaySummary: Sendable {
    /// A quantity that is averaged over the day, in one unit whatever its device measured in.
    public enum Part: String, Sendable, Hashable, CaseIterable {
        /// Blood pressures, in mmHg.
        case systolic, diastolic, meanArterial
        /// A meter's glucose, in mg/dL.
        case glucose
        /// A sensor's glucose in the interstitial fluid, in mg/dL. It is not averaged with what meters measure in blood: a day has
        /// hundreds of the one and a few of the other. ``SensorPace`` tells a sensor that another program doesn't name.
        case sensorGlucose
        /// Heart rates of straps, cuffs and oximeters, in beats per minute.
        case heartRate
        /// Heart-rate variability, in milliseconds.
        case rmssd, sdnn
        /// Oxygen saturations, in per cent.
        case saturation
        /// Body temperatures, in °C.
        case temperature

        /// The unit of the numbers.
        public var unit: MeasurementUnit {
            switch self {
            case .systolic, .diastolic, .meanArterial: .millimetresOfMercury
            case .glucose, .sensorGlucose: .milligramsPerDecilitre
            case .heartRate: .beatsPerMinute
            case .rmssd, .sdnn: .milliseconds
            case .saturation: .percent
            case .temperature: .degreesCelsius
            }
        }

        /// The decimal places of a mean.
        public var meanPlaces: Int16 { self == .temperature ? 2 : 1 }

        /// The decimal places of a number that had to be converted.
        fileprivate var places: Int16 { 2 }
    }

    /// One measured value.
    public struct Sample: Sendable, Hashable {
        /// When it was measured.
        public var time: Instant
        /// The reading it is from.
        public var reading: ReadingID
        /// The number, in the part's unit.
        public var value: ExactDecimal
    }

    /// Figures of a quantity over the day.
    public struct Figures: Sendable, Hashable {
        /// How many values they are of: 1 or more.
        public var count: Int
        /// The mean, rounded half to even at ``Part/meanPlaces``. Of a sensor each value counts by the time between two of its values.
        public var mean: ExactDecimal
        /// The lowest value.
        public var minimum: ExactDecimal
        /// The highest value.
        public var maximum: ExactDecimal
    }

    /// A quantity that changes slowly, such as a weight: the newest value of the day counts.
    public struct Latest: Sendable, Hashable {
        /// When it was measured.
        public var time: Instant
        /// The reading it is from.
        public var reading: ReadingID
        /// How much, in the device's own unit.
        public var quantity: Quantity
    }

    /// The day, in the person's zone.
    public let day: PersonDay
    /// How many readings the figures are made of.
    public private(set) var readings = 0
    /// How many readings of the day are excluded.
    public private(set) var excluded = 0
    /// The devices whose readings the figures are made of, the first by name first.
    public var devices: [DeviceDescription] {
        known.sorted { Self.key(of: $0).lexicographicallyPrecedes(Self.key(of: $1)) }
    }

    private var known: Set<DeviceDescription> = []
    private var samples: [Part: [Sample]] = [:]
    /// Values of meters and of sensors, in mg/dL: which is which may only be seen of all of them.
    private var glucose: [GlucosePoint] = []
    private var newest: [VitalValue.Part: Latest] = [:]

    /// Makes the summary of a day without readings.
    public init(_ day: PersonDay) { self.day = day }

    /// Adds a reading. Each reading is to be added once.
    ///
    /// A recording that began on an earlier day counts with the samples that it has on this one.
    ///
    /// - Parameter reading: the reading.
    /// - Returns: `false` for a reading that has nothing on this day, or no time; the summary is as it was.
    @discardableResult
    public mutating func add(_ reading: Reading) -> Bool {
        guard let time = reading.time.instant else { return false }
        let isOwn = day.contains(time)
        guard isOwn || reading.goesOn(into: day) else { return false }
        guard reading.excluded == nil else {
            if isOwn { excluded += 1 }
            return isOwn
        }
        readings += 1
        known.insert(reading.device)
        guard isOwn else {
            if case .vital(let vital) = reading.record.value {
                addSamples(vital.kind == .spo2 ? .saturation : .heartRate, vital, of: reading, at: time)
            }
            return true
        }
        func add(_ part: Part, _ quantity: Quantity?) {
            guard let value = quantity?.number(in: part.unit, places: part.places) else { return }
            samples[part, default: []].append(Sample(time: time, reading: reading.id, value: value))
        }
        switch reading.record.value {
        case .glucose(let value):
            let part = Part.glucose
            if let number = value.concentration?.number(in: part.unit, places: part.places),
                let point = GlucosePoint(reading, number: number, unit: part.unit)
            {
                glucose.append(point)
            }
        case .bloodPressure(let pressures):
            add(.systolic, pressures.systolic)
            add(.diastolic, pressures.diastolic)
            add(.meanArterial, pressures.meanArterial)
            add(.heartRate, pressures.pulse)
        case .vital(let vital):
            switch vital.kind {
            case .heartRate: addSamples(.heartRate, vital, of: reading, at: time)
            case .hrv:
                add(.rmssd, vital[.rmssd])
                add(.sdnn, vital[.sdnn])
            case .spo2:
                addSamples(.saturation, vital, of: reading, at: time)
                add(.heartRate, vital[.pulse])
            case .temperature: add(.temperature, vital.main)
            case .weight, .bodyComposition: keep(vital, of: reading, at: time)
            case .glucose, .bloodPressure, .activity, .sleep, .other: break
            }
        case .kept: break
        }
        return true
    }

    /// Adds the samples of a recording, or the value of a single measurement.
    private mutating func addSamples(_ part: Part, _ vital: VitalValue, of reading: Reading, at time: Instant) {
        guard let series = vital.series, let unit = vital.main?.unit else {
            guard let value = vital.main?.number(in: part.unit, places: part.places) else { return }
            return samples[part, default: []].append(Sample(time: time, reading: reading.id, value: value))
        }
        for sample in series {
            let instant = Instant(microseconds: time.microseconds + Int64(sample.milliseconds) * 1000)
            // A recording may go on over midnight.
            guard day.contains(instant),
                let value = sample.value.flatMap({ Quantity($0, unit).number(in: part.unit, places: part.places) })
            else { continue }
            samples[part, default: []].append(Sample(time: instant, reading: reading.id, value: value))
        }
    }

    /// The values of a quantity by (time, id); empty if it was not measured.
    public func samples(of part: Part) -> [Sample] {
        values(of: part).sorted { ($0.time, $0.reading) < ($1.time, $1.reading) }
    }

    /// The values that the figures of a quantity are of, in any order: all samples, but of a sensor only those that count in reports,
    /// so that the values a minute that a scan gives weigh no more than those every quarter of an hour.
    public func counted(of part: Part) -> [Sample] {
        part == .sensorGlucose ? DayGlucose(glucose).counted.compactMap { Sample($0) } : values(of: part)
    }

    private func values(of part: Part) -> [Sample] {
        switch part {
        case .glucose: DayGlucose(glucose).blood.compactMap { Sample($0) }
        case .sensorGlucose: DayGlucose(glucose).sensor.compactMap { Sample($0) }
        default: samples[part] ?? []
        }
    }

    /// The figures of a quantity; `nil` if it was not measured. They are of the values that ``counted(of:)`` gives.
    public func figures(of part: Part) -> Figures? {
        let values = counted(of: part)
        let mean =
            part == .sensorGlucose
            ? DayGlucose(glucose).mean(places: part.meanPlaces)
            : ExactDecimal.mean(of: values.map(\.value), places: part.meanPlaces)
        guard var lowest = values.first?.value, let mean else { return nil }
        var highest = lowest
        for sample in values.dropFirst() {
            if sample.value.isNumericallyLess(than: lowest) { lowest = sample.value }
            if highest.isNumericallyLess(than: sample.value) { highest = sample.value }
        }
        return Figures(count: values.count, mean: mean, minimum: lowest, maximum: highest)
    }

    /// The mean of what meters and sensors measured of glucose, in mg/dL, for receivers that have one average for both:
    /// ``DayGlucose/mean(places:withBlood:)``; `nil` if nothing was.
    ///
    /// - Parameter places: its decimal places, 0 … 9.
    public func glucoseMean(places: Int16) -> ExactDecimal? {
        DayGlucose(glucose).mean(places: places, withBlood: true)
    }

    /// The newest value of the day of a quantity that scales measure; `nil` if none did.
    public func latest(_ part: VitalValue.Part) -> Latest? { newest[part] }

    private static func key(of device: DeviceDescription) -> [String] {
        [
            device.model ?? "", device.name ?? "", device.serial ?? "", device.address?.description ?? "",
            device.provider,
        ]
    }

    private mutating func keep(_ vital: VitalValue, of reading: Reading, at time: Instant) {
        for measured in vital.quantities where measured.quantity.number.number != nil {
            if let kept = newest[measured.part], (kept.time, kept.reading) >= (time, reading.id) { continue }
            newest[measured.part] = Latest(time: time, reading: reading.id, quantity: measured.quantity)
        }
    }
}

extension DaySummary.Sample {
    /// A value with a number; `nil` for another.
    fileprivate init?(_ point: GlucosePoint) {
        guard let number = point.number else { return nil }
        self.init(time: point.time, reading: point.reading, value: number)
    }
}

extension ReadingKind {
    /// The kinds that recordings are of: a strap's heart rate, an oximeter's oxygen saturation.
    public static let recorded: Set<ReadingKind> = [.heartRate, .spo2]
}

extension Reading {
    /// The longest that a recording goes on, in seconds: an oximeter's night.
    public static let longestRecording: Int64 = 65_536

    /// Whether the reading is a recording that began before a day and has a sample with a value on it.
    public func goesOn(into day: PersonDay) -> Bool {
        guard let time = time.instant, time < day.start, case .vital(let vital) = record.value,
            ReadingKind.recorded.contains(kind), let series = vital.series
        else { return false }
        return series.contains { sample in
            sample.value != nil
                && day.contains(Instant(microseconds: time.microseconds + Int64(sample.milliseconds) * 1000))
        }
    }

    /// The days that the reading has samples on, after the one of its time.
    ///
    /// - Parameter zones: the zones of the person.
    public func laterDays(in zones: ZoneHistory) -> [PersonDay] {
        guard let time = time.instant, case .vital(let vital) = record.value,
            let last = vital.series.flatMap({ series in series.map(\.milliseconds).max() })
        else { return [] }
        var days: [PersonDay] = []
        var day = zones.day(of: time)
        let end = Instant(microseconds: time.microseconds + Int64(last) * 1000)
        while day.end <= end, day.end > day.start {
            day = zones.day(of: day.end)
            if goesOn(into: day) { days.append(day) }
        }
        return days
    }
}

extension DaySummary {
    /// The summary as `summary body` prints it, every key always there, null for what was not measured.
    ///
    /// - Parameters:
    ///   - person: the client's id of the person.
    ///   - now: the gateway's time: a day that it lies in or before is not `complete`.
    ///   - showsSamples: whether the values are listed that the figures are made of.
    public func document(person: String, now: Instant, showsSamples: Bool) -> JSONValue {
        .object([
            "date": .string(day.date), "person": .string(person),
            "time_zone": .optional(day.zone(at: day.end)?.name), "start": .string(day.start.description),
            "end": .string(day.end.description), "seconds": .integer(day.seconds), "complete": .bool(day.end <= now),
            "readings": .integer(Int64(readings)), "excluded": .integer(Int64(excluded)),
            "blood_pressure": several(
                [("systolic", .systolic), ("diastolic", .diastolic), ("mean", .meanArterial)], showsSamples),
            "glucose": one(.glucose, showsSamples),
            "sensor_glucose": one(.sensorGlucose, showsSamples), "heart_rate": one(.heartRate, showsSamples),
            "hrv": several([("rmssd", .rmssd), ("sdnn", .sdnn)], showsSamples), "spo2": one(.saturation, showsSamples),
            "temperature": one(.temperature, showsSamples),
            "body_metrics": .object(VitalValue.Part.bodyMetrics.map { .init($0.name, metric($0)) }),
        ])
    }

    private func one(_ part: Part, _ showsSamples: Bool) -> JSONValue {
        guard case .object(var members) = document(of: part) else { return .null }
        members.append(.init("samples", showsSamples ? list(samples(of: part).map { [("value", $0)] }) : .null))
        return .object(members)
    }

    /// Quantities that a reading has together, with their samples once for all.
    private func several(_ parts: [(String, Part)], _ showsSamples: Bool) -> JSONValue {
        guard parts.contains(where: { samples[$0.1] != nil }) else { return .null }
        return .object(
            parts.map { .init($0.0, document(of: $0.1)) } + [
                .init("samples", showsSamples ? list(joined(parts)) : .null)
            ])
    }

    private func document(of part: Part) -> JSONValue {
        guard let figures = figures(of: part) else { return .null }
        return .object([
            "count": .integer(Int64(figures.count)), "average": .number(figures.mean),
            "minimum": .number(figures.minimum),
            "maximum": .number(figures.maximum), "unit": .string(part.unit.symbol),
        ])
    }

    /// The samples of several parts, those of one reading together.
    private func joined(_ parts: [(String, Part)]) -> [[(String, Sample)]] {
        var byReading: [ReadingID: [(String, Sample)]] = [:]
        for (name, part) in parts {
            for sample in samples(of: part) { byReading[sample.reading, default: []].append((name, sample)) }
        }
        return byReading.values.sorted { ($0[0].1.time, $0[0].1.reading) < ($1[0].1.time, $1[0].1.reading) }
    }

    private func list(_ samples: [[(String, Sample)]]) -> JSONValue {
        .array(
            samples.map { values in
                .object(
                    [
                        .init("time", .string(values[0].1.time.description)),
                        .init("reading", .string(values[0].1.reading.description)),
                    ] + values.map { .init($0.0, .number($0.1.value)) })
            })
    }

    private func metric(_ part: VitalValue.Part) -> JSONValue {
        guard let latest = latest(part), let number = latest.quantity.number.number else { return .null }
        return .object([
            "value": .number(number), "unit": .string(latest.quantity.unit.symbol),
            "time": .string(latest.time.description), "reading": .string(latest.reading.description),
        ])
    }
}

extension VitalValue.Part {
    /// What a scale measures or computes, in the order of documents.
    fileprivate static let bodyMetrics: [VitalValue.Part] = [
        .weight, .height, .bodyMassIndex, .bodyFat, .musclePercentage, .muscleMass, .fatFreeMass, .softLeanMass,
        .bodyWaterMass, .basalMetabolism, .impedance,
    ]
}
