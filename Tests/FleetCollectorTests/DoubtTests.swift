import FleetCollector
import FleetDocuments
import FleetStore
import HealthReadings
import Logging
import Testing

/// What a collector names although it takes the document: somebody has to look after the gateway.
@Suite struct DoubtTests {
    private static let noon = Instant(seconds: 1_800_000_000)

    /// What a collector doubts after statuses came, each at so many seconds after noon with an uptime.
    private func doubts(_ statuses: [(at: Int64, uptime: Int64)], clock: Int64 = 0) async throws -> [String: Int] {
        let store = try SQLiteCentralStore(directory: SampleBatch.folder())
        try await store.prepare()
        let desk = DocumentDesk(
            store: store, logger: Logger(label: "tests") { _ in SwiftLogNoOpLogHandler() },
            now: { Self.noon.advanced(bySeconds: clock) })
        let gateway = try GatewayID("gw1")
        for status in statuses {
            let report = FleetReport(
                gateway: gateway, sentAt: Self.noon.advanced(bySeconds: status.at), version: "1.0",
                uptimeSeconds: status.uptime)
            _ = try await desk.note(
                Array(FleetStatus.online(report).document.text.utf8), .status, from: gateway)
        }
        return desk.counters.current.doubts
    }

    @Test func aGatewayThatIsStartedAgainIsNoSecondOne() async throws {
        #expect(try await doubts([(0, 3600), (900, 4500), (1000, 10), (1900, 910)], clock: 1900).isEmpty)
        // A status that comes late says nothing new.
        #expect(try await doubts([(1000, 10), (900, 4500)], clock: 1900).isEmpty)
    }

    @Test func twoMachinesWithOneIdAreNamed() async throws {
        // The one has run for an hour, the other for a quarter of one; each is heard of again.
        let both: [(at: Int64, uptime: Int64)] = [(0, 3600), (60, 900), (900, 4500), (960, 1800), (1800, 5400)]
        #expect(try await doubts(both, clock: 1800) == ["same_id_twice": 2])
    }

    @Test func aClockThatIsAheadIsNamed() async throws {
        #expect(try await doubts([(600, 10)], clock: 500).isEmpty)
        #expect(try await doubts([(600, 10)], clock: 300) == ["clock_ahead": 1])
        // A status that waited in the queue is no wrong clock.
        #expect(try await doubts([(600, 10)], clock: 90_000).isEmpty)
    }

    @Test func anUptimeBeyondAllTimeEndsNothing() async throws {
        #expect(try await doubts([(0, 10), (60, 9_007_199_254_740_991)], clock: 60) == ["same_id_twice": 1])
    }
}
