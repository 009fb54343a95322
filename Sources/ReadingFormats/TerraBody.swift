import HealthFigures
import HealthReadings

extension ReadingFormat {
    /// Terra's body data: ``TerraBody``.
    public static let terra = ReadingFormat(name: "terra", mediaType: "application/json")
}

/// Writes all readings of a person's day as Terra's `body` event.
///
/// A receiver of Terra's webhooks keeps one body document for each day and replaces it as a whole. Every document therefore has
/// all readings of that day, whether they were delivered before or not. A day whose readings were taken back is sent without them.
///
/// ```swift
/// var body = TerraBody(day, in: context)
/// for reading in readings { try body.add(reading) }
/// print(body.document.text)
/// ```
///
/// Samples stand in the order of their times. Numbers keep the digits of the device, except where Terra has another unit:
///
/// | value | unit | decimal places of what is converted |
/// |---|---|---|
/// | glucose | mg/dL | 1 |
/// | pressures | mmHg | 2 |
/// | temperature | °C | 2 |
/// | weight | kg | 3 |
/// | height | cm | 1 |
/// | muscle and lean mass | g | 0 |
/// | basal metabolism | kcal | 0 |
///
/// The averages of the day are means of the day's samples, rounded half to even: to two decimal places for temperatures, and to one
/// for everything else. Of a glucose sensor the average has the samples that figures are of (`DayGlucose/counted`), each by the time
/// that it stands for: the values a minute that a scan gives weigh no more than those every quarter of an hour.
///
/// Terra's flags for high and low glucose and its trend arrows are left out: Terra does not publish the limits behind them.
public struct TerraBody: Sendable {
    /// The version of Terra's API that the document is written for.
    public static let version = "2022-03-16"

    /// The day.
    public let day: PersonDay
    /// What Terra calls the source of the connection.
    public let provider: String

    private let context: FormatContext
    private var entries: [ReadingID: Entry] = [:]

    private struct Entry: Sendable {
        var time: Instant
        var id: ReadingID
        var samples: [Sample]
        var device: Device
    }

    /// A device, as Terra's `device_data`.
    private struct Device: Sendable, Hashable {
        var name: String?
        var manufacturer: String?
        var serial: String?
        var software: String?

        var members: [JSONValue.Member] {
            [
                .optional("name", name), .optional("manufacturer", manufacturer), .optional("serial_number", serial),
                .optional("software_version", software),
            ].compactMap(\.self)
        }

        var key: String { [name, manufacturer, serial, software].map { $0 ?? "" }.joined(separator: "\u{0}") }
    }

    /// Makes the document of a day without readings.
    ///
    /// - Parameters:
    ///   - day: the day, in the person's zone.
    ///   - context: the person, and the device that readings are from where ``add(_:device:)`` names none.
    ///   - provider: what Terra calls the source of the connection, in capitals.
    public init(_ day: LocalDay, in context: FormatContext, provider: String = "HEALTHRELAY") {
        self.init(PersonDay(day), in: context, provider: provider)
    }

    /// Makes the document of a day without readings, for a person who may have changed zones.
    ///
    /// - Parameters:
    ///   - day: the day.
    ///   - context: the person, and the device that readings are from where ``add(_:device:)`` names none.
    ///   - provider: what Terra calls the source of the connection, in capitals.
    public init(_ day: PersonDay, in context: FormatContext, provider: String = "HEALTHRELAY") {
        self.day = day
        self.context = context
        self.provider = provider
    }

    /// Adds a reading of the day. One that is added again replaces the former.
    ///
    /// - Parameters:
    ///   - reading: the reading.
    ///   - device: the device it is from; `nil`: the context's.
    /// - Returns: what the document doesn't say of the reading, or says in another unit.
    /// - Throws: a ``FormatOmission`` if the reading can't be written; the document is as it was. Its reason is
    ///   ``FormatOmission/Reason/otherDay`` for a reading of another day.
    @discardableResult
    public mutating func add(
        _ reading: Reading, device: DeviceFacts? = nil
    ) throws(FormatOmission) -> [FormatOmission] {
        let time = try reading.deliverableTime()
        guard day.contains(time) else { throw FormatOmission(.otherDay) }
        guard let stamp = stamp(time) else { throw FormatOmission(.noTime) }
        let (day, zone) = (day, context.zone)
        var samples = Samples(reading, stamp: stamp) {
            $0.rfc3339(in: day.zone(at: $0) ?? zone, fractionDigits: 6)
        }
        try samples.add()
        let facts = device ?? context.device
        entries[reading.id] = Entry(
            time: time, id: reading.id, samples: samples.all,
            device: Device(
                name: facts.model ?? reading.device.model ?? reading.device.name, manufacturer: facts.manufacturer,
                serial: reading.device.serial, software: facts.firmware))
        return samples.omissions
    }

