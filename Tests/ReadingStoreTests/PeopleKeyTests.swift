import Foundation
import GRDB
import HealthReadings
import Testing

@testable import ReadingStore

/// Keys that come and go.
extension PeopleTamperingTests {
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
}
