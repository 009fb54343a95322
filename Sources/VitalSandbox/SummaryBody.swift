/// A validated post of a summary other than the body's. Menstrual cycles, meals and electrocardiograms are taken as they come:
/// their shapes are not described here.
struct SummaryBody: Sendable {
    let envelope: PostEnvelope
    let data: JSONValue

    private typealias Step = FieldReader.Step

    /// Reads and checks a body whole; every finding is in the error.
    init(_ body: JSONValue, kind: String, maximumItems: Int) throws(APIError) {
        var reader = FieldReader()
        guard let object = reader.object(body, at: [.name("body")], known: PostEnvelope.fields) else {
            throw .invalid(reader.problems)
        }
        let envelope = PostEnvelope(object, reader: &reader)
        let at: [Step] = [.name("body"), .name("data")]
        let data = reader.required("data", of: object, at: [.name("body")])
        if let data {
            switch kind {
            case "profile": Self.checkProfile(data, at: at, &reader)
            case "activity":
                for (element, place) in reader.elements(data, at: at, maximum: maximumItems) {
                    Self.checkActivity(element, at: place, maximumItems, &reader)
                }
            case "sleep":
                for (element, place) in reader.elements(data, at: at, maximum: maximumItems) {
                    Self.checkNight(element, at: place, maximumItems, &reader)
                }
            case "workouts":
                for (element, place) in reader.elements(data, at: at, maximum: maximumItems) {
                    Self.checkWorkout(element, at: place, &reader)
                }
            default:
                switch data {
                case .object, .array: break
                default: reader.note(at, "Input should be a valid dictionary or list", "model_type")
                }
            }
        }
        guard let envelope, let data, reader.problems.isEmpty else { throw .invalid(reader.problems) }
        self.envelope = envelope
        self.data = data
    }

    private static func checkProfile(_ data: JSONValue, at: [Step], _ reader: inout FieldReader) {
        let known: Set = ["biological_sex", "date_of_birth", "height", "time_zone"]
        guard let object = reader.object(data, at: at, known: known) else { return }
        _ = reader.choice(
            reader.optional("biological_sex", of: object), among: ["male", "female", "other", "not_set"],
            at: at + [.name("biological_sex")])
        _ = reader.instant(reader.optional("date_of_birth", of: object), at: at + [.name("date_of_birth")])
        checkWholes(["height"], of: object, at: at, &reader)
        _ = reader.zone(reader.optional("time_zone", of: object), at: at + [.name("time_zone")])
    }

    private static let activityUnits = [
        "active_energy_burned": ["kcal", "kJ"], "basal_energy_burned": ["kcal", "kJ"], "steps": ["count", ""],
        "floors_climbed": ["count", ""], "distance_walking_running": ["meter", "m"], "vo2_max": ["mL/kg/min"],
    ]

    private static func checkActivity(
        _ element: JSONValue, at: [Step], _ maximum: Int, _ reader: inout FieldReader
    ) {
        let known = Set(activityUnits.keys).union(["day_summary"])
        guard let object = reader.object(element, at: at, known: known) else { return }
        if let day = reader.optional("day_summary", of: object) {
            let place = at + [.name("day_summary")]
            let wholes = [
                "steps_sum", "floors_climbed_sum", "max_heart_rate", "min_heart_rate", "avg_heart_rate",
                "resting_heart_rate",
            ]
            let numbers = [
                "active_energy_burned_sum", "basal_energy_burned_sum", "distance_walking_running_sum", "vo2_max",
                "low", "medium", "high", "exercise_time",
            ]
            if let day = reader.object(day, at: place, known: Set(["calendar_date"] + wholes + numbers)) {
                _ = reader.day(
                    reader.required("calendar_date", of: day, at: place), at: place + [.name("calendar_date")])
                checkWholes(wholes, of: day, at: place, &reader)
                checkNumbers(numbers, of: day, at: place, &reader)
            }
        }
        for (name, units) in activityUnits.sorted(by: { $0.key < $1.key }) {
            checkSamples(name, units, of: object, at: at, maximum, &reader)
        }
    }