    /// The connection's id at the receiver: the same for all days of the person.
    public var userID: String { NameUUID("terra/\(context.gateway.id)/\(context.person)").description }

    /// The event, as it is posted: `{"type":"body",…}`.
    public var document: JSONValue {
        .object([
            "type": "body", "version": .string(Self.version),
            "user": .object(
                of: .init("user_id", .string(userID)), .init("provider", .string(provider)),
                .optional("reference_id", context.person.nonEmpty)), "data": .list(body),
        ])
    }

    private func stamp(_ time: Instant) -> String? {
        time.rfc3339(in: day.zone(at: time) ?? context.zone, fractionDigits: 6)
    }

    private var body: JSONValue {
        let sorted = entries.values.sorted { ($0.time, $0.id) < ($1.time, $1.id) }
        let samples = sorted.flatMap(\.samples)
        return .object(
            of: .init(
                "metadata",
                .object([
                    "start_time": .optional(stamp(day.start)), "end_time": .optional(stamp(day.end)),
                    "timestamp_localization": 1,
                ])),
            devices(sorted.map(\.device)),
            pressures(samples), glucose(samples), heart(samples), oxygen(samples), temperature(samples),
            Self.samples(samples, .measurement).map { list in
                .init("measurements_data", .object([JSONValue.Member("measurements", list)]))
            })
    }

    /// The first device in the order of their names, with the others within it.
    private func devices(_ devices: [Device]) -> JSONValue.Member? {
        let sorted = Set(devices).sorted { $0.key < $1.key }
        guard let first = sorted.first else { return nil }
        let others = sorted.dropFirst().map { JSONValue.object($0.members) }
        return .init(
            "device_data", .object(first.members + [.list("other_devices", others)].compactMap(\.self)))
    }

    // MARK: - The parts of a body

    private func pressures(_ samples: [Sample]) -> JSONValue.Member? {
        Self.samples(samples, .pressure).map { list in
            .init(
                "blood_pressure_data",
                .object(
                    of: .init("blood_pressure_samples", list),
                    Self.average(samples, .pressure, 0, "day_avg_systolic_bp"),
                    Self.average(samples, .pressure, 1, "day_avg_diastolic_bp")))
        }
    }

    private func glucose(_ samples: [Sample]) -> JSONValue.Member? {
        let mean = DayGlucose(samples.compactMap(\.point)).mean(places: 1, withBlood: true)
        return Self.samples(samples, .glucose).map { list in
            .init(
                "glucose_data",
                .object(
                    of: .init("blood_glucose_samples", list),
                    mean.map { .init("day_avg_blood_glucose_mg_per_dL", .number($0)) }))
        }
    }

    private func heart(_ samples: [Sample]) -> JSONValue.Member? {
        let details: [JSONValue.Member] = [
            Self.samples(samples, .heartRate).map { .init("hr_samples", $0) },
            Self.samples(samples, .rmssd).map { .init("hrv_samples_rmssd", $0) },
            Self.samples(samples, .sdnn).map { .init("hrv_samples_sdnn", $0) },
        ].compactMap(\.self)
        guard !details.isEmpty else { return nil }
        let rates = samples.filter { $0.kind == .heartRate }.compactMap(\.numbers.first)
        let summary: [JSONValue.Member] = [
            Self.average(samples, .heartRate, 0, "avg_hr_bpm"),
            rates.max { $0.isNumericallyLess(than: $1) }.map { .init("max_hr_bpm", .number($0)) },
            rates.min { $0.isNumericallyLess(than: $1) }.map { .init("min_hr_bpm", .number($0)) },
            Self.average(samples, .rmssd, 0, "avg_hrv_rmssd"), Self.average(samples, .sdnn, 0, "avg_hrv_sdnn"),
        ].compactMap(\.self)
        return .init(
            "heart_data",
            .object(["heart_rate_data": .object(["detailed": .object(details), "summary": .object(summary)])]))
    }

