import DeliveryFixture
import GRDB
import HealthReadings
import Synchronization
import Testing

@testable import ReadingDelivery
@testable import ReadingStore

@Suite("What a destination has taken, and when the store knows")
struct AcknowledgingTests {
    /// A place that takes everything, once what is to be done with a part is done.
    private struct Sink: Destination {
        let name = "sink"
        let kind = "sink"
        let rules = DestinationRules(
            kinds: ReadingKind.delivered, hasUniqueSeconds: false, needsSource: false, canRetract: true)
        let taking: @Sendable (_ number: Int, _ part: DeliveryPart) async throws(DeliveryFailure) -> Void
        private let count = Counter()

        private final class Counter: Sendable {
            let value = Mutex(0)
        }

        init(_ taking: @escaping @Sendable (Int, DeliveryPart) async throws(DeliveryFailure) -> Void) {
            self.taking = taking
        }

        func send(_ part: DeliveryPart) async throws(DeliveryFailure) -> [Outcome] {
            let number = count.value.withLock { value -> Int in
                value += 1
                return value
            }
            try await taking(number, part)
            return part.items.map { Outcome($0.id, .delivered) }
        }
    }

    private static func steps(_ events: AsyncStream<SyncEvent>) async -> [String] {
        var steps: [String] = []
        for await event in events {
            switch event {
            case .readings(let readings, .posted): steps.append("posted \(readings.count)")
            case .readings(let readings, .acknowledged): steps.append("acknowledged \(readings.count)")
            case .successSyncing(_, let readings): steps.append("synced \(readings.count)")
            case .syncingCompleted: return steps
            default: break
            }
        }
        return steps
    }

