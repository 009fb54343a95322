import AsyncHTTPClient
import DeliveryFixture
import Foundation
import HealthReadings
import NIOCore
import NIOHTTP1
import ReadingStore
import Synchronization
import Testing
import VitalClient
import VitalSandbox

@testable import ReadingDelivery
@testable import VitalDestination

/// A session's record in memory.
final class MemorySession: VitalSessionStorage {
    private let record = Mutex<VitalSessionRecord?>(nil)
    var now: VitalSessionRecord? { record.withLock { $0 } }
    func load() throws -> VitalSessionRecord? { now }
    func save(_ record: VitalSessionRecord) throws { self.record.withLock { $0 = record } }
}

@Suite("The client and the sandbox, written apart from each other")
struct ClientSandboxTests {
    private func withSandbox(
        lifetime: Int64 = 3600, pageSize: Int = 1000, _ body: (String, VitalAPI) async throws -> Void
    ) async throws {
        var configuration = SandboxConfiguration()
        configuration.accessTokenLifetime = lifetime
        configuration.pageSize = pageSize
        let sandbox = try SandboxServer(configuration: configuration, logger: Fixture.quiet)
        let running = Task { try await sandbox.run() }
        let result: Result<Void, any Error>
        do {
            let url = try await sandbox.address().baseURL
            try await body(url, api(url, key: SandboxConfiguration.fixedKey))
            result = .success(())
        } catch {
            result = .failure(error)
        }
        running.cancel()
        _ = await running.result
        try result.get()
    }

    private func lever(_ url: String, _ path: String, _ body: String) async throws {
        var request = HTTPClientRequest(url: url + path)
        request.method = .POST
        request.headers.add(name: "x-vital-api-key", value: SandboxConfiguration.fixedKey)
        request.body = .bytes(Array(body.utf8))
        let response = try await HTTPClient.shared.execute(request, timeout: .seconds(60))
        #expect(response.status == .ok)
    }

    private func session(_ url: String, _ token: VitalSignInToken, _ storage: MemorySession) throws -> VitalAPI {
        VitalAPI(
            server: try VitalServer(baseURL: url),
            credentials: .session(VitalSession(signInToken: token, storage: storage)), logger: Fixture.quiet)
    }

    private func failure(_ call: () async throws -> Void) async -> VitalError? {
        do {
            try await call()
            return nil
        } catch { return error as? VitalError }
    }

    @Test("a sign-in token begins a session: it delivers for its user, and for nobody else")
    func signIn() async throws {
        try await withSandbox { url, team in
            let user = try await team.createUser(clientUserID: Fixture.user)
            let other = try await team.createUser(clientUserID: "brown_bear")
            let token = try await team.createSignInToken(for: user.userID)
            #expect(token.userID == user.userID)
            let storage = MemorySession()
            let api = try session(url, token, storage)
            try await Fixture.with { fixture in
                try await fixture.read(12)
                let worker = OutboxWorker(store: fixture.store, api: api, policy: .create, logger: Fixture.quiet)
                #expect(await worker.syncOnce() == SyncReport(delivered: 12))
                #expect(try await fixture.person.serverUserID == user.userID)
            }
            #expect(await failure { _ = try await api.connectedSources(of: other.userID) }?.kind == .forbidden)
            // The next process goes on with what was kept; the sign-in token is used up.
            let next = try session(url, token, storage)
            #expect(try await next.connectedSources(of: user.userID).map(\.provider) == ["accuchek_ble"])
            let spent = try session(url, token, MemorySession())
            let error = await failure { _ = try await spent.connectedSources(of: user.userID) }
            #expect(error?.kind == .authenticationFailed && error?.name == "authenticationFailed")
        }
    }

