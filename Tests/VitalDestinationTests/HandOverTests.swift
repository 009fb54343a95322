import DeliveryFixture
import Foundation
import HealthReadings
import ReadingStore
import Synchronization
import TestSupport
import Testing

@testable import ReadingDelivery

/// A destination that only hands readings over: it appends their ids to a file and gives receipts when a test says so.
private final class Courier: Destination {
    struct State {
        var parts: [[OutboxID]] = []
        var runs = 0
        var lost: [DeliveryFailure] = []
        var isConnected = false
    }

    let name = "courier"
    let kind = "courier"
    let rules = DestinationRules(
        kinds: [.glucose], hasUniqueSeconds: false, needsSource: false, canRetract: false)
    let acknowledgements: AsyncStream<Acknowledgement>
    let receipts: AsyncStream<Acknowledgement>.Continuation
    let state = Mutex(State())
    private let path: String?

    init(path: String? = nil) {
        self.path = path
        (acknowledgements, receipts) = AsyncStream.makeStream()
    }

    /// What was handed over, a part each.
    var parts: [[OutboxID]] { state.withLock(\.parts) }

    func send(_ part: DeliveryPart) async throws(DeliveryFailure) -> [Outcome] {
        if let path {
            let text = part.items.map { "\($0.reading.id)\n" }.joined()
            guard let file = FileHandle(forWritingAtPath: path) else {
                throw DeliveryFailure(.destination, code: "store_io", message: "no file")
            }
            file.seekToEndOfFile()
            file.write(Data(text.utf8))
            file.closeFile()
        }
        state.withLock { $0.parts.append(part.items.map(\.id)) }
        return part.items.map { Outcome($0.id, .handedOver) }
    }

    /// Lives until it is told to fail.
    func run(_ context: DestinationContext) async throws {
        let failure = state.withLock { state in
            state.runs += 1
            state.isConnected = state.lost.isEmpty
            return state.lost.isEmpty ? nil : state.lost.removeFirst()
        }
        if let failure { throw failure }
        let (people, page) = (try await context.people(), try await context.readings(ReadingQuery(limit: 10)))
        #expect(people.count == 1 && page.readings.count <= 10)
        context.wake()
        try await Task.sleep(for: .seconds(600))
    }
}

@Suite("Readings that are handed over")
struct HandOverTests {
    private static func states(_ fixture: Fixture) async throws -> [DeliveryState] {
        try await fixture.store.query(ReadingQuery(limit: 100)).readings
            .flatMap(\.deliveries).filter { $0.destination == "courier" }.map(\.state)
    }

    /// Runs a worker beside a test.
    private static func running(
        _ worker: OutboxWorker, _ body: () async throws -> Void
    ) async throws {
        let task = Task { try await worker.run() }
        do { try await body() } catch {
            task.cancel()
            throw error
        }
        task.cancel()
        try await task.value
    }

