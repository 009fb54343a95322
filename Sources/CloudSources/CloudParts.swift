import HealthReadings

/// What a record of a cloud says: the readings that it makes.
///
/// What the gateway has a kind for becomes a reading of that kind. The record itself is kept beside it, as activity, as sleep
/// or as other, with what stands in it as metadata.
struct CloudParts {
    /// Why nothing can be made of a record.
    struct Unreadable: Error, Sendable, Hashable {
        /// What would have been right.
        var expected: String
    }

    /// One reading of a record.
    struct Part {
        /// What of the record it is; a name once given is never given to anything else.
        var part: String
        var value: RecordValue
        var time: ImportedTime
        var end: Instant?
        /// What the value is, where its kind doesn't say so.
        var source: String?
        /// Whether a person typed it in, as the vendor says.
        var isEntered = false

        func sample(of record: CloudRecord, _ parts: CloudParts) -> ImportedSample {
            var sample = ImportedSample(
                person: record.person, provider: record.vendor.rawValue, source: source ?? record.vendor.title,
                isEntered: isEntered, value: value, time: time, end: end)
            sample.recordName = record.recordName(parts.id, part)
            sample.formerName = parts.id == parts.givenID ? nil : record.recordName(parts.givenID, part)
            sample.updatedAt = parts.updatedAt
            return sample
        }
    }

    /// A part of a record, and the kind of its reading.
    struct PartName: Sendable, Hashable {
        var part: String
        var kind: ReadingKind
    }

    /// The record's id in its collection, which all of its versions have.
    let id: String
    /// The id that the vendor gave this version.
    private let givenID: String
    private(set) var readings: [Part] = []
    /// When the vendor changed it last, or until when a summary goes that grows; `nil` if nothing tells.
    private(set) var updatedAt: Instant?
    /// Why a value of it can't be read; `nil` if all can.
    private(set) var unreadable: Unreadable?

    /// The parts that were looked for, whether they are there or not.
    private var lookedFor: [PartName] = []
    /// The part that a record is itself, kept as it came.
    private static let record = "record"

    private let node: JSONNode
    private let collection: String
    private let time: ImportedTime
    private var end: Instant?

    init(of record: CloudRecord) throws(Unreadable) {
        let node: JSONNode
        do throws(JSONFailure) {
            node = try JSONReader.read(record.json, mostMembers: CloudAnswerReader.mostMembers)
        } catch {
            throw Unreadable(expected: error.expected)
        }
        guard node.members != nil else { throw Unreadable(expected: "an object") }
        self.node = node
        collection = record.collection
        updatedAt = node["updated_at"]?.text.flatMap { Instant(rfc3339: $0) }
        switch record.vendor {
        case .whoop:
            let keys = record.collection == "recovery" ? ["cycle_id", "sleep_id", "id"] : ["id"]
            guard let id = keys.lazy.compactMap({ node[$0].flatMap(Self.id) }).first else {
                throw Unreadable(expected: "an id")
            }
            (self.id, givenID) = (id, id)
            time = try Self.whoopTime(node, record.collection)
            if let text = node["timezone_offset"]?.text, Self.minutes(text) == nil {
                unreadable = Unreadable(expected: "an offset such as -05:00 in timezone_offset")
            }
            if let text = (node["end"] ?? node["end_time"])?.text {
                end = Instant(rfc3339: text).flatMap { [time] in $0 < time.instant ? nil : $0 }
                if end == nil {
                    unreadable = unreadable ?? Unreadable(expected: "an end that is a time after its start")
                }
            }
            readWhoop()
        case .garmin:
            guard let id = node["summaryId"].flatMap(Self.id) else { throw Unreadable(expected: "a summaryId") }
            let seconds = node["durationInSeconds"]?.integer.flatMap { (0...8_640_000).contains($0) ? $0 : nil }
            givenID = id
            self.id = Self.lastingID(id, record.collection, seconds: seconds ?? 0)
            time = try Self.garminTime(node)
            end = seconds.map { [time] in time.instant.advanced(bySeconds: Int64($0)) }
            // A later version covers as much or more, in whatever order they come; a night may become shorter.
            if self.id != id, record.collection != "sleeps" { updatedAt = updatedAt ?? end }
            // A night's duration leaves out how long the person lay awake.
            if record.collection == "sleeps" { end = [end, lastLevelEnd].compactMap(\.self).max() }
            readGarmin()
        }
    }

