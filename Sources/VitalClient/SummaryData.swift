import HealthReadings

/// What a post of a summary carries, in the shape of its kind.
///
/// The shapes are those that vital-ios (`ResourceData.swift`, `*Patch.swift`) and vital-android (`Summary.kt`,
/// `Activity.kt`) send alike, or that the older TypeScript client confirms (`ManualSleepCreation`). What only one of them
/// sends is left out. Members without a value are not sent.
public enum SummaryData: Sendable, Hashable {
    /// Who a person is.
    case profile(ProfileSummary)
    /// What scales measure.
    case body(BodySummary)
    /// Days and samples of activity.
    case activity([ActivitySummary])
    /// Nights.
    case sleep([SleepSummary])
    /// Workouts.
    case workouts([WorkoutSummary])
    /// A kind whose shape the caller writes: menstrual cycles, meals, electrocardiograms.
    case document(SummaryKind, JSONValue)

    /// The kind, which the path of the post names.
    public var kind: SummaryKind {
        switch self {
        case .profile: .profile
        case .body: .body
        case .activity: .activity
        case .sleep: .sleep
        case .workouts: .workouts
        case .document(let kind, _): kind
        }
    }

    /// The document as it is sent.
    public var json: JSONValue {
        switch self {
        case .profile(let profile): profile.json
        case .body(let body): body.json
        case .activity(let activities): .array(activities.map(\.json))
        case .sleep(let nights): .array(nights.map(\.json))
        case .workouts(let workouts): .array(workouts.map(\.json))
        case .document(_, let document): document
        }
    }
}

/// Who a person is (`POST /v2/summary/profile/{user_id}`).
public struct ProfileSummary: Sendable, Hashable {
    /// A person's sex, in the server's names.
    public enum BiologicalSex: String, Sendable, Hashable, CaseIterable {
        case male, female, other
        case notSet = "not_set"
    }

    /// The sex; `nil` leaves it as it is.
    public var biologicalSex: BiologicalSex?
    /// When the person was born.
    public var dateOfBirth: Instant?
    /// The height in whole centimetres.
    public var heightCentimetres: Int?

    /// Makes a profile.
    public init(biologicalSex: BiologicalSex? = nil, dateOfBirth: Instant? = nil, heightCentimetres: Int? = nil) {
        self.biologicalSex = biologicalSex
        self.dateOfBirth = dateOfBirth
        self.heightCentimetres = heightCentimetres
    }

    /// The profile as it is sent.
    public var json: JSONValue {
        var members = SummaryMembers()
        members.add("biological_sex", biologicalSex.map { .string($0.rawValue) })
        members.add("date_of_birth", dateOfBirth)
        members.add("height", heightCentimetres)
        return members.json
    }
}

/// What a person did, as samples, and the sums of a day (`POST /v2/summary/activity/{user_id}`).
public struct ActivitySummary: Sendable, Hashable {
    /// The sums of one local day.
    public struct Day: Sendable, Hashable {
        /// The day: `2026-11-22`.
        public var day: String
        /// Energy of activity in kcal.
        public var activeEnergy: ExactDecimal?
        /// Energy at rest in kcal.
        public var basalEnergy: ExactDecimal?
        /// Steps.
        public var steps: Int?
        /// Flights of stairs.
        public var floorsClimbed: Int?
        /// The way walked and run, in metres.
        public var distance: ExactDecimal?

        /// Makes sums.
        public init(
            day: String, activeEnergy: ExactDecimal? = nil, basalEnergy: ExactDecimal? = nil, steps: Int? = nil,
            floorsClimbed: Int? = nil, distance: ExactDecimal? = nil
        ) {
            self.day = day
            self.activeEnergy = activeEnergy
            self.basalEnergy = basalEnergy
            self.steps = steps
            self.floorsClimbed = floorsClimbed
            self.distance = distance
        }