    private func oxygen(_ samples: [Sample]) -> JSONValue.Member? {
        Self.samples(samples, .saturation).map { list in
            .init(
                "oxygen_data",
                .object(
                    of: Self.average(samples, .saturation, 0, "avg_saturation_percentage"),
                    .init("saturation_samples", list)))
        }
    }

    private func temperature(_ samples: [Sample]) -> JSONValue.Member? {
        Self.samples(samples, .temperature).map { list in
            .init(
                "temperature_data",
                .object(
                    of: .init("body_temperature_samples", list),
                    Self.average(samples, .temperature, 0, "day_avg_body_temperature_celsius", places: 2)))
        }
    }

    private static func samples(_ samples: [Sample], _ kind: Sample.Kind) -> JSONValue? {
        let wanted = samples.filter { $0.kind == kind }
        guard !wanted.isEmpty else { return Optional.none }
        return .array(wanted.map(\.json))
    }

    private static func average(
        _ samples: [Sample], _ kind: Sample.Kind, _ place: Int, _ name: String, places: Int16 = 1
    ) -> JSONValue.Member? {
        let numbers = samples.filter { $0.kind == kind && $0.numbers.indices.contains(place) }.map { $0.numbers[place] }
        return ExactDecimal.mean(of: numbers, places: places).map { .init(name, .number($0)) }
    }
}

extension TerraBody {
    /// One sample of one of Terra's lists.
    fileprivate struct Sample: Sendable {
        enum Kind: Sendable {
            case glucose, pressure, heartRate, rmssd, sdnn, saturation, temperature, measurement
        }

        var kind: Kind
        var json: JSONValue
        /// What averages are made of.
        var numbers: [ExactDecimal]
        /// A glucose as figures take it; `nil` for other kinds.
        var point: GlucosePoint?
    }