    // MARK: WHOOP

    private static func whoopTime(_ node: JSONNode, _ collection: String) throws(Unreadable) -> ImportedTime {
        // A recovery has no times of its own; it is made when the night is scored.
        let keys = collection == "recovery" ? ["created_at", "timestamp"] : ["start", "start_time"]
        guard let instant = keys.lazy.compactMap({ node[$0]?.text.flatMap { Instant(rfc3339: $0) } }).first else {
            throw Unreadable(expected: "a time")
        }
        let offset = node["timezone_offset"]?.text.flatMap(minutes)
        return ImportedTime(instant, utcOffsetMinutes: offset ?? 0)
    }

    /// Minutes of `-05:00`; `nil` for anything else.
    private static func minutes(_ text: String) -> Int? {
        guard let match = text.wholeMatch(of: /([+-])([0-9]{2}):?([0-9]{2})/), let hours = Int(match.2),
            let minutes = Int(match.3), hours <= 14, minutes < 60
        else { return text == "Z" ? 0 : nil }
        return (match.1 == "-" ? -1 : 1) * (hours * 60 + minutes)
    }

    private mutating func readWhoop() {
        switch collection {
        case "recovery":
            vital(.hrv, .rmssd, ["hrv_rmssd_milli", "hrv_rmssd", "hrv"], .milliseconds, part: "hrv")
            keepResting(["resting_heart_rate", "rhr"])
            vital(.spo2, .saturation, ["spo2_percentage", "spo2"], .percent, part: "spo2")
            keep(.other, "recovery", number(["recovery_score"]) ?? node["score"]?.decimal, "%")
        case "sleep":
            keep(.sleep, "sleep", seconds, "s")
        case "workouts":
            keep(.activity, "workout", seconds, "s")
        case "cycles":
            // One that goes on has no end yet, and other numbers each time.
            keep(.activity, "cycle", seconds, "s")
        default: keep(.other, collection, seconds ?? ExactDecimal(significand: 0), "s")
        }
    }

    /// How long it lasts; `nil` before it is over.
    private var seconds: ExactDecimal? {
        guard let end, end >= time.instant else { return nil }
        return ExactDecimal(significand: end.flooredToSecond.seconds - time.instant.seconds)
    }

    // MARK: Garmin

    /// A summary's id without its end: in `x2fe5bde-5fe4bb00-c2c4` that is how many seconds the summary covers, 49,860.
    ///
    /// Garmin replaces a summary by another one that begins at the same time and covers as much or more, so that a day has
    /// another id after each time the watch was synchronised. The hyphen stays: a spot check of that day covers nothing, and
    /// may have the id without one. An epoch's id ends in the kind of activity.
    private static func lastingID(_ id: String, _ collection: String, seconds: Int) -> String {
        let digits = String(seconds, radix: 16)
        guard seconds > 0, collection != "epochs", id.hasSuffix("-" + digits) else { return id }
        return String(id.dropLast(digits.count))
    }

    private static func garminTime(_ node: JSONNode) throws(Unreadable) -> ImportedTime {
        for (key, offset) in [
            ("startTimeInSeconds", "startTimeOffsetInSeconds"),
            ("measurementTimeInSeconds", "measurementTimeOffsetInSeconds"),
        ] {
            guard let value = node[key] else { continue }
            let number = wholeSeconds(value)
            if number == 0 { continue }
            // The day that comes beside it would date the record hours too early.
            guard let seconds = number, Instant.calendar.contains(seconds / 1000), seconds > 0 else {
                throw Unreadable(expected: "seconds since 1970 in \(key)")
            }
            // A health snapshot has another name for it than all other summaries.
            let minutes = (node[offset] ?? node["offsetStartTimeInSeconds"]).flatMap(wholeSeconds).map { Int($0 / 60) }
            // Some services write milliseconds.
            return ImportedTime(
                Instant(seconds: seconds < 10_000_000_000 ? seconds : seconds / 1000),
                utcOffsetMinutes: minutes.flatMap { abs($0) <= 14 * 60 ? $0 : nil } ?? 0)
        }
        // What is of a day alone has no moment of it, and no zone.
        guard let day = node["calendarDate"]?.text, let wall = WallTime(day + "T00:00:00") else {
            throw Unreadable(expected: "startTimeInSeconds, measurementTimeInSeconds or calendarDate")
        }
        return ImportedTime(
            Instant(seconds: wall.secondsSinceEpoch), utcOffsetMinutes: 0, basis: .assumedZone, uncertaintyMinutes: 720)
    }

