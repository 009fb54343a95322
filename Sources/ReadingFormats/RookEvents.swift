import HealthFigures
import HealthReadings

extension ReadingFormat {
    /// ROOK's event documents: ``RookEvents``.
    public static let rook = ReadingFormat(name: "rook", mediaType: "application/json")
}

/// Writes readings as the event documents that ROOK posts to webhooks, in version 2 of its data structures.
///
/// | reading | `data_structure` |
/// |---|---|
/// | glucose | `blood_glucose_event` |
/// | blood pressure | `blood_pressure_event`, and `heart_rate_event` for the pulse |
/// | heart rate, heart-rate variability | `heart_rate_event` |
/// | oxygen saturation | `oxygenation_event`, and `heart_rate_event` for the pulse |
/// | temperature | `temperature_event` |
/// | weight, and the weight of a body composition | `body_metrics_event` |
///
/// A receiver knows an event by its user, its data structure and its time, and keeps the one with the highest
/// `document_version`. Two readings of one kind in the same second are one event to it.
///
/// Most of ROOK's values are whole numbers: glucose in mg/dL, pressures in mmHg, pulse, saturation and height in cm are rounded half
/// to even. What that changes is named as ``FormatOmission/Reason/rounded`` or ``FormatOmission/Reason/converted``. A temperature is
/// written in °C, a weight in kg, with the digits of the device; they have two and three decimal places if they are converted.
public enum RookEvents {
    /// The documents of a reading.
    ///
    /// - Parameters:
    ///   - reading: the reading.
    ///   - context: the person and the device. ROOK accepts ids of people of 1 to 50 letters, digits and hyphens.
    ///   - clientUUID: the id of the receiver's account, under which it files the documents.
    ///   - documentVersion: 1 for a reading that is sent for the first time; one more each time it has changed.
    /// - Returns: one document for each event, and what they don't say or had to round.
    /// - Throws: a ``FormatOmission`` if nothing can be written: the reading is excluded, has no time or no number, nothing of it
    ///   has a place, or the person has no id.
    public static func documents(
        of reading: Reading, in context: FormatContext, clientUUID: String, documentVersion: Int = 1
    ) throws(FormatOmission) -> Formatted<[JSONValue]> {
        guard let stamp = try reading.deliverableTime().rfc3339WithMicroseconds else { throw FormatOmission(.noTime) }
        // Every document names its person.
        guard !context.person.isEmpty else { throw FormatOmission(.notKnown, of: "person") }
        var events = Events(reading, stamp: stamp)
        try events.add()
        let documents = events.all.map { event in
            let metadata = JSONValue.object([
                "datetime_string": .string(stamp), "user_id_string": .string(context.person),
                "sources_of_data_array": .list(.string(reading.deviceName(context.device))),
                // ROOK has no value for "not known".
                "was_the_user_under_physical_activity_bool": false,
            ])
            let body = JSONValue.object([
                "metadata": metadata, event.name: .object(event.members), "non_structured_data_array": .array([]),
            ])
            return JSONValue.object([
                "client_uuid": .string(clientUUID), "user_id": .string(context.person), "version": 2,
                "document_version": .integer(Int64(documentVersion)), "auto_detected": false,
                "data_structure": .string(event.structure),
                "body_health": .object(["events": .object([event.structure: .list(body)])]),
            ])
        }
        return Formatted(documents, omissions: events.omissions)
    }

    /// The text of a document that `X-ROOK-HASH` is computed over: the account, the person and the event's time.
    ///
    /// - Parameter document: a document of ``documents(of:in:clientUUID:documentVersion:)``.
    public static func hashedText(of document: JSONValue) -> String {
        var words = [document["client_uuid"], document["user_id"]]
        if case .object(let events)? = document["body_health"]?["events"], case .array(let list)? = events.first?.value
        {
            words.append(list.first?["metadata"]?["datetime_string"])
        }
        return words.map { if case .string(let text)? = $0 { text } else { "" } }.joined()
    }

    private struct Event {
        var structure: String
        var name: String
        var members: [JSONValue.Member]
    }

    /// The events of one reading.
    private struct Events {
        let reading: Reading
        let stamp: String
        private(set) var all: [Event] = []
        private var placed: Set<String> = []
        private var changes: [FormatOmission] = []

        init(_ reading: Reading, stamp: String) {
            self.reading = reading
            self.stamp = stamp
        }

        var omissions: [FormatOmission] { changes + reading.omissions(placed: placed) }

