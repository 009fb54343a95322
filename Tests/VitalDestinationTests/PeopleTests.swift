import DeliveryFixture
import HealthReadings
import ReadingStore
import ScriptedServer
import Testing
import VitalClient

@testable import ReadingDelivery
@testable import VitalDestination

@Suite("People")
struct PeopleTests {
    private static let cuff: UInt64 = 0xC000_0000_0002

    private func script() -> VitalScript {
        let script = VitalScript()
        script.change {
            $0.users = [
                "white_bear": "00000000-0000-4000-8000-00000000000a",
                "brown_bear": "00000000-0000-4000-8000-00000000000b",
            ]
        }
        return script
    }

    private func counts(_ fixture: Fixture) async throws -> [String: Int] {
        let users = Dictionary(uniqueKeysWithValues: try await fixture.store.users().map { ($0.key, $0.clientUserID) })
        var counts: [String: Int] = [:]
        for group in try await fixture.store.groupsWaiting() {
            counts[users[group.user] ?? "", default: 0] += group.count
        }
        return counts
    }

    private func read(_ fixture: Fixture, _ count: Int, from first: Int, slot: UInt8?) async throws {
        try await fixture.read(
            count, from: first, kind: .bloodPressure, device: 2, provider: "omron_ble", slot: slot)
    }

    @Test("a new user id starts its own: what was read before goes to the one before, and nothing is mixed")
    func newUser() async throws {
        let script = script()
        try await with(script) { worker, fixture in
            try await fixture.read(3)
            try await fixture.store.setCurrentUser("brown_bear", timeZone: "UTC")
            try await fixture.read(5, from: 10)
            #expect(try await counts(fixture) == ["white_bear": 3, "brown_bear": 5])
            #expect(await worker.syncOnce() == SyncReport(delivered: 8))
            let bodies = script.now.bodies
            #expect(bodies.count == 2)
            #expect(
                bodies.first { $0.hasPrefix("00000000-0000-4000-8000-00000000000a ") }?.matches(
                    of: /"end_date":"[^"]+","type"/
                ).count == 3)
            #expect(
                bodies.first { $0.hasPrefix("00000000-0000-4000-8000-00000000000b ") }?.matches(
                    of: /"end_date":"[^"]+","type"/
                ).count == 5)
            // Reading everything again under the new id brings nothing: the records are the one's before.
            try await fixture.read(3)
            #expect(try await fixture.waiting == 0)
        }
    }

    @Test("one person's source that fails or is held keeps another's readings waiting in nothing")
    func apart() async throws {
        let script = script()
        script.change { $0.users["white_bear"] = "00000000-0000-4000-8000-00000000000c" }
        try await with(script) { worker, fixture in
            try await fixture.read(3)
            try await fixture.store.setCurrentUser("brown_bear", timeZone: "UTC")
            try await fixture.read(5, from: 10)
            script.change { state in
                state.judge = { $0.contains("2023-11-14T22:14:20Z") ? .json(500, "{}") : nil }
            }
            let report = await worker.syncOnce()
            #expect(report.delivered == 5 && report.failure?.code == "server_error")
            #expect(try await counts(fixture) == ["white_bear": 3])
        }
    }

    @Test("a meter shared by two: each slot goes to its person; a slot that is nobody's is kept and never sent")
    func shared() async throws {
        let script = script()
        try await with(script) { worker, fixture in
            try await fixture.store.setPeople([
                StorePerson(
                    clientUserID: "white_bear", timeZone: "UTC", shares: [.init(address: Self.cuff, slot: 1)]),
                StorePerson(
                    clientUserID: "brown_bear", timeZone: "Europe/Berlin",
                    shares: [.init(address: Self.cuff, slot: 2)]),
            ])
            try await read(fixture, 3, from: 1, slot: 1)
            try await read(fixture, 4, from: 10, slot: 2)
            try await read(fixture, 2, from: 20, slot: 3)
            try await read(fixture, 1, from: 30, slot: nil)
            #expect(try await counts(fixture) == ["white_bear": 3, "brown_bear": 4])
            let readings = try await fixture.store.query(ReadingQuery(limit: 100)).readings
            #expect(readings.filter { $0.excluded == .otherUser }.count == 3)
            #expect(readings.filter { $0.excluded == nil }.count == 7)
            #expect(await worker.syncOnce() == SyncReport(delivered: 7))
            let bodies = script.now.bodies
            #expect(
                bodies.first { $0.hasPrefix("00000000-0000-4000-8000-00000000000a ") }?.matches(of: /"systolic":/).count
                    == 3)
            #expect(
                bodies.first { $0.hasPrefix("00000000-0000-4000-8000-00000000000b ") }?.matches(of: /"systolic":/).count
                    == 4)
            #expect(
                bodies.first { $0.hasPrefix("00000000-0000-4000-8000-00000000000b ") }?.contains("Europe/Berlin")
                    == true)
            // Another device is the current user's as ever.
            try await fixture.read(2)
            #expect(try await counts(fixture) == ["white_bear": 2])
        }
    }

    @Test("where only the second person's slot is named, every other slot is the first one's")
    func second() async throws {
        try await with(script()) { _, fixture in
            try await fixture.store.setPeople([
                StorePerson(clientUserID: "brown_bear", timeZone: "UTC", shares: [.init(address: Self.cuff, slot: 2)])
            ])
            try await read(fixture, 3, from: 1, slot: 1)
            try await read(fixture, 4, from: 10, slot: 2)
            #expect(try await counts(fixture) == ["white_bear": 3, "brown_bear": 4])
            #expect(try await fixture.store.currentUser().clientUserID == "white_bear")
        }
    }

    @Test("a device that is one person's whole is theirs, whatever it says")
    func whole() async throws {
        try await with(script()) { _, fixture in
            try await fixture.store.setPeople([
                StorePerson(clientUserID: "brown_bear", timeZone: "UTC", shares: [.init(address: Self.cuff, slot: nil)])
            ])
            try await read(fixture, 3, from: 1, slot: 1)
            try await read(fixture, 2, from: 10, slot: nil)
            #expect(try await counts(fixture) == ["brown_bear": 5])
            // Whoever is erased owns nothing any more, and their meter is read for nobody before it is paired anew.
            let brown = try #require(try await fixture.store.user("brown_bear"))
            _ = try await fixture.store.eraseUser(brown.key)
            let pairing = try #require(try await fixture.store.pairings().first)
            #expect(pairing.isBarred)
            try await fixture.store.admit(pairing.device, as: .proven)
            try await read(fixture, 1, from: 30, slot: 1)
            #expect(try await counts(fixture) == ["white_bear": 1])
        }
    }
}