    /// Whole seconds; `nil` for what is no number. Garmin's API has the start of some summaries, such as snapshots, as a
    /// floating-point number.
    private static func wholeSeconds(_ node: JSONNode) -> Int64? {
        guard case .number(let digits) = node.value else { return nil }
        return Double(digits).flatMap { Int64(exactly: $0.rounded(.down)) }
    }

    /// When the last stretch of a night ends, asleep or awake; `nil` if the summary doesn't tell them.
    private var lastLevelEnd: Instant? {
        (node["sleepLevelsMap"]?.members ?? []).flatMap { $0.node.elements ?? [] }
            .compactMap { $0["endTimeInSeconds"].flatMap(Self.wholeSeconds) }
            .filter { (0...Self.longestDay).contains($0 &- time.instant.seconds) }
            .max().map { Instant(seconds: $0) }
    }

    /// The most seconds of a night, and of the day of somebody who travels: 48 hours.
    private static let longestDay: Int64 = 172_800

    private mutating func readGarmin() {
        switch collection {
        case "dailies":
            keepResting(["restingHeartRateInBeatsPerMinute", "restingHeartRate"])
            keepActivity(number(["steps", "totalSteps"]))
        case "epochs": keepActivity(number(["steps"]))
        case "sleeps":
            let seconds = number(["durationInSeconds"])
            if seconds == nil { keepRest() } else { keep(.sleep, "sleeps", seconds, "s") }
        case "hrv":
            vital(.hrv, .rmssd, ["lastNightAvg", "hrvValue"], .milliseconds, part: "hrv")
            keepRest()
        case "bodyComps":
            let kilograms = number(["weightInGrams"])?.scaled(byPowerOfTen: -3)
            add(.weight, [measured(.weight, kilograms, .kilograms)], part: "weight")
            vital(
                .bodyComposition, .bodyFat, ["bodyFatInPercent", "bodyFatPercentage"], .percent, part: "body_fat")
            keepRest()
        case "pulseox":
            // A spot check has one value, or a few; of a night's, the average is a reading.
            let values = node["timeOffsetSpo2Values"]?.members ?? []
            let isOnDemand = if case .bool(true)? = node["onDemand"]?.value { true } else { false }
            let isSingle = values.count == 1 && values.first?.node.decimal != nil
            if isSingle || isOnDemand && (2...Self.mostSpotChecks).contains(values.count) {
                // An earlier or a later version with another count of values has the first one under the other name.
                lookedFor += ["spo2", "spo2 0"].map { PartName(part: $0, kind: .spo2) }
                for (offset, value) in values {
                    // A night that has only begun becomes an average under the same name.
                    addSpotCheck(offset, value, isUnnumbered: isSingle && (!isOnDemand || offset == "0"))
                }
            } else {
                vital(
                    .spo2, .saturation, ["averageSpo2", "spo2Value"], .percent, part: "spo2", source: "Garmin average")
            }
            keepRest()
        case "healthSnapshot":
            readSnapshot()
            keepRest()
        case "bloodPressures":
            lookedFor.append(PartName(part: "blood_pressure", kind: .bloodPressure))
            if let systolic = number(["systolic"]), let diastolic = number(["diastolic"]) {
                let value = BloodPressureValue(
                    systolic: Quantity(systolic, .millimetresOfMercury),
                    diastolic: Quantity(diastolic, .millimetresOfMercury),
                    meanArterial: Quantity(.notANumber, .millimetresOfMercury),
                    pulse: number(["pulse"]).map { Quantity($0, .beatsPerMinute) })
                readings.append(
                    Part(
                        part: "blood_pressure", value: .bloodPressure(value), time: time,
                        isEntered: node["sourceType"]?.text == "MANUAL"))
            } else {
                keepRest()
            }
        default: keepRest()
        }
    }

