import DeliveryFixture
import Foundation
import HealthReadings
import ReadingStore
import ScriptedServer
import TestSupport
import Testing
import VitalClient

@testable import ReadingDelivery
@testable import VitalDestination

@Suite("Two destinations")
struct TwoDestinationsTests {
    private static func ids(_ path: String) throws -> [String] {
        try String(contentsOfFile: path, encoding: .utf8).split(separator: "\n").map { line in
            let document = try #require(try JSONSerialization.jsonObject(with: Data(line.utf8)) as? [String: Any])
            return try #require(document["id"] as? String)
        }
    }

    private static func waiting(_ fixture: Fixture, _ worker: OutboxWorker) async throws -> Int {
        try await fixture.store.groupsWaiting(at: worker.place()).reduce(0) { $0 + $1.count }
    }

    @Test("each gets every reading once, what was stored before it was known included")
    func both() async throws {
        let script = VitalScript()
        try await withServerAndFile(script) { vital, file, fixture, path in
            try await fixture.read(20)
            #expect(await vital.syncOnce() == SyncReport(delivered: 20))
            try await fixture.read(5, kind: .bloodPressure, device: 2, provider: "omron_ble")
            #expect(await file.syncOnce() == SyncReport(delivered: 25))
            #expect(await vital.syncOnce() == SyncReport(delivered: 5))
            #expect(await file.syncOnce() == SyncReport() && script.now.taken.count == 25)
            let ids = try Self.ids(path)
            #expect(ids.count == 25 && Set(ids) == Set(script.now.taken))
            let readings = try await fixture.store.query(ReadingQuery(limit: 100)).readings
            #expect(readings.allSatisfy { $0.deliveries.map(\.destination) == ["vital", "file"] })
            #expect(readings.flatMap(\.deliveries).allSatisfy { $0.state == .delivered })
        }
    }

    @Test("the second that was chosen for a destination is told where it is not the reading's own")
    func sentTime() async throws {
        try await withServerAndFile { vital, file, fixture, path in
            try await fixture.read(2)
            try await fixture.read(1, device: 2)
            #expect(await file.syncOnce() == SyncReport(delivered: 3))
            let readings = try await fixture.store.query(ReadingQuery()).readings
            let told = readings.flatMap { reading in
                reading.deliveries.compactMap { delivery in
                    delivery.sentTime.map { (delivery.destination, $0.seconds - (reading.time.instant?.seconds ?? 0)) }
                }
            }
            // Both meters measured in the first minute, and a server tells samples apart by their second.
            #expect(told.count == 1 && told.first?.0 == "vital" && told.first?.1 == 1)
            let texts = readings.map(\.document.text)
            let moved = Instant(seconds: Fixture.start + 61)
            #expect(texts.count { $0.contains("sent_time") } == 1)
            #expect(texts.contains { $0.contains(#","sent_time":"\#(moved)"}"#) })
            // What is chosen stays once it was delivered.
            #expect(await vital.syncOnce() == SyncReport(delivered: 3))
            let after = try await fixture.store.query(ReadingQuery()).readings.flatMap(\.deliveries)
            #expect(after.compactMap(\.sentTime) == [moved])
            #expect(try !String(contentsOfFile: path, encoding: .utf8).contains("sent_time"))
        }
    }