    @Test("a pass writes what was taken once, and tells it afterwards in the order in which it was")
    func together() async throws {
        try await Fixture.with { fixture in
            try await fixture.read(10)
            let worker = fixture.worker(Sink { _, _ in }, clock: .system, batchLimit: 4)
            let events = worker.events()
            #expect(await worker.syncOnce() == SyncReport(delivered: 10))
            #expect(
                await Self.steps(events) == [
                    "posted 4", "acknowledged 4", "posted 4", "acknowledged 4", "posted 2", "acknowledged 2",
                    "synced 10",
                ])
            #expect(try await fixture.store.groupsWaiting(at: worker.place()).isEmpty)
        }
    }

    @Test("a send that hangs keeps nothing from being written")
    func hanging() async throws {
        try await Fixture.with { fixture in
            try await fixture.read(8)
            let gate = AsyncStream<Void>.makeStream()
            let sink = Sink { number, _ in
                if number == 2 { for await _ in gate.stream { break } }
            }
            let worker = fixture.worker(sink, clock: .system, batchLimit: 4)
            async let report = worker.syncOnce()
            let place = try await worker.place()
            while try await fixture.store.groupsWaiting(at: place).first?.count != 4 {
                try await Task.sleep(for: .milliseconds(20))
            }
            gate.continuation.yield()
            #expect(await report == SyncReport(delivered: 8))
        }
    }

    @Test("a failure behind it loses nothing of what was taken")
    func failing() async throws {
        try await Fixture.with { fixture in
            try await fixture.read(12)
            let sink = Sink { number, _ throws(DeliveryFailure) in
                if number == 3 { throw DeliveryFailure(.destination, code: "no_connection", message: "cut") }
            }
            let worker = fixture.worker(sink, clock: .system, batchLimit: 4)
            let report = await worker.syncOnce()
            #expect(report.delivered == 8 && report.failure?.code == "no_connection")
            #expect(try await fixture.store.groupsWaiting(at: worker.place()).first?.count == 4)
            #expect(await worker.syncOnce() == SyncReport(delivered: 4))
        }
    }

    @Test("what is switched off while a batch is on its way is not sent with the next, though it was read before")
    func switchedOff() async throws {
        try await Fixture.with { fixture in
            try await fixture.read(12)
            let sink = Sink { number, _ throws(DeliveryFailure) in
                if number == 1 {
                    do { try await fixture.store.setSyncEnabled(false) } catch { throw DeliveryFailure(error) }
                }
            }
            let worker = fixture.worker(sink, clock: .system, batchLimit: 4)
            let report = await worker.syncOnce()
            #expect(report.delivered == 4 && report.held.map(\.hold) == [.syncDisabled])
            #expect(report.held.map(\.count) == [8])
        }
    }

    @Test("a backlog that is read in many parts goes whole and in order, and each reading once")
    func manyParts() async throws {
        try await Fixture.with { fixture in
            // Two meters measured at the same moments: a part may end between two readings of one second.
            try await fixture.read(50)
            try await fixture.read(50, device: 2)
            let sent = Mutex<[OutboxItem]>([])
            let worker = fixture.worker(
                Sink { _, part in sent.withLock { $0 += part.items } }, clock: .system, batchLimit: 3)
            #expect(await worker.syncOnce() == SyncReport(delivered: 100))
            let items = sent.withLock(\.self)
            #expect(Set(items.map(\.id)).count == 100 && items.count == 100)
            #expect(items.map(\.timestamp) == items.map(\.timestamp).sorted())
            #expect(Set(items.map(\.timestamp)).count < 100)
            #expect(try await fixture.store.groupsWaiting(at: worker.place()).isEmpty)
        }
    }

    @Test("what comes while a batch is on its way goes in the same pass, and nothing goes twice")
    func newcomers() async throws {
        try await Fixture.with { fixture in
            try await fixture.read(6)
            let sent = Mutex<[ReadingID]>([])
            let sink = Sink { number, part throws(DeliveryFailure) in
                sent.withLock { $0 += part.items.map(\.reading.id) }
                if number == 1 {
                    do { try await fixture.read(5, from: 7) } catch { throw DeliveryFailure(error) }
                }
            }
            let worker = fixture.worker(sink, clock: .system, batchLimit: 4)
            #expect(await worker.syncOnce() == SyncReport(delivered: 11))
            #expect(sent.withLock { $0.count == 11 && Set($0).count == 11 })
        }
    }

    @Test("a reading that changes while it is on its way is there, and goes again as a change of what is there")
    func changedOnItsWay() async throws {
        try await Fixture.with { fixture in
            try await fixture.read(3)
            let sent = Mutex<[OutboxItem]>([])
            let sink = Sink { number, part throws(DeliveryFailure) in
                sent.withLock { $0 += part.items }
                guard number == 1, let first = part.items.first else { return }
                do {
                    try await fixture.store.requeue(first.reading.id, at: first.id.destination)
                } catch { throw DeliveryFailure(error) }
            }
            let worker = fixture.worker(sink, clock: .system, batchLimit: 4)
            var delivered = 0
            for _ in 0..<2 { delivered += await worker.syncOnce().delivered }
            let items = sent.withLock(\.self)
            #expect(delivered == 4 && items.map(\.id.revision) == [0, 0, 0, 1])
            #expect(items.map(\.wasDelivered) == [false, false, false, true])
            #expect(try await fixture.store.groupsWaiting(at: worker.place()).isEmpty)
        }
    }

    @Test("what a server has counts as left behind though it was changed on its way, and then excluded")
    func excludedOnceChanged() async throws {
        try await Fixture.with { fixture in
            try await fixture.read(1)
            let place = DestinationKey.vital
            let groups = try await fixture.store.groupsWaiting(at: place)
            let group = try #require(groups.first)
            let items = try await fixture.store.outboxBatch(
                user: group.user, resource: group.resource, provider: group.provider, limit: 10, at: place)
            let first = try #require(items.first)
            try await fixture.store.requeue(first.reading.id, at: place)
            try await fixture.store.acknowledge(items.map(\.id), at: Instant(seconds: Fixture.start))
            try await fixture.read(1, isFailed: true)
            #expect(try await fixture.store.leftBehind(at: place) == 1)
            #expect(try await fixture.store.verify().isEmpty)
        }
    }

    @Test("a batch that teaches a smaller size is halved, and so is what was read ahead of it")
    func halving() async throws {
        try await Fixture.with { fixture in
            try await fixture.read(16)
            let sizes = Mutex<[Int]>([])
            let sink = Sink { _, part throws(DeliveryFailure) in
                sizes.withLock { $0.append(part.items.count) }
                if part.items.count > 2 {
                    throw DeliveryFailure(.tooLarge, code: "payload_too_large", message: "large")
                }
            }
            let worker = fixture.worker(sink, clock: .system, batchLimit: 8)
            #expect(await worker.syncOnce() == SyncReport(delivered: 16))
            #expect(sizes.withLock { $0.suffix(4) } == [2, 2, 2, 2])
        }
    }

    @Test("what the store cannot take is kept, written once it can, told then, and sent only once")
    func unwritable() async throws {
        try await Fixture.with { fixture in
            try await fixture.read(1)
            let sent = Mutex(0)
            let sink = Sink { _, part in sent.withLock { $0 += part.items.count } }
            let worker = fixture.worker(sink, clock: .system, batchLimit: 4)
            // The first delivery of a kind looks once for what was refused before, and what is ahead is read anew.
            #expect(await worker.syncOnce() == SyncReport(delivered: 1))
            try await fixture.read(10, from: 2)
            let events = worker.events()
            try await fixture.store.write(.setting) { db in
                try db.execute(
                    sql: "CREATE TRIGGER full BEFORE UPDATE ON outbox BEGIN SELECT RAISE(ABORT, 'no room'); END")
            }
            let report = await worker.syncOnce()
            #expect(report.failure != nil && sent.withLock(\.self) == 11)
            // The pass has ended, and tells of nothing that the store does not know.
            #expect(await Self.steps(events) == ["posted 4"])
            #expect(try await fixture.store.groupsWaiting(at: worker.place()).first?.count == 10)
            try await fixture.store.write(.setting) { db in try db.execute(sql: "DROP TRIGGER full") }
            let next = await worker.syncOnce()
            #expect(next.failure == nil && next.delivered == 0 && sent.withLock(\.self) == 11)
            #expect(try await fixture.store.groupsWaiting(at: worker.place()).isEmpty)
            #expect(
                await Self.steps(events) == [
                    "acknowledged 4", "posted 4", "acknowledged 4", "posted 2", "acknowledged 2", "synced 10",
                ])
        }
    }
}
