import GRDB
import HealthReadings
import Testing

@testable import ReadingStore

/// The owner changes what a destination is, where it is and what it gets.
@Suite("Destinations that change")
struct DestinationChangeTests {
    private let harness: Harness

    private var store: ReadingStore { harness.store }

    init() async throws { harness = try await Harness() }

    private static func meter(_ number: UInt64) -> DeviceDescription {
        DeviceDescription(
            address: DeviceAddress(bits: 0xC000_0000_1800 + number, kind: .random), provider: "accuchek_ble")
    }

    @discardableResult
    private func name(
        _ name: String, kind: String = "file", kinds: Set<ReadingKind> = [.glucose, .bloodPressure],
        at address: String? = nil
    ) async throws -> DestinationKey {
        try await store.setDestination(
            name, kind: kind, kinds: kinds, hasUniqueSeconds: kind == "vital", needsSource: false, address: address)
    }

    private func waiting(at place: DestinationKey) async throws -> [OutboxItem] {
        var items: [OutboxItem] = []
        for group in try await store.groupsWaiting(at: place) where group.held == nil {
            items += try await store.outboxBatch(
                user: group.user, resource: group.resource, provider: group.provider, limit: 1000, at: place)
        }
        return items
    }

    private func deliver(to place: DestinationKey) async throws -> [OutboxItem] {
        let items = try await waiting(at: place)
        try await store.acknowledge(items.map(\.id), at: harness.store.now())
        return items
    }

    private func fill(_ days: ClosedRange<Int>) async throws {
        try await harness.contact(days.map { Build.glucose(UInt16($0), "2026-11-0\($0)T10:00:00", 90) })
    }

    @Test("one that comes back with a shorter backfill gets what it missed once the backfill is long again")
    func returned() async throws {
        try await store.setRule(DestinationRule(backfillDays: 400), of: "file")
        try await name("file")
        try await fill(1...2)
        try await store.removeDestination("file")
        try await fill(3...5)
        try await store.setRule(DestinationRule(backfillDays: 0), of: "file")
        let place = try await name("file")
        try await store.setRule(DestinationRule(backfillDays: 400), of: "file")
        try await name("file")
        #expect(try await waiting(at: place).count == 5)
        #expect(try await store.verify().isEmpty)
    }

    @Test("one whose address changed while it was off gets nothing at any moment before somebody accepts that")
    func movedWhileOff() async throws {
        let place = try await name("file", at: "here")
        try await store.setDestinationEnabled(false, "file")
        try await name("file", at: "there")
        try await store.setDestinationEnabled(true, "file", address: "there")
        #expect(try await store.standingHold(at: place) == .otherEndpoint)
        // Nor does switching it off and on accept it.
        try await store.setDestinationEnabled(false, "file", address: "there")
        #expect(try await store.standingHold(at: place) == .destinationDisabled)
        try await store.setDestinationEnabled(true, "file", address: "there")
        #expect(try await store.standingHold(at: place) == .otherEndpoint)
        // It is back where it was.
        try await store.setDestinationEnabled(false, "file")
        try await store.setDestinationEnabled(true, "file", address: "here")
        #expect(try await store.standingHold(at: place) == nil)
    }

    @Test("one that can express more kinds than before gets what is stored of them")
    func moreKinds() async throws {
        let place = try await name("file", kinds: [.bloodPressure])
        try await fill(1...3)
        #expect(try await waiting(at: place).isEmpty)
        try await name("file")
        #expect(try await waiting(at: place).count == 3)
    }

    @Test("one that was named while a reading was excluded gets it when it counts")
    func countsLater() async throws {
        try await harness.contact([Build.glucose(1, "2026-11-01T10:00:00", status: 1 << 10)])
        let place = try await name("file")
        #expect(try await waiting(at: place).isEmpty)
        try await harness.contact([Build.glucose(1, "2026-11-01T10:00:00")], at: "2026-11-21T10:59:00Z")
        #expect(try await waiting(at: place).count == 1)
        #expect(try await store.groupsWaiting(at: .vital).map(\.count) == [1])
        #expect(try await store.verify().isEmpty)
    }

    @Test("under another name a server has each reading at the second it had, whatever was pruned meanwhile")
    func renamed() async throws {
        try await store.removeDestination("vital")
        let old = try await name("clinic", kind: "vital", at: "here")
        // Two meters in one second: the later one has the next.
        try await harness.contact([Build.glucose(1, "2026-11-01T10:00:00", 90)], device: Self.meter(1))
        try await harness.contact([Build.glucose(1, "2026-11-01T10:00:00", 91)], device: Self.meter(2))
        let delivered = try await deliver(to: old)
        #expect(Set(delivered.map(\.timestamp)).count == 2)
        let kept = try #require(delivered.max { $0.timestamp < $1.timestamp })
        // Another destination keeps one of them from being pruned.
        let other = try await name("other")
        let held = try await waiting(at: other)
        try await store.acknowledge(
            held.filter { $0.reading.id != kept.reading.id }.map(\.id), at: harness.store.now())
        #expect(try await store.prune(olderThan: .zero).readings == 1)
        try await store.removeDestination("clinic")
        let new = try await name("clinic2", kind: "vital", at: "here")
        let items = try await waiting(at: new)
        #expect(items.map(\.reading.id) == [kept.reading.id] && items.map(\.timestamp) == [kept.timestamp])
        // One of the second that the pruned reading has goes behind both.
        try await harness.contact([Build.glucose(9, "2026-11-01T10:00:00", 99)], device: Self.meter(3))
        let later = try #require(try await waiting(at: new).first { $0.reading.id != kept.reading.id })
        #expect(later.timestamp > kept.timestamp)
    }

