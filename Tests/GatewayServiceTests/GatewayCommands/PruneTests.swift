import EmulatedRadio
import Foundation
import GatewaySettings
import HealthReadings
import ReadingStore
import Synchronization
import Testing

@testable import GatewayCommands

/// `store prune`: what the server has and is old goes, and does not come back.
@Suite struct PruneTests {
    @Test("the parts that `store.keep` takes are those that the store can let go of")
    func parts() { #expect(Set(Settings.keptParts) == Set(Retention.Part.all.map(\.name))) }

    @Test(
        "promise 2: a meter that is read from its beginning brings nothing back, and its numbers go on",
        arguments: GatewayBench.Way.allCases)
    func rereading(_ way: GatewayBench.Way) async throws {
        let meter = try await ReadTests.paired()
        let bench = try await GatewayBench(
            way, [meter], settings: ["user.client_user_id": "white_bear", "sync.backfill_days": "36500"])
        #expect(try await bench.lines(ReadTests.read).count == 5)
        let store = bench.gateway.store
        let none = try await bench.lines(.store(.prune(olderThan: 0)))
        #expect(none[0].contains(#""pruned":{"readings":0,"frames":0},"kept":{"waiting":5,"refused":0,"excluded":0}"#))
        let group = try #require(try await store.groupsWaiting().first)
        let batch = try await store.outboxBatch(
            user: group.user, resource: group.resource, provider: group.provider, limit: 100)
        try await store.acknowledge(batch.map(\.id), at: .systemClock)
        let pruned = try await bench.lines(.store(.prune(olderThan: 0)), json: false)
        #expect(pruned.count == 1 && pruned[0].hasPrefix("pruned: 5 delivered readings older than "))
        #expect(try await bench.lines(.device(.read(ReadOperation(allRecords: true, seconds: 60)))).isEmpty)
        #expect(try await bench.lines(ReadTests.read).isEmpty)
        let listed = try await bench.lines(.device(.list))
        #expect(listed[0].contains(#""last_sequence":5,"sequence_epoch":0,"readings":0"#))
        let key = bench.directory.appendingPathComponent("state/store.key")
        let octets = try Data(contentsOf: key)
        meter.measure(6...6)
        #expect(try await bench.lines(ReadTests.read).map { $0.object["sequence"] as? Int } == [6])
        // Forgetting everybody leaves neither what was pruned nor the key it was sealed with; the meter is barred, whoever used it last.
        try await store.setCurrentUser("brown_bear", timeZone: "UTC")
        let forgotten =
            try await bench.lines(.store(.forget(ForgetOperation())))[0].object["users"] as? [[String: any Sendable]]
        #expect(forgotten?.count == 2 && forgotten?.last?["client_user_id"] as? String == "brown_bear")
        #expect(try Data(contentsOf: key) != octets)
        let statistics = try await store.statistics()
        #expect(statistics.delivered == 0 && statistics.frames == 0 && statistics.contacts == 0)
        #expect(try await bench.problem(ReadTests.read).message.contains("barred"))
        #expect(try await store.verify().isEmpty)
        try await bench.stop()
    }

    @Test("nothing is let go of by a clock for which nothing speaks, however much it is trusted")
    func provenClock() async throws {
        let meter = try await ReadTests.paired()
        let bench = try await GatewayBench(
            .allCases[0], [meter],
            settings: ["user.client_user_id": "white_bear", "sync.backfill_days": "36500", "store.keep": "glucose=1d"])
        #expect(try await bench.lines(ReadTests.read).count == 5)
        let store = bench.gateway.store
        let group = try #require(try await store.groupsWaiting().first)
        let batch = try await store.outboxBatch(
            user: group.user, resource: group.resource, provider: group.provider, limit: 100)
        try await store.acknowledge(batch.map(\.id), at: .systemClock)
        let machine = GatewayClockTests.Machine()
        let clock = machine.clock()
        #expect(await clock.doubt() == nil)
        #expect(try await bench.gateway.thin(by: clock) == nil)
        machine.state.withLock { $0.isSynchronized = true }
        #expect(try await bench.gateway.thin(by: clock)?.map(\.readings) == [5])
        try await bench.stop()
    }

    @Test("`store.keep` counts without a restart, and a reload says so: what is to be kept again stays")
    func reloaded() async throws {
        let meter = try await ReadTests.paired()
        let (keeping, plain) = (
            ["store.keep": "glucose=1d"], ["user.client_user_id": "white_bear", "sync.backfill_days": "36500"]
        )
        let bench = try await GatewayBench(.inProcess, [meter], settings: plain.merging(keeping) { $1 })
        #expect(try await bench.lines(ReadTests.read).count == 5)
        let store = bench.gateway.store
        let group = try #require(try await store.groupsWaiting().first)
        let batch = try await store.outboxBatch(
            user: group.user, resource: group.resource, provider: group.provider, limit: 100)
        try await store.acknowledge(batch.map(\.id), at: .systemClock)
        let machine = GatewayClockTests.Machine()
        machine.state.withLock { $0.isSynchronized = true }
        let clock = machine.clock()
        for (settings, gone) in [
            (plain, []), (plain.merging(keeping) { $1 }, [5]),
        ] as [([String: String], [Int])] {
            let fresh = try Settings(
                environment: [:], flags: GatewayBench.zone.merging(settings) { $1 },
                managed: ManagedSettings(stateDirectory: store.directory))
            #expect(try await bench.gateway.reload(fresh).isEmpty)
            #expect(try await bench.gateway.thin(by: clock)?.map(\.readings) == gone)
        }
        try await bench.stop()
    }
}