        mutating func add() throws(FormatOmission) {
            switch reading.record.value {
            case .glucose(let glucose): try add(glucose)
            case .bloodPressure(let pressures): try add(pressures)
            case .vital(let vital): try add(vital)
            case .kept: throw FormatOmission(.noPlace)
            }
        }

        private mutating func add(_ glucose: GlucoseValue) throws(FormatOmission) {
            let value = try needed("glucose", glucose.concentration, .milligramsPerDecilitre, places: 0)
            all.append(
                Event(
                    structure: "blood_glucose_event", name: "blood_glucose",
                    members: [
                        .init("blood_glucose_avg_mg_per_dL_int", value),
                        granular("blood_glucose_granular_data_array", [.init("blood_glucose_mg_per_dL_int", value)]),
                    ]))
        }

        private mutating func add(_ pressures: BloodPressureValue) throws(FormatOmission) {
            let members: [JSONValue.Member] = [
                .init(
                    "systolic_mmHg_int",
                    try needed("blood_pressure.systolic", pressures.systolic, .millimetresOfMercury, places: 0)),
                .init(
                    "diastolic_mmHg_int",
                    try needed("blood_pressure.diastolic", pressures.diastolic, .millimetresOfMercury, places: 0)),
            ]
            all.append(
                Event(
                    structure: "blood_pressure_event", name: "blood_pressure",
                    members: [
                        .init("blood_pressure_avg_object", .object(members)),
                        granular("blood_pressure_granular_data_array", members),
                    ]))
            if let pulse = value("pulse", pressures.pulse, .beatsPerMinute, places: 0) { addHeartRate(pulse) }
        }

        private mutating func add(_ vital: VitalValue) throws(FormatOmission) {
            switch vital.kind {
            case .heartRate where vital.series != nil: try addHeartRates()
            case .heartRate: addHeartRate(try needed("heart_rate", vital.main, .beatsPerMinute, places: 0))
            case .hrv:
                let members: [JSONValue.Member] = [
                    value("rmssd", vital[.rmssd], .milliseconds).map { .init("hrv_avg_rmssd_float", $0) },
                    value("sdnn", vital[.sdnn], .milliseconds).map { .init("hrv_avg_sdnn_float", $0) },
                ].compactMap(\.self)
                guard !members.isEmpty else { throw FormatOmission(.notANumber, of: "hrv") }
                all.append(Event(structure: "heart_rate_event", name: "heart_rate", members: members))
            case .spo2 where vital.series != nil:
                let mean = try needed("spo2", vital.main, .percent, places: 0)
                all.append(
                    Event(
                        structure: "oxygenation_event", name: "oxygenation",
                        members: [
                            .init("saturation_avg_percentage_int", mean),
                            granular(series: "saturation_granular_data_array", "saturation_percentage_int"),
                        ]))
            case .spo2:
                let saturation = try needed("spo2", vital.main, .percent, places: 0)
                all.append(
                    Event(
                        structure: "oxygenation_event", name: "oxygenation",
                        members: [
                            .init("saturation_avg_percentage_int", saturation),
                            granular(
                                "saturation_granular_data_array", [.init("saturation_percentage_int", saturation)]),
                        ]))
                if let pulse = value("pulse", vital[.pulse], .beatsPerMinute, places: 0) { addHeartRate(pulse) }
            case .temperature:
                let members: [JSONValue.Member] = [
                    .init("temperature_celsius_float", try needed("temperature", vital.main, .degreesCelsius)),
                    .init("measurement_type_string", .optional(vital.site)),
                ]
                placed.insert("site")
                all.append(
                    Event(
                        structure: "temperature_event", name: "temperature",
                        members: [
                            .init("temperature_avg_object", .object(members)),
                            granular("temperature_granular_data_array", members),
                        ]))
            case .weight, .bodyComposition: addMetrics(vital)
            case .glucose, .bloodPressure, .activity, .sleep, .other: break
            }
            guard !all.isEmpty else { throw FormatOmission(.noPlace, of: vital.kind.rawValue) }
        }

        private mutating func addHeartRate(_ rate: JSONValue) {
            let summary = ["hr_maximum_bpm_int", "hr_minimum_bpm_int", "hr_avg_bpm_int"].map {
                JSONValue.Member($0, rate)
            }
            all.append(
                Event(
                    structure: "heart_rate_event", name: "heart_rate",
                    members: summary + [
                        .init("hr_resting_bpm_int", .null),
                        granular("hr_granular_data_array", [.init("hr_bpm_int", rate)]),
                    ]))
        }

