import FleetDelivery
import FleetDocuments
import Foundation
import HealthReadings
import LogLines
import ReadingStore
import Synchronization
import Testing

@testable import GatewayCommands
@testable import GatewaySettings

/// Settings from the centre of a fleet, on a gateway that runs.
@Suite("Settings from a fleet's centre", .timeLimit(.minutes(3))) struct FleetSettingsDeskTests {
    /// A gateway with a desk whose time passes when the test says so.
    private struct Bench {
        let bench: GatewayBench
        let desk: FleetSettingsDesk
        let time: Time

        final class Time: Sendable {
            private let seconds = Mutex<Int64>(0)
            var now: Int64 { seconds.withLock(\.self) }
            func pass(_ more: Int64) { seconds.withLock { $0 += more } }
        }

        init(
            _ settings: [String: String] = [:], machine: GatewayClock.Machine = GatewayClock.Machine(),
            in directory: URL? = nil, isAttached: Bool = true
        ) async throws {
            bench = try await GatewayBench(settings: settings, machine: machine, isService: true, in: directory)
            let time = Time()
            self.time = time
            desk = Self.desk(bench, time)
            if isAttached { await desk.attach(bench.gateway) }
        }

        static func desk(_ bench: GatewayBench, _ time: Time) -> FleetSettingsDesk {
            FleetSettingsDesk(
                "study", directory: bench.gateway.store.directory, logger: bench.log.logger(), uptime: { time.now },
                now: { Instant(seconds: 1_800_000_000 + time.now) })
        }

        var settings: Settings { bench.gateway.settings }
        var file: String { bench.gateway.store.directory + "/settings.yaml" }
        var record: FleetRecord? { FleetRecordFile(directory: bench.gateway.store.directory).read() }

        @discardableResult
        func take(_ version: Int64, _ settings: [String: FleetConfiguration.Value]) async throws -> Bool {
            await desk.take(
                FleetConfiguration(gateway: try GatewayID("ward-7"), version: version, settings: settings))
        }

        /// Changes a setting as the gateway's owner does.
        func changeOwners(_ key: String, _ value: String) async throws {
            _ = try await SettingsDesk(bench.gateway).change(SettingsChange(set: [key: .text(value)]))
        }
    }

    @Test("a newer version is applied and told; repeats and older versions change nothing")
    func applied() async throws {
        let bench = try await Bench()
        #expect(await bench.desk.state().state == .none)
        #expect(try await bench.take(5, ["log.level": .text("debug"), "sync.backfill_days": .whole(7)]))
        #expect(bench.settings["log.level"] == "debug" && bench.settings["sync.backfill_days"] == "7")
        let text = try String(contentsOfFile: bench.file, encoding: .utf8)
        #expect(text.contains("debug"))
        let state = await bench.desk.state()
        #expect(state.state == .applied && state.version == 5 && state.applied == 5 && state.hash?.count == 16)
        for version in [5, 4] as [Int64] {
            #expect(try await !bench.take(version, ["log.level": .text("error")]))
        }
        #expect(bench.settings["log.level"] == "debug")
        await bench.desk.heard(.receipt)
        #expect(bench.record?.trial == nil && bench.record?.applied == 5)
        // What a newer version doesn't name is the owner's again.
        #expect(try await bench.take(6, ["log.level": .text("notice")]))
        #expect(bench.settings["log.level"] == "notice" && bench.settings["sync.backfill_days"] == "90")
        #expect(await bench.desk.state().hash != state.hash)
        try await bench.bench.stop()
    }

    @Test("what the owner changed meanwhile stays the owner's")
    func owners() async throws {
        let bench = try await Bench()
        try await bench.changeOwners("log.level", "error")
        try await bench.take(1, ["log.level": .text("debug"), "fleet.status_minutes": .whole(5)])
        await bench.desk.heard(.receipt)
        try await bench.changeOwners("fleet.status_minutes", "30")
        try await bench.take(2, [:])
        #expect(bench.settings["log.level"] == "error" && bench.settings["fleet.status_minutes"] == "30")
        try await bench.bench.stop()
    }

    @Test("a version with a setting that cannot be set is refused whole, with a reason for each key")
    func refused() async throws {
        let bench = try await Bench(["log.level": "warning"])
        let text = #"""
            {"schema":1,"gateway":"ward-7","version":3,"settings":{"log.level":"debug","http.listen":"0.0.0.0:80",
            "sync.backfill_days":400,"cloud.every":"1m","heart_rate.hrv_window":60}}
            """#
        #expect(await bench.desk.take(try FleetConfiguration(Array(text.utf8))))
        let state = await bench.desk.state()
        #expect(state.state == .refused && state.version == 3 && state.applied == nil)
        let reasons = Dictionary(uniqueKeysWithValues: state.refused.map { ($0.key, $0.reason) })
        #expect(Set(reasons.keys) == ["http.listen", "log.level", "sync.backfill_days", "cloud.every"])
        #expect(reasons["log.level"] == "fixed by the administrator")
        #expect(reasons["sync.backfill_days"]?.contains("not raise it above the owner's 90") == true)
        #expect(reasons["cloud.every"]?.contains("15m to 30d") == true)
        #expect(bench.settings["heart_rate.hrv_window"] == "300")
        // The owner's own value is the limit, also while the centre has set a lower one.
        try await bench.take(4, ["sync.backfill_days": .whole(10)])
        #expect(bench.settings["sync.backfill_days"] == "10")
        try await bench.take(5, ["sync.backfill_days": .whole(90)])
        #expect(bench.settings["sync.backfill_days"] == "90")
        #expect(await bench.desk.state().state == .applied)
        try await bench.bench.stop()
    }

    @Test("a version that was refused stops no later one, however high its number is")
    func refusedHigh() async throws {
        let bench = try await Bench()
        try await bench.take(7, ["log.level": .text("debug")])
        await bench.desk.heard(.receipt)
        let highest: Int64 = 9_007_199_254_740_991
        #expect(try await bench.take(highest, ["cloud.every": .text("1s")]))
        let state = await bench.desk.state()
        #expect(state.state == .refused && state.version == highest && state.applied == 7)
        // It is told once, and what came before it is still old.
        #expect(try await !bench.take(highest, ["cloud.every": .text("1s")]))
        #expect(try await !bench.take(7, ["log.level": .text("error")]))
        #expect(try await bench.take(8, ["log.level": .text("notice")]))
        #expect(bench.settings["log.level"] == "notice")
        #expect(await bench.desk.state().state == .applied)
        // A record that a former version of the program has written.
        var old = try #require(bench.record)
        (old.highest, old.wanted, old.state) = (nil, highest, "refused")
        #expect(old.isNews(9) && !old.isNews(8) && !old.isNews(highest))
        (old.wanted, old.state) = (8, "rolled_back")
        #expect(!old.isNews(8) && old.isNews(9))
        try await bench.bench.stop()
    }

    @Test("settings without an answer for ten minutes are taken back, told, and not applied again")
    func rolledBack() async throws {
        let bench = try await Bench()
        try await bench.changeOwners("log.level", "error")
        try await bench.take(1, ["log.level": .text("debug")])
        bench.time.pass(599)
        await bench.desk.check()
        #expect(bench.settings["log.level"] == "debug")
        bench.time.pass(1)
        await bench.desk.check()
        #expect(bench.settings["log.level"] == "error")
        let state = await bench.desk.state()
        #expect(state.state == .rolledBack && state.version == 1 && state.applied == nil)
        #expect(state.reason == "the centre did not answer for 10 minutes after it was applied")
        #expect(try await !bench.take(1, ["log.level": .text("debug")]))
        #expect(bench.settings["log.level"] == "error")
        // A newer one is tried, and an answer is enough where nothing waits.
        #expect(try await bench.take(2, ["log.level": .text("info")]))
        await bench.desk.heard(.answer)
        bench.time.pass(700)
        await bench.desk.check()
        #expect(
            await bench.desk.state()
                == FleetConfigurationState(
                    version: 2, applied: 2, hash: bench.desk.state().hash, state: .applied))
        #expect(bench.record?.trial == nil)
        try await bench.bench.stop()
    }

    @Test("settings are not kept because a store that can't be read shows nothing that waits")
    func unreadableStore() async throws {
        let bench = try await Bench()
        try await bench.take(1, ["log.level": .text("debug")])
        await bench.desk.heard(.answer)
        try await bench.bench.gateway.close()
        bench.time.pass(700)
        await bench.desk.check()
        let record = try #require(bench.record)
        #expect(record.applied == nil && record.trial?.stage == .trying)
    }

    @Test("a version that comes while another is tried goes back to what was good before both")
    func overlapping() async throws {
        let bench = try await Bench()
        try await bench.take(1, ["log.level": .text("info")])
        await bench.desk.heard(.receipt)
        try await bench.take(2, ["log.level": .text("debug")])
        bench.time.pass(500)
        await bench.desk.check()
        try await bench.take(3, ["log.level": .text("trace"), "fleet.status_minutes": .whole(1)])
        bench.time.pass(500)
        await bench.desk.check()
        #expect(bench.settings["log.level"] == "trace")
        bench.time.pass(100)
        await bench.desk.check()
        #expect(bench.settings["log.level"] == "info" && bench.settings["fleet.status_minutes"] == "15")
        let state = await bench.desk.state()
        #expect(state.state == .rolledBack && state.version == 3 && state.applied == 1)
        try await bench.bench.stop()
    }

    @Test("a gateway that is killed at any moment ends with the old settings or the new ones")
    func killed() async throws {
        let bench = try await Bench()
        let file = FleetRecordFile(directory: bench.bench.gateway.store.directory)
        try await bench.take(1, ["log.level": .text("debug")])
        var record = try #require(bench.record)
        // Before anything was changed: the next process applies it.
        _ = try await SettingsDesk(bench.bench.gateway).change(SettingsChange(unset: ["log.level"]))
        record.trial?.stage = .applying
        try file.write(record)
        let second = Bench.desk(bench.bench, bench.time)
        await second.attach(bench.bench.gateway)
        #expect(bench.settings["log.level"] == "debug" && bench.record?.trial?.stage == .trying)
        // A process that never lives for long uses up the trial by its starts.
        for _ in 0..<9 { await Bench.desk(bench.bench, bench.time).attach(bench.bench.gateway) }
        #expect(bench.settings["log.level"] == "debug")
        await Bench.desk(bench.bench, bench.time).attach(bench.bench.gateway)
        #expect(bench.settings["log.level"] == "info" && bench.record?.state == "rolled_back")
        // While the former settings were put back.
        try await bench.changeOwners("log.level", "debug")
        record.trial?.stage = .returning
        try file.write(record)
        await Bench.desk(bench.bench, bench.time).attach(bench.bench.gateway)
        #expect(bench.settings["log.level"] == "info" && bench.record?.trial == nil)
        try await bench.bench.stop()
    }

    @Test("a version that comes while the former settings are put back is on trial afterwards")
    func whileReturning() async throws {
        let bench = try await Bench()
        let gateway = bench.bench.gateway
        try await bench.take(1, ["log.level": .text("debug")])
        var record = try #require(bench.record)
        record.trial?.stage = .returning
        try FleetRecordFile(directory: gateway.store.directory).write(record)
        let second = Bench.desk(bench.bench, bench.time)
        let next = FleetConfiguration(
            gateway: try GatewayID("ward-7"), version: 2, settings: ["log.level": .text("error")])
        async let back: Void = second.attach(gateway)
        // It takes none before it has the gateway, which it has from the moment at which it begins to put back.
        while await !second.take(next) { await Task.yield() }
        await back
        #expect(bench.settings["log.level"] == "error")
        #expect(bench.record?.trial?.version == 2 && bench.record?.trial?.stage == .trying)
        // And goes as any other if nothing comes of it.
        bench.time.pass(600)
        await second.check()
        #expect(bench.settings["log.level"] == "info" && bench.record?.state == "rolled_back")
        try await bench.bench.stop()
    }

    @Test("what counts only after a restart is tried after it")
    func restart() async throws {
        let bench = try await Bench()
        let requests = bench.bench.gateway.restartRequests()
        try await bench.take(1, ["fleet.status_minutes": .whole(5)])
        #expect(bench.record?.trial?.stage == .applying)
        // A receipt that was on its way proves nothing.
        await bench.desk.heard(.receipt)
        bench.time.pass(900)
        await bench.desk.check()
        #expect(bench.record?.trial?.stage == .applying)
        #expect(await requests.first { _ in true } != nil)
        let directory = bench.bench.directory
        let copy = directory.deletingLastPathComponent().appendingPathComponent("hr-copy-\(UUID().uuidString)")
        try await bench.bench.gateway.close()
        try FileManager.default.copyItem(at: directory, to: copy)
        let next = try await Bench(in: copy)
        #expect(next.settings["fleet.status_minutes"] == "5" && next.record?.trial?.stage == .trying)
        await next.desk.heard(.receipt)
        #expect(next.record?.applied == 1)
        try await next.bench.stop()
    }

    @Test(
        "a clock that has to be synchronised is kept where somebody says that it is, and taken back where nobody does",
        arguments: [true, false])
    func requiredClock(isSynchronized: Bool) async throws {
        var machine = GatewayClock.Machine()
        machine.evidence = { isSynchronized ? .kernel : nil }
        let bench = try await Bench(machine: machine)
        let requests = bench.bench.gateway.restartRequests()
        try await bench.take(1, ["clock.require_sync": .flag(true)])
        #expect(await requests.first { _ in true } != nil)
        let directory = bench.bench.directory
        let copy = directory.deletingLastPathComponent().appendingPathComponent("hr-copy-\(UUID().uuidString)")
        try await bench.bench.gateway.close()
        try FileManager.default.copyItem(at: directory, to: copy)
        let next = try await Bench(machine: machine, in: copy)
        #expect(next.settings["clock.require_sync"] == "true" && next.record?.trial?.stage == .trying)
        // A reading that was stored before is delivered all the same, and then nothing waits.
        await next.desk.heard(.answer)
        await next.desk.heard(.receipt)
        #expect((next.record?.applied == 1) == isSynchronized)
        next.time.pass(600)
        await next.desk.check()
        let state = await next.desk.state()
        #expect(state.state == (isSynchronized ? .applied : .rolledBack) && state.applied == (isSynchronized ? 1 : nil))
        #expect((state.reason?.contains("not reported as synchronised") == true) == !isSynchronized)
        #expect(next.settings["clock.require_sync"] == (isSynchronized ? "true" : "false"))
        #expect(next.record?.trial == nil)
        try await next.bench.stop()
    }

    @Test("a receipt that came before the clock was synchronised counts once it is")
    func requiredClockLater() async throws {
        let synchronized = Bench.Time()
        var machine = GatewayClock.Machine()
        machine.evidence = { synchronized.now > 0 ? .kernel : nil }
        let bench = try await Bench(machine: machine)
        try await bench.take(1, ["clock.require_sync": .flag(true)])
        await bench.desk.heard(.receipt)
        await bench.desk.check()
        #expect(bench.record?.applied == nil && bench.record?.trial?.stage == .trying)
        synchronized.pass(1)
        await bench.desk.check()
        #expect(bench.record?.applied == 1 && bench.record?.trial == nil)
        try await bench.bench.stop()
    }

    @Test("a process that does not run the gateway changes nothing")
    func unattached() async throws {
        let bench = try await Bench(isAttached: false)
        #expect(try await !bench.take(1, ["log.level": .text("debug")]))
        #expect(bench.settings["log.level"] == "info" && bench.record == nil)
        try await bench.bench.stop()
    }
}
