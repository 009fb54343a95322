import HealthFigures
import HealthReadings

/// Writes a person's day as the `body_summary` that ROOK posts to webhooks, in version 2 of its data structures.
///
/// The document has averages, extremes and the values they are made of. ROOK's values are whole numbers where its names end in `_int`;
/// averages are computed from the measured values and rounded half to even once. Meters' and sensors' glucose stand in one list, as
/// ROOK has only one, and one average: `DaySummary/glucoseMean(places:)`. `datetime_string` is the person's date with
/// midnight in UTC.
///
/// ROOK's documentation shows the summary as an object. One of its own tests reads a list; public receivers read an object, as here.
public enum RookSummary {
    /// The document of a day.
    ///
    /// - Parameters:
    ///   - summary: the day's readings.
    ///   - context: the person and the gateway. ROOK accepts ids of people of 1 to 50 letters, digits and hyphens.
    ///   - clientUUID: the id of the receiver's account, under which it files the documents.
    ///   - documentVersion: 1 for a day that is sent for the first time; one more each time it has changed.
    ///   - facts: what is known of a device beyond its description.
    /// - Returns: the document; of a day without readings, one with metadata alone, which replaces what the receiver has.
    /// - Throws: a ``FormatOmission`` if the person has no id.
    public static func document(
        of summary: DaySummary, in context: FormatContext, clientUUID: String, documentVersion: Int = 1,
        facts: (DeviceDescription) -> DeviceFacts = { _ in DeviceFacts() }
    ) throws(FormatOmission) -> JSONValue {
        guard !context.person.isEmpty else { throw FormatOmission(.notKnown, of: "person") }
        // Receivers cut the date out of it, and know a summary by it. Midnight of the date in UTC says the person's date whatever the
        // person's zone is, was or becomes.
        let stamp = summary.day.date + "T00:00:00.000000Z"
        let parts = [
            metrics(summary), glucose(summary), pressures(summary), heart(summary), oxygenation(summary),
            temperature(summary),
        ].compactMap(\.self)
        let names = Set(summary.devices.map { $0.name(facts($0)) }).sorted()
        let metadata = JSONValue.object([
            "datetime_string": .string(stamp), "user_id_string": .string(context.person),
            "sources_of_data_array": .array(names.map(JSONValue.string)),
        ])
        return .object([
            "client_uuid": .string(clientUUID), "user_id": .string(context.person), "version": 2,
            "document_version": .integer(Int64(documentVersion)), "auto_detected": false,
            "data_structure": "body_summary",
            "body_health": .object([
                "summary": .object([
                    "body_summary": .object(
                        [.init("metadata", metadata)] + parts + [.init("non_structured_data_array", .array([]))])
                ])
            ]),
        ])
    }

    /// The text of a document that `X-ROOK-HASH` is computed over: the account, the person and `datetime_string`.
    ///
    /// - Parameter document: a document of ``document(of:in:clientUUID:documentVersion:facts:)``.
    public static func hashedText(of document: JSONValue) -> String {
        let metadata = document["body_health"]?["summary"]?["body_summary"]?["metadata"]
        return [document["client_uuid"], document["user_id"], metadata?["datetime_string"]].map {
            if case .string(let text)? = $0 { text } else { "" }
        }.joined()
    }

    // MARK: - The parts of a summary

    private static func glucose(_ summary: DaySummary) -> JSONValue.Member? {
        let samples = (summary.samples(of: .glucose) + summary.samples(of: .sensorGlucose)).sorted {
            ($0.time, $0.reading) < ($1.time, $1.reading)
        }
        guard let average = summary.glucoseMean(places: 0) else { return nil }
        return .init(
            "blood_glucose",
            .object([
                "blood_glucose_avg_mg_per_dL_int": .number(average),
                "blood_glucose_granular_data_array": granular(samples, "blood_glucose_mg_per_dL_int"),
            ]))
    }

    private static func pressures(_ summary: DaySummary) -> JSONValue.Member? {
        let (systolic, diastolic) = (summary.samples(of: .systolic), summary.samples(of: .diastolic))
        let lower = Dictionary(diastolic.map { ($0.reading, $0.value) }, uniquingKeysWith: { first, _ in first })
        // A pressure without one of its two numbers is no pressure to a receiver.
        let both = systolic.compactMap { sample in lower[sample.reading].map { (sample, $0) } }
        guard let high = average(both.map(\.0.value)),
            let low = average(both.map(\.1))
        else { return nil }
        let list = both.map { sample, diastolic in
            JSONValue.object([
                "systolic_mmHg_int": whole(sample.value) ?? .null, "diastolic_mmHg_int": whole(diastolic) ?? .null,
                "datetime_string": .optional(sample.time.rfc3339WithMicroseconds),
                "interval_duration_seconds_float": 0,
            ])
        }
        return .init(
            "blood_pressure",
            .object([
                "blood_pressure_avg_object": .object(["systolic_mmHg_int": high, "diastolic_mmHg_int": low]),
                "blood_pressure_granular_data_array": .array(list),
            ]))
    }