    @Test("one of another kind begins anew, by its own rules")
    func anotherKind() async throws {
        let place = try await name("x")
        try await harness.contact([Build.glucose(1, "2026-11-01T10:00:00", 90)], device: Self.meter(1))
        try await harness.contact([Build.glucose(1, "2026-11-01T10:00:00", 91)], device: Self.meter(2))
        #expect(try await deliver(to: place).count == 2)
        try await name("x", kind: "vital", at: "here")
        let items = try await deliver(to: place)
        #expect(items.count == 2 && Set(items.map(\.timestamp)).count == 2)
        #expect(try await store.verify().isEmpty)
        try await name("x")
        #expect(Set(try await waiting(at: place).map(\.timestamp)).count == 1)
        // A receiver that knows what it had by id and revision takes them for something new.
        #expect(Set(try await waiting(at: place).map(\.id.revision)) == [2])
    }

    @Test("one whose seconds become unique keeps what it has, and gives none of these seconds again")
    func uniqueSeconds() async throws {
        func named(isUnique: Bool) async throws -> DestinationKey {
            try await store.setDestination(
                "clinic", kind: "clinic", kinds: [.glucose], hasUniqueSeconds: isUnique, isOneSeries: isUnique,
                needsSource: false)
        }
        let place = try await named(isUnique: false)
        // One second, of two meters.
        for number in 1...2 as ClosedRange<UInt64> {
            try await harness.contact(
                [Build.glucose(1, "2026-11-01T10:00:00", 90 + UInt16(number))], device: Self.meter(number))
        }
        let before = try await waiting(at: place).map(\.timestamp)
        #expect(before.count == 2 && Set(before).count == 1)
        #expect(try await named(isUnique: true) == place)
        try await harness.contact([Build.glucose(1, "2026-11-01T10:00:00", 93)], device: Self.meter(3))
        let after = try await waiting(at: place).map(\.timestamp)
        let second = try #require(before.first)
        #expect(after.sorted() == before + [second.advanced(bySeconds: 1)])
    }

    @Test("a server at another address knows nobody by the former one's ids; what that one has is left behind")
    func accepted() async throws {
        let place = try await name("clinic", kind: "vital", at: "old")
        let user = try await store.currentUser().key
        try await fill(1...3)
        #expect(try await deliver(to: place).count == 3)
        try await store.setServerUserID("at-old", of: user, at: place)
        try await store.setSource(ConnectedSource(provider: "accuchek_ble", status: .connected), user: user, at: place)
        try await store.acceptAddress("old", of: "clinic")
        #expect(try await store.currentUser(at: place).serverUserID == "at-old")
        try await name("clinic", kind: "vital", at: "new")
        try await store.acceptAddress("new", of: "clinic")
        #expect(try await store.currentUser(at: place).serverUserID == nil)
        #expect(try await store.sources(user: user, at: place).isEmpty)
        // It has removed the person at the new address, where they never were.
        let erasure = try await store.eraseUser(user, retracts: true, except: [place])
        #expect(
            erasure.destinations.first { $0.destination == "clinic" }
                == ErasureAtDestination(destination: "clinic", retracting: 0, leftBehind: 3))
        #expect(try await store.leftBehind(at: place) == 3)
    }

    @Test("what was pruned is left behind at the former address, though another destination got it in the same minute")
    func acceptedPruned() async throws {
        let (place, other) = (try await name("clinic", kind: "vital", at: "old"), try await name("file"))
        let user = try await store.currentUser().key
        try await fill(1...3)
        try await store.acceptAddress("old", of: "clinic")
        let moved = store.now()
        try await store.acknowledge(try await waiting(at: place).prefix(2).map(\.id), at: moved)
        try await name("clinic", kind: "vital", at: "new")
        try await store.acceptAddress("new", of: "clinic")
        // One comes to the new address, and all to the other destination, within the minute of the move.
        let later = moved.advanced(bySeconds: 20)
        try await store.acknowledge(try await waiting(at: place).map(\.id), at: later)
        try await store.acknowledge(try await waiting(at: other).map(\.id), at: later)
        try await PruneTests.deliver(store)
        #expect(try await store.prune(olderThan: .zero).readings == 3)
        let erasure = try await store.eraseUser(user, retracts: true, except: [place])
        let left = Dictionary(uniqueKeysWithValues: erasure.destinations.map { ($0.destination, $0.leftBehind) })
        #expect(left["clinic"] == 2 && left["file"] == 3)
        #expect(try await store.leftBehind(at: place) == 2)
        #expect(try await store.leftBehind(at: other) == 3)
    }

    @Test("a reading that lost its place in a destination's queue is named, at whichever destination")
    func lostPlace() async throws {
        let place = try await name("file")
        try await fill(1...3)
        #expect(try await store.verify().isEmpty)
        try await store.write(.setting) { db in
            try db.execute(
                sql: "DELETE FROM outbox WHERE destination = ? AND reading = 2", arguments: [place.rawValue])
        }
        #expect(try await store.verify().map(\.problem) == [.notQueued])
    }
}