    /// The samples of one reading.
    fileprivate struct Samples {
        let reading: Reading
        let stamp: String
        /// How an instant is written.
        let stamped: (Instant) -> String?
        private(set) var all: [Sample] = []
        private var placed: Set<String> = []
        private var changes: [FormatOmission] = []

        init(_ reading: Reading, stamp: String, _ stamped: @escaping (Instant) -> String?) {
            self.reading = reading
            self.stamp = stamp
            self.stamped = stamped
        }

        var omissions: [FormatOmission] { changes + reading.omissions(placed: placed) }

        mutating func add() throws(FormatOmission) {
            switch reading.record.value {
            case .glucose(let glucose):
                try add(
                    .glucose, "glucose", glucose.concentration, .milligramsPerDecilitre, converted: 1,
                    "blood_glucose_mg_per_dL")
                guard let place = all.indices.last, let number = all[place].numbers.first else { break }
                all[place].point = GlucosePoint(reading, number: number, unit: .milligramsPerDecilitre)
            case .bloodPressure(let pressures): try add(pressures)
            case .vital(let vital): try add(vital)
            case .kept: throw FormatOmission(.noPlace)
            }
        }

        private mutating func add(_ pressures: BloodPressureValue) throws(FormatOmission) {
            let systolic = try number(
                "blood_pressure.systolic", pressures.systolic, .millimetresOfMercury, converted: 2)
            let diastolic = try number(
                "blood_pressure.diastolic", pressures.diastolic, .millimetresOfMercury, converted: 2)
            all.append(
                Sample(
                    kind: .pressure,
                    json: .object([
                        "timestamp": .string(stamp), "systolic_bp": .number(systolic),
                        "diastolic_bp": .number(diastolic),
                    ]), numbers: [systolic, diastolic]))
            addPulse(pressures.pulse)
        }

        private mutating func add(_ vital: VitalValue) throws(FormatOmission) {
            switch vital.kind {
            case .heartRate where vital.series != nil: addSeries(.heartRate, "heart_rate", "bpm")
            case .heartRate: try add(.heartRate, "heart_rate", vital.main, .beatsPerMinute, "bpm")
            case .spo2 where vital.series != nil: addSeries(.saturation, "spo2", "percentage", more: [.init("type", 0)])
            case .spo2:
                try add(.saturation, "spo2", vital.main, .percent, "percentage", more: [.init("type", 0)])
                addPulse(vital[.pulse])
            case .temperature:
                try add(.temperature, "temperature", vital.main, .degreesCelsius, converted: 2, "temperature_celsius")
            case .weight, .bodyComposition: try addMeasurement(vital)
            case .hrv:
                addIfMeasured(.rmssd, "rmssd", vital[.rmssd], .milliseconds, "hrv_rmssd")
                addIfMeasured(.sdnn, "sdnn", vital[.sdnn], .milliseconds, "hrv_sdnn")
            case .glucose, .bloodPressure, .activity, .sleep, .other: break
            }
            guard !all.isEmpty else { throw FormatOmission(.notANumber, of: vital.kind.rawValue) }
        }

        /// Adds each sample of a recording at its own time.
        private mutating func addSeries(
            _ kind: Sample.Kind, _ part: String, _ name: String, more: [JSONValue.Member] = []
        ) {
            for (time, value) in reading.samples() {
                guard let stamp = stamped(time) else { continue }
                all.append(
                    Sample(
                        kind: kind,
                        json: .object([.init("timestamp", .string(stamp)), .init(name, .number(value))] + more),
                        numbers: [value]))
            }
            placed.formUnion([part, "series"])
        }

        private mutating func addPulse(_ pulse: Quantity?) {
            addIfMeasured(.heartRate, "pulse", pulse, .beatsPerMinute, "bpm")
        }

        private mutating func addMeasurement(_ vital: VitalValue) throws(FormatOmission) {
            guard vital.main?.number.number != nil else { throw FormatOmission(.notANumber, of: vital.kind.rawValue) }
            var members = [JSONValue.Member("measurement_time", .string(stamp))]
            let fields: [(VitalValue.Part, String, MeasurementUnit, Int16, Int16)] = [
                (.bodyMassIndex, "BMI", .kilogramsPerSquareMetre, 0, 2),
                (.bodyFat, "bodyfat_percentage", .percent, 0, 2), (.weight, "weight_kg", .kilograms, 0, 3),
                // Metres as centimetres, kilograms as grams: the point is moved, and no digit lost.
                (.height, "height_cm", .metres, 2, 3), (.muscleMass, "muscle_mass_g", .kilograms, 3, 3),
                (.fatFreeMass, "lean_mass_g", .kilograms, 3, 3),
            ]
            for (part, name, unit, power, places) in fields {
                guard let value = vital[part].flatMap({ Placed($0, in: unit, converted: places) }) else { continue }
                members.append(.init(name, .number(value.number.scaled(byPowerOfTen: power))))
                placed.insert(part.name)
                if let change = value.change { changes.append(FormatOmission(change, of: part.name)) }
            }
            if let energy = vital[.basalMetabolism]?.number.number,
                let calories = energy.divided(by: ConversionFactor.kilojoulesInOneKilocalorie, places: 0)
            {
                members.append(.init("BMR", .number(calories)))
                placed.insert(VitalValue.Part.basalMetabolism.name)
                changes.append(FormatOmission(.converted, of: VitalValue.Part.basalMetabolism.name))
            }
            all.append(Sample(kind: .measurement, json: .object(members), numbers: []))
        }

        private mutating func number(
            _ part: String, _ quantity: Quantity?, _ unit: MeasurementUnit, converted: Int16
        ) throws(FormatOmission) -> ExactDecimal {
            guard let value = quantity.flatMap({ Placed($0, in: unit, converted: converted) }) else {
                throw FormatOmission(.notANumber, of: part)
            }
            placed.insert(part)
            if let change = value.change { changes.append(FormatOmission(change, of: part)) }
            return value.number
        }

        private mutating func add(
            _ kind: Sample.Kind, _ part: String, _ quantity: Quantity?, _ unit: MeasurementUnit, converted: Int16 = 2,
            _ name: String, more: [JSONValue.Member] = []
        ) throws(FormatOmission) {
            let number = try number(part, quantity, unit, converted: converted)
            all.append(
                Sample(
                    kind: kind,
                    json: .object([.init("timestamp", .string(stamp)), .init(name, .number(number))] + more),
                    numbers: [number]))
        }

        private mutating func addIfMeasured(
            _ kind: Sample.Kind, _ part: String, _ quantity: Quantity?, _ unit: MeasurementUnit, _ name: String
        ) {
            guard quantity?.number.number != nil else { return }
            try? add(kind, part, quantity, unit, name)
        }
    }
}
