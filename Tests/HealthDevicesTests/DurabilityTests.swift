import GATTClient
import HealthReadings
import Testing

@testable import HealthDevices

/// Promise 1, seen from the device; every other test here checks it too (``Bench/read(sourceLocation:)``).
@Suite struct DurabilityTests {
    @Test(
        "promise 1: frames are durable before the device is asked anything more, stopped or left",
        arguments: [1, 3, 7, 100])
    func durableFirst(burst: Int) async throws {
        let bench = Bench(records: glucoseRecords(1...20), burst: burst) { $0.hasContexts = true }
        #expect(try await bench.read().isComplete)
        #expect(bench.store.readingCount == 20)
        #expect(bench.store.frames.count == 40)
    }

    @Test("promise 1: frames that arrive together commit together")
    func oneCommitABurst() async throws {
        let bench = Bench(records: glucoseRecords(1...10), burst: 4)
        try await bench.read()
        let commits = bench.log.events.compactMap { if case .appended(let count) = $0 { count } else { nil } }
        #expect(commits == [4, 4, 2])
    }

    @Test("promise 1: notifications are enabled only when the contact is remembered, and stopped before disconnecting")
    func order() async throws {
        let bench = Bench(records: glucoseRecords(1...2))
        try await bench.read()
        let events = bench.log.events.filter {
            switch $0 {
            case .connect, .disconnect, .start, .stop, .began, .ended: true
            default: false
            }
        }
        #expect(
            events == [
                .connect, .began, .start(0x2A18), .start(0x2A34), .start(0x2A52), .stop(0x2A52), .stop(0x2A34),
                .stop(0x2A18), .ended(ContactSummary(isComplete: true, announced: 2, received: 2)), .disconnect,
            ])
    }

    @Test("promise 1: a device is left alone where the store cannot be written")
    func closedStore() async throws {
        let bench = Bench(cuff: [pressureRecord(1)])
        bench.store.close()
        await #expect(throws: RecordingStore.Full.self) { try await bench.read() }
        #expect(bench.log.events == [.connect, .disconnect])
        #expect(bench.device.cuffRecords.count == 1)
    }

    @Test("promise 1: when a meter's frames cannot be kept, nothing more is asked, and the store's error is told")
    func glucoseWithFullStore() async throws {
        let bench = Bench(records: glucoseRecords(1...9), burst: 3)
        bench.store.failAppending(after: 1)
        await #expect(throws: RecordingStore.Full.self) { try await bench.read() }
        let events = bench.log.events
        let failed = try #require(events.firstIndex(of: .appendFailed))
        let after = events[(failed + 1)...]
        #expect(after.first == .stop(0x2A52))
        #expect(after.last == .disconnect)
        #expect(!after.contains { if case .write = $0 { true } else { false } })
        #expect(bench.store.summaries.last??.error == "not_stored")
        #expect(bench.store.readingCount == 3)
    }

    @Test("promise 1: a cuff keeps what could not be stored, and sends it the next time")
    func cuffWithFullStore() async throws {
        let bench = Bench(cuff: (1...6).map { pressureRecord($0) }, burst: 2)
        bench.store.failAppending(after: 1)
        await #expect(throws: RecordingStore.Full.self) { try await bench.read() }
        // Two are stored; the two that were on their way are the window that promise 1 names.
        #expect(bench.store.readingCount == 2)
        #expect(bench.device.cuffRecords.count == 2)
        bench.store.failAppending(after: nil)
        #expect(try await bench.read().isComplete)
        #expect(bench.store.readingCount == 4)
        #expect(bench.device.cuffRecords.isEmpty)
    }

    @Test("the first failure is told where the end of the contact cannot be stored either")
    func failsToEnd() async throws {
        let bench = Bench(records: glucoseRecords(1...3))
        bench.store.failToEnd()
        await #expect(throws: RecordingStore.Full.self) { try await bench.read() }
        #expect(bench.log.events.last == .disconnect)
        #expect(bench.store.readingCount == 3)
    }

    @Test("cancelling keeps what came, stops notifications and disconnects", arguments: [false, true])
    func cancellation(cuff: Bool) async throws {
        let bench = cuff ? Bench(cuff: [pressureRecord(1), pressureRecord(2)]) : Bench(records: glucoseRecords(1...5))
        bench.device.change {
            $0.silence = .lastsUntilCancelled
            $0.cuffDisconnects = false
            // All records come, and the answer never does.
            $0.glucose?.withholdsAnswer = true
        }
        let reading = Task { try await bench.read() }
        while bench.store.readingCount < (cuff ? 2 : 5) { await Task.yield() }
        reading.cancel()
        await #expect(throws: CancellationError.self) { try await reading.value }
        #expect(bench.store.readingCount == (cuff ? 2 : 5))
        #expect(bench.log.events.last == .disconnect)
        #expect(bench.log.events.contains(.stop(cuff ? 0x2A35 : 0x2A18)))
        // The meter is told to stop.
        #expect(cuff || bench.log.requests == [[4, 1], [1, 1], [3, 0]])
        #expect(bench.store.summaries.last??.error == "interrupted")
        #expect(bench.store.summaries.last??.isComplete == false)
    }

    @Test("a burst that has left the device is stored even where the reading is cancelled meanwhile")
    func cancellationInACommit() async throws {
        let bench = Bench(cuff: (1...20).map { pressureRecord($0) }, burst: 5)
        bench.device.change { $0.cancelsItsReader = true }
        let reading = Task { try await bench.read() }
        await #expect(throws: CancellationError.self) { try await reading.value }
        #expect(bench.store.readingCount == 5)
        #expect(bench.device.cuffRecords.count == 15)
        #expect(bench.log.events.last == .disconnect)
        #expect(bench.store.summaries.last??.error == "interrupted")
    }

    @Test("a connection that fails is let go of")
    func failedConnection() async throws {
        let bench = Bench(records: [])
        bench.device.change { $0.failsToConnect = true }
        await #expect(throws: GATTError.timedOut) { try await bench.read() }
        #expect(bench.log.events == [.connect, .disconnect])
    }
}