        /// A recording: its mean, its extremes and each sample.
        private mutating func addHeartRates() throws(FormatOmission) {
            let mean = try needed("heart_rate", reading.vital?.main, .beatsPerMinute, places: 0)
            let values = reading.samples().map(\.value)
            func whole(_ value: ExactDecimal?) -> JSONValue {
                value?.multiplied(by: ExactDecimal(significand: 1), places: 0).map(JSONValue.number) ?? mean
            }
            all.append(
                Event(
                    structure: "heart_rate_event", name: "heart_rate",
                    members: [
                        .init("hr_maximum_bpm_int", whole(values.max { $0.isNumericallyLess(than: $1) })),
                        .init("hr_minimum_bpm_int", whole(values.min { $0.isNumericallyLess(than: $1) })),
                        .init("hr_avg_bpm_int", mean), .init("hr_resting_bpm_int", .null),
                        granular(series: "hr_granular_data_array", "hr_bpm_int"),
                    ]))
        }

        /// Each sample of a recording, with the time until the next.
        private mutating func granular(series name: String, _ member: String) -> JSONValue.Member {
            let samples = reading.samples()
            // What a sample stands for ends with the next; a dropout stands for nothing. An oximeter's samples are up to four
            // seconds apart. A strap's are one, but two may come at once.
            let places = reading.vital?.series?.map(\.milliseconds) ?? []
            let step = zip(places, places.dropFirst()).map { $1 - $0 }.filter { $0 > 0 }.min() ?? 0
            let longest = max(2 * Int64(step), 2000)
            placed.insert("series")
            return .init(
                name,
                .array(
                    samples.enumerated().compactMap { place, sample in
                        guard let stamp = sample.time.rfc3339WithMicroseconds,
                            let value = sample.value.multiplied(by: ExactDecimal(significand: 1), places: 0)
                        else { return nil }
                        let next = samples.indices.contains(place + 1) ? samples[place + 1].time.microseconds : nil
                        let length = next.map { $0 - sample.time.microseconds } ?? 0
                        return .object([
                            .init(member, .number(value)), .init("datetime_string", .string(stamp)),
                            .init(
                                "interval_duration_seconds_float",
                                .number(ExactDecimal(significand: min(length / 1000, longest), exponent: -3))),
                        ])
                    }))
        }

        private mutating func addMetrics(_ vital: VitalValue) {
            let height = centimetres(vital[.height])
            let members: [JSONValue.Member] = [
                value("weight", vital[.weight], .kilograms, converted: 3).map { .init("weight_kg_float", $0) },
                height.map { .init("height_cm_int", $0) },
                value("body_mass_index", vital[.bodyMassIndex], .kilogramsPerSquareMetre).map {
                    .init("bmi_float", $0)
                },
            ].compactMap(\.self)
            guard !members.isEmpty else { return }
            if vital.kind == .bodyComposition { changes.append(FormatOmission(.noPlace, of: "body_composition")) }
            all.append(Event(structure: "body_metrics_event", name: "body_metrics", members: members))
        }

        private mutating func centimetres(_ height: Quantity?) -> JSONValue? {
            guard let height, let exact = height.number(in: .metres, places: 9)?.scaled(byPowerOfTen: 2),
                let rounded = exact.multiplied(by: ExactDecimal(significand: 1), places: 0)
            else { return Optional.none }
            placed.insert("height")
            if height.unit != .metres {
                changes.append(FormatOmission(.converted, of: "height"))
            } else if !rounded.isNumericallyEqual(to: exact) {
                changes.append(FormatOmission(.rounded, of: "height"))
            }
            return .number(rounded)
        }

        /// A list with one entry: a reading is one measurement of no duration.
        private func granular(_ name: String, _ members: [JSONValue.Member]) -> JSONValue.Member {
            .init(
                name,
                .list(
                    .object(
                        members + [
                            .init("datetime_string", .string(stamp)), .init("interval_duration_seconds_float", 0),
                        ])))
        }

        private mutating func value(
            _ part: String, _ quantity: Quantity?, _ unit: MeasurementUnit, places: Int16? = nil, converted: Int16 = 2
        ) -> JSONValue? {
            quantity.flatMap { Placed($0, in: unit, places: places, converted: converted) }.map { value in
                placed.insert(part)
                if let change = value.change { changes.append(FormatOmission(change, of: part)) }
                return .number(value.number)
            }
        }

        private mutating func needed(
            _ part: String, _ quantity: Quantity?, _ unit: MeasurementUnit, places: Int16? = nil
        ) throws(FormatOmission) -> JSONValue {
            guard let value = value(part, quantity, unit, places: places) else {
                throw FormatOmission(.notANumber, of: part)
            }
            return value
        }
    }
}
