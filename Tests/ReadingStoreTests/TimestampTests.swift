import HealthReadings
import Testing

@testable import ReadingStore

/// The server's key of a sample is (user, resource, provider, source type, timestamp): what shares all of these, and
/// nothing else, moves to another second.
@Suite("Timestamps at the server")
struct TimestampTests {
    private static let address: UInt64 = 0xC000_0000_1810

    private static let cuff = Build.device(address, model: "omron_blesmart", provider: "omron_ble")

    /// A store in which two people share the cuff: white_bear, the current user, has slot 1 and brown_bear slot 2.
    private func shared() async throws -> Harness {
        let harness = try await Harness()
        try await harness.store.setPeople([
            StorePerson(
                clientUserID: "white_bear", timeZone: "Europe/Berlin", shares: [.init(address: Self.address, slot: 1)]),
            StorePerson(
                clientUserID: "brown_bear", timeZone: "Europe/Berlin", shares: [.init(address: Self.address, slot: 2)]),
        ])
        return harness
    }

    /// What waits: "user kind timestamp", in order.
    private func waiting(_ store: ReadingStore) async throws -> [String] {
        var lines: [String] = []
        for group in try await store.groupsWaiting() {
            for item in try await store.outboxBatch(
                user: group.user, resource: group.resource, provider: group.provider, limit: 100)
            { lines.append("\(group.user.rawValue) \(group.resource.rawValue) \(item.timestamp)") }
        }
        return lines.sorted()
    }

    @Test(
        "on a shared meter a pruned reading's second is not given to another of the same person",
        arguments: [UInt8(1), 2])
    func prunedSecondOfASharedMeter(slot: UInt8) async throws {
        let harness = try await shared()
        let pruned = Build.pressure(127, "2026-11-21T08:10:00", user: slot)
        try await harness.contact([pruned], device: Self.cuff)
        try await PruneTests.deliver(harness.store)
        #expect(try await harness.store.prune(olderThan: .zero).readings == 1)

        // The memory is read again, and holds another measurement of that second.
        let other = Build.pressure(129, "2026-11-21T08:10:00", user: slot)
        #expect(try await harness.contact([pruned, other], device: Self.cuff).map(\.name) == ["repeated", "new"])
        let lines = try await waiting(harness.store)
        #expect(lines.count == 1 && lines[0].hasSuffix("blood_pressure 2026-11-21T07:10:01Z"), "\(lines)")
        // The other person has that second free.
        let second = Build.pressure(131, "2026-11-21T08:10:00", user: 3 - slot)
        #expect(try await harness.contact([second], device: Self.cuff).map(\.name) == ["new"])
        #expect(try await waiting(harness.store).contains { $0.hasSuffix("2026-11-21T07:10:00Z") })
        #expect(try await harness.store.verify().isEmpty)
    }

    @Test("people and kinds that share a second of one contact do not move each other's readings")
    func personAndKindHaveTheirOwnSecond() async throws {
        let harness = try await shared()
        let at = "2026-11-21T08:10:00"
        // Two of the first person: the second one moves, and the contact remembers where it looked.
        try await harness.contact(
            [Build.pressure(127, at, user: 1), Build.pressure(128, at, user: 1), Build.pressure(129, at, user: 1)],
            [Build.pressure(130, at, user: 2), Build.pressure(131, at, user: 2)], device: Self.cuff)
        let users = Set(try await waiting(harness.store).map { $0.prefix { $0 != " " } })
        #expect(users.count == 2)
        let times = try await waiting(harness.store).map { String($0.suffix(3)) }
        #expect(times == ["00Z", "01Z", "02Z", "00Z", "01Z"])

        // A device that sends both kinds.
        let both = try await Harness()
        try await both.contact(
            [Build.glucose(1, at, 95), Build.glucose(2, at, 96)], [Build.pressure(127, at), Build.pressure(128, at)],
            device: Self.cuff)
        #expect(
            try await waiting(both.store).map { $0.split(separator: " ").dropFirst().joined(separator: " ") } == [
                "blood_pressure 2026-11-21T07:10:00Z", "blood_pressure 2026-11-21T07:10:01Z",
                "glucose 2026-11-21T07:10:00Z", "glucose 2026-11-21T07:10:01Z",
            ])
    }
}
