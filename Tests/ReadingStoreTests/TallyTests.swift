import GRDB
import HealthReadings
import Synchronization
import TestSupport
import Testing

@testable import ReadingStore

@Suite("What is counted in the store")
struct TallyTests {
    /// Everything that is counted, as the store gives it.
    private struct Counted: Equatable {
        var statistics: [StoreStatistics] = []
        var groups: [[OutboxGroup]] = []
        var devices: [Int] = []
        var size = 0
        var people: [PersonCounts] = []
        var theirDevices: [[Int]] = []

        init(_ store: ReadingStore) async throws {
            size = try await store.size().readings
            for user in try await store.users() {
                for place in try await [nil] + store.destinations().map({ Optional.some($0.key) }) {
                    people.append(try await store.counts(of: user.key, at: place))
                }
                theirDevices.append(try await store.devices(of: user.key).map(\.device.readings))
            }
            devices = try await store.devices().map(\.readings)
            let places = try await store.destinations().map(\.key)
            // Before anything was counted, groups are asked of the outbox itself.
            for place in places {
                for heedsMode in [false, true] {
                    groups.append(try await store.groupsWaiting(at: place, heedsMode: heedsMode))
                }
            }
            for place in [nil] + places.map(Optional.some) {
                var found = try await store.statistics(of: place)
                found.octetsOnDisk = 0
                statistics.append(found)
            }
        }
    }

    /// Has the store count everything anew.
    private static func forget(_ store: ReadingStore) {
        store.countedReadings.withLock { $0 = CountedBlocks() }
        store.countedFrames.withLock { $0 = CountedBlocks() }
        store.countedContacts.withLock { $0 = CountedBlocks() }
        store.prunedDeliveries.withLock { $0 = KnownPrunedDeliveries() }
        store.statisticsKnown.withLock { $0 = KnownStatistics() }
    }

    private static let file = "file"

    private static func addFile(_ store: ReadingStore) async throws {
        try await store.setDestination(
            file, kind: "file", kinds: [.glucose, .weight], hasUniqueSeconds: false, needsSource: false,
            canRetract: true)
    }

    /// One of the things that happen to a store.
    private static func step(_ harness: Harness, _ generator: inout SeededGenerator, _ number: Int) async throws {
        let store = harness.store
        let user = try await store.currentUser().key
        let places = try await store.destinations()
        let place = try #require(places.randomElement(using: &generator))
        let at = Build.instant("2026-11-21T11:00:00Z").advanced(by: .seconds(number))
        func waiting(_ limit: Int) async throws -> [OutboxID] {
            var found: [OutboxID] = []
            for group in try await store.groupsWaiting(at: place.key) {
                found += try await store.outboxBatch(
                    user: group.user, resource: group.resource, provider: group.provider, limit: limit, at: place.key
                ).map(\.id)
            }
            return found
        }
        switch Int.random(in: 0..<20, using: &generator) {
        case 0...5:
            let first = UInt16.random(in: 0..<900, using: &generator)
            let device = Bool.random(using: &generator) ? Build.device() : Build.device(0xC000_0000_2000)
            try await harness.contact(
                (first..<first + 12).map { number in
                    let day = 10 + number % 11
                    return Build.glucose(
                        number, "2026-11-\(day)T08:00:\(10 + number % 50)", 60 + number, ordinal: Int(number))
                }, device: device)
        case 6:
            // The person may be erased.
            guard try await store.user("white_bear") != nil else { return }
            _ = try await store.enter(try EntryTests.entry("5.\(number % 10)"))
        case 7...9: try await store.acknowledge(try await waiting(7), at: at)
        case 10: try await store.handOver(try await waiting(3), at: at)
        case 11: for id in try await waiting(1) { try await store.reject(id, serverSaid: "no") }
        case 12: try await store.retryRefused()
        case 13: try await store.noteAttempt(try await waiting(3), serverSaid: nil)
        case 14:
            try await store.setConsent(
                .glucose, granted: Bool.random(using: &generator), of: user,
                at: Bool.random(using: &generator) ? nil : place.key)
        case 15:
            try await store.setRule(
                DestinationRule(
                    isManual: Bool.random(using: &generator),
                    backfillDays: [nil, 0, 3, 8].randomElement(using: &generator) ?? nil,
                    selection: DestinationSelection(
                        kinds: Bool.random(using: &generator) ? nil : [.glucose, .bloodPressure])), of: place.name)
        case 16:
            if places.contains(where: { $0.name == file && $0.state != .removed }), Bool.random(using: &generator) {
                try await store.removeDestination(file)
            } else {
                try await addFile(store)
            }
        case 17: try await store.prune(olderThan: .seconds(86_400 * Int64.random(in: 2...9, using: &generator)))
        case 18:
            if let reading = try await harness.all().randomElement(using: &generator) {
                try await store.requeue(reading.id, at: place.key)
            }
        default:
            if number % 7 == 0 {
                try await store.eraseUser(user)
            } else if let reading = try await harness.all().randomElement(using: &generator) {
                _ = try await store.leaveOut([reading.id], reason: nil, by: "test")
            }
        }
    }

