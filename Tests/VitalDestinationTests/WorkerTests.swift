import DeliveryFixture
import HealthReadings
import Logging
import ReadingStore
import ScriptedServer
import ServiceLifecycle
import Synchronization
import Testing
import VitalClient

@testable import ReadingDelivery
@testable import VitalDestination

@Suite("Outbox worker")
struct WorkerTests {
    @Test("everything that waits is posted once, oldest first, in batches, and acknowledged")
    func delivers() async throws {
        let script = VitalScript()
        try await with(script, { $0.batchLimit = 40 }) { worker, fixture in
            try await fixture.read(100)
            try await fixture.read(7, kind: .bloodPressure, device: 2, provider: "omron_ble")
            let report = await worker.syncOnce()
            #expect(report == SyncReport(delivered: 107))
            #expect(try await fixture.waiting == 0)
            #expect(Set(script.now.taken).count == 107 && script.now.taken.count == 107)
            #expect(script.now.posts == [40, 40, 20, 7])
            let again = await worker.syncOnce()
            #expect(again == SyncReport())
            #expect(script.now.posts.count == 4)
        }
    }

    @Test("within a range of time only what waits in it is delivered, both ends included; the rest goes on waiting")
    func range() async throws {
        let script = VitalScript()
        try await with(script, { $0.batchLimit = 2 }) { worker, fixture in
            try await fixture.read(10)
            try await fixture.read(1, from: 20, kind: .bloodPressure, device: 2, provider: "omron_ble")
            func minute(_ number: Int64) -> Instant { Instant(seconds: Fixture.start + number * 60) }
            let none = await worker.syncOnce(in: minute(11)...minute(19))
            #expect(none == SyncReport())
            let some = await worker.syncOnce(in: minute(3)...minute(7))
            #expect(some == SyncReport(delivered: 5))
            #expect(script.now.posts == [2, 2, 1])
            #expect(try await fixture.waiting == 6)
            // Ends between two seconds: the timestamps themselves are whole.
            let edge = Instant(microseconds: minute(8).microseconds + 1)...minute(10)
            let fraction = await worker.syncOnce(in: edge)
            #expect(fraction == SyncReport(delivered: 2))
            let rest = await worker.syncOnce()
            #expect(rest == SyncReport(delivered: 4))
            #expect(try await fixture.waiting == 0)
        }
    }

    @Test("what is done without delivery waits for a pass, and the next pass waits for it")
    func withoutDelivery() async throws {
        let script = VitalScript()
        try await with(script) { worker, fixture in
            try await fixture.read(3)
            let posts = try await worker.withoutDelivery {
                // Left behind on purpose: it may begin only when this has ended.
                let pass = Task { await worker.syncOnce() }
                try await Task.sleep(for: .milliseconds(100))
                return (script.now.posts.count, pass)
            }
            #expect(posts.0 == 0)
            _ = await posts.1.value
            #expect(try await fixture.waiting == 0)
            #expect(script.now.taken.count == 3)
        }
    }

