import CloudSources
import Foundation
import HealthReadings
import Logging
import ReadingStore
import Synchronization
import Testing

@testable import GatewayCommands
@testable import GatewaySettings

@Suite("When clouds are fetched from")
struct CloudAttemptTests {
    private static let sixHours = Duration.seconds(6 * 3600)
    private static let noon = Instant(seconds: 1_800_000_000)

    /// Whether a fetch is due so many seconds after noon.
    private static func isDue(
        _ seconds: Int64, after last: CloudAttempt?, every interval: Duration = Self.sixHours, notBefore: Int64? = nil
    ) -> Bool {
        CloudAttempt.isDue(
            at: noon.advanced(bySeconds: seconds), after: last, every: interval,
            notBefore: notBefore.map { noon.advanced(bySeconds: $0) })
    }

    @Test("the first is due at once, the next ones after the interval, and none is put off by a clock that was ahead")
    func interval() {
        #expect(Self.isDue(0, after: nil))
        let last = CloudAttempt(at: Self.noon)
        #expect(!Self.isDue(6 * 3600 - 1, after: last) && Self.isDue(6 * 3600, after: last))
        #expect(Self.isDue(-1, after: last))
    }

    @Test("after failures that may pass it is due in minutes, twice as many each time, and no later than without them")
    func failures() {
        for (failures, wait) in [(1, Int64(300)), (2, 600), (3, 1200), (7, 19_200), (8, 21_600), (99, 21_600)] {
            let last = CloudAttempt(at: Self.noon, failures: failures)
            #expect(!Self.isDue(wait - 1, after: last) && Self.isDue(wait, after: last), "\(failures)")
        }
        let often = Duration.seconds(900)
        #expect(!Self.isDue(899, after: CloudAttempt(at: Self.noon, failures: 3), every: often))
        #expect(Self.isDue(900, after: CloudAttempt(at: Self.noon, failures: 3), every: often))
        let month = Int64(30 * 86_400)
        let last = CloudAttempt(at: Self.noon, failures: 99)
        #expect(!Self.isDue(month - 1, after: last, every: .seconds(month)))
        #expect(Self.isDue(month, after: last, every: .seconds(month)))
    }

    @Test("nothing is due before the service allows it, unless that is more than a day ahead")
    func notBefore() {
        let last = CloudAttempt(at: Self.noon, failures: 1)
        #expect(!Self.isDue(7199, after: last, notBefore: 7200) && Self.isDue(7200, after: last, notBefore: 7200))
        #expect(!Self.isDue(0, after: nil, notBefore: 1))
        #expect(Self.isDue(300, after: last, notBefore: 300 + 86_401))
        // A wait that is over hurries nothing.
        #expect(!Self.isDue(299, after: last, notBefore: 60))
    }

    @Test("what another command has fetched counts, and an account that was connected since has not been tried")
    func last() {
        let (early, late) = (Self.noon, Self.noon.advanced(bySeconds: 60))
        func last(_ attempt: CloudAttempt?, connected: Instant?, fetched: Instant?) -> CloudAttempt? {
            CloudAttempt.last(attempt, connected: connected, fetched: fetched, at: late)
        }
        let failed = CloudAttempt(at: early, failures: 4)
        #expect(last(nil, connected: early, fetched: nil) == nil)
        #expect(last(failed, connected: nil, fetched: nil) == failed)
        #expect(last(failed, connected: early, fetched: nil) == failed)
        #expect(last(failed, connected: late, fetched: nil) == nil)
        #expect(last(failed, connected: early, fetched: late) == CloudAttempt(at: late))
        let later = CloudAttempt(at: late, failures: 1)
        #expect(last(later, connected: early, fetched: early) == later)
        // A fetch under a clock that was ahead says nothing: a service that fails is asked no more often than others.
        #expect(last(failed, connected: early, fetched: late.advanced(bySeconds: 86_400)) == failed)
        #expect(last(nil, connected: early, fetched: late.advanced(bySeconds: 86_400)) == nil)
    }

    /// Keeps how fetches failed.
    private final class Told: Sendable {
        private let failures = Mutex<[String]>([])
        var codes: [String] { failures.withLock(\.self) }

        func note(_ result: Result<CloudResult, Problem>) {
            guard case .failure(let problem) = result else { return }
            failures.withLock { $0.append(problem.code) }
        }
    }