    @Test("a session delivers its own person's readings; anybody else's wait, and get no account")
    func othersReadings() async throws {
        try await withSandbox { url, team in
            let user = try await team.createUser(clientUserID: Fixture.user)
            let api = try session(url, try await team.createSignInToken(for: user.userID), MemorySession())
            try await Fixture.with { fixture in
                let store = fixture.store
                try await fixture.read(3)
                let person = try await fixture.person
                try await store.setCurrentUser("brown_bear", timeZone: "UTC")
                let other = try await fixture.person
                try await fixture.read(2, from: 10)
                // As an earlier version left it.
                try await store.setServerUserID(user.userID, of: other.key)
                let worker = OutboxWorker(store: store, api: api, policy: .create, logger: Fixture.quiet)
                let report = await worker.syncOnce()
                #expect(report.delivered == 3 && report.failure == nil, "\(report)")
                #expect(report.held.map(\.hold) == [.notSelected] && report.held.map(\.count) == [2])
                #expect(report.held.first?.reason?.contains("client_user_id") == true)
                #expect(try await store.user(person.key)?.serverUserID == user.userID)
                #expect(try await store.user(other.key)?.serverUserID == nil)
                // Neither does the owner's word connect a source of the account.
                await #expect(throws: DeliveryFailure.self) {
                    try await worker.sources.connect("accuchek_ble", for: other)
                }
                #expect(try await store.user(other.key)?.serverUserID == nil)
                #expect(try await fixture.waiting == 2)
            }
        }
    }

    @Test("an access token is renewed when it ends and when it is refused, once for all who ask at the time")
    func renewal() async throws {
        // The client renews a token a minute before its end, so that a slow machine has none refused.
        for lifetime: Int64 in [3600, 30] {
            try await withSandbox(lifetime: lifetime) { url, team in
                let user = try await team.createUser(clientUserID: Fixture.user)
                let storage = MemorySession()
                let api = try session(url, try await team.createSignInToken(for: user.userID), storage)
                _ = try await api.connectedSources(of: user.userID)
                let first = try #require(storage.now)
                if lifetime == 3600 {
                    try await lever(
                        url, "/sandbox/users/\(user.userID)/sessions/end", #"{"keep_refresh":true}"#)
                }
                try await withThrowingTaskGroup(of: Void.self) { group in
                    for _ in 0..<8 { group.addTask { _ = try await api.connectedSources(of: user.userID) } }
                    try await group.waitForAll()
                }
                let second = try #require(storage.now)
                #expect(second.accessToken != first.accessToken && second.refreshToken != first.refreshToken)
            }
        }
    }

    @Test("a session that has ended is token_expired: delivery is paused, keeps everything and says so")
    func ended() async throws {
        try await withSandbox { url, team in
            let user = try await team.createUser(clientUserID: Fixture.user)
            let api = try session(url, try await team.createSignInToken(for: user.userID), MemorySession())
            try await Fixture.with { fixture in
                let worker = OutboxWorker(store: fixture.store, api: api, policy: .create, logger: Fixture.quiet)
                try await fixture.read(2)
                #expect(await worker.syncOnce().delivered == 2)
                try await lever(url, "/sandbox/users/\(user.userID)/sessions/end", "{}")
                try await fixture.read(3, from: 10)
                let report = await worker.syncOnce()
                #expect(report.failure?.code == "token_expired" && report.failure?.isRetryable == false)
                #expect(try await fixture.waiting == 3)
            }
        }
    }

    @Test(
        "what is no sign-in token says what was expected, and never repeats it",
        arguments: ["", "secretword", "c2VjcmV0d29yZA==", "eyJ1c2VyX3Rva2VuIjoic2VjcmV0d29yZCJ9"])
    func malformed(_ text: String) {
        let error = #expect(throws: VitalSignInToken.Malformed.self) { try VitalSignInToken(text) }
        #expect(error?.description.contains("secretword") == false && error?.reason.contains("expected") == true)
    }

    @Test("what was posted is read back, page by page: value, unit, type, time and zone; long ranges by weeks")
    func readBack() async throws {
        try await withSandbox(pageSize: 7) { _, api in
            let user = try await api.createUser(clientUserID: Fixture.user, fallbackTimeZone: "Europe/Berlin").userID
            try await api.connectManualSource("accuchek_ble", for: user)
            try await api.connectManualSource("omron_ble", for: user)
            let start = Instant(seconds: 1_700_000_000)
            let samples = (0..<60).map { number in
                QuantitySample(
                    id: "g\(number)", value: ExactDecimal(significand: Int64(50_001 + number), exponent: -4),
                    unit: .millimolesPerLitre, at: start.advanced(bySeconds: Int64(number) * 86_400),
                    source: .fingerprick)
            }
            let range = start...start.advanced(bySeconds: 59 * 86_400)
            try await api.post(
                TimeSeriesPost(
                    provider: "accuchek_ble", timeZone: "Europe/Berlin", stage: .historical, period: range,
                    data: .glucose(samples)), for: user)
            var pages = 0
            var read: [StoredSample] = []
            for try await page in api.samplePages(of: "glucose", for: user, in: range) {
                pages += 1
                #expect(page.groups.allSatisfy { $0.provider == "accuchek_ble" && $0.type == "fingerprick" })
                read += page.groups.flatMap(\.samples)
            }
            #expect(pages >= 9)
            #expect(read.map(\.timestamp) == samples.map(\.startDate))
            #expect(zip(read, samples).allSatisfy { $0.value.map { "\($0)" } == Self.trimmed($1.value) })
            #expect(read.allSatisfy { $0.unit == "mmol/L" && $0.zoneOffsetSeconds == 3600 })
            let newest = try await api.newestSample(of: "glucose", for: user, in: range)
            #expect(newest.timestamp == range.upperBound)
            let none = await failure { _ = try await api.newestSample(of: "blood_pressure", for: user, in: range) }
            #expect(none?.kind == .noWearableData && none?.code == "no_wearable_data" && none?.name == "noWearableData")

            func quantity(_ value: Int64, _ unit: SampleUnit) -> QuantitySample {
                QuantitySample(value: ExactDecimal(significand: value), unit: unit, at: start, source: .cuff)
            }
            try await api.post(
                TimeSeriesPost(
                    provider: "omron_ble", timeZone: "Europe/Berlin",
                    data: .bloodPressure([
                        BloodPressureSample(
                            systolic: quantity(127, .millimetresOfMercury),
                            diastolic: quantity(79, .millimetresOfMercury), pulse: quantity(69, .beatsPerMinute))
                    ])), for: user)
            let page = try await api.samplePage(of: "blood_pressure", for: user, in: range, provider: "omron_ble")
            #expect(page.nextCursor == nil)
            let sample = try #require(page.groups.first?.samples.first)
            #expect(sample.systolic?.description == "127" && sample.diastolic?.description == "79")
            #expect(sample.unit == "mmHg" && sample.type == "cuff")
        }
    }

    private static func trimmed(_ value: ExactDecimal) -> String {
        var text = value.description
        while text.last == "0" { text.removeLast() }
        return text
    }

    @Test("summaries of every kind are taken, after the same check of the source")
    func summaries() async throws {
        try await withSandbox { _, api in
            let user = try await api.createUser(clientUserID: Fixture.user).userID
            func post(_ data: SummaryData) async throws {
                try await api.post(SummaryPost(data, provider: "manual", timeZone: "UTC"), for: user)
            }
            let error = await failure { try await post(.body(BodySummary())) }
            #expect(error?.kind == .sourceNotConnected && error?.name == "notConnected")
            try await api.connectManualSource("manual", for: user)
            let span = (from: Instant(seconds: 1_700_000_000), to: Instant(seconds: 1_700_003_600))
            let steps = QuantitySample(
                value: ExactDecimal(significand: 120), unit: .count, at: span.from, source: .watch)
            let stage = QuantitySample(value: ExactDecimal(significand: 1), unit: .stage, at: span.from, source: .watch)
            let day = ActivitySummary.Day(day: "2023-11-14", floorsClimbed: 2, distance: ExactDecimal(significand: 7))
            try await post(
                .profile(ProfileSummary(biologicalSex: .female, dateOfBirth: span.from, heightCentimetres: 170)))
            try await post(.body(BodySummary()))
            try await post(.activity([ActivitySummary(day: day, steps: [steps])]))
            try await post(
                .sleep([
                    SleepSummary(
                        from: span.from, to: span.to, sourceBundle: "org.example", productType: "Watch1,1",
                        stages: .init(deep: [stage]))
                ]))
            try await post(
                .workouts([
                    WorkoutSummary(
                        "running", from: span.from, to: span.to, sourceBundle: "org.example",
                        energy: ExactDecimal(significand: 300), distance: ExactDecimal(significand: 5000))
                ]))
            for kind in [SummaryKind.menstrualCycle, .meal, .electrocardiogram] {
                try await post(.document(kind, .object(["height": .integer(170)])))
            }
            let wrong = await failure {
                try await post(
                    .workouts([
                        WorkoutSummary(
                            "", from: span.to, to: span.from, sourceBundle: "b", energy: ExactDecimal(significand: 1),
                            distance: ExactDecimal(significand: 1))
                    ]))
            }
            #expect(wrong?.kind == .validationFailed && wrong?.serverSaid?.contains("ends before it starts") == true)
        }
    }

    @Test("days of the body summary come back: of each day what was weighed last, by provider")
    func bodyDays() async throws {
        try await withSandbox { _, api in
            let user = try await api.createUser(clientUserID: Fixture.user).userID
            try await api.connectManualSource("manual", for: user)
            // 23:30 and 00:30 in Berlin: two days there, one in UTC.
            let (late, early) = (Instant(seconds: 1_700_001_000), Instant(seconds: 1_700_004_600))
            func weight(_ grams: Int64, _ time: Instant) -> QuantitySample {
                QuantitySample(
                    value: ExactDecimal(significand: grams, exponent: -3), unit: .kilograms, at: time, source: .scale)
            }
            let body = BodySummary(bodyMass: [
                weight(70_400, Instant(seconds: late.seconds - 3600)), weight(70_505, late), weight(71_000, early),
            ])
            try await api.post(SummaryPost(body, provider: "manual", timeZone: "Europe/Berlin"), for: user)
            let days = try await api.bodyDays(of: user, from: "2023-11-14", to: "2023-11-15")
            #expect(days.map(\.day) == ["2023-11-14", "2023-11-15"])
            #expect(days.map { $0.weight?.description } == ["70.505", "71"] && days.allSatisfy { $0.fat == nil })
            #expect(Set(days.map(\.id)).count == 2 && days.allSatisfy { $0.provider == "manual" })
            #expect(try await api.bodyDays(of: user, from: "2023-11-15").map(\.day) == ["2023-11-15"])
            #expect(try await api.bodyDays(of: user, from: "2023-11-14", provider: "omron_ble").isEmpty)
            let missing = await failure {
                _ = try await api.bodyDays(of: "00000000-0000-4000-8000-000000000000", from: "2023-11-14")
            }
            #expect(missing?.kind == .notFound)
        }
    }

    @Test("glucose in mg/dL is stored by the server in mmol/L")
    func milligrams() async throws {
        try await withSandbox { _, api in
            let user = try await api.createUser(clientUserID: Fixture.user).userID
            try await api.connectManualSource("manual", for: user)
            let time = Instant(seconds: 1_700_000_000)
            let sample = QuantitySample(
                value: ExactDecimal(significand: 95), unit: .milligramsPerDecilitre, at: time, source: .fingerprick)
            try await api.post(
                TimeSeriesPost(provider: "manual", timeZone: "UTC", data: .glucose([sample])), for: user)
            let stored = try await api.newestSample(of: "glucose", for: user, in: time...time)
            #expect(stored.value?.description == "5.2732" && stored.unit == "mmol/L")
        }
    }

    @Test("a user is found by the server's id too")
    func userByID() async throws {
        try await withSandbox { _, api in
            let user = try await api.createUser(clientUserID: Fixture.user)
            #expect(try await api.user(user.userID.uppercased()).clientUserID == Fixture.user)
            let missing = await failure { _ = try await api.user("00000000-0000-4000-8000-000000000000") }
            #expect(missing?.kind == .notFound)
        }
    }

    @Test("a user's time zone can be changed; a user who is not there is not_found")
    func updateUser() async throws {
        try await withSandbox { _, api in
            let user = try await api.createUser(clientUserID: Fixture.user).userID
            try await api.updateUser(user, fallbackTimeZone: "Europe/Berlin")
            let missing = await failure {
                try await api.updateUser("00000000-0000-4000-8000-000000000000", fallbackTimeZone: "UTC")
            }
            #expect(missing?.kind == .notFound)
        }
    }
}
