import Foundation
import GRDB
import HealthReadings
import Testing

@testable import ReadingStore

/// Somebody writes the rows that say to whose account readings go, and does not know the key.
@Suite("People of a sealed store whose file is changed")
struct PeopleTamperingTests {
    /// Two people with a reading each and ids and sources at two destinations; the store is closed.
    static func filled(_ encryption: StoreEncryption = .on()) async throws -> String {
        let harness = try await Harness(encryption: encryption)
        let store = harness.store
        let file = try await store.setDestination(
            "second", kind: "vital", kinds: [.glucose], hasUniqueSeconds: true, needsSource: true)
        try await harness.contact([Build.glucose(1, "2026-11-21T08:01:00")])
        try await store.setCurrentUser("brown_bear", timeZone: "UTC")
        try await harness.contact([Build.glucose(2, "2026-11-21T08:02:00")])
        try await store.setCurrentUser("white_bear", timeZone: "Europe/Berlin")
        for user in try await store.users() {
            for place in [DestinationKey.vital, file] {
                try await store.setServerUserID("id-\(user.clientUserID)-\(place.rawValue)", of: user.key, at: place)
                try await store.setSource(
                    ConnectedSource(provider: "accuchek_ble", status: .connected, wasCreatedOnce: true),
                    user: user.key, at: place)
            }
        }
        #expect(try await store.verify().isEmpty)
        try store.close()
        return harness.directory
    }

    static let swapNames = """
        UPDATE user SET client_user_id = 'x' WHERE key = 1;
        UPDATE user SET client_user_id = 'white_bear' WHERE key = 2;
        UPDATE user SET client_user_id = 'brown_bear' WHERE key = 1;
        """

    static func changed(_ subjects: [String]) -> Set<VerificationFinding> {
        Set(subjects.map { VerificationFinding(problem: .personChanged, subject: $0) })
    }

    func isCorrupt(_ body: () async throws -> Void) async -> Bool {
        do {
            try await body()
            return false
        } catch { return (error as? StoreError)?.isCorrupt == true }
    }

