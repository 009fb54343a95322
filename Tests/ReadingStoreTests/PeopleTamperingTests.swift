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

    private static let swapNames = """
        UPDATE user SET client_user_id = 'x' WHERE key = 1;
        UPDATE user SET client_user_id = 'white_bear' WHERE key = 2;
        UPDATE user SET client_user_id = 'brown_bear' WHERE key = 1;
        """

    private static func changed(_ subjects: [String]) -> Set<VerificationFinding> {
        Set(subjects.map { VerificationFinding(problem: .personChanged, subject: $0) })
    }

    private func isCorrupt(_ body: () async throws -> Void) async -> Bool {
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

    // MARK: Keys that come and go

    @Test(
        "a store in the clear protects nobody; sealed, it signs them; a row changed while sealed stays noticed for ever"
    )
    func onAndOff() async throws {
        let directory = try await Self.filled(.off())
        func tags() async throws -> [Bool] {
            let queue = try DatabaseQueue(path: directory + "/readings.sqlite")
            defer { try? queue.close() }
            return try await queue.read { db in
                try Bool.fetchAll(
                    db,
                    sql: """
                        SELECT tag IS NOT NULL FROM user UNION ALL SELECT tag IS NOT NULL FROM destination_user
                        UNION ALL SELECT tag IS NOT NULL FROM source
                        """)
            }
        }
        #expect(try await tags() == Array(repeating: false, count: 10))
        try TamperingTests.edit(directory) { db in try db.execute(sql: Self.swapNames) }
        var harness = try await Harness(directory, encryption: .off())
        #expect(try await harness.store.verify().isEmpty)
        try harness.store.close()
        harness = try await Harness(directory)
        try await SealingTests.settle(harness.store)
        #expect(try await harness.store.verify().isEmpty)
        try harness.store.close()
        #expect(try await tags() == Array(repeating: true, count: 10))
        try TamperingTests.edit(directory) { db in
            try db.execute(
                sql: """
                    UPDATE user SET client_user_id = 'black_bear' WHERE key = 1;
                    UPDATE destination_user SET tag = NULL WHERE user = 2
                    """)
        }
        let subjects = ["person 1", "id of person 2 at vital", "id of person 2 at second"]
        for encryption in [StoreEncryption.off(), .on(), .off()] {
            harness = try await Harness(directory, encryption: encryption)
            try await SealingTests.settle(harness.store)
            #expect(try await Set(harness.store.verify()) == Self.changed(subjects))
            try harness.store.close()
        }
        #expect(try await tags().count { $0 } == 3)
    }

    @Test("a store that another machine imports has its people, signed there")
    func imported() async throws {
        let source = try await Harness(try await Self.filled())
        var octets: [UInt8] = []
        try await source.store.export(passphrase: "correct horse battery") { octets += $0 }
        let path = source.directory + "/backup"
        try Data(octets).write(to: URL(fileURLWithPath: path))
        let directory = Harness.newDirectory()
        try await ReadingStore.importing(
            path, passphrase: "correct horse battery", into: directory, decoder: TestDecoder())
        let store = try await Harness.open(directory)
        #expect(try await store.users().map(\.serverUserID) == ["id-white_bear-1", "id-brown_bear-1"])
        #expect(try await store.verify().isEmpty)
        try store.close()
    }

    /// Opens a store without its key; `unlock` puts it back.
    private static func locked(
        _ directory: String, user: String
    ) async throws -> (store: ReadingStore, unlock: @Sendable () throws -> Void) {
        let path = SealingTests.keyPath(directory)
        let key = try Data(contentsOf: URL(fileURLWithPath: path))
        try FileManager.default.removeItem(atPath: path)
        let store = try await Harness.open(directory, user: user)
        #expect(store.lockedBecause == .keyMissing(path: path))
        return (store, { try key.write(to: URL(fileURLWithPath: path)) })
    }

    @Test(
        "somebody without a name who has readings gets the name that was set while the key was missing, and is one person"
    )
    func namedWhileLocked() async throws {
        let directory = Harness.newDirectory()
        let first = try await Harness.open(directory, user: "")
        let contact = try await first.beginContact(
            with: Build.device(), at: Build.instant("2026-11-21T09:59:00Z"), clock: nil, batteryPercent: nil)
        _ = try await first.append([Build.glucose(1, "2026-11-21T08:01:00")], of: contact)
        try first.close()
        let (store, unlock) = try await Self.locked(directory, user: "white_bear")
        let share = StorePerson.Share(address: 0xC000_0000_1808, slot: 2)
        try await store.setPeople([StorePerson(clientUserID: "brown_bear", timeZone: "UTC", shares: [share])])
        #expect(try await store.users().map(\.clientUserID) == [""])
        await #expect(throws: StoreError.self) { try await store.setCurrentUser("black_bear", timeZone: "UTC") }
        await #expect(throws: StoreError.self) {
            try await store.setServerUserID("id", of: UserKey(rawValue: 1))
        }
        try unlock()
        try await store.requireKeys()
        #expect(try await store.users().map(\.clientUserID) == ["white_bear", "brown_bear"])
        #expect(try await store.currentUser().key == UserKey(rawValue: 1))
        #expect(try await store.groupsWaiting().map(\.user) == [UserKey(rawValue: 1)])
        let slots = try await store.read { db in try ReadingStore.lines(db, SlotOwners.setting) }
        #expect(slots == ["\(0xC000_0000_1808) 2 2"])
        #expect(try await store.verify().isEmpty)
        try store.close()
    }

    @Test("a store that is new and whose key comes later has one person, who is named and signed with it")
    func newWhileLocked() async throws {
        let directory = Harness.newDirectory()
        let credential = StoreKeySource(path: directory + "-credential", isWritable: false)
        let harness = try await Harness(directory, encryption: .on(credential))
        #expect(harness.store.lockedBecause != nil)
        #expect(try await harness.store.users().map(\.clientUserID) == [""])
        try Data(repeating: 1, count: 32).base64EncodedString()
            .write(toFile: credential.path, atomically: true, encoding: .utf8)
        try await harness.store.requireKeys()
        #expect(try await harness.store.users().map(\.clientUserID) == ["white_bear"])
        #expect(try await harness.store.verify().isEmpty)
    }

    @Test("somebody erased while the key is missing is followed by one person, who is signed once it is back")
    func erasedWhileLocked() async throws {
        let directory = try await Self.filled()
        let (store, unlock) = try await Self.locked(directory, user: "white_bear")
        try await store.eraseUser(UserKey(rawValue: 1))
        try unlock()
        try await store.requireKeys()
        #expect(try await store.users().map(\.clientUserID) == ["brown_bear", ""])
        #expect(try await store.verify().isEmpty)
        #expect(try await store.setCurrentUser("green_bear", timeZone: "UTC").key == UserKey(rawValue: 3))
        try store.close()
    }

    @Test("whose tag and name are taken away while the key is missing gets no other name if anything is theirs")
    func strippedWhileLocked() async throws {
        let directory = try await Self.filled()
        try TamperingTests.edit(directory) { db in
            try db.execute(
                sql: """
                    DELETE FROM user WHERE key = 1; UPDATE user SET client_user_id = '', tag = NULL WHERE key = 2;
                    UPDATE setting SET value = '2' WHERE name = 'user.current'
                    """)
        }
        let (store, unlock) = try await Self.locked(directory, user: "white_bear")
        try unlock()
        try await store.requireKeys()
        let names = try await store.read { db in try String.fetchAll(db, sql: "SELECT client_user_id FROM user") }
        #expect(names == [""])
        #expect(await isCorrupt { _ = try await store.currentUser() })
        #expect(try await store.verify().contains(.init(problem: .personChanged, subject: "person 2")))
        try store.close()
    }

    // MARK: Earlier versions

    @Test(
        "the people of every earlier version's store are signed when it is opened, and noticed when changed after that",
        arguments: ["5", "8", "8-halfway", "10", "13"])
    func migrated(version: String) async throws {
        let directory = try MigrationTests.copyFormer(version)
        var store = try await Harness.open(directory)
        try await SealingTests.settle(store)
        let (user, sources) = try await (store.currentUser(), store.sources(user: store.currentUser().key))
        #expect(user.clientUserID == "white_bear")
        #expect(user.serverUserID != nil && !sources.isEmpty)
        let untagged = try await store.read { db in
            try Int.fetchOne(
                db,
                sql: """
                    SELECT (SELECT count(*) FROM user WHERE tag IS NULL)
                        + (SELECT count(*) FROM destination_user WHERE tag IS NULL)
                        + (SELECT count(*) FROM source WHERE tag IS NULL)
                    """)
        }
        #expect(untagged == 0)
        #expect(try await !store.verify().contains { $0.problem == .personChanged })
        try store.close()
        try TamperingTests.edit(directory) { db in
            try db.execute(sql: "UPDATE user SET client_user_id = 'black_bear', tag = NULL WHERE key = 1")
        }
        store = try await Harness.open(directory)
        #expect(try await store.verify().contains(.init(problem: .personChanged, subject: "person 1")))
        try store.close()
    }
}