    @Test("a reading counts as delivered when its receipt comes, and not before")
    func receipt() async throws {
        try await Fixture.with { fixture in
            let (courier, clock) = (Courier(), ManualClock())
            let worker = fixture.worker(courier, clock: clock.syncClock)
            _ = try await worker.place()
            try await fixture.read(3)
            try await Self.running(worker) { () async throws -> Void in
                #expect(
                    try await eventually { try await Self.states(fixture) == [.handedOver, .handedOver, .handedOver] })
                let place = try await worker.place()
                #expect(try await fixture.store.statistics(of: place).delivered == 0)
                #expect(try await fixture.store.prune(olderThan: .seconds(60)).readings == 0)
                let ids = courier.parts.flatMap(\.self)
                courier.receipts.yield(Acknowledgement([ids[0], ids[1]]))
                courier.receipts.yield(Acknowledgement([ids[2]], .refused("no room for 83")))
                #expect(
                    try await eventually {
                        try await Self.states(fixture) == [.refused(words: "no room for 83"), .delivered, .delivered]
                    })
                #expect(await worker.status.lastSuccess != nil)
                // A second receipt changes nothing.
                courier.receipts.yield(Acknowledgement(ids))
                try await fixture.read(1, from: 10)
                #expect(await eventually { courier.parts.count == 2 })
                #expect(try await fixture.store.refused(at: place).count == 1)
            }
        }
    }

    @Test("without a receipt a reading is sent again, and a late receipt for the first time counts")
    func timeout() async throws {
        try await Fixture.with { fixture in
            let (courier, clock) = (Courier(), ManualClock())
            let worker = fixture.worker(courier, clock: clock.syncClock)
            _ = try await worker.place()
            try await fixture.read(2)
            #expect(await worker.syncOnce().handedOver == 2)
            #expect(await worker.syncOnce() == SyncReport())
            clock.advance(by: .seconds(119))
            #expect(await worker.syncOnce() == SyncReport())
            clock.advance(by: .seconds(1))
            #expect(await worker.syncOnce().handedOver == 2)
            #expect(courier.parts.count == 2 && courier.parts[0] == courier.parts[1])
            // The gateway's clock is set back by a day: nothing waits for that long.
            clock.jump(by: .seconds(-86_400))
            #expect(await worker.syncOnce().handedOver == 2)
            try await worker.take(Acknowledgement(courier.parts[0]))
            #expect(try await Self.states(fixture) == [.delivered, .delivered])
            clock.advance(by: .seconds(600))
            #expect(await worker.syncOnce() == SyncReport())
        }
    }

    @Test("a running worker sends again by itself when the time for the receipt is over")
    func runsAgain() async throws {
        try await Fixture.with { fixture in
            let (courier, clock) = (Courier(), ManualClock())
            let worker = fixture.worker(courier, clock: clock.syncClock)
            _ = try await worker.place()
            try await fixture.read(2)
            try await Self.running(worker) { () async throws -> Void in
                #expect(await eventually { courier.parts.count == 1 })
                #expect(
                    await eventually {
                        clock.advance(by: .seconds(10))
                        return courier.parts.count >= 2
                    })
            }
        }
    }

    @Test("a receipt for what was changed meanwhile leaves the newer revision waiting")
    func revised() async throws {
        try await Fixture.with { fixture in
            let (courier, clock) = (Courier(), ManualClock())
            let worker = fixture.worker(courier, clock: clock.syncClock)
            _ = try await worker.place()
            try await fixture.read(2)
            #expect(await worker.syncOnce().handedOver == 2)
            try await fixture.read(1, from: 2, isFailed: true)
            try await fixture.read(1, from: 2, isCorrected: true)
            try await worker.take(Acknowledgement(courier.parts[0]))
            #expect(try await Self.states(fixture) == [.waiting, .delivered])
            #expect(await worker.syncOnce().handedOver == 1)
        }
    }

    @Test("what was handed over and excluded meanwhile is told: this destination takes nothing back")
    func excluded() async throws {
        try await Fixture.with { fixture in
            let (courier, clock) = (Courier(), ManualClock())
            let worker = fixture.worker(courier, clock: clock.syncClock)
            let place = try await worker.place()
            try await fixture.read(2)
            #expect(await worker.syncOnce().handedOver == 2)
            try await fixture.read(1, from: 2, isFailed: true)
            #expect(try await fixture.store.leftBehind(at: place) == 1)
        }
    }

    @Test("a connection that is lost is made again after a growing wait, and a connection that lives begins a pass")
    func connection() async throws {
        try await Fixture.with { fixture in
            let (courier, clock) = (Courier(), ManualClock())
            courier.state.withLock {
                $0.lost = (0..<3).map { DeliveryFailure(.destination, code: "no_connection", message: "\($0)") }
            }
            let worker = fixture.worker(courier, clock: clock.syncClock)
            try await Self.running(worker) { () async throws -> Void in
                for run in 1...3 {
                    #expect(await eventually { courier.state.withLock(\.runs) == run })
                    let wait: Duration = .seconds(1 << run)
                    #expect(await eventually { clock.slept.filter { $0 == wait }.count >= 1 })
                    #expect(await worker.status.connectionFailure?.code == "no_connection")
                    // Deliveries go on meanwhile.
                    try await fixture.read(1, from: run)
                    #expect(await eventually { courier.parts.count >= run })
                    clock.advance(by: wait)
                }
                #expect(await eventually { courier.state.withLock(\.isConnected) })
            }
        }
    }

    @Test("a destination's test leaves nothing behind and names what is wrong")
    func test() async throws {
        try await Fixture.with { fixture in
            #expect(await Courier().test().isEmpty)
            let path = fixture.folder + "/readings.jsonl"
            let destination = JSONLinesDestination(name: "file", path: path)
            #expect(await destination.test().map(\.isGood) == [true])
            #expect(!FileManager.default.fileExists(atPath: path))
            try await fixture.read(1)
            #expect(await fixture.worker(destination, clock: ManualClock().syncClock).syncOnce().failure == nil)
            let lines = try Data(contentsOf: URL(fileURLWithPath: path))
            #expect(!lines.isEmpty)
            #expect(await destination.test().map(\.found) == ["the file can be written"])
            #expect(try Data(contentsOf: URL(fileURLWithPath: path)) == lines)
            let bad = await JSONLinesDestination(name: "file", path: fixture.folder + "/missing/readings.jsonl").test()
            #expect(bad.map(\.isGood) == [false] && bad[0].mend != nil)
        }
    }

    #if DEBUG && compiler(>=6.3)  // Earlier exit tests capture nothing.
        /// Hands readings over, and takes the receipts for what was handed over.
        private static func work(_ folder: String) async throws {
            let fixture = try await Fixture.open(folder)
            let path = folder + "/handed-over"
            if !FileManager.default.fileExists(atPath: path) {
                _ = FileManager.default.createFile(atPath: path, contents: nil)
            }
            let (courier, clock) = (Courier(path: path), ManualClock())
            // What a process before this one has handed over has no receipt: it was for a connection that is gone.
            clock.advance(by: .seconds(FileManager.default.fileExists(atPath: folder + "/second") ? 3600 : 0))
            let worker = fixture.worker(courier, clock: clock.syncClock)
            _ = try await worker.place()
            try await fixture.read(6)
            #expect(await worker.syncOnce().failure == nil)
            for part in courier.parts { try await worker.take(Acknowledgement(part)) }
            #expect(try await states(fixture) == Array(repeating: .delivered, count: 6))
            try fixture.store.close()
        }

        @Test(
            "death between the hand-over and its receipt loses nothing",
            arguments: [
                "hand-over.sent", "hand-over.before-commit", "hand-over.after-commit", "acknowledge.before-commit",
                "acknowledge.after-commit",
            ])
        func killed(point: String) async throws {
            let folder = FileManager.default.temporaryDirectory.appending(path: "killed-\(UUID().uuidString)").path
            defer { try? FileManager.default.removeItem(atPath: folder) }
            await #expect(processExitsWith: .signal(SIGKILL)) {
                [folder = folder as String, point = point as String] in
                setenv("HEALTHRELAY_CRASH_AT", point, 1)
                try await HandOverTests.work(folder)
            }
            _ = FileManager.default.createFile(atPath: folder + "/second", contents: nil)
            try await Self.work(folder)
            let ids = try String(contentsOfFile: folder + "/handed-over", encoding: .utf8).split(separator: "\n")
            #expect(Set(ids).count == 6 && ids.count >= 6)
        }
    #endif
}