    private static let rates = ["heart_rate_maximum", "heart_rate_minimum", "heart_rate_mean"]

    private static func checkNight(_ element: JSONValue, at: [Step], _ maximum: Int, _ reader: inout FieldReader) {
        let known = Set([
            "id", "start_date", "end_date", "source_bundle", "product_type", "source_type", "hrv_mean_sdnn",
            "respiratory_rate_mean", "heart_rate", "heart_rate_variability", "respiratory_rate", "wrist_temperature",
            "sleep_stages", "metadata",
        ]).union(rates)
        guard let object = reader.object(element, at: at, known: known) else { return }
        checkSpan(of: object, at: at, &reader)
        checkWholes(rates, of: object, at: at, &reader)
        checkNumbers(["hrv_mean_sdnn", "respiratory_rate_mean"], of: object, at: at, &reader)
        let place = at + [.name("sleep_stages")]
        let names = ["awake", "deep", "light", "rem", "in_bed", "unknown", "unspecified"].map { $0 + "_sleep_samples" }
        if let stages = reader.required("sleep_stages", of: object, at: at),
            let stages = reader.object(stages, at: place, known: Set(names))
        {
            for name in names { checkSamples(name, ["stage", "minute"], of: stages, at: place, maximum, &reader) }
        }
    }

    private static func checkWorkout(_ element: JSONValue, at: [Step], _ reader: inout FieldReader) {
        let zones = (1...6).map { "heart_rate_zone_\($0)" }
        let known = Set([
            "id", "start_date", "end_date", "moving_time", "source_bundle", "product_type", "source_type", "sport",
            "calories", "distance", "ascent_elevation", "descent_elevation", "heart_rate", "respiratory_rate", "stream",
        ]).union(rates).union(zones)
        guard let object = reader.object(element, at: at, known: known) else { return }
        checkSpan(of: object, at: at, &reader)
        _ = reader.string(
            reader.required("sport", of: object, at: at), at: at + [.name("sport")], nonEmpty: true)
        for name in ["calories", "distance"] {
            _ = reader.number(reader.required(name, of: object, at: at), at: at + [.name(name)])
        }
        checkWholes(rates + zones, of: object, at: at, &reader)
    }

    // MARK: Parts

    private static func checkSpan(of object: JSONValue, at: [Step], _ reader: inout FieldReader) {
        let start = reader.instant(
            reader.required("start_date", of: object, at: at), at: at + [.name("start_date")])
        let end = reader.instant(reader.required("end_date", of: object, at: at), at: at + [.name("end_date")])
        if let start, let end, end < start {
            reader.note(at + [.name("end_date")], "Value error, ends before it starts", "value_error")
        }
        for name in ["id", "source_bundle", "product_type"] {
            _ = reader.string(reader.optional(name, of: object), at: at + [.name(name)])
        }
    }

    private static func checkWholes(
        _ names: [String], of object: JSONValue, at: [Step], _ reader: inout FieldReader
    ) {
        for name in names {
            guard let number = reader.number(reader.optional(name, of: object), at: at + [.name(name)]) else {
                continue
            }
            if Int64(number) == nil { reader.note(at + [.name(name)], "Input should be a valid integer", "int_type") }
        }
    }

    private static func checkNumbers(
        _ names: [String], of object: JSONValue, at: [Step], _ reader: inout FieldReader
    ) {
        for name in names { _ = reader.number(reader.optional(name, of: object), at: at + [.name(name)]) }
    }

    private static func checkSamples(
        _ name: String, _ units: [String], of object: JSONValue, at: [Step], _ maximum: Int,
        _ reader: inout FieldReader
    ) {
        guard let list = reader.optional(name, of: object) else { return }
        for (element, place) in reader.elements(list, at: at + [.name(name)], maximum: maximum) {
            TimeseriesBody.check(element, units: units, at: place, reader: &reader)
        }
    }
}
