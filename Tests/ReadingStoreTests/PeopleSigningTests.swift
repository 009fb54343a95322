import Foundation
import GRDB
import HealthReadings
import Testing

@testable import ReadingStore

@Suite("People of an earlier version's store are signed")
struct PeopleSigningTests {
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

#if DEBUG && compiler(>=6.3)  // Earlier exit tests capture nothing.
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