#if DEBUG
    @Suite("Death while people are signed")
    struct PeopleCrashTests {
        @Test(
            "killed at any step of the opening, an earlier version's store has all its people signed or none, and goes on",
            arguments: [
                "migrate.before-commit", "migrate.after-commit", "setting.before-commit", "setting.after-commit",
                "user.before-commit", "user.after-commit",
            ])
        func kill(point: String) async throws {
            let directory = try MigrationTests.copyFormer("13")
            await #expect(processExitsWith: .signal(SIGKILL)) {
                [directory = directory as String, point = point as String] in
                setenv("HEALTHRELAY_CRASH_AT", point, 1)
                _ = try await Harness.open(directory)
            }
            let store = try await Harness.open(directory)
            #expect(try await store.users().map(\.clientUserID) == ["white_bear", "brown_bear"])
            #expect(try await store.users().first?.serverUserID == "5f0c7f4e-0000-4000-8000-000000000001")
            #expect(try await !store.verify().contains { $0.problem == .personChanged })
            try store.close()
        }

        @Test(
            "killed while the key changes, encryption goes off or comes on: nobody looks changed",
            arguments: [
                ("reseal.before-commit:5", "rotate"), ("reseal.after-commit:5", "rotate"),
                ("setting.before-commit:2", "rotate"), ("setting.after-commit:2", "rotate"),
                ("setting.before-commit", "off"), ("setting.after-commit", "off"),
            ])
        func keys(point: String, way: String) async throws {
            let directory = try await PeopleTamperingTests.filled()
            await #expect(processExitsWith: .signal(SIGKILL)) {
                [directory = directory as String, point = point as String, way = way as String] in
                setenv("HEALTHRELAY_CRASH_AT", point, 1)
                let harness = try await Harness(directory, encryption: way == "off" ? .off() : .on())
                try await harness.store.rotateKey()
            }
            for encryption in [StoreEncryption.on(), .off(), .on()] {
                let harness = try await Harness(directory, encryption: encryption)
                #expect(try await harness.store.users().count == 2)
                try await SealingTests.settle(harness.store)
                #expect(try await harness.store.verify().isEmpty)
                try harness.store.close()
            }
        }
    }
#endif
