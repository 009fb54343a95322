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
            let tables = try String.fetchAll(db, sql: "SELECT name FROM sqlite_schema WHERE type = 'table'")
                .filter { table in try db.columns(in: table).contains { $0.name == "user" } }
            return try tables.reduce(0) {
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
        #expect(removing.count > 4 && removing.allSatisfy { $0.done <= $0.total ?? 0 })
        #expect(zip(removing, removing.dropFirst()).allSatisfy { $0.done <= $1.done })
        let rewriting = course.filter { $0.step == .rewriting }
        #expect(rewriting.count >= 2 && rewriting.last == course.last && rewriting.first?.done == 0)
        #expect(rewriting.last.map { $0.done == $0.total } == true)
        try store.close()
    }

    @Test("it stops at every step, with nothing erased, and can be asked for again")
    func stopped() async throws {
        let (harness, first) = try await Self.house()
        let store = harness.store
        let before = try await harness.all()
        for number in 1... {
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
            guard case .failure(let error) = await task.result else {
                #expect(number > 4)
                break
            }
            #expect(error is CancellationError)
            #expect(try await harness.all() == before)
            #expect(try await Self.dangling(store) == 0)
        }
        #expect(try await Self.rows(store, of: first) == 0)
        #expect(try await harness.all() == before.filter { $0.person == "brown_bear" })
        #expect(try await Self.dangling(store) == 0)
        #expect(try await store.verify().isEmpty)
        let indexes = try await store.read { db in
            try Int.fetchOne(db, sql: "SELECT count(*) FROM sqlite_schema WHERE name LIKE 'erasing%'")
        }
        #expect(indexes == 0)
        try store.close()
        // The schema is as before: it opens.
        try await Harness(harness.directory).store.close()
    }

    @Test("of a contact that has another's frames, too, everything of the erased person goes, wherever it lies")
    func mixedContact() async throws {
        let harness = try await Harness(encryption: .off())
        let store = harness.store
        let first = try await store.currentUser().key
        // A contact of thousands of frames without a reading, in whose midst is a record that another person's contact brings
        // again.
        let marks = (0..<2400).map { ErasureTests.mark($0, filling: 0xC7) }
        try await store.setCurrentUser("brown_bear", timeZone: "UTC")
        try await harness.contact([Build.glucose(7, "2026-11-20T12:30:00")], at: "2026-11-21T07:59:00Z")
        try await store.setCurrentUser("white_bear", timeZone: "Europe/Berlin")
        try await harness.contact(
            marks.prefix(1200) + [Build.glucose(7, "2026-11-20T12:30:00", offset: 5)] + marks.suffix(1200)
                + [Build.context(9, meal: 3)],
            at: "2026-11-21T08:59:00Z")
        let others = try await harness.all().filter { $0.person == "brown_bear" }
        try await store.eraseUser(first)
        #expect(try await harness.all() == others && !others.isEmpty)
        #expect(try !ErasureTests.contains([UInt8](repeating: 0xC7, count: 16), in: harness.directory))
        let statistics = try await store.statistics()
        #expect(statistics.malformedFrames == 0 && statistics.waitingContexts == 0)
        #expect(try await Self.dangling(store) == 0)
        #expect(try await store.verify().isEmpty)
        try store.close()
    }
}
