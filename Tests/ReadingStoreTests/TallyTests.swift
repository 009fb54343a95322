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
        /// Who has met whom.
        var shared: [[Bool]] = []
        var pages: [[ReadingID]] = []
        var toDeliver: [[OutboxGroup]] = []
        var newest: [[DeliveredReading]] = []
        var awaitingContext: [[OutboxGroup]] = []
        var leftBehind: [Int] = []
        var newestLeftBehind: [[ReadingID]] = []

        init(_ store: ReadingStore) async throws {
            // Before anything was counted, a person's readings are looked for among all, and groups are asked of the outbox itself.
            for user in try await store.users() {
                for kinds in [nil, [.glucose], [.weight, .glucose], [.bloodPressure]] as [Set<ReadingKind>?] {
                    pages += try await Self.pages(ReadingQuery(kinds: kinds, limit: 7, user: user.key), store)
                }
                let latest = try await store.query(ReadingQuery(limit: 5, latest: true, user: user.key))
                pages.append(latest.readings.map(\.id))
            }
            for place in try await store.destinations().map(\.key) {
                toDeliver.append(try await store.groupsToDeliver(at: place))
                newest.append(try await store.newestDelivered(at: place))
                awaitingContext.append(try await store.groupsAwaitingContext(at: place))
                leftBehind.append(try await store.leftBehind(at: place))
                newestLeftBehind.append(try await store.readingsLeftBehind(at: place).map(\.id))
            }
            size = try await store.size().readings
            for user in try await store.users() {
                for place in try await [nil] + store.destinations().map({ Optional.some($0.key) }) {
                    people.append(try await store.counts(of: user.key, at: place))
                }
                let devices = try await store.devices(of: user.key)
                theirDevices.append(devices.map(\.device.readings))
                shared.append(devices.flatMap { [$0.isOwn, $0.isShared] })
            }
            devices = try await store.devices().map(\.readings)
            let places = try await store.destinations().map(\.key)
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

        /// The pages of a query, and how many there are.
        private static func pages(_ query: ReadingQuery, _ store: ReadingStore) async throws -> [[ReadingID]] {
            var (query, pages) = (query, [[ReadingID]]())
            while true {
                let page = try await store.query(query)
                pages.append(page.readings.map(\.id))
                guard page.more, let cursor = page.cursor else { return pages }
                query.cursor = cursor
            }
        }
    }

    /// Has the store count everything anew.
    private static func forget(_ store: ReadingStore) {
        store.countedReadings.withLock { $0 = CountedBlocks() }
        store.countedFrames.withLock { $0 = CountedBlocks() }
        store.countedContacts.withLock { $0 = CountedBlocks() }
        store.countedNewest.withLock { $0 = CountedBlocks() }
        store.prunedDeliveries.withLock { $0 = KnownPrunedDeliveries() }
        store.statisticsKnown.withLock { $0 = KnownStatistics() }
    }

    private static let file = "file"

    private static func addFile(_ store: ReadingStore) async throws {
        try await store.setDestination(
            file, kind: "file", kinds: [.glucose, .weight], hasUniqueSeconds: false, needsSource: false,
            canRetract: true)
    }

    /// The first of each group that waits.
    private static func waiting(
        _ store: ReadingStore, at place: DestinationKey, _ limit: Int
    ) async throws -> [OutboxID] {
        var found: [OutboxID] = []
        for group in try await store.groupsWaiting(at: place) {
            found += try await store.outboxBatch(
                user: group.user, resource: group.resource, provider: group.provider, limit: limit, at: place
            ).map(\.id)
        }
        return found
    }

    /// One of the things that happen to a store.
    static func step(_ harness: Harness, _ generator: inout SeededGenerator, _ number: Int) async throws {
        let store = harness.store
        let user = try await store.currentUser().key
        let places = try await store.destinations()
        let place = try #require(places.randomElement(using: &generator))
        let at = Build.instant("2026-11-21T11:00:00Z").advanced(by: .seconds(number))
        func waiting(_ limit: Int) async throws -> [OutboxID] {
            try await Self.waiting(store, at: place.key, limit)
        }
        switch Int.random(in: 0..<20, using: &generator) {
        case 0...5:
            let first = UInt16.random(in: 0..<900, using: &generator)
            let known = Bool.random(using: &generator) ? Build.device() : Build.device(0xC000_0000_2000)
            let device = number % 9 == 0 ? Build.device(0xC000_0000_3000 + UInt64(number)) : known
            try await harness.contact(
                (first..<first + 12).map { number in
                    let day = 10 + number % 11
                    return Build.glucose(
                        number, "2026-11-\(day)T08:00:\(10 + number % 50)", 60 + number, ordinal: Int(number))
                }, device: device, isComplete: number % 4 > 0)
        case 6:
            // The person may be erased.
            guard try await store.user("white_bear") != nil else { return }
            _ = try await store.enter(try EntryTests.entry("5.\(number % 10)"))
        case 7...9: try await store.acknowledge(try await waiting(7), at: at)
        case 10: try await store.handOver(try await waiting(3), at: at)
        case 11: for id in try await waiting(1) { try await store.reject(id, serverSaid: "no") }
        case 12:
            try await store.retryRefused()
            try await store.setCurrentUser(
                Bool.random(using: &generator) ? "white_bear" : "brown_bear", timeZone: "Europe/Berlin")
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

    /// Withdraws an entry that each destination has: none can take it back but a file.
    private static func leaveBehind(_ store: ReadingStore, _ number: Int) async throws {
        guard try await store.user("white_bear") != nil else { return }
        let time = "2026-11-21T07:\(10 + number / 2)"
        guard case .added(let reading) = try await store.enter(try EntryTests.entry("6.1", at: time)) else { return }
        for place in try await store.destinations().map(\.key) {
            try await store.acknowledge(
                try await Self.waiting(store, at: place, 10_000), at: Build.instant("2026-11-21T11:00:00Z"))
        }
        try await store.withdraw(reading.id)
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

    /// The newest reading of each device, person and kind that a destination has, walked along row by row.
    private static func walkedNewest(_ store: ReadingStore, at place: DestinationKey) async throws -> [Int64] {
        try await store.read { db in
            try Int64.fetchAll(
                db,
                sql: """
                    SELECT max(o.timestamp) FROM outbox AS o JOIN reading AS r ON r.key = o.reading
                    WHERE o.destination = ? AND (o.state = \(outbox: .delivered) OR o.state IN (\(outbox: .waiting), \(outbox: .handedOver))
                        AND (o.delivered_at IS NOT NULL OR o.handed_over_at IS NOT NULL))
                    GROUP BY r.device, o.user, o.resource ORDER BY 1
                    """, arguments: [place.rawValue])
        }
    }

    @Test("whatever happens, what is remembered is what counting everything anew gives", arguments: 1...8)
    func remembered(_ seed: UInt64) async throws {
        let harness = try await Harness(decoder: TestDecoder(awaitsSomeContexts: true))
        try await Self.addFile(harness.store)
        var generator = SeededGenerator(seed: seed)
        var (awaited, left) = (0, 0)
        for number in 0..<60 {
            try await Self.step(harness, &generator, number)
            if number % 20 == 10 { try await Self.leaveBehind(harness.store, number) }
            let remembered = try await Counted(harness.store)
            awaited += remembered.awaitingContext.joined().count
            left += remembered.leftBehind.reduce(0, +)
            for user in try await harness.store.users().map(\.key) {
                #expect(
                    try await harness.store.counts(of: user) == Self.walked(harness.store, user), "after step \(number)"
                )
            }
            for place in try await harness.store.destinations().map(\.key) {
                let commits = harness.store.commitCount
                let known = try await harness.store.read { db in
                    try harness.store.newestTally(db, harness.store.shownAt.withLock(\.self), at: commits)
                }
                let newest = known.newest.filter { $0.key.destination == place.rawValue }.map(\.value.timestamp)
                    .sorted()
                #expect(try await newest == Self.walkedNewest(harness.store, at: place), "after step \(number)")
            }
            Self.forget(harness.store)
            #expect(try await Counted(harness.store) == remembered, "after step \(number)")
        }
        #expect(awaited > 0 && left > 0)
        #expect(try await harness.store.verify().isEmpty)
    }

    @Test(
        "a batch that begins at the oldest that may go is the one that begins at the first, whatever happened since",
        arguments: [1, 3, 4, 5, 6, 7])
    func batches(_ seed: UInt64) async throws {
        let harness = try await Harness()
        let store = harness.store
        try await Self.addFile(store)
        var generator = SeededGenerator(seed: seed)
        var (compared, changed) = (0, 0)
        for number in 0..<120 {
            // A pass looks at the counts where there are any, and else at the outbox itself.
            if Bool.random(using: &generator) { _ = try await store.statistics() } else { Self.forget(store) }
            let generation = store.contentGeneration
            var seen: [(place: DestinationKey, group: OutboxGroup)] = []
            for place in try await store.destinations().map(\.key) {
                for group in try await store.groupsToDeliver(at: place) where group.held == nil {
                    seen.append((place, group))
                }
            }
            let commits = store.commitCount
            if number % 3 > 0 { try await Self.step(harness, &generator, number) }
            // Else what a pass has seen does not count any more.
            guard store.contentGeneration == generation else { continue }
            for (place, group) in seen {
                for limit in [1, 5, 10_000] {
                    func batch(from oldest: Instant?) async throws -> [OutboxID]? {
                        let next = try await store.nextBatch(
                            user: group.user, resource: group.resource, provider: group.provider, from: oldest,
                            limit: limit, at: place)
                        guard case .items(let items, _) = next else { return nil }
                        return items.map(\.id)
                    }
                    let begun = try await batch(from: group.oldest)
                    #expect(try await batch(from: nil) == begun, "after step \(number)")
                    compared += begun?.count ?? 0
                }
                if store.commitCount != commits { changed += 1 }
            }
        }
        #expect(compared > 0 && changed > 0)
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

    @Test(
        "a device that is met for the first time has nothing counted anew, and one whose first contact becomes an earlier one has"
    )
    func newDevice() async throws {
        let harness = try await Harness()
        let store = harness.store
        let place = try #require(try await store.destinations().first)
        try await store.setRule(DestinationRule(backfillDays: 3), of: place.name)
        try await harness.contact([Build.glucose(1, "2026-11-20T10:00:00")])
        _ = try await store.statistics()
        func isKnown() async throws -> Bool {
            let commits = store.commitCount
            return try await store.read { db in try store.knownTally(db, at: commits) } != nil
        }
        try await harness.contact([], device: Build.device(0xC000_0000_2000))
        #expect(try await isKnown())
        try await harness.contact(
            [Build.glucose(1, "2026-11-20T10:00:00")], device: Build.device(0xC000_0000_2000),
            at: "2026-11-21T10:00:00Z")
        #expect(try await isKnown())
        try await harness.contact([], device: Build.device(0xC000_0000_2000), at: "2026-11-02T10:00:00Z")
        #expect(try await !isKnown())
        let counted = try await Counted(store)
        Self.forget(store)
        #expect(try await Counted(store) == counted)
    }

    @Test("what is committed is noted before anybody can read it")
    func noted() async throws {
        let harness = try await Harness()
        let store = harness.store
        try await harness.contact([Build.glucose(1, "2026-11-20T10:00:00")])
        let commits = store.commitCount
        #expect(try await store.statistics().readings[.glucose] == 1)
        // A reader that began behind the commit, and asked before it how many there were.
        let observer = CommitObserver { store.countedReadings.withLock { $0.sum(at: commits) } == nil }
        store.pool.add(transactionObserver: observer, extent: .observerLifetime)
        try await harness.contact([Build.glucose(2, "2026-11-20T10:05:00")])
        let seen = observer.seen.withLock(\.self)
        #expect(!seen.isEmpty && seen.allSatisfy(\.self))
    }

    @Test("a reader is not given what was counted behind a commit that it does not see")
    func older() {
        var counted = CountedBlocks<FrameTally, Bool>()
        var found = CountedBlocks<FrameTally, Bool>.Counted()
        (found[.block][0], found[.block][1]) = (FrameTally(), FrameTally())
        counted.note([16], by: 9)
        counted.keep(found, sum: FrameTally(), true, at: 9)
        let edition = counted.edition(of: true)
        func isKnown(_ number: Int64, _ commits: Int) -> Bool {
            counted.known(number, at: .block, edition, from: commits) != nil
        }
        #expect(isKnown(0, 8) && isKnown(0, 9) && isKnown(1, 9))
        #expect(!isKnown(1, 8))
        // And what it counts does not take the place of what is newer.
        counted.keep(found, sum: FrameTally(), true, at: 8)
        #expect(isKnown(1, 9) && counted.sum(at: 9) != nil)
    }

    @Test("nor how much of what was pruned is delivered")
    func olderPruned() {
        let query = KnownPrunedDeliveries.Query(destinations: [1])
        var known = KnownPrunedDeliveries()
        known.touched = 11
        known.keep(KnownPrunedDeliveries.Deliveries(count: 7), query, at: 11)
        #expect(known.known(query, from: 10) == nil)
        #expect(known.known(query, from: 11)?.count == 7)
        // And what it counts does not take the place of what is newer.
        known.keep(KnownPrunedDeliveries.Deliveries(count: 3), query, at: 10)
        #expect(known.known(query, from: 11)?.count == 7)
        known.touched = 12
        #expect(known.known(query, from: 12) == nil)
    }

    @Test("a block that is empty now does not count as changed")
    func emptied() {
        func tally(_ count: Int) -> FrameTally {
            var tally = FrameTally()
            tally.count = count
            return tally
        }
        var counted = CountedBlocks<FrameTally, Bool>()
        var found = CountedBlocks<FrameTally, Bool>.Counted()
        for number in Int64(0)..<20 { found[.block][number] = tally(1) }
        counted.keep(found, sum: tally(20), true, at: 1)
        counted.note(Set((Int64(0)..<19).map { $0 * 16 }), by: 2)
        #expect(counted.changedBlocks == 19)
        // Someone who began before that commit says nothing of what it has changed.
        counted.keep(.init(), sum: tally(20), true, at: 1)
        var left = CountedBlocks<FrameTally, Bool>.Counted()
        left[.block][3] = tally(1)
        counted.keep(left, sum: tally(2), true, at: 2)
        #expect(counted.changedBlocks == 0)
        #expect(counted.knows(3, at: .block) && counted.knows(19, at: .block) && !counted.knows(4, at: .block))
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

/// Looks at something right behind each commit, before the store hears of it.
private final class CommitObserver: TransactionObserver, Sendable {
    let seen = Mutex<[Bool]>([])
    private let look: @Sendable () -> Bool

    init(_ look: @escaping @Sendable () -> Bool) { self.look = look }

    func observes(eventsOfKind eventKind: DatabaseEventKind) -> Bool { false }
    func databaseDidChange(with event: DatabaseEvent) {}
    func databaseDidCommit(_ db: Database) { seen.withLock { $0.append(look()) } }
    func databaseDidRollback(_ db: Database) {}
}
