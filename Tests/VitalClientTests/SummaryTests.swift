import HealthReadings
import ScriptedServer
import Testing

@testable import VitalClient

@Suite("Typed summaries")
struct SummaryTests {
    private static let dates = #""start_date":"2023-11-14T22:13:20Z","end_date":"2023-11-14T22:13:20Z""#

    private func sample(_ value: Int64, _ unit: SampleUnit) -> QuantitySample {
        QuantitySample(value: ExactDecimal(significand: value), unit: unit, at: noon, source: .watch)
    }

    /// Source of the names: vital-ios `ProfilePatch.swift` and vital-android `Summary.kt` (`LocalProfile`).
    @Test("a profile says only what is known")
    func profile() {
        let profile = ProfileSummary(biologicalSex: .notSet, dateOfBirth: noon, heightCentimetres: 170)
        #expect(
            profile.json.text
                == #"{"biological_sex":"not_set","date_of_birth":"2023-11-14T22:13:20Z","height":170}"#)
        #expect(ProfileSummary().json.text == "{}")
    }

    /// Source of the names: vital-ios `ActivityPatch.swift` and vital-android `LocalActivity`, `ActivityDaySummary`.
    @Test("an activity has every list, and a day's sums where they are known")
    func activity() {
        let day = ActivitySummary.Day(
            day: "2023-11-14", activeEnergy: ExactDecimal(significand: 3505, exponent: -1), steps: 9000)
        let data = SummaryData.activity([ActivitySummary(day: day, steps: [sample(120, .count)])])
        #expect(
            data.json.text == """
                [{"day_summary":{"calendar_date":"2023-11-14","active_energy_burned_sum":350.5,"steps_sum":9000},\
                "active_energy_burned":[],"basal_energy_burned":[],\
                "steps":[{"value":120,"unit":"count",\(Self.dates),"type":"watch"}],\
                "floors_climbed":[],"distance_walking_running":[],"vo2_max":[]}]
                """)
    }

    /// Source of the names: vital-ios `SleepPatch.swift` and the TypeScript client's `ManualSleepCreation`.
    @Test("a night has its stages")
    func sleep() {
        let night = SleepSummary(
            id: "n1", from: noon, to: noon, sourceBundle: "org.example", productType: "Watch1,1",
            heartRate: HeartRateRange(mean: 52), meanVariability: ExactDecimal(significand: 412, exponent: -1),
            stages: .init(rem: [sample(3, .stage)]))
        #expect(
            SummaryData.sleep([night]).json.text == """
                [{"id":"n1",\(Self.dates),"source_bundle":"org.example","product_type":"Watch1,1",\
                "heart_rate_mean":52,"hrv_mean_sdnn":41.2,"sleep_stages":{"awake_sleep_samples":[],\
                "deep_sleep_samples":[],"light_sleep_samples":[],\
                "rem_sleep_samples":[{"value":3,"unit":"stage",\(Self.dates),"type":"watch"}],\
                "in_bed_sleep_samples":[],"unknown_sleep_samples":[]}}]
                """)
    }

    /// Source of the names: vital-ios `WorkoutPatch.swift` and vital-android `LocalWorkout`.
    @Test("a workout has its sport, energy and way")
    func workout() {
        let run = WorkoutSummary(
            "running", from: noon, to: noon, sourceBundle: "org.example", energy: ExactDecimal(significand: 300),
            distance: ExactDecimal(significand: 5000), heartRate: HeartRateRange(maximum: 181, minimum: 92, mean: 150))
        #expect(
            SummaryData.workouts([run]).json.text == """
                [{\(Self.dates),"source_bundle":"org.example","sport":"running","calories":300,"distance":5000,\
                "heart_rate_maximum":181,"heart_rate_minimum":92,"heart_rate_mean":150}]
                """)
    }

    @Test("each kind is posted to its path")
    func paths() async throws {
        let posts: [SummaryData] = [
            .profile(ProfileSummary()), .body(BodySummary()), .activity([]), .sleep([]), .workouts([]),
            .document(.meal, .object([])),
        ]
        try await ScriptedServer.with({ _ in .ok }) { server in
            for data in posts {
                try await client(of: server).post(SummaryPost(data, provider: "manual", timeZone: "UTC"), for: "u-1")
            }
            #expect(
                server.requests.map(\.path)
                    == ["profile", "body", "activity", "sleep", "workouts", "meal"].map { "/v2/summary/\($0)/u-1" })
        }
    }

    @Test("days of the body summary are read, whatever else the server says of them")
    func bodyDays() async throws {
        let answer = """
            {"body":[{"user_id":"u","id":"b1","calendar_date":"2023-11-14","date":"x","weight":70.5,"fat":null,
            "source":{"provider":"manual","type":"scale"}},
            {"id":"b2","calendar_date":"2023-11-15","fat":22.25,"source":{"slug":"withings","name":"Withings"}}]}
            """
        try await ScriptedServer.with({ _ in .json(200, answer) }) { server in
            let days = try await client(of: server).bodyDays(
                of: "u-1", from: "2023-11-14", to: "2023-11-15", provider: "manual")
            #expect(days.map(\.day) == ["2023-11-14", "2023-11-15"] && days.map(\.provider) == ["manual", "withings"])
            #expect(days.map { $0.weight?.description } == ["70.5", nil])
            #expect(days.map { $0.fat?.description } == [nil, "22.25"])
            let path = server.requests.first?.path
            #expect(
                path == "/v2/summary/body/u-1?start_date=2023-11-14&end_date=2023-11-15&provider=manual",
                "\(path ?? "-")")
        }
    }

    @Test("a user who was asked for by the server's id is that user, or it is an error")
    func user() async throws {
        let id = "00000000-0000-4000-8000-00000000000A"
        @Sendable func answer(_ id: String, _ name: String) -> ScriptedAnswer {
            .json(200, #"{"user_id":"\#(id)","client_user_id":"\#(name)"}"#)
        }
        try await ScriptedServer.with({ _ in answer(id.lowercased(), "white_bear") }) { server in
            let user = try await client(of: server).user(id)
            #expect(user.clientUserID == "white_bear")
        }
        for wrong in [answer("00000000-0000-4000-8000-00000000000b", "white_bear"), answer(id, "")] {
            try await ScriptedServer.with({ _ in wrong }) { server in
                let error = await failure { _ = try await client(of: server).user(id) }
                #expect(error?.kind == .unexpectedAnswer)
            }
        }
    }
}
