import GRDB
import HealthReadings
import Synchronization
import TestSupport
import Testing

@testable import ReadingStore

@Suite("The rules that are remembered, by which readings wait")
struct KnownHoldsTests {
    /// The rules that a document is written by, and those that the database has.
    private static func rules(_ store: ReadingStore) async throws -> (given: HoldRules, stored: HoldRules) {
        let lookup = HoldLookup(store)
        return try await store.read { db in (try lookup.rules(db), try HoldRules(db, store.sealing)) }
    }

    private static func isKnown(_ store: ReadingStore) -> Bool {
        store.holdsKnown.withLock { $0.rules(store.sealing) != nil }
    }

    /// One of the things that the rules are about.
    private static func decide(_ store: ReadingStore, _ generator: inout SeededGenerator, _ number: Int) async throws {
        let place = try #require(try await store.destinations().randomElement(using: &generator))
        let met = try await store.devices().first?.addresses.map(\.bits) ?? []
        let user = try await store.currentUser().key
        switch Int.random(in: 0..<11, using: &generator) {
        case 0:
            try await store.setIgnored(
                IgnoredOrigins(
                    providers: Bool.random(using: &generator) ? [] : ["accuchek_ble"],
                    models: Bool.random(using: &generator) ? [] : ["glucose-meter"],
                    addresses: Bool.random(using: &generator) ? [] : Set(met)))
        case 1: try await store.setBackfillDays([nil, 0, 3, 8].randomElement(using: &generator) ?? nil)
        case 2: try await store.setConsentStandard(granted: Bool.random(using: &generator))
        case 3:
            try await store.setUnknownToServer(
                Bool.random(using: &generator), user: user, resource: .glucose, provider: "accuchek_ble", at: place.key)
        case 4 where place.state != .removed:
            try await store.setDestinationEnabled(Bool.random(using: &generator), place.name)
        case 5:
            let contact = try await store.beginContact(
                with: Build.device(0xC000_0000_2000), at: Build.instant("2026-11-\(10 + number % 10)T10:00:00Z"),
                clock: nil, batteryPercent: nil)
            try await store.endContact(contact, ContactSummary(isComplete: true, received: 0))
        case 6:
            try await store.setRefusedWhole(
                Bool.random(using: &generator), user: user, resource: .glucose, provider: "accuchek_ble", at: place.key)
        case 7: try await store.setSyncEnabled(Bool.random(using: &generator))
        case 8:
            try await store.setRule(
                DestinationRule(
                    selection: DestinationSelection(
                        people: Bool.random(using: &generator) ? nil : ["white_bear"],
                        devices: Bool.random(using: &generator)
                            ? nil : .init(addresses: Set(met), models: ["glucose-meter"]))),
                of: place.name)
        case 9: try await store.rotateKey()
        default:
            try await store.setSource(
                ConnectedSource(
                    provider: "accuchek_ble",
                    status: [.connected, .paused, .revoked].randomElement(using: &generator) ?? .error),
                user: user, at: place.key)
        }
    }

    @Test("whatever happens, they are what the database says", arguments: 1...8)
    func remembered(_ seed: UInt64) async throws {
        let harness = try await Harness()
        var generator = SeededGenerator(seed: seed)
        var kept = 0
        for number in 0..<80 {
            if Bool.random(using: &generator) {
                try await TallyTests.step(harness, &generator, number)
            } else {
                try await Self.decide(harness.store, &generator, number)
            }
            if Self.isKnown(harness.store) { kept += 1 }
            let rules = try await Self.rules(harness.store)
            #expect(rules.given == rules.stored, "after step \(number)")
        }
        #expect((10..<70).contains(kept))
    }

    @Test("readings, contacts and deliveries leave them as they are")
    func unchanged() async throws {
        let harness = try await Harness()
        let store = harness.store
        try await harness.contact([Build.glucose(1, "2026-11-20T10:00:00")])
        _ = try await store.enter(try EntryTests.entry())
        _ = try await harness.all()
        #expect(Self.isKnown(store))
        _ = try await store.enter(try EntryTests.entry("5.7"))
        try await harness.contact([Build.glucose(2, "2026-11-20T10:05:00")], at: "2026-11-21T10:30:00Z")
        let group = try #require(try await store.groupsWaiting(at: .vital).first)
        let items = try await store.outboxBatch(
            user: group.user, resource: group.resource, provider: group.provider, limit: 1, at: .vital)
        try await store.acknowledge(items.map(\.id), at: Build.instant("2026-11-21T11:00:00Z"))
        #expect(Self.isKnown(store))
        let rules = try await Self.rules(store)
        #expect(rules.given == rules.stored)
    }

    @Test("a first contact that turns out to be an earlier one is heeded")
    func earlier() async throws {
        let harness = try await Harness()
        let store = harness.store
        try await store.setBackfillDays(3)
        try await harness.contact([Build.glucose(1, "2026-11-16T10:00:00")])
        func hold() async throws -> DeliveryState? { try await harness.all().first?.deliveries.first?.state }
        #expect(try await hold() == .held(.olderThanBackfill))
        #expect(Self.isKnown(store))
        try await harness.contact([], at: "2026-11-17T09:00:00Z")
        #expect(try await hold() != .held(.olderThanBackfill))
    }