    /// A gateway with an account that was connected to a service which nobody reaches.
    ///
    /// - Parameters:
    ///   - app: the app of the settings.
    ///   - requiresSync: whether the clock, of which nobody says that it is synchronised, is untrusted.
    private static func with(
        app: String, requiresSync: Bool = false, _ body: (Gateway) async throws -> Void
    ) async throws {
        let path = NSTemporaryDirectory() + "gateway-\(UUID().uuidString.prefix(8))"
        defer { try? FileManager.default.removeItem(atPath: path) }
        let settings = try Settings(environment: [
            "HOME": path, "HEALTHRELAY_USER_CLIENT_USER_ID": "ann", "HEALTHRELAY_USER_TIME_ZONE": "Europe/Berlin",
            "HEALTHRELAY_CLOUD_SERVICE_URL": "http://127.0.0.1:1", "HEALTHRELAY_CLOUD_APP_ID": app,
            "HEALTHRELAY_CLOCK_REQUIRE_SYNC": "\(requiresSync)",
        ])
        let gateway = try await Gateway.open(
            settings, state: StateDirectory(flag: path, environment: [:]), radio: RadioSource.system,
            machine: .unsynchronized, logger: Logger(label: "quiet") { _ in SwiftLogNoOpLogHandler() })
        let folder = gateway.store.directory + "/cloud"
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        let account = """
            {"format":1,"account":{"contract":"wear_service","service":"http://127.0.0.1:1","app":"app","person":"ann",\
            "user":"user-of-whoop","connected_at":"2020-01-01T00:00:00Z"},"pending":[]}
            """
        try account.write(toFile: folder + "/whoop.json", atomically: true, encoding: .utf8)
        try await body(gateway)
        try gateway.store.close()
    }

    @Test("a fetch that fails because the service can't be reached is made again in minutes, each time later")
    func unreachable() async throws {
        try await Self.with(app: "app") { gateway in
            let told = Told()
            var attempts: [CloudVendor: CloudAttempt] = [:]
            for failures in 1...3 {
                await gateway.fetchClouds(&attempts, every: Self.sixHours) { told.note($1) }
                // Not before its time.
                await gateway.fetchClouds(&attempts, every: Self.sixHours) { told.note($1) }
                #expect(told.codes == Array(repeating: "no_connection", count: failures))
                #expect(attempts[.whoop]?.failures == failures)
                // As if the wait were over.
                attempts[.whoop]?.at = Instant.systemClock.advanced(bySeconds: -300 << Int64(failures - 1))
            }
        }
    }

    @Test("promise 10: while this machine's clock is in doubt no cloud is asked, and that counts as no attempt")
    func clockInDoubt() async throws {
        try await Self.with(app: "app", requiresSync: true) { gateway in
            let told = Told()
            var attempts: [CloudVendor: CloudAttempt] = [:]
            await gateway.fetchClouds(&attempts, every: Self.sixHours) { told.note($1) }
            #expect(told.codes.isEmpty && attempts.isEmpty)
            let runner = CloudRunner(gateway: gateway, json: true, output: Collected())
            let problem = await #expect(throws: Problem.self) { try await runner.run(.fetch(CloudRequest())) }
            #expect(problem?.code == "clock_not_trusted")
        }
    }

    @Test("a fetch during which this machine's clock becomes untrusted is tried again soon")
    func clockInDoubtMeanwhile() {
        #expect(Problem(ClockDoubt.jumped(3600).failure).mayPass)
        #expect(!Problem("forbidden", .notPermitted, "").mayPass)
    }

    @Test("a failure that somebody has to do something about waits for the interval")
    func notPassing() async throws {
        try await Self.with(app: "another") { gateway in
            let told = Told()
            var attempts: [CloudVendor: CloudAttempt] = [:]
            await gateway.fetchClouds(&attempts, every: Self.sixHours) { told.note($1) }
            #expect(told.codes == ["other_service"] && attempts[.whoop]?.failures == 0)
            attempts[.whoop]?.at = Instant.systemClock.advanced(bySeconds: -3600)
            await gateway.fetchClouds(&attempts, every: Self.sixHours) { told.note($1) }
            #expect(told.codes.count == 1)
            attempts[.whoop]?.at = Instant.systemClock.advanced(bySeconds: -6 * 3600)
            await gateway.fetchClouds(&attempts, every: Self.sixHours) { told.note($1) }
            #expect(told.codes.count == 2)
        }
    }
}