    @Test(
        "nobody is given another's name or id: the row is refused, verification names it, and the others are as they were",
        arguments: [
            (swapNames, ["person 1", "person 2"]),
            (
                """
                CREATE TEMP TABLE former AS SELECT * FROM user; UPDATE user SET client_user_id = 'x' || key;
                UPDATE user SET (client_user_id, tag) = (SELECT client_user_id, tag FROM former WHERE key = 3 - user.key)
                """, ["person 1", "person 2"]
            ),
            ("UPDATE user SET client_user_id = 'black_bear' WHERE key = 2", ["person 2"]),
            ("UPDATE user SET client_user_id = '' WHERE key = 2", ["person 2"]),
            ("UPDATE user SET tag = NULL WHERE key = 2", ["person 2"]),
            ("UPDATE user SET tag = x'80' WHERE key = 2", ["person 2"]),
            ("UPDATE user SET tag = x'00' WHERE key = 2", ["person 2"]),
            ("UPDATE user SET client_user_id = '', tag = NULL WHERE key = 2", ["person 2"]),
            (
                """
                CREATE TEMP TABLE former AS SELECT * FROM destination_user;
                UPDATE destination_user SET id = (SELECT id FROM former
                    WHERE user = 3 - destination_user.user AND destination = 1) WHERE destination = 1
                """, ["id of person 1 at vital", "id of person 2 at vital"]
            ),
            (
                """
                CREATE TEMP TABLE former AS SELECT * FROM destination_user;
                UPDATE destination_user SET (id, tag) = (SELECT id, tag FROM former
                    WHERE user = destination_user.user AND destination = 3 - destination_user.destination)
                    WHERE user = 2
                """, ["id of person 2 at second", "id of person 2 at vital"]
            ),
            ("UPDATE destination_user SET tag = NULL WHERE user = 2 AND destination = 1", ["id of person 2 at vital"]),
            (
                "UPDATE source SET status = 'paused' WHERE user = 2 AND destination = 1",
                ["source accuchek_ble of person 2 at vital"]
            ),
            (
                "UPDATE source SET created_once = 0 WHERE user = 2 AND destination = 2",
                ["source accuchek_ble of person 2 at second"]
            ),
            (
                "UPDATE source SET provider = 'omron_ble' WHERE user = 2 AND destination = 1",
                ["source omron_ble of person 2 at vital"]
            ),
        ] as [(String, [String])])
    func attacked(change: String, subjects: [String]) async throws {
        let directory = try await Self.filled()
        try TamperingTests.edit(directory) { db in try db.execute(sql: change) }
        let store = try await Harness.open(directory)
        #expect(try await Set(store.verify()) == Self.changed(subjects))
        let places = try await store.destinations().map(\.key)
        for key in [UserKey(rawValue: 1), UserKey(rawValue: 2)] {
            for (place, name) in zip(places, ["vital", "second"]) {
                let isChanged =
                    subjects.contains("person \(key.rawValue)")
                    || subjects.contains("id of person \(key.rawValue) at \(name)")
                #expect(await isCorrupt { _ = try await store.user(key, at: place) } == isChanged)
                let hasChangedSource = subjects.contains {
                    $0.hasPrefix("source") && $0.hasSuffix("of person \(key.rawValue) at \(name)")
                }
                #expect(await isCorrupt { _ = try await store.sources(user: key, at: place) } == hasChangedSource)
                guard hasChangedSource else { continue }
                #expect(
                    try await store.groupsWaiting(at: place).filter { $0.user == key }.allSatisfy {
                        $0.held == .sourceError || $0.held == .noSource
                    })
            }
        }
        // Nobody is made beside one whose row was changed, and the row is not taken for another's.
        if subjects.contains(where: { $0.hasPrefix("person") }) {
            #expect(await isCorrupt { try await store.setCurrentUser("green_bear", timeZone: "UTC") })
            #expect(try await store.read { db in try Int.fetchOne(db, sql: "SELECT count(*) FROM user") } == 2)
        }
        #expect(try await store.query(ReadingQuery(limit: 10)).readings.count == 2)
        // A new key makes nothing of it right, and names it.
        let named = try await store.rotateKey().unreadable
        #expect(Set(named) == Set(subjects))
        #expect(try await Set(store.verify()) == Self.changed(subjects))
        try store.close()
    }

    @Test("destinations that changed names have nobody's ids")
    func destinations() async throws {
        let directory = try await Self.filled()
        try TamperingTests.edit(directory) { db in
            try db.execute(
                sql: """
                    UPDATE destination SET name = 'x' WHERE key = 1;
                    UPDATE destination SET name = 'vital' WHERE key = 2;
                    UPDATE destination SET name = 'second' WHERE key = 1
                    """)
        }
        let store = try await Harness.open(directory)
        #expect(try await store.verify().count { $0.problem == .personChanged } == 8)
        #expect(await isCorrupt { _ = try await store.users() })
        try store.close()
    }

    @Test("a row of an older copy of the file is taken in its own place, and in no other")
    func replayed() async throws {
        let directory = try await Self.filled()
        let path = directory + "/readings.sqlite"
        let former = try Data(contentsOf: URL(fileURLWithPath: path))
        var store = try await Harness.open(directory)
        try await store.setServerUserID("a newer id", of: UserKey(rawValue: 1))
        try store.close()
        try former.write(to: URL(fileURLWithPath: directory + "/former.sqlite"))
        func replay(into user: Int) throws {
            let queue = try DatabaseQueue(path: path)
            try queue.inDatabase { db in
                try db.execute(
                    sql: """
                        ATTACH '\(directory)/former.sqlite' AS former;
                        UPDATE destination_user SET (id, tag) = (SELECT id, tag FROM former.destination_user
                            WHERE user = 1 AND destination = 1) WHERE user = \(user) AND destination = 1
                        """)
            }
            try queue.close()
        }
        try replay(into: 1)
        store = try await Harness.open(directory)
        #expect(try await store.user(UserKey(rawValue: 1))?.serverUserID == "id-white_bear-1")
        #expect(try await store.verify().isEmpty)
        try store.close()
        try replay(into: 2)
        store = try await Harness.open(directory)
        #expect(try await store.verify() == [.init(problem: .personChanged, subject: "id of person 2 at vital")])
        try store.close()
    }

    @Test("the store of a damaged person opens; the person can be erased, and an id that is learnt anew counts again")
    func goingOn() async throws {
        let directory = try await Self.filled()
        try TamperingTests.edit(directory) { db in
            try db.execute(
                sql: """
                    UPDATE user SET client_user_id = 'black_bear' WHERE key = 1;
                    UPDATE destination_user SET id = 'x' WHERE user = 2;
                    UPDATE source SET status = 'absent', created_once = 0 WHERE user = 2 AND destination = 1
                    """)
        }
        let store = try await Harness.open(directory)
        let (first, second) = (UserKey(rawValue: 1), UserKey(rawValue: 2))
        #expect(await isCorrupt { _ = try await store.currentUser() })
        #expect(await isCorrupt { try await store.setServerUserID("id", of: first) })
        let people = [StorePerson(clientUserID: "white_bear", timeZone: "UTC", shares: [])]
        #expect(await isCorrupt { try await store.setPeople(people) })
        try await store.setServerUserID("learnt anew", of: second)
        #expect(try await store.user(second)?.serverUserID == "learnt anew")
        try await store.eraseUser(first)
        #expect(try await store.currentUser().clientUserID.isEmpty)
        #expect(
            try await store.verify().map(\.subject) == [
                "id of person 2 at second", "source accuchek_ble of person 2 at vital",
            ])
        try await store.setCurrentUser("brown_bear", timeZone: "UTC")
        try await store.forgetServerUserIDs()
        #expect(try await store.verify().isEmpty)
        #expect(try await store.currentUser().serverUserID == nil)
        let source = try await store.source(user: second, provider: "accuchek_ble")
        #expect(source?.status == .revoked && source?.wasCreatedOnce == true)
        #expect(try await store.sources(user: second, at: DestinationKey(rawValue: 2)).map(\.status) == [.connected])
        try store.close()
    }

    @Test("what a destination is to take back of a person whose name was changed is left behind, and asked of nobody")
    func retractions() async throws {
        let harness = try await Harness()
        let store = harness.store
        let place = try await store.setDestination(
            "file", kind: "file", kinds: [.glucose], hasUniqueSeconds: false, needsSource: false, canRetract: true)
        try await harness.contact([Build.glucose(1, "2026-11-21T08:01:00")])
        let user = try await store.currentUser().key
        let items = try await store.outboxBatch(
            user: user, resource: .glucose, provider: "accuchek_ble", limit: 9, at: place)
        try await store.acknowledge(items.map(\.id), at: Instant(seconds: 5))
        try await store.write(.setting) { db in try db.execute(sql: "UPDATE user SET client_user_id = 'brown_bear'") }
        try await harness.contact(
            [Build.glucose(1, "2026-11-21T08:01:00", status: 1 << 10)], at: "2026-11-21T10:59:00Z")
        #expect(try await harness.all().map { $0.excluded != nil } == [true])
        #expect(try await store.retractions(at: place, limit: 9).isEmpty)
        #expect(try await store.leftBehind(at: place) == 1)
    }
}