    @Test("without the key they are not taken from memory")
    func locked() async throws {
        let harness = try await Harness()
        try await harness.contact([Build.glucose(1, "2026-11-20T10:00:00")])
        _ = try await harness.all()
        let store = harness.store
        let known = try #require(store.holdsKnown.withLock { $0.rules(store.sealing) })
        var state = Sealing.State()
        (state.current, state.refusal) = (store.sealing.current, .keyMissing(path: "key"))
        store.sealing.set(state)
        #expect(!Self.isKnown(store))
        let rules = try await Self.rules(store)
        #expect(rules.given == rules.stored && rules.given != known)
    }

    @Test("a reader that began before a commit does not keep what was from before it")
    func outdated() async throws {
        let harness = try await Harness()
        let store = harness.store
        try await harness.contact([Build.glucose(1, "2026-11-20T10:00:00")])
        let lookup = HoldLookup(store)
        let former = try await store.read { db in try HoldRules(db, store.sealing) }
        let changes = store.holdsKnown.withLock(\.changes)
        try await store.setConsentStandard(granted: false)
        store.holdsKnown.withLock { $0.keep(former, at: changes, store.sealing.changes) }
        _ = try await store.read { db in try lookup.rules(db) }
        #expect(!Self.isKnown(store))
        let rules = try await Self.rules(store)
        #expect(rules.given == rules.stored && rules.given != former)
        // Nor those who read at the same time as another, and end after a contact that the other's rules have heeded.
        try await harness.contact([], at: "2026-11-01T10:00:00Z")
        store.holdsKnown.withLock { $0.keep(rules.stored, at: $0.changes, store.sealing.changes) }
        let heeded = try await Self.rules(store)
        #expect(heeded.given == heeded.stored && heeded.given != rules.given)
    }

    private final class End: Sendable { let isReached = Atomic(false) }

    @Test("a reader beside commits has the rules of what it sees", arguments: 1...3)
    func beside(_ seed: UInt64) async throws {
        let harness = try await Harness()
        try await harness.contact([Build.glucose(1, "2026-11-20T10:00:00")])
        let end = End()
        try await withThrowingTaskGroup(of: Int.self) { group in
            for _ in 0..<2 {
                group.addTask {
                    var compared = 0
                    while !end.isReached.load(ordering: .relaxed) {
                        let rules = try await Self.rules(harness.store)
                        #expect(rules.given == rules.stored)
                        compared += 1
                    }
                    return compared
                }
            }
            var generator = SeededGenerator(seed: seed)
            for number in 0..<60 {
                try await Self.decide(harness.store, &generator, number)
                if number % 3 == 0 { _ = try await harness.store.enter(try EntryTests.entry("5.\(number % 10)")) }
            }
            end.isReached.store(true, ordering: .relaxed)
            for try await compared in group { #expect(compared > 0) }
        }
    }

    @Test("what another program has changed is heeded where a reading is queued")
    func others() async throws {
        let harness = try await Harness()
        let store = harness.store
        try await harness.contact([Build.glucose(1, "2026-11-20T10:00:00")])
        _ = try await store.enter(try EntryTests.entry())
        _ = try await harness.all()
        #expect(Self.isKnown(store))
        let other = try DatabaseQueue(path: harness.directory + "/" + StoreFiles.databaseName)
        try await other.write { db in
            try db.execute(
                sql: """
                    INSERT INTO destination (name, kind, kinds, has_unique_seconds, needs_source, state)
                    SELECT 'other', kind, kinds, 0, 0, 1 FROM destination LIMIT 1
                    """)
        }
        let outcome = try await store.enter(try EntryTests.entry("5.7"))
        guard case .added(let reading) = outcome else {
            Issue.record("expected a new reading, found \(outcome)")
            return
        }
        #expect(reading.deliveries.map(\.destination).contains("other"))
    }

    @Test("what a transaction has taken back is not heeded")
    func takenBack() async throws {
        struct Stop: Error {}
        let harness = try await Harness()
        let store = harness.store
        try await store.setBackfillDays(3)
        try await harness.contact([Build.glucose(1, "2026-11-20T10:00:00")])
        _ = try await harness.all()
        #expect(Self.isKnown(store))
        let insert = """
            INSERT INTO contact (key, device, user, started_at, zone, sequence_epoch)
            SELECT key + 100, device, user, 1000000, zone, 0 FROM contact LIMIT 1
            """
        await #expect(throws: (any Error).self) {
            try await store.write(.contact) { db in
                try db.execute(sql: insert)
                throw Stop()
            }
        }
        try await store.write(.imports) { db in
            try db.inSavepoint {
                try db.execute(sql: insert)
                return .rollback
            }
        }
        #expect(Self.isKnown(store))
        let rules = try await Self.rules(store)
        #expect(rules.given == rules.stored)
    }
}
