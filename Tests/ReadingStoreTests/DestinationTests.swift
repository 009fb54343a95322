import Foundation
import GRDB
import HealthReadings
import Testing

@testable import ReadingStore

@Suite("Destinations in the store")
struct DestinationTests {
    @discardableResult
    private static func addFile(
        _ store: ReadingStore, _ name: String = "file", kinds: Set<ReadingKind> = [.glucose, .bloodPressure]
    ) async throws -> DestinationKey {
        try await store.setDestination(name, kind: "file", kinds: kinds, hasUniqueSeconds: false, needsSource: false)
    }

    static func batch(_ store: ReadingStore, at place: DestinationKey) async throws -> [OutboxItem] {
        var items: [OutboxItem] = []
        for group in try await store.groupsWaiting(at: place) {
            items += try await store.outboxBatch(
                user: group.user, resource: group.resource, provider: group.provider, limit: 1000, at: place)
        }
        return items
    }

    private static func fill(_ harness: Harness, _ numbers: Range<Int>) async throws {
        try await harness.contact(numbers.map { Build.glucose(UInt16($0), "2026-11-20T10:0\($0):00", 90) })
    }

    @Test("the rows of two destinations cannot change places, nor can the destinations")
    func bound() async throws {
        let harness = try await Harness()
        let place = try await Self.addFile(harness.store)
        try await Self.addFile(harness.store, "other")
        try await Self.fill(harness, 0..<3)
        #expect(try await Self.batch(harness.store, at: place).count == 3)
        #expect(try await harness.store.verify().isEmpty)
        let changes = [
            "UPDATE outbox SET tag = (SELECT tag FROM outbox AS o WHERE o.reading = outbox.reading AND destination = 3) "
                + "WHERE destination = 2",
            "UPDATE destination SET name = 'third' WHERE name = 'file'; "
                + "UPDATE destination SET name = 'file' WHERE name = 'other'",
            "UPDATE outbox SET tag = (SELECT tag FROM outbox AS o WHERE o.reading = outbox.reading AND destination = 1) "
                + "WHERE destination = 2",
            "UPDATE outbox SET tag = substr(tag, 1, 16) WHERE destination = 2",
            "UPDATE outbox SET tag = CAST(tag || X'00' AS BLOB) WHERE destination = 2",
        ]
        for change in changes {
            try await harness.store.write(.setting) { db in try db.execute(sql: change) }
            await #expect(throws: StoreError.self, "\(change)") {
                _ = try await Self.batch(harness.store, at: DestinationKey(rawValue: 2))
            }
            #expect(try await harness.store.verify().contains { $0.problem == .queueChanged }, "\(change)")
            try await harness.store.write(.setting) { db in
                try db.execute(sql: "DELETE FROM outbox WHERE destination > 1; DELETE FROM destination WHERE key > 1")
            }
            try await Self.addFile(harness.store)
            try await Self.addFile(harness.store, "other")
        }
    }

    @Test("the next batch is what waits, unless delivery or the destination is switched off")
    func nextBatch() async throws {
        let harness = try await Harness()
        let store = harness.store
        let place = try await Self.addFile(store)
        try await Self.fill(harness, 0..<3)
        let group = try #require(try await store.groupsWaiting(at: place).first)
        var isAll = true
        func next(_ limit: Int) async throws -> (hold: Hold?, items: [OutboxItem]) {
            let batch = try await store.nextBatch(
                user: group.user, resource: group.resource, provider: group.provider, limit: limit, at: place)
            switch batch {
            case .held(let hold): return (hold, [])
            case .items(let items, let all):
                isAll = all
                return (nil, items)
            }
        }
        let waiting = try await Self.batch(store, at: place)
        #expect(waiting.count == 3)
        #expect(try await next(10) == (nil, waiting) && isAll)
        #expect(try await next(3) == (nil, waiting) && isAll)
        #expect(try await next(2) == (nil, Array(waiting.prefix(2))) && !isAll)
        try await store.setSyncEnabled(false)
        #expect(try await next(10) == (.syncDisabled, []))
        try await store.setSyncEnabled(true)
        try await store.setDestinationEnabled(false, "file")
        #expect(try await next(10) == (.destinationDisabled, []))
        try await store.setDestinationEnabled(true, "file")
        try await store.acknowledge(waiting.map(\.id), at: Build.instant("2026-11-21T10:00:00Z"))
        #expect(try await next(10) == (nil, []))
        await #expect(throws: StoreError.limitOutOfRange(0)) { _ = try await next(0) }
    }

    @Test("where each device's readings are a series, only those of one device move to the next free second")
    func seriesByDevice() async throws {
        var times: [[ReadingID: Int64]] = []
        for isReversed in [false, true] {
            let harness = try await Harness()
            let place = try await harness.store.setDestination(
                "charts", kind: "influxdb", kinds: [.glucose], hasUniqueSeconds: true, isSeriesByDevice: true,
                needsSource: false)
            let devices: [UInt64] = [0xC000_0000_1808, 0xC000_0000_1809]
            for device in isReversed ? devices.reversed() : devices {
                try await harness.contact(
                    (1...2).map { Build.glucose($0, "2026-11-20T10:00:00", 90 + $0) }, device: Build.device(device))
            }
            let items = try await Self.batch(harness.store, at: place)
            #expect(items.count { $0.originalTime == nil } == 2 && items.count { $0.originalTime != nil } == 2)
            times.append(Dictionary(uniqueKeysWithValues: items.map { ($0.reading.id, $0.timestamp.seconds) }))
        }
        #expect(times[0] == times[1], "whichever gateway read them in whichever order")
    }

    @Test(
        "what two providers bring of one second has two seconds where each device's readings are a series",
        arguments: [false, true])
    func seriesWithoutDevice(isLater: Bool) async throws {
        let harness = try await Harness()
        let store = harness.store
        try await store.setBackfillDays(60)
        func open() async throws -> DestinationKey {
            try await store.setDestination(
                "charts", kind: "influxdb", kinds: [.weight], hasUniqueSeconds: true, isSeriesByDevice: true,
                needsSource: false)
        }
        if !isLater { _ = try await open() }
        let start = Build.instant("2026-11-20T08:00:00Z").seconds
        try await store.add([
            ImportTests.weight("155.4", at: 0), ImportTests.weight("156.4", at: 0, provider: "health_connect"),
            ImportTests.weight("157.4", at: 60),
        ])
        let place = try await open()
        let items = try await Self.batch(store, at: place)
        let times = items.map(\.timestamp.seconds).sorted()
        #expect(times == [start, start + 1, start + 60], "one device's name, whoever the provider is")
        // Nor does a third take a point whose reading was pruned here.
        try await PruneTests.deliver(store)
        try await store.acknowledge(items.map(\.id), at: Build.instant("2026-11-21T11:00:00Z"))
        #expect(try await store.prune(olderThan: .zero).readings == 3)
        try await store.add([ImportTests.weight("158.4", at: 0, provider: "garmin")])
        let later = try await Self.batch(store, at: place).map(\.timestamp.seconds)
        #expect(later == [start + 2])
        #expect(try await store.verify().isEmpty)
    }

    @Test(
        "a context that comes later is sent to a destination that has the reading, but for one that takes no contexts")
    func contextLater() async throws {
        let harness = try await Harness()
        let store = harness.store
        let place = try await Self.addFile(store)
        let charts = try await store.setDestination(
            "charts", kind: "influxdb", kinds: [.glucose], hasUniqueSeconds: true, isSeriesByDevice: true,
            needsSource: false)
        let contact = try await store.beginContact(
            with: Build.device(), at: Build.instant("2026-11-21T09:59:00Z"), clock: nil, batteryPercent: nil)
        _ = try await store.append([Build.glucose(1, "2026-11-20T10:01:00", 90)], of: contact)
        // It came while the record was being sent: what was sent had no context.
        let sent = try await Self.batch(store, at: place)
        let written = try await Self.batch(store, at: charts)
        _ = try await store.append([Build.context(1, meal: 1)], of: contact)
        try await store.acknowledge((sent + written).map(\.id), at: Instant(seconds: 5))
        var again = try await Self.batch(store, at: place)
        #expect(again.map(\.reading.context?.meal) == ["preprandial"] && again.map(\.wasDelivered) == [true])
        try await store.acknowledge(again.map(\.id), at: Instant(seconds: 6))
        try await store.acknowledge(Self.batch(store, at: .vital).map(\.id), at: Instant(seconds: 6))
        let rewritten = try await Self.batch(store, at: charts)
        #expect(
            rewritten.map(\.reading.context?.meal) == ["preprandial"], "its second tells the reading, not what it says")
        #expect(rewritten.map(\.timestamp) == written.map(\.timestamp))
        try await store.acknowledge(rewritten.map(\.id), at: Instant(seconds: 6))
        // The same says nothing new, another one does.
        _ = try await store.append([Build.context(1, meal: 1)], of: contact)
        #expect(try await Self.batch(store, at: place).isEmpty)
        _ = try await store.append([Build.context(1, meal: 2)], of: contact)
        again = try await Self.batch(store, at: place)
        #expect(again.map(\.reading.context?.meal) == ["postprandial"] && again.map(\.wasDelivered) == [true])
        #expect(try await Self.batch(store, at: .vital).isEmpty)
        #expect(try await store.verify().isEmpty)
    }

    @Test("what is acknowledged together is changed by runs, and nothing between them is")
    func runs() async throws {
        let harness = try await Harness()
        let store = harness.store
        let place = try await Self.addFile(store)
        try await Self.fill(harness, 0..<9)
        let items = try await Self.batch(store, at: place)
        let chosen = [7, 1, 0, 3, 4, 1, 8].map { items[$0].id }
        #expect(OutboxRun.runs(of: chosen).map(\.count) == [2, 2, 2])
        let last = OutboxID(reading: .max, destination: place, revision: 0)
        #expect(OutboxRun.runs(of: [last, last]).map(\.count) == [1])
        let other = OutboxID(reading: items[2].id.reading, destination: place, revision: 1)
        try await store.acknowledge(chosen + [other], at: Instant(seconds: 5))
        #expect(try await Self.batch(store, at: place).map(\.id) == [2, 5, 6].map { items[$0].id })
        #expect(try await Self.batch(store, at: .vital).count == 9)
    }

    @Test("an acknowledgement, a refusal and an attempt count for their destination alone")
    func apart() async throws {
        let harness = try await Harness()
        let place = try await Self.addFile(harness.store)
        try await Self.fill(harness, 0..<3)
        let items = try await Self.batch(harness.store, at: place)
        try await harness.store.acknowledge([items[0].id], at: Instant(seconds: 5))
        try await harness.store.reject(items[1].id, serverSaid: "no place for 90")
        try await harness.store.noteAttempt([items[2].id], serverSaid: "later")
        #expect(try await Self.batch(harness.store, at: place).map(\.attempts) == [1])
        #expect(try await Self.batch(harness.store, at: .vital).map(\.attempts) == [0, 0, 0])
        #expect(try await harness.store.refused(at: place).map(\.serverSaid) == ["no place for 90"])
        #expect(try await harness.store.refused().isEmpty)
        let states = try await harness.store.query(ReadingQuery(limit: 10)).readings.reversed().map(\.deliveries)
        #expect(states.map { $0.map(\.destination) } == Array(repeating: ["vital", "file"], count: 3))
        #expect(
            states.map { $0[1].state } == [.delivered, .refused(words: "no place for 90"), .waiting])
        #expect(try await harness.store.retryRefused(nil, at: .vital) == 0)
        #expect(try await harness.store.retryRefused() == 1)
    }

    @Test("a reading counts once in the statistics of all destinations, and at each destination that has it")
    func statistics() async throws {
        let harness = try await Harness()
        let store = harness.store
        let place = try await Self.addFile(store)
        try await Self.fill(harness, 0..<5)
        let user = try await store.currentUser().key
        func expect(_ waiting: Int, _ delivered: Int, _ refused: Int, at place: DestinationKey?) async throws {
            let statistics = try await store.statistics(of: place)
            #expect(statistics.waiting == waiting)
            #expect(statistics.delivered == delivered)
            #expect(statistics.refused == refused)
            let counts = try await store.counts(of: user, at: place)
            #expect(counts.waiting == waiting)
            #expect(counts.delivered == delivered)
            #expect(counts.refused == refused)
        }
        try await expect(5, 0, 0, at: nil)
        let items = try await Self.batch(store, at: place)
        try await store.acknowledge(items.prefix(2).map(\.id), at: Instant(seconds: 5))
        try await store.reject(items[2].id, serverSaid: "no")
        try await expect(2, 2, 1, at: place)
        try await expect(5, 0, 0, at: .vital)
        try await expect(5, 2, 1, at: nil)
        let others = try await Self.batch(store, at: .vital)
        try await store.acknowledge(others.prefix(2).map(\.id), at: Instant(seconds: 5))
        try await expect(3, 2, 1, at: nil)
        #expect(try await store.prune(olderThan: .zero).readings == 2)
        try await expect(3, 2, 1, at: nil)
    }

    @Test("destinations' words on readings are re-encrypted with a new key, each for its destination")
    func resealed() async throws {
        let harness = try await Harness(encryption: .on())
        let place = try await Self.addFile(harness.store)
        try await Self.fill(harness, 0..<2)
        for (destination, words) in [(DestinationKey.vital, "too high"), (place, "too low")] {
            let item = try #require(try await Self.batch(harness.store, at: destination).first)
            try await harness.store.reject(item.id, serverSaid: words)
        }
        _ = try await harness.store.rotateKey()
        #expect(try await harness.store.refused().map(\.serverSaid) == ["too high"])
        #expect(try await harness.store.refused(at: place).map(\.serverSaid) == ["too low"])
        #expect(try await Self.batch(harness.store, at: place).count == 1)
        #expect(try await harness.store.verify().isEmpty)
        try await harness.store.write(.setting) { db in
            try db.execute(
                sql: """
                    UPDATE outbox SET words = (SELECT words FROM outbox AS o
                        WHERE o.reading = outbox.reading AND o.destination = 1) WHERE destination = 2 AND state = 2
                    """)
        }
        await #expect(throws: StoreError.self) { _ = try await harness.store.refused(at: place) }
    }

    @Test("a new destination gets what was measured since the backfill began, of the kinds it can express")
    func backlog() async throws {
        let harness = try await Harness()
        try await harness.contact([
            Build.glucose(1, "2026-01-01T10:00:00", 90), Build.glucose(2, "2026-11-20T10:00:00", 91),
        ])
        try await harness.store.setBackfillDays(60)
        let place = try await Self.addFile(harness.store)
        let none = try await Self.addFile(harness.store, "cuffs", kinds: [.bloodPressure])
        #expect(try await Self.batch(harness.store, at: place).count == 1)
        #expect(try await Self.batch(harness.store, at: none).isEmpty)
        // Known already: nothing is queued twice, also after it was removed and came back.
        try await Self.addFile(harness.store)
        try await harness.store.removeDestination("file")
        try await Self.addFile(harness.store)
        #expect(try await Self.batch(harness.store, at: place).count == 1)
        #expect(try await harness.store.verify().isEmpty)
    }

    @Test("a longer backfill also gets what was stored before the destination was known; a shorter one only holds")
    func longerBackfill() async throws {
        let harness = try await Harness()
        let store = harness.store
        try await harness.contact([
            Build.glucose(1, "2026-01-01T10:00:00", 90), Build.glucose(2, "2026-11-20T10:00:00", 91),
        ])
        try await store.setBackfillDays(60)
        let place = try await Self.addFile(store)
        #expect(try await Set(Self.batch(store, at: place).map(\.id)).count == 1)
        try await store.setRule(DestinationRule(backfillDays: 3650), of: "file")
        try await Self.addFile(store)
        #expect(try await Set(Self.batch(store, at: place).map(\.id)).count == 2)
        try await store.setRule(DestinationRule(backfillDays: 60), of: "file")
        try await Self.addFile(store)
        #expect(try await Set(Self.batch(store, at: place).map(\.id)).count == 1)
        // However long it is, nothing is queued twice.
        try await store.setBackfillDays(nil)
        try await store.setRule(DestinationRule(), of: "file")
        try await Self.addFile(store)
        #expect(try await Set(Self.batch(store, at: place).map(\.id)).count == 2)
        #expect(try await store.verify().isEmpty)
    }

    @Test("a destination waits at another address until it is accepted or the former is back; off stays off")
    func moved() async throws {
        let harness = try await Harness()
        let store = harness.store
        func open(at address: String) async throws -> StoredDestination.State? {
            try await store.setDestination(
                "file", kind: "file", kinds: [.glucose], hasUniqueSeconds: false, needsSource: false, address: address)
            return try await store.destinations().first { $0.name == "file" }?.state
        }
        #expect(try await open(at: "one") == .enabled)
        #expect(try await open(at: "two") == .moved)
        #expect(try await open(at: "two") == .moved)
        #expect(try await open(at: "one") == .enabled)
        #expect(try await open(at: "two") == .moved)
        try await store.acceptAddress("two", of: "file")
        #expect(try await open(at: "two") == .enabled)
        try await store.setDestinationEnabled(false, "file")
        #expect(try await open(at: "three") == .disabled)
        try await store.setDestinationEnabled(true, "file")
        #expect(try await open(at: "three") == .moved)
    }

    @Test("what a destination was not selected for is held there alone, and does not keep it from being pruned")
    func selection() async throws {
        let harness = try await Harness()
        let store = harness.store
        let place = try await Self.addFile(store)
        try await Self.fill(harness, 0..<3)
        try await store.setRule(
            DestinationRule(selection: DestinationSelection(kinds: [.bloodPressure])), of: "file")
        #expect(try await store.groupsWaiting(at: place).map(\.held) == [.notSelected])
        #expect(try await Self.batch(store, at: place).isEmpty)
        let items = try await Self.batch(store, at: .vital)
        #expect(items.count == 3)
        try await store.acknowledge(items.map(\.id), at: Instant(seconds: 5))
        #expect(try await store.prune(olderThan: .zero).readings == 3)

        try await Self.fill(harness, 3..<5)
        try await store.setRule(DestinationRule(isManual: true), of: "file")
        #expect(try await store.groupsWaiting(at: place, heedsMode: true).map(\.held) == [.manual])
        #expect(try await Self.batch(store, at: place).count == 2)
    }

    @Test("a rule is read as it was written, whatever the names in it begin with")
    func ruleOfNames() async throws {
        let store = try await Harness().store
        _ = try await Self.addFile(store)
        let rule = DestinationRule(
            selection: DestinationSelection(
                people: ["ann", "\u{301}bob", "\u{600}"],
                devices: .init(addresses: [1], models: ["\u{FE0F}x", " y"])))
        try await store.setRule(rule, of: "file")
        #expect(try await store.read { try ReadingStore.rule($0, of: "file") } == rule)
    }

    @Test("a person's id and sources at one destination are not those at another")
    func people() async throws {
        let harness = try await Harness()
        let store = harness.store
        let place = try await Self.addFile(store)
        let user = try await store.currentUser().key
        try await store.setServerUserID("first", of: user)
        try await store.setServerUserID("second", of: user, at: place)
        try await store.setSource(ConnectedSource(provider: "accuchek_ble", status: .paused), user: user, at: place)
        #expect(try await store.currentUser().serverUserID == "first")
        #expect(try await store.currentUser(at: place).serverUserID == "second")
        #expect(try await store.sources(user: user).isEmpty)
        #expect(try await store.sources(user: user, at: place).map(\.status) == [.paused])
        try await store.eraseUser(user)
        #expect(try await store.sources(user: user, at: place).isEmpty)
        #expect(try await store.users(at: place).allSatisfy { $0.serverUserID == nil })
    }

    @Test("the gateway's id stays as it is after the store is opened again")
    func gatewayID() async throws {
        let harness = try await Harness()
        let id = try await harness.store.gatewayID()
        #expect(UUID(uuidString: id) != nil && id == id.lowercased())
        try harness.store.close()
        #expect(try await Harness(harness.directory).store.gatewayID() == id)
    }
}