        var json: JSONValue {
            var members = SummaryMembers()
            members.add("calendar_date", .string(day))
            members.add("active_energy_burned_sum", activeEnergy)
            members.add("basal_energy_burned_sum", basalEnergy)
            members.add("steps_sum", steps)
            members.add("floors_climbed_sum", floorsClimbed)
            members.add("distance_walking_running_sum", distance)
            return members.json
        }
    }

    /// The day's sums.
    public var day: Day?
    /// Energy of activity in kcal.
    public var activeEnergy: [QuantitySample]
    /// Energy at rest in kcal.
    public var basalEnergy: [QuantitySample]
    /// Steps.
    public var steps: [QuantitySample]
    /// Flights of stairs.
    public var floorsClimbed: [QuantitySample]
    /// Ways walked and run, in metres.
    public var distance: [QuantitySample]
    /// Oxygen uptakes in mL/(kg·min).
    public var oxygenUptake: [QuantitySample]

    /// Makes a summary.
    public init(
        day: Day? = nil, activeEnergy: [QuantitySample] = [], basalEnergy: [QuantitySample] = [],
        steps: [QuantitySample] = [], floorsClimbed: [QuantitySample] = [], distance: [QuantitySample] = [],
        oxygenUptake: [QuantitySample] = []
    ) {
        self.day = day
        self.activeEnergy = activeEnergy
        self.basalEnergy = basalEnergy
        self.steps = steps
        self.floorsClimbed = floorsClimbed
        self.distance = distance
        self.oxygenUptake = oxygenUptake
    }

    var json: JSONValue {
        var members = SummaryMembers()
        members.add("day_summary", day?.json)
        members.add("active_energy_burned", activeEnergy)
        members.add("basal_energy_burned", basalEnergy)
        members.add("steps", steps)
        members.add("floors_climbed", floorsClimbed)
        members.add("distance_walking_running", distance)
        members.add("vo2_max", oxygenUptake)
        return members.json
    }
}

/// Rates of the heart during a night or a workout, in whole beats per minute.
public struct HeartRateRange: Sendable, Hashable {
    /// The highest.
    public var maximum: Int?
    /// The lowest.
    public var minimum: Int?
    /// The mean.
    public var mean: Int?

    /// Makes a range.
    public init(maximum: Int? = nil, minimum: Int? = nil, mean: Int? = nil) {
        self.maximum = maximum
        self.minimum = minimum
        self.mean = mean
    }

    fileprivate func add(to members: inout SummaryMembers) {
        members.add("heart_rate_maximum", maximum)
        members.add("heart_rate_minimum", minimum)
        members.add("heart_rate_mean", mean)
    }
}

/// One night, with its stages (`POST /v2/summary/sleep/{user_id}`).
public struct SleepSummary: Sendable, Hashable {
    /// Spans of a night by what the person did in them.
    public struct Stages: Sendable, Hashable {
        /// Awake.
        public var awake: [QuantitySample]
        /// In deep sleep.
        public var deep: [QuantitySample]
        /// In light sleep.
        public var light: [QuantitySample]
        /// In REM sleep.
        public var rem: [QuantitySample]
        /// In bed, asleep or not.
        public var inBed: [QuantitySample]
        /// Of no known stage.
        public var unknown: [QuantitySample]

        /// Makes stages.
        public init(
            awake: [QuantitySample] = [], deep: [QuantitySample] = [], light: [QuantitySample] = [],
            rem: [QuantitySample] = [], inBed: [QuantitySample] = [], unknown: [QuantitySample] = []
        ) {
            self.awake = awake
            self.deep = deep
            self.light = light
            self.rem = rem
            self.inBed = inBed
            self.unknown = unknown
        }

        var json: JSONValue {
            var members = SummaryMembers()
            members.add("awake_sleep_samples", awake)
            members.add("deep_sleep_samples", deep)
            members.add("light_sleep_samples", light)
            members.add("rem_sleep_samples", rem)
            members.add("in_bed_sleep_samples", inBed)
            members.add("unknown_sleep_samples", unknown)
            return members.json
        }
    }