    /// The most values of a day's spot checks: each has the whole record as its frame.
    private static let mostSpotChecks = 100

    /// Adds one value of a spot check; its key is its distance from the record's time, in seconds.
    ///
    /// - Parameter isUnnumbered: whether its name leaves out that distance.
    private mutating func addSpotCheck(_ offset: String, _ value: JSONNode, isUnnumbered: Bool) {
        // They count from the day's beginning, and a day may have 25 hours, or more on a journey.
        guard let seconds = Int64(offset), (0...Self.longestDay).contains(seconds), let number = value.decimal else {
            unreadable = unreadable ?? Unreadable(expected: "seconds and percentages in timeOffsetSpo2Values")
            return
        }
        let value = VitalValue(kind: .spo2, [.init(.saturation, Quantity(number, .percent))])
        readings.append(
            Part(
                part: isUnnumbered ? "spo2" : "spo2 \(seconds)", value: .vital(value),
                time: ImportedTime(
                    time.instant.advanced(bySeconds: seconds), utcOffsetMinutes: time.utcOffsetMinutes,
                    basis: time.basis, uncertaintyMinutes: time.uncertaintyMinutes)))
    }

    /// The averages of a two-minute session.
    private mutating func readSnapshot() {
        func average(_ type: String) -> ExactDecimal? {
            node["summaries"]?.elements?.first { $0["summaryType"]?.text == type }?["avgValue"]?.decimal
        }
        let rate = average("heart_rate") ?? number(["heartRate", "avgHeartRate"])
        add(.heartRate, [measured(.heartRate, rate, .beatsPerMinute)], part: "heart_rate")
        let saturation = average("spo2") ?? number(["spo2"])
        add(.spo2, [measured(.saturation, saturation, .percent)], part: "spo2")
        let deviation = average("sdrr_hrv") ?? number(["hrvSdnn", "hrv"])
        add(
            .hrv,
            [measured(.rmssd, average("rmssd_hrv"), .milliseconds), measured(.sdnn, deviation, .milliseconds)],
            part: "hrv")
    }

    /// Keeps a day or a part of one as steps; one that names no steps as what it is besides.
    private mutating func keepActivity(_ steps: ExactDecimal?) {
        if steps == nil { keepRest() } else { keep(.activity, collection, steps, "count") }
    }

    /// Keeps a summary that has no value of its own: for how long it was measured.
    private mutating func keepRest() {
        keep(.other, collection, number(["durationInSeconds"]) ?? ExactDecimal(significand: 0), "s")
    }

    /// The parts that a record of its collection may have and this one has not, each with its reading's id: a reading of that id is
    /// of a value that the vendor has taken back. None while something in the record can't be read.
    func absent(from record: CloudRecord) -> [(name: PartName, id: ReadingID)] {
        guard unreadable == nil else { return [] }
        let present = Set(readings.map { PartName(part: $0.part, kind: $0.value.kind) })
        let records = [ReadingKind.activity, .sleep, .other].map { PartName(part: Self.record, kind: $0) }
        return (lookedFor + records).filter { !present.contains($0) }.map { name in
            let id = ImportedSample.id(
                ofRecord: record.recordName(id, name.part), person: record.person, provider: record.vendor.rawValue,
                kind: name.kind)
            return (name, id)
        }
    }

    // MARK: Values

    /// A number of the record or of its score, under the first of these names that is there.
    private mutating func number(_ keys: [String]) -> ExactDecimal? {
        for key in keys {
            guard let value = node["score"]?[key] ?? node[key] else { continue }
            if let number = value.decimal { return number }
            unreadable = unreadable ?? Unreadable(expected: "a number in \(key)")
        }
        return nil
    }