    private static func heart(_ summary: DaySummary) -> JSONValue.Member? {
        let rates = summary.figures(of: .heartRate)
        let (rmssd, sdnn) = (summary.figures(of: .rmssd), summary.figures(of: .sdnn))
        guard rates != nil || rmssd != nil || sdnn != nil else { return nil }
        let samples = summary.samples(of: .heartRate)
        return .init(
            "heart_rate",
            .object([
                "hr_maximum_bpm_int": whole(rates?.maximum) ?? .null,
                "hr_minimum_bpm_int": whole(rates?.minimum) ?? .null,
                "hr_avg_bpm_int": average(samples.map(\.value)) ?? .null,
                // No device says that its wearer was resting.
                "hr_resting_bpm_int": .null,
                "hr_granular_data_array": granular(samples, "hr_bpm_int"),
                "hrv_avg_rmssd_float": rmssd.map { .number($0.mean) } ?? .null,
                "hrv_avg_sdnn_float": sdnn.map { .number($0.mean) } ?? .null,
                "hrv_sdnn_granular_data_array": exact(summary.samples(of: .sdnn), "hrv_sdnn_float"),
                "hrv_rmssd_granular_data_array": exact(summary.samples(of: .rmssd), "hrv_rmssd_float"),
            ]))
    }

    private static func oxygenation(_ summary: DaySummary) -> JSONValue.Member? {
        let samples = summary.samples(of: .saturation)
        guard let average = average(samples.map(\.value)) else { return nil }
        return .init(
            "oxygenation",
            .object([
                "saturation_avg_percentage_int": average,
                "saturation_granular_data_array": granular(samples, "saturation_percentage_int"),
                "vo2max_mL_per_min_per_kg_int": .null, "vo2_granular_data_array": .array([]),
            ]))
    }

    private static func temperature(_ summary: DaySummary) -> JSONValue.Member? {
        guard let figures = summary.figures(of: .temperature) else { return nil }
        func value(_ number: ExactDecimal) -> JSONValue {
            .object(["temperature_celsius_float": .number(number), "measurement_type_string": .null])
        }
        return .init(
            "temperature",
            .object([
                "temperature_avg_object": value(figures.mean), "temperature_maximum_object": value(figures.maximum),
                "temperature_minimum_object": value(figures.minimum), "temperature_delta_object": .null,
                "temperature_granular_data_array": exact(
                    summary.samples(of: .temperature), "temperature_celsius_float",
                    more: [.init("measurement_type_string", .null)]),
            ]))
    }

    private static func metrics(_ summary: DaySummary) -> JSONValue.Member? {
        func number(_ part: VitalValue.Part, _ unit: MeasurementUnit, places: Int16) -> ExactDecimal? {
            summary.latest(part)?.quantity.number(in: unit, places: places)
        }
        let members: [JSONValue.Member] = [
            number(.weight, .kilograms, places: 3).map { .init("weight_kg_float", .number($0)) },
            whole(number(.height, .metres, places: 9)?.scaled(byPowerOfTen: 2)).map { .init("height_cm_int", $0) },
            number(.bodyMassIndex, .kilogramsPerSquareMetre, places: 2).map { .init("bmi_float", .number($0)) },
            whole(number(.musclePercentage, .percent, places: 9)).map {
                .init("muscle_composition_percentage_int", $0)
            },
        ].compactMap(\.self)
        return members.isEmpty ? nil : .init("body_metrics", .object(members))
    }

    private static func granular(_ samples: [DaySummary.Sample], _ name: String) -> JSONValue {
        list(samples, name) { whole($0) ?? .null }
    }

    private static func exact(
        _ samples: [DaySummary.Sample], _ name: String, more: [JSONValue.Member] = []
    ) -> JSONValue {
        list(samples, name, more: more) { .number($0) }
    }

    private static func list(
        _ samples: [DaySummary.Sample], _ name: String, more: [JSONValue.Member] = [],
        _ value: (ExactDecimal) -> JSONValue
    ) -> JSONValue {
        .array(
            samples.map { sample in
                .object(
                    [.init(name, value(sample.value))] + more + [
                        .init("datetime_string", .optional(sample.time.rfc3339WithMicroseconds)),
                        .init("interval_duration_seconds_float", 0),
                    ])
            })
    }

    /// The mean as a whole number; nil for no values.
    private static func average(_ values: [ExactDecimal]) -> JSONValue? {
        ExactDecimal.mean(of: values, places: 0).map(JSONValue.number)
    }

    /// The nearest whole number, half to even.
    private static func whole(_ number: ExactDecimal?) -> JSONValue? {
        number?.multiplied(by: ExactDecimal(significand: 1), places: 0).map(JSONValue.number)
    }
}