    /// What a person has, walked along row by row.
    private static func walked(_ store: ReadingStore, _ user: UserKey) async throws -> PersonCounts {
        try await store.read { db in
            let queued = """
                outbox WHERE user = \(user.rawValue) AND destination IN (SELECT key FROM destination WHERE state <> \(destination: .removed))
                """
            let pruned = """
                pruned_place AS p JOIN pruned AS r ON r.identity = p.identity
                WHERE r.user = \(user.rawValue) AND EXISTS (SELECT 1 FROM destination AS d
                    WHERE d.state <> \(destination: .removed) AND \(PrunedPlaces.holds("d.key")))
                """
            func count(_ column: String, _ sql: String) throws -> Int {
                try Int.fetchOne(db, sql: "SELECT count(DISTINCT \(column)) FROM " + sql) ?? 0
            }
            var readings: [ReadingKind: Int] = [:]
            for row in try Row.fetchAll(
                db,
                sql: """
                    SELECT r.kind, count(*) FROM reading AS r
                    WHERE r.user = ? AND \(OwnReadings(db).condition) GROUP BY r.kind
                    """, arguments: [user.rawValue])
            {
                readings[try ReadingKind(code: try row.value(0))] = try row.value(1)
            }
            return PersonCounts(
                readings: readings, waiting: try count("reading", "\(queued) AND state = \(outbox: .waiting)"),
                delivered: try count("reading", "\(queued) AND state = \(outbox: .delivered)")
                    + count("r.identity", "\(pruned) AND p.delivered_at IS NOT NULL"),
                refused: try count("reading", "\(queued) AND state = \(outbox: .refused)"),
                lastDelivery: try Int64.fetchOne(
                    db,
                    sql: """
                        SELECT max(delivered_at) FROM (
                            SELECT delivered_at FROM \(queued) UNION ALL SELECT p.delivered_at FROM \(pruned))
                        """
                ).map(Instant.init(microseconds:)))
        }
    }

    @Test("whatever happens, what is remembered is what counting everything anew gives", arguments: 1...8)
    func remembered(_ seed: UInt64) async throws {
        let harness = try await Harness()
        try await Self.addFile(harness.store)
        var generator = SeededGenerator(seed: seed)
        for number in 0..<60 {
            try await Self.step(harness, &generator, number)
            let remembered = try await Counted(harness.store)
            for user in try await harness.store.users().map(\.key) {
                #expect(
                    try await harness.store.counts(of: user) == Self.walked(harness.store, user), "after step \(number)"
                )
            }
            Self.forget(harness.store)
            #expect(try await Counted(harness.store) == remembered, "after step \(number)")
        }
        #expect(try await harness.store.verify().isEmpty)
    }

    @Test("a reader that began before a commit is not given the sum from before it")
    func outdated() async throws {
        let harness = try await Harness()
        let store = harness.store
        try await harness.contact([Build.glucose(1, "2026-11-20T10:00:00")])
        let commits = store.commitCount
        #expect(try await store.statistics().readings[.glucose] == 1)
        #expect(store.countedReadings.withLock { $0.sum(at: commits) } != nil)
        try await harness.contact([Build.glucose(2, "2026-11-20T10:05:00")])
        #expect(try await store.read { try store.readingTally($0, at: commits) }.kinds.values.reduce(0, +) == 2)
        #expect(try await store.statistics().readings[.glucose] == 2)
    }

    @Test("a commit has only the blocks counted anew that it changed, and of them only the parts")
    func blocks() async throws {
        let harness = try await Harness()
        let most = Int(RowBlock.Level.block.keys(0).count)
        for first in stride(from: 0, to: most + 100, by: 1000) {
            let frames = (first..<min(first + 1000, most + 100)).map { number in
                Build.glucose(
                    UInt16(number), "2026-11-20T\(10 + number / 3600):\(10 + number / 60 % 50):\(10 + number % 50)",
                    ordinal: number)
            }
            try await harness.contact(frames)
        }
        func known() -> Set<Int64> {
            harness.store.countedReadings.withLock { counted in Set((0..<3).filter { counted.knows($0, at: .block) }) }
        }
        // The newest readings are in the first part of the newest block.
        func knowsNewestPart() -> Bool { harness.store.countedReadings.withLock { $0.knows(16, at: .part) } }
        #expect(known().isEmpty)
        #expect(try await harness.store.statistics().readings[.glucose] == most + 100)
        #expect(known() == [0, 1] && knowsNewestPart())
        try await harness.contact([Build.glucose(60_000, "2026-11-20T10:00:00")])
        #expect(known() == [0] && !knowsNewestPart())
        #expect(try await harness.store.statistics().readings[.glucose] == most + 101)
        #expect(known() == [0, 1])
        let user = try await harness.store.currentUser().key
        let oldest = try await harness.store.outboxBatch(
            user: user, resource: .glucose, provider: "accuchek_ble", limit: 1)
        try await harness.store.acknowledge(oldest.map(\.id), at: Build.instant("2026-11-21T11:00:00Z"))
        #expect(!known().contains(RowBlock.Level.block.number(of: try #require(oldest.first).id.reading)))
        #expect(try await harness.store.statistics().delivered == 1)
    }
}