    /// The sender's id of the night.
    public var id: String?
    /// When it began.
    public var startDate: Instant
    /// When it ended.
    public var endDate: Instant
    /// The application that wrote it.
    public var sourceBundle: String
    /// The device's product type.
    public var productType: String
    /// The heart's rates.
    public var heartRate: HeartRateRange
    /// The mean SDNN in milliseconds.
    public var meanVariability: ExactDecimal?
    /// The mean breaths a minute.
    public var meanRespiratoryRate: ExactDecimal?
    /// What the night consisted of.
    public var stages: Stages

    /// Makes a night.
    public init(
        id: String? = nil, from startDate: Instant, to endDate: Instant, sourceBundle: String, productType: String,
        heartRate: HeartRateRange = HeartRateRange(), meanVariability: ExactDecimal? = nil,
        meanRespiratoryRate: ExactDecimal? = nil, stages: Stages = Stages()
    ) {
        self.id = id
        self.startDate = startDate
        self.endDate = endDate
        self.sourceBundle = sourceBundle
        self.productType = productType
        self.heartRate = heartRate
        self.meanVariability = meanVariability
        self.meanRespiratoryRate = meanRespiratoryRate
        self.stages = stages
    }

    var json: JSONValue {
        var members = SummaryMembers()
        members.add("id", id)
        members.add("start_date", startDate)
        members.add("end_date", endDate)
        members.add("source_bundle", sourceBundle)
        members.add("product_type", productType)
        heartRate.add(to: &members)
        members.add("hrv_mean_sdnn", meanVariability)
        members.add("respiratory_rate_mean", meanRespiratoryRate)
        members.add("sleep_stages", stages.json)
        return members.json
    }
}

/// One workout (`POST /v2/summary/workouts/{user_id}`).
public struct WorkoutSummary: Sendable, Hashable {
    /// The sender's id of the workout.
    public var id: String?
    /// When it began.
    public var startDate: Instant
    /// When it ended.
    public var endDate: Instant
    /// The application that wrote it.
    public var sourceBundle: String
    /// The device's product type.
    public var productType: String?
    /// The sport, in the server's names: `running`.
    public var sport: String
    /// Energy in kcal.
    public var energy: ExactDecimal
    /// The way in metres.
    public var distance: ExactDecimal
    /// The heart's rates.
    public var heartRate: HeartRateRange

    /// Makes a workout.
    public init(
        id: String? = nil, _ sport: String, from startDate: Instant, to endDate: Instant, sourceBundle: String,
        productType: String? = nil, energy: ExactDecimal, distance: ExactDecimal,
        heartRate: HeartRateRange = HeartRateRange()
    ) {
        self.id = id
        self.sport = sport
        self.startDate = startDate
        self.endDate = endDate
        self.sourceBundle = sourceBundle
        self.productType = productType
        self.energy = energy
        self.distance = distance
        self.heartRate = heartRate
    }

    var json: JSONValue {
        var members = SummaryMembers()
        members.add("id", id)
        members.add("start_date", startDate)
        members.add("end_date", endDate)
        members.add("source_bundle", sourceBundle)
        members.add("product_type", productType)
        members.add("sport", sport)
        members.add("calories", energy)
        members.add("distance", distance)
        heartRate.add(to: &members)
        return members.json
    }
}

/// The members of a summary's object; what has no value is no member.
private struct SummaryMembers {
    private var members: [JSONValue.Member] = []

    var json: JSONValue { .object(members) }

    mutating func add(_ key: String, _ value: JSONValue?) {
        if let value { members.append(.init(key, value)) }
    }

    mutating func add(_ key: String, _ text: String?) { add(key, text.map(JSONValue.string)) }
    mutating func add(_ key: String, _ number: Int?) { add(key, number.map { .integer(Int64($0)) }) }
    mutating func add(_ key: String, _ number: ExactDecimal?) { add(key, number.map(JSONValue.number)) }
    mutating func add(_ key: String, _ time: Instant?) {
        add(key, time.map { .string($0.flooredToSecond.description) })
    }
    mutating func add(_ key: String, _ samples: [QuantitySample]) { add(key, .array(samples.map(\.json))) }
}