    @Test("events tell each reading's way: source checked, posted, acknowledged; and the state of each resource")
    func events() async throws {
        try await with { worker, fixture in
            try await fixture.read(2)
            let target = DeliveryTarget(
                user: try await fixture.person.key, resource: .glucose, provider: "accuchek_ble")
            let stream = worker.events()
            _ = await worker.syncOnce()
            var events: [SyncEvent] = []
            for await event in stream {
                events.append(event)
                if event == .syncingCompleted { break }
            }
            guard events.count == 7, case .readings(let ids, .sourceChecked) = events[2] else {
                Issue.record("\(events)")
                return
            }
            #expect(ids.count == 2)
            #expect(
                events == [
                    .nothingToSync(.bloodPressure), .syncing(target), .readings(ids, .sourceChecked),
                    .readings(ids, .posted), .readings(ids, .acknowledged),
                    .successSyncing(target, synced(events)), .syncingCompleted,
                ])
            let synced = synced(events)
            #expect(synced.count == 2 && synced.ids == ids)
            let times = try await fixture.store.query(.init(kinds: [.glucose])).readings.compactMap(\.time.instant)
            #expect(synced.first == times.min() && synced.last == times.max() && times.count == 2)
        }
    }

    /// What the events say was delivered, in all.
    private func synced(_ events: [SyncEvent]) -> SyncedReadings {
        for event in events {
            switch event {
            case .successSyncing(_, let synced), .failedSyncing(_, _, let synced): return synced
            default: continue
            }
        }
        return SyncedReadings()
    }

    @Test(
        "where a backlog is cut in the middle, the failure says what had been delivered, and the next pass only the rest"
    )
    func deliveredBefore() async throws {
        let script = VitalScript()
        try await with(script, { $0.batchLimit = 60 }) { worker, fixture in
            try await fixture.read(150)
            let posts = Mutex(0)
            script.change { state in
                state.judge = { _ in
                    let number = posts.withLock { posts in
                        posts += 1
                        return posts
                    }
                    return number == 3 ? .json(503, #"{"detail":"down"}"#) : nil
                }
            }
            func pass() async -> [SyncEvent] {
                let stream = worker.events()
                _ = await worker.syncOnce()
                var events: [SyncEvent] = []
                for await event in stream {
                    events.append(event)
                    if event == .syncingCompleted { break }
                }
                return events
            }
            let cut = await pass()
            #expect(
                cut.contains {
                    if case .failedSyncing(_, let failure, _) = $0 { failure.code == "server_error" } else { false }
                })
            #expect(synced(cut).count == 120 && synced(cut).ids.count == SyncedReadings.idLimit)
            let taken = script.now.taken
            #expect(taken.count == 120 && synced(cut).ids.map(\.description) == Array(taken.suffix(100)))
            let rest = await pass()
            #expect(synced(rest).count == 30 && script.now.taken.count == 150)
            let (last, first) = (try #require(synced(cut).last), try #require(synced(rest).first))
            #expect(last < first)
        }
    }

    @Test("switched off or revoked in the middle of a backlog: the batch at hand is the last")
    func stopsAtOnce() async throws {
        let script = VitalScript()
        try await with(script, { $0.batchLimit = 10 }) { worker, fixture in
            try await fixture.read(100)
            let store = fixture.store
            let stream = worker.events()
            let stop = Task {
                for await event in stream {
                    guard case .readings(_, .sourceChecked) = event else { continue }
                    return try await store.setSyncEnabled(false)
                }
            }
            let report = await worker.syncOnce()
            try await stop.value
            // The event is taken while the next batch may already be on its way.
            #expect(report.delivered < 100 && report.held.map(\.hold) == [.syncDisabled])
            try await store.setSyncEnabled(true)
            let person = try await fixture.person
            let others = worker.events()
            let revoke = Task {
                for await event in others {
                    guard case .readings(_, .sourceChecked) = event else { continue }
                    return try await worker.sources.revoke("accuchek_ble", of: person)
                }
            }
            let second = await worker.syncOnce()
            try await revoke.value
            #expect(second.delivered + report.delivered < 100 && second.held.map(\.hold) == [.sourceRevoked])
        }
    }

    @Test("promise 9: without a connected source nothing is sent and nothing is lost")
    func noSource() async throws {
        let script = VitalScript(connected: [])
        try await with(script, policy: .require) { worker, fixture in
            try await fixture.read(5)
            let report = await worker.syncOnce()
            #expect(report.held.map(\.hold) == [.noSource] && report.held.map(\.count) == [5])
            #expect(script.now.posts.isEmpty && script.now.created.isEmpty)
            #expect(try await fixture.waiting == 5)
            #expect(try await fixture.store.groupsWaiting().map(\.held) == [.noSource])
            try await worker.sources.connect("accuchek_ble", for: try await fixture.person)
            #expect(await worker.syncOnce() == SyncReport(delivered: 5))
        }
    }

    @Test("the service delivers what is stored while it runs, and ends at once when asked to")
    func service() async throws {
        let script = VitalScript()
        try await with(script) { worker, fixture in
            let group = ServiceGroup(services: [worker], logger: Fixture.quiet)
            let running = Task { try await group.run() }
            try await fixture.read(3)
            for _ in 0..<6000 where script.now.taken.count < 3 { try await Task.sleep(for: .milliseconds(10)) }
            #expect(script.now.taken.count == 3)
            try await fixture.read(2, from: 10)
            for _ in 0..<6000 where script.now.taken.count < 5 { try await Task.sleep(for: .milliseconds(10)) }
            #expect(script.now.taken.count == 5)
            let begun = ContinuousClock.now
            await group.triggerGracefulShutdown()
            try await running.value
            #expect(ContinuousClock.now - begun < .seconds(25))
        }
    }

    @Test("a shutdown in the middle of a slow post loses nothing")
    func shutdownWhilePosting() async throws {
        let script = VitalScript()
        script.change { $0.next = [.late(.seconds(40), .ok)] }
        try await with(script) { worker, fixture in
            try await fixture.read(3)
            let group = ServiceGroup(services: [worker], logger: Fixture.quiet)
            let running = Task { try await group.run() }
            for _ in 0..<6000 where script.now.posts.isEmpty { try await Task.sleep(for: .milliseconds(10)) }
            let begun = ContinuousClock.now
            await group.triggerGracefulShutdown()
            try await running.value
            #expect(ContinuousClock.now - begun < .seconds(25))
            #expect(try await fixture.waiting == 3)
            #expect(await worker.syncOnce().delivered == 3)
        }
    }

    @Test("an offline gateway wakes once a backoff step, new readings or not; Retry-After sets the step")
    func backoffSteps() async throws {
        let (script, clock) = (VitalScript(), ManualClock())
        script.change {
            let failing = Array(repeating: ScriptedAnswer.cut, count: 4)
            $0.next = failing + [.json(429, "{}", headers: ["Retry-After": "600"])]
        }
        try await with(script, clock: clock.syncClock) { worker, fixture in
            try await fixture.read(1)
            let running = Task { try await worker.run() }
            for (attempt, wait) in [2.0, 4, 8, 16, 600 + 3.2].enumerated() {
                try await clock.waitForSleeps(attempt + 1)
                #expect(script.now.posts.count == attempt + 1)
                let asked = try #require(clock.slept.last) / .seconds(1)
                #expect(abs(asked - wait) < 0.01)
                try await fixture.read(1, from: 100 + attempt)
                worker.wake()
                clock.advance(by: .seconds(wait - 0.5))
                try await Task.sleep(for: .milliseconds(50))
                #expect(script.now.posts.count == attempt + 1)
                clock.advance(by: .seconds(0.5))
            }
            for _ in 0..<6000 where script.now.taken.count < 6 { try await Task.sleep(for: .milliseconds(10)) }
            #expect(Set(script.now.taken).count == 6)
            running.cancel()
            try await running.value
        }
    }

    @Test("two requests at the same time post nothing twice")
    func concurrent() async throws {
        let script = VitalScript()
        try await with(script, { $0.batchLimit = 10 }) { worker, fixture in
            try await fixture.read(100)
            let delivered = await withTaskGroup(of: Int.self) { group in
                for _ in 0..<5 { group.addTask { await worker.syncOnce().delivered } }
                return await group.reduce(0, +)
            }
            #expect(delivered == 100 && script.now.taken.count == 100)
        }
    }

    @Test("sync disabled: held, not sent; enabled again: delivered")
    func disabled() async throws {
        let script = VitalScript()
        try await with(script) { worker, fixture in
            try await fixture.read(4)
            try await fixture.store.setSyncEnabled(false)
            #expect(await worker.syncOnce().held.map(\.hold) == [.syncDisabled])
            #expect(script.now.posts.isEmpty && script.now.lists == 0)
            try await fixture.store.setSyncEnabled(true)
            #expect(await worker.syncOnce().delivered == 4)
        }
    }

    @Test("a person's id at the server stays forgotten while delivery is off, and is asked for again once it is on")
    func disconnected() async throws {
        let script = VitalScript()
        try await with(script) { worker, fixture in
            try await fixture.read(2)
            let first = await worker.syncOnce()
            #expect(first.delivered == 2)
            try await fixture.store.setSyncEnabled(false)
            try await fixture.store.forgetServerUserIDs()
            try await fixture.read(3, from: 10)
            let off = await worker.syncOnce()
            #expect(off.delivered == 0 && off.held.map(\.hold) == [.syncDisabled])
            let forgotten = try await fixture.person
            #expect(forgotten.serverUserID == nil && script.now.posts == [2])
            try await fixture.store.setSyncEnabled(true)
            let on = await worker.syncOnce()
            #expect(on.delivered == 3)
            let found = try await fixture.person
            #expect(found.serverUserID == script.now.userID)
        }
    }

    @Test("a store that cannot take the acknowledgement posts again: the same samples, nothing else")
    func lostAcknowledgement() async throws {
        let script = VitalScript()
        try await with(script) { worker, fixture in
            try await fixture.read(3)
            let items = try await fixture.store.outboxBatch(
                user: try await fixture.person.key, resource: .glucose, provider: "accuchek_ble", limit: 10)
            #expect(await worker.syncOnce().delivered == 3)
            // What a crash between the answer and the acknowledgement leaves behind.
            for item in items { try await fixture.store.requeue(item.reading.id) }
            #expect(await worker.syncOnce().delivered == 3)
            let taken = script.now.taken
            #expect(taken.count == 6 && Array(taken[..<3]) == Array(taken[3...]))
        }
    }
}
