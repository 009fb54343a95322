import Foundation
import GRDB
import HealthReadings
import Synchronization
import Testing

@testable import ReadingStore

@Suite("Erasing a person of thousands of readings", .timeLimit(.minutes(10)))
struct LargeErasureTests {
    private static let each = 1500

    /// Two people who use a meter in turns, some of whose readings were delivered and pruned.
    private static func house() async throws -> (Harness, first: UserKey) {
        let harness = try await Harness()
        let first = try await harness.store.currentUser().key
        for round in 0..<6 {
            if round > 0 {
                try await harness.store.setCurrentUser(
                    round.isMultiple(of: 2) ? "white_bear" : "brown_bear", timeZone: "Europe/Berlin")
            }
            let frames = (0..<(each / 3)).map { number in
                let (minutes, sequence) = (round * each / 3 + number, UInt16(round * each / 3 + number))
                let (day, rest) = (1 + minutes / 1440, minutes % 1440)
                return Build.glucose(
                    sequence, "2026-11-\(10 + day)T\(String(format: "%02d:%02d", rest / 60, rest % 60)):00",
                    90 + sequence % 60, ordinal: number)
            }
            try await harness.contact(
                frames, [Build.context(60_000, meal: 3), ErasureTests.mark(round, filling: 0xA0 + UInt8(round))],
                at: "2026-11-21T0\(round):59:00Z")
            // Of the first rounds, everything is at the destination.
            if round < 2 { try await PruneTests.deliver(harness.store) }
        }
        try await harness.store.prune(olderThan: .seconds(10 * 86_400))
        return (harness, first)
    }

    /// What refers to a row that is not there.
    private static func dangling(_ store: ReadingStore) async throws -> Int {
        try await store.read { db in try Row.fetchAll(db, sql: "PRAGMA foreign_key_check").count }
    }

    /// Rows of a person, and what they have in frames.
    private static func rows(_ store: ReadingStore, of user: UserKey) async throws -> Int {
        try await store.read { db in
            try ["reading", "contact", "outbox", "pruned", "user_zone", "source", "destination_user", "change"].reduce(
                0
            ) {
                try $0
                    + (Int.fetchOne(db, sql: "SELECT count(*) FROM \($1) WHERE user = ?", arguments: [user.rawValue])
                        ?? 0)
            }
        }
    }

    @Test("everything of one goes, everything of the other stays, and progress is told")
    func whole() async throws {
        let (harness, first) = try await Self.house()
        let store = harness.store
        let others = try await harness.all().filter { $0.person == "brown_bear" }
        let told = Mutex<[StoreProgress]>([])
        let before = try await store.statistics()
        let erasure = try await store.eraseUser(first) { progress in told.withLock { $0.append(progress) } }
        #expect(erasure.readings + others.count == before.readings.values.reduce(0, +) && erasure.readings > 500)
        #expect(erasure.contacts == 3 && erasure.frames > erasure.readings)
        #expect(try await Self.rows(store, of: first) == 0)
        #expect(try await harness.all() == others)
        #expect(try await Self.dangling(store) == 0)
        #expect(try await store.verify().isEmpty)
        let course = told.withLock(\.self)
        let removing = course.filter { $0.step == .removing }
        #expect(removing.count > 6 && removing.allSatisfy { $0.done <= $0.total ?? 0 })
        #expect(zip(removing, removing.dropFirst()).allSatisfy { $0.done <= $1.done })
        let rewriting = course.filter { $0.step == .rewriting }
        #expect(rewriting.count >= 2 && rewriting.last == course.last && rewriting.first?.done == 0)
        #expect(rewriting.last.map { $0.done == $0.total } == true)
        try store.close()
    }

    @Test("it stops at every step, and the next opening goes on with it")
    func stopped() async throws {
        let (whole, first) = try await Self.house()
        try whole.store.close()
        for number in 1... {
            let directory = Harness.newDirectory()
            try FileManager.default.copyItem(atPath: whole.directory, toPath: directory)
            let harness = try await Harness(directory)
            let store = harness.store
            let others = try await harness.all().filter { $0.person == "brown_bear" }
            let count = Mutex(0)
            let running = Mutex<Task<Erasure, any Error>?>(nil)
            let (gate, open) = AsyncStream<Void>.makeStream()
            let task = Task {
                for await _ in gate {}
                return try await store.eraseUser(first, rewritesFiles: false) { _ in
                    let told = count.withLock { count in
                        count += 1
                        return count
                    }
                    if told == number { running.withLock { $0?.cancel() } }
                }
            }
            running.withLock { $0 = task }
            open.finish()
            let result = await task.result
            if case .failure(let error) = result {
                #expect(error is CancellationError)
                #expect(try await store.users().contains { $0.key == first })
                // Nothing is stored for them any more.
                await #expect(throws: StoreError.self) { try await store.setCurrentUser("white_bear", timeZone: "UTC") }
                #expect(try await Self.dangling(store) == 0)
            }
            try store.close()
            let again = try await Harness(directory)
            #expect(try await Self.rows(again.store, of: first) == 0)
            #expect(try await !again.store.users().contains { $0.key == first })
            #expect(try await again.all() == others)
            #expect(try await Self.dangling(again.store) == 0)
            #expect(try await again.store.verify().isEmpty)
            try again.store.close()
            try FileManager.default.removeItem(atPath: directory)
            if case .success = result { return #expect(number > 6) }
        }
    }

    @Test("every table that refers to a person, a contact or a device is one that an erasure thinks of")
    func references() async throws {
        let harness = try await Harness()
        let references = try await harness.store.read { db in
            try String.fetchAll(
                db,
                sql: """
                    SELECT m.name || '.' || f."from" FROM sqlite_schema AS m, pragma_foreign_key_list(m.name) AS f
                    WHERE m.type = 'table' AND f."table" IN ('user', 'contact', 'device') ORDER BY 1
                    """)
        }
        #expect(
            references == [
                "change.user", "clock_epoch.device", "consent.user", "contact.device", "contact.user",
                "destination_user.user", "device.user", "device_address.device", "frame.contact", "frame.device",
                "outbox.user", "pruned.device", "pruned.user", "reading.device", "reading.user", "sensor_record.device",
                "sensor_start.device", "source.user", "subscriber.user", "user_zone.user",
            ])
        try harness.store.close()
    }
}