    @Test("a server that fails, refuses the key or holds its source keeps nothing from the file", arguments: 0..<3)
    func serverStopped(fault: Int) async throws {
        let (script, clock) = (VitalScript(), ManualClock())
        script.change { state in
            switch fault {
            case 0: state.judge = { _ in .json(500, "{}") }
            case 1: state.nextUser = Array(repeating: .json(401, #"{"detail":"Invalid key"}"#), count: 50)
            default: state.sources["accuchek_ble"] = "paused"
            }
        }
        try await withServerAndFile(script, clock: clock.syncClock) { vital, file, fixture, path in
            try await fixture.read(10)
            let running = Task {
                try await withThrowingTaskGroup(of: Void.self) { group in
                    group.addTask { try await vital.run() }
                    group.addTask { try await file.run() }
                    try await group.waitForAll()
                }
            }
            #expect(try await eventually { try await Self.waiting(fixture, file) == 0 })
            // The clock stands still: whatever waited for the server's backoff could not go now.
            try await fixture.read(10, from: 100)
            #expect(try await eventually { try await Self.waiting(fixture, file) == 0 })
            #expect(await file.status.failures == 0)
            #expect(script.now.taken.isEmpty)
            #expect(try await Self.waiting(fixture, vital) == 20)
            running.cancel()
            try await running.value
            #expect(try Set(Self.ids(path)).count == 20 && Self.ids(path).count == 20)
        }
    }

    @Test("a file that cannot be written keeps nothing from the server, and gets everything once it can")
    func fileStopped() async throws {
        let script = VitalScript()
        try await withServerAndFile(script) { vital, _, fixture, _ in
            let folder = fixture.folder + "/missing"
            let file = fixture.lines(at: folder + "/readings.jsonl")
            try await fixture.read(10)
            let report = await file.syncOnce()
            #expect(report.delivered == 0 && report.failure?.code == "store_io")
            #expect(await vital.syncOnce() == SyncReport(delivered: 10))
            #expect(await vital.status.failures == 0)
            try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
            #expect(await file.syncOnce() == SyncReport(delivered: 10))
            #expect(try Self.ids(folder + "/readings.jsonl").count == 10)
        }
    }

    @Test("a crash between the line and its acknowledgement, or within a line, doubles and loses nothing")
    func crash() async throws {
        try await withServerAndFile { _, file, fixture, path in
            try await fixture.read(6)
            let place = try await file.place()
            let group = try #require(try await fixture.store.groupsWaiting(at: place).first)
            let items = try await fixture.store.outboxBatch(
                user: group.user, resource: group.resource, provider: group.provider, limit: 4, at: place)
            let part = DeliveryPart(
                target: group.target, person: try await fixture.person, items: items, isLast: false)
            // Appended, and nothing of it acknowledged: the process ends here.
            _ = try await JSONLinesDestination(name: "file", path: path).send(part)
            let handle = try #require(FileHandle(forWritingAtPath: path))
            try handle.seekToEnd()
            try handle.write(contentsOf: Data(#"{"id":"0123456789abcdef0123456789abcdef","person":"whi"#.utf8))
            try handle.close()
            #expect(await file.syncOnce() == SyncReport(delivered: 6))
            let ids = try Self.ids(path)
            #expect(ids.count == 6 && Set(ids).count == 6)
        }
    }

    #if DEBUG && compiler(>=6.3)  // Earlier exit tests capture nothing.
        /// Stores readings and delivers them to the file, four at a time.
        private static func work(_ folder: String, unwrittenLimit: Int? = nil) async throws {
            let fixture = try await Fixture.open(folder)
            try await fixture.read(20)
            let file = fixture.lines(unwrittenLimit: unwrittenLimit)
            #expect(await file.syncOnce().failure == nil)
            #expect(try await waiting(fixture, file) == 0)
            try fixture.store.close()
        }

        @Test(
            "death at any moment of a delivery to a file doubles and loses nothing",
            arguments: [
                "jsonl.before", "jsonl.before:3", "jsonl.after", "jsonl.after:4", "acknowledge.before-commit:2",
                "acknowledge.after-commit:2", "setting.before-commit", "setting.after-commit",
            ])
        func killed(point: String) async throws {
            let folder = FileManager.default.temporaryDirectory.appending(path: "killed-\(UUID().uuidString)").path
            defer { try? FileManager.default.removeItem(atPath: folder) }
            await #expect(processExitsWith: .signal(SIGKILL)) {
                [folder = folder as String, point = point as String] in
                setenv("HEALTHRELAY_CRASH_AT", point, 1)
                try await TwoDestinationsTests.work(folder, unwrittenLimit: Fixture.unwrittenLimit(dyingAt: point))
            }
            try await Self.work(folder)
            let ids = try Self.ids(folder + "/readings.jsonl")
            #expect(ids.count == 20 && Set(ids).count == 20)
        }
    #endif

    @Test("two readings of one second share it in the file, and have one each at the server")
    func seconds() async throws {
        let script = VitalScript()
        try await withServerAndFile(script) { vital, file, fixture, path in
            _ = try await file.place()
            try await fixture.read(1, value: { _ in 90 })
            try await fixture.read(1, device: 3, value: { _ in 110 })
            func timestamps(_ worker: OutboxWorker) async throws -> [Int64] {
                try await fixture.store.outboxBatch(
                    user: try await fixture.person.key, resource: .glucose, provider: "accuchek_ble", limit: 10,
                    at: worker.place()
                ).map(\.timestamp.seconds)
            }
            let second = Fixture.start + 60
            #expect(try await timestamps(vital) == [second, second + 1])
            #expect(try await timestamps(file) == [second, second])
            #expect(await file.syncOnce().delivered == 2)
            #expect(await vital.syncOnce().delivered == 2)
            #expect(try Self.ids(path).count == 2)
        }
    }

    @Test("a destination that is switched off or whose address has changed waits, and the other does not")
    func disabled() async throws {
        let script = VitalScript()
        try await withServerAndFile(script) { vital, file, fixture, path in
            let store = fixture.store
            _ = try await file.place()
            try await fixture.read(4)
            try await store.setDestinationEnabled(false, "file")
            #expect(await file.syncOnce().held.map(\.hold) == [.destinationDisabled])
            #expect(await vital.syncOnce().delivered == 4)
            try await store.setDestinationEnabled(true, "file")
            let rules = file.destination.rules
            for address in ["one", "two"] {
                try await store.setDestination(
                    "file", kind: "file", kinds: rules.kinds, hasUniqueSeconds: false, needsSource: false,
                    address: address)
            }
            #expect(await file.syncOnce().held.map(\.hold) == [.otherEndpoint])
            try await store.acceptAddress("two", of: "file")
            #expect(await file.syncOnce().delivered == 4)
            #expect(try Self.ids(path).count == 4)
        }
    }

    @Test("only what is delivered everywhere is pruned: a disabled destination keeps it, a removed one does not")
    func pruning() async throws {
        let script = VitalScript()
        try await withServerAndFile(script) { vital, file, fixture, _ in
            let store = fixture.store
            _ = try await file.place()
            try await fixture.read(4)
            #expect(await vital.syncOnce().delivered == 4)
            let kept = try await store.prune(olderThan: .seconds(60))
            #expect(kept.readings == 0 && kept.waiting == 4)
            try await store.setDestinationEnabled(false, "file")
            #expect(try await store.prune(olderThan: .seconds(60)).readings == 0)
            try await store.setDestinationEnabled(true, "file")
            #expect(await file.syncOnce().delivered == 4)
            #expect(try await store.prune(olderThan: .seconds(60)).readings == 4)
            #expect(try await store.statistics(of: .vital).delivered == 4)
            #expect(try await store.statistics(of: file.place()).delivered == 4)
            // What was pruned keeps its seconds at the server, and comes back nowhere.
            try await fixture.read(4)
            #expect(try await Self.waiting(fixture, vital) == 0)
            #expect(try await Self.waiting(fixture, file) == 0)
            try await fixture.read(2, from: 50)
            #expect(await vital.syncOnce().delivered == 2)
            try await store.removeDestination("file")
            #expect(try await store.prune(olderThan: .seconds(60)).readings == 2)
            #expect(try await store.verify().isEmpty)
        }
    }

    @Test("what no destination has is never pruned, even if the only one it waits for is removed")
    func prunesNothingUndelivered() async throws {
        try await withServerAndFile { _, _, fixture, _ in
            try await fixture.read(3)
            try await fixture.store.removeDestination("vital")
            #expect(try await fixture.store.prune(olderThan: .seconds(60)).readings == 0)
        }
    }
}