    private mutating func vital(
        _ kind: ReadingKind, _ part: VitalValue.Part, _ keys: [String], _ unit: MeasurementUnit, part name: String,
        source: String? = nil
    ) {
        add(kind, [measured(part, number(keys), unit)], part: name, source: source)
    }

    private func measured(
        _ part: VitalValue.Part, _ value: ExactDecimal?, _ unit: MeasurementUnit
    ) -> VitalValue.Measured? {
        value.map { .init(part, Quantity($0, unit)) }
    }

    /// Keeps a resting heart rate: it is a figure of a day or a night, and no heart rate of the moment it is filed under.
    private mutating func keepResting(_ keys: [String]) {
        let name = PartName(part: "resting_heart_rate", kind: .other)
        lookedFor.append(name)
        guard let value = number(keys) else { return }
        readings.append(
            Part(
                part: name.part,
                value: .kept(KeptSample(kind: .other, type: "resting_heart_rate", value: value, unit: "bpm")),
                time: time))
    }

    /// Adds a reading of the values that are there, if any is.
    private mutating func add(
        _ kind: ReadingKind, _ values: [VitalValue.Measured?], part: String, source: String? = nil
    ) {
        lookedFor.append(PartName(part: part, kind: kind))
        let values = values.compactMap(\.self)
        guard !values.isEmpty else { return }
        readings.append(
            Part(part: part, value: .vital(VitalValue(kind: kind, values)), time: time, source: source))
    }

    private mutating func keep(_ kind: ReadingKind, _ type: String, _ value: ExactDecimal?, _ unit: String) {
        guard let value else { return }
        var metadata: [String: String] = [:]
        for node in [node, node["score"], node["score"]?["stage_summary"]].compactMap(\.self) {
            for (key, value) in node.members ?? [] where Self.told.contains(key) {
                metadata[key] = Self.name(value)
            }
        }
        readings.append(
            Part(
                part: Self.record,
                value: .kept(KeptSample(kind: kind, type: type, value: value, unit: unit, metadata: metadata)),
                time: time, end: end))
    }

    /// What is shown of a record beside its value; all of it is in the frame.
    private static let told: Set<String> = [
        // WHOOP
        "score_state", "updated_at", "nap", "cycle_id", "sleep_id", "user_calibrating", "skin_temp_celsius",
        "sport_name",
        "strain", "kilojoule", "average_heart_rate", "max_heart_rate", "distance_meter", "respiratory_rate",
        "sleep_performance_percentage", "sleep_efficiency_percentage", "total_in_bed_time_milli",
        "total_awake_time_milli", "total_light_sleep_time_milli", "total_slow_wave_sleep_time_milli",
        "total_rem_sleep_time_milli", "disturbance_count",
        // Garmin
        "calendarDate", "activityType", "distanceInMeters", "activeKilocalories", "bmrKilocalories",
        "activeTimeInSeconds",
        "averageStressLevel", "maxStressLevel", "averageHeartRateInBeatsPerMinute", "minHeartRateInBeatsPerMinute",
        "maxHeartRateInBeatsPerMinute", "met", "intensity", "deepSleepDurationInSeconds", "lightSleepDurationInSeconds",
        "remSleepInSeconds", "awakeDurationInSeconds", "validation", "vo2Max", "vo2MaxCycling", "fitnessAge",
        "lastNight5MinHigh", "muscleMassInGrams", "boneMassInGrams", "bodyWaterInPercent", "avgDeviationCelsius",
        "bodyBatteryChargedValue", "bodyBatteryDrainedValue",
    ]

    /// An id, short enough to be told apart with what stands around it.
    static func id(_ node: JSONNode) -> String? { name(node).flatMap { $0.count <= 120 ? $0 : nil } }

    /// A text, a number or a flag as a text; `nil` for anything else, and for what is longer than 200 characters.
    private static func name(_ node: JSONNode) -> String? {
        let text: String? =
            switch node.value {
            case .string(let text): text
            case .number(let digits): digits
            case .bool(let flag): flag ? "true" : "false"
            case .null, .array, .object: nil
            }
        guard let text, (1...200).contains(text.count), !text.contains(where: \.isNewline) else { return nil }
        return text
    }
}
