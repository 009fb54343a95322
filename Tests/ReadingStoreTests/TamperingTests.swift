import Foundation
import GRDB
import HealthReadings
import Testing

@testable import ReadingStore

/// Somebody writes the database file and does not know its key.
@Suite("A sealed store whose file is changed")
struct TamperingTests {
    /// A closed store with something of every kind; `edit` changes its file as any program could.
    static func tampered(_ edit: (Database) throws -> Void) async throws -> String {
        let harness = try await Harness()
        try await SealingTests.fill(harness)
        let short = Frame(
            format: FrameFormat(characteristic: 0x2A18), payload: [1, 2, 3],
            receivedAt: Build.instant("2026-11-21T10:00:00Z"), ordinal: 77)
        #expect(try await harness.contact([short]).map(\.name) == ["malformed"])
        try harness.store.close()
        try Self.edit(harness.directory, edit)
        return harness.directory
    }

    static func edit(_ directory: String, _ edit: (Database) throws -> Void) throws {
        var configuration = Configuration()
        configuration.foreignKeysEnabled = false
        let queue = try DatabaseQueue(path: directory + "/readings.sqlite", configuration: configuration)
        try queue.write(edit)
        try queue.close()
    }

    private func corrupt(_ body: () async throws -> Void) async -> Bool {
        do {
            try await body()
            return false
        } catch {
            guard case StoreError.corrupt? = error as? StoreError else { return false }
            return true
        }
    }

    @Test("a reading in the clear is refused wherever it is read, and planted nowhere")
    func plantedReading() async throws {
        let clear = try await Harness(encryption: .off())
        try await SealingTests.fill(clear)
        let content = try await clear.store.read { db in
            try #require(try Data.fetchOne(db, sql: "SELECT content FROM reading WHERE key = 1"))
        }
        let directory = try await Self.tampered { db in
            try db.execute(
                sql: "UPDATE reading SET content = ? WHERE key = 1; UPDATE outbox SET tag = NULL WHERE reading = 1",
                arguments: [content])
        }
        let store = try await Harness.open(directory)
        #expect(content.first == 0)
        await #expect(throws: StoreError.corrupt(detail: "reading 1 is not sealed")) {
            try await store.query(ReadingQuery(limit: 10_000))
        }
        let group = try #require(try await store.groupsWaiting().first { $0.resource == .glucose })
        #expect(
            await corrupt {
                _ = try await store.outboxBatch(
                    user: group.user, resource: .glucose, provider: group.provider, limit: 1000)
            })
        #expect(try await store.verify().contains { $0.subject == "reading 1" && $0.problem == .unreadable })
        // Nor does a new key seal it as if it had been written here.
        #expect(try await store.rotateKey().unreadable == ["reading 1"])
        #expect(try await store.verify().contains { $0.subject == "reading 1" && $0.problem == .unreadable })
        try store.close()
    }

    @Test("readings whose rows lie further apart than 64 bits can say are damage and no trap")
    func farRows() async throws {
        let directory = try await Self.tampered { db in
            try db.execute(sql: "UPDATE reading SET key = \(Int64.min) WHERE key = 1")
        }
        #expect(
            await corrupt {
                let store = try await Harness.open(directory)
                defer { try? store.close() }
                _ = try await store.query(ReadingQuery(limit: 10_000))
            })
    }

    @Test(
        "a contact that began at no plausible time holds no reading, and verification names it",
        arguments: [Int64.max, 4_102_444_800_000_001, -1, .min])
    func contactTime(start: Int64) async throws {
        let directory = try await Self.tampered { db in
            try db.execute(sql: "UPDATE contact SET started_at = ?", arguments: [start])
        }
        let store = try await Harness.open(directory)
        try await store.setBackfillDays(90)
        #expect(try await !store.groupsWaiting().contains { $0.held == .olderThanBackfill })
        #expect(
            try await store.verify().contains(VerificationFinding(problem: .contactTime, subject: "contact 1")))
        try store.close()
    }

    @Test(
        "a reading in no state that there is, or in one that lacks its instant, is named",
        arguments: ["state = 7", "state = -1", "state = 4", "state = 1, delivered_at = NULL"])
    func queueState(_ change: String) async throws {
        let directory = try await Self.tampered { db in
            try db.execute(sql: "UPDATE outbox SET \(change) WHERE reading = 1")
        }
        let store = try await Harness.open(directory)
        #expect(
            try await store.verify().contains(VerificationFinding(problem: .queueChanged, subject: "reading 1")))
        try store.close()
    }

    @Test("frames, words, labels and the key of pruned readings are not taken in the clear")
    func plantedOthers() async throws {
        let directory = try await Self.tampered { db in
            try db.execute(
                sql: """
                    UPDATE frame SET payload = x'00' WHERE key IN (1, (SELECT key FROM frame WHERE state = 4));
                    UPDATE outbox SET words = x'0041' WHERE state = 2;
                    UPDATE device SET label = x'000000'
                    """)
        }
        let store = try await Harness.open(directory)
        let found = try await store.verify().filter { $0.problem == .unreadable }.map(\.subject)
        #expect(found.contains("frame 1") && found.contains { $0.hasPrefix("words on reading ") })
        #expect(found.filter { $0.hasPrefix("device ") }.count == 3)
        #expect(found.filter { $0.hasPrefix("frame ") }.count == 2)
        #expect(await corrupt { _ = try await store.refused() })
        // Its decoder knows more now: a planted frame makes no reading.
        #expect(await corrupt { _ = try await store.redecode() })
        #expect(try await store.devices().allSatisfy { $0.description.serial == nil })
        try store.close()
        try Self.edit(directory) { db in
            try db.execute(
                sql: "INSERT OR REPLACE INTO setting VALUES ('prune.key', ?)",
                arguments: [Data([0] + [UInt8](repeating: 7, count: 32)).base64EncodedString()])
        }
        #expect(await corrupt { _ = try await Harness.open(directory) })
    }

    @Test(
        "each column that says what a reading is, whose and of when is noticed when it was changed",
        arguments: [
            "id = randomblob(16)", "kind = 2", "device = 2", "user = 2", "sequence_epoch = 1", "clash = 1",
            "sequence = sequence + 1", "base_time = base_time + 60", "time_offset_minutes = 5",
            "time_offset_unknown = 1",
            "record_exclusion = 4", "time_exclusion = 12", "time = time + 60", "time = NULL", "time_basis = 3",
            "time_uncertainty_minutes = 60", "clock_difference = 60", "clock_read_at = 60",
            "received_at = received_at + 1",
        ])
    func readingColumns(change: String) async throws {
        let directory = try await Self.tampered { db in
            try db.execute(sql: "UPDATE reading SET \(change) WHERE key = 1")
        }
        let store = try await Harness.open(directory)
        await #expect(throws: StoreError.corrupt(detail: "the seal of reading 1 does not hold")) {
            try await store.query(ReadingQuery(limit: 10_000))
        }
        #expect(
            try await store.verify().contains(VerificationFinding(problem: .unreadable, subject: "reading 1")))
        try store.close()
    }

    @Test(
        "a frame that would be decoded otherwise, or as another device's, is noticed",
        arguments: ["device = 2", "contact = 2", "format = format + 1", "ordinal = 9", "received_at = 0"])
    func frameColumns(change: String) async throws {
        let directory = try await Self.tampered { db in
            try db.execute(sql: "UPDATE frame SET \(change) WHERE key = 1")
        }
        let store = try await Harness.open(directory)
        #expect(try await store.verify().contains(VerificationFinding(problem: .unreadable, subject: "frame 1")))
        try store.close()
    }

    @Test(
        "a reading is not posted to another person, provider or second than it was queued for, nor when it is excluded",
        arguments: [
            "user = 2", "provider = 'omron_ble'", "timestamp = timestamp + 1", "type = 5", "tag = NULL",
            "tag = (SELECT tag FROM outbox WHERE reading = 3)", "state = 0",
        ])
    func delivery(change: String) async throws {
        let harness = try await Harness()
        try await harness.contact(
            (1...3).map { Build.glucose($0, "2026-11-21T08:0\($0):00") } + [
                Build.glucose(4, "2026-11-21T08:04:00", status: 1)
            ])
        try await harness.contact(
            [Build.glucose(2, "2026-11-21T08:02:00", status: 1 << 10)], at: "2026-11-21T10:59:00Z")
        try harness.store.close()
        let row = change == "state = 0" ? 2 : 1
        try Self.edit(harness.directory) { db in
            try db.execute(
                sql: """
                    INSERT INTO user (key, client_user_id, created_at) VALUES (2, 'brown_bear', 0);
                    UPDATE outbox SET \(change) WHERE reading = \(row)
                    """)
            #expect(db.changesCount == 1)
        }
        let store = try await Harness.open(harness.directory)
        var refused = 0
        for group in try await store.groupsWaiting() {
            if await corrupt({
                _ = try await store.outboxBatch(
                    user: group.user, resource: group.resource, provider: group.provider, limit: 100)
            }) {
                refused += 1
            }
        }
        #expect(refused == 1)
        #expect(
            try await store.verify().contains(
                VerificationFinding(problem: .queueChanged, subject: "reading \(row)")))
        try store.close()
    }

    @Test(
        "nobody without the key can say that rows may be in the clear, or as earlier versions sealed them",
        arguments: [
            "1 CHECK bound\ncode CODE", "1 CHECK bound people", "1 CHECK people\ncode CODE",
            "1 CHECK bound people extra\ncode CODE", "0\n1 CHECK bound\nearlier 99 99 99\ncode CODE",
            "1 CHECK bound\n0", "1 CHECK bound", "1 CHECK",
            "1 CHECK\n0", "0", "", "1 CHECK bound\nearlier 99 99 99\ncode CODE", "code CODE",
            "2 CHECK bound\ncode CODE",
            "earlier 99 99 99", "1 CHECK bound\ncode", "1 CHECK bound extra\ncode CODE",
        ])
    func list(lines: String) async throws {
        let directory = try await Self.tampered { db in
            let now = try ReadingStore.lines(db, "seal.generations")
            #expect(now.count == 2 && now[1].hasPrefix("code "))
            let check = now[0].split(separator: " ")[1]
            let forged = lines.replacing("CHECK", with: check).replacing("CODE", with: now[1].dropFirst(5))
            try ReadingStore.set(db, "seal.generations", lines: forged.split(separator: "\n").map(String.init))
        }
        #expect(await corrupt { _ = try await Harness.open(directory) })
        let key = try String(contentsOfFile: SealingTests.keyPath(directory), encoding: .utf8)
        #expect(key.split(separator: "\n").count == 1)
    }

    @Test("during a re-encryption, a row in the clear is accepted only if it was there when that began")
    func bounded() throws {
        let sealing = Sealing()
        sealing.set(Sealing.State(inUse: [1, 0], earlier: EarlierRows(frame: 5, reading: 3, device: 1)))
        for place in [SealedPlace.frame(5), .reading(3), .words(3, at: 1), .device(1)] {
            #expect(try sealing.open([0, 9], at: place) == [9])
        }
        for place in [SealedPlace.frame(6), .reading(4), .words(4, at: 1), .device(2)] {
            #expect(throws: StoreError.corrupt(detail: "\(place) is not sealed")) {
                try sealing.open([0, 9], at: place)
            }
        }
    }

    @Test("the key stays where the file says that it is to go while rows are under it")
    func retired() async throws {
        let directory = try await Self.tampered { db in
            let check = try ReadingStore.lines(db, "seal.generations")[0].split(separator: " ")[1]
            try ReadingStore.set(db, "seal.retired", lines: [String(check)])
        }
        let path = SealingTests.keyPath(directory)
        let before = try String(contentsOfFile: path, encoding: .utf8)
        let harness = try await Harness(directory)
        #expect(try String(contentsOfFile: path, encoding: .utf8) == before)
        #expect(try await !harness.all().isEmpty)
        #expect(try await harness.store.verify().isEmpty)
    }

    @Test(
        "what changes a stored reading seals it anew: contexts, revisions, history over trend, two devices that are one"
    )
    func changes() async throws {
        let harness = try await Harness()
        let (one, other) = (Build.device(serial: "S1"), Build.device(0xC000_0000_1809))
        try await harness.contact(
            [Build.glucose(1, "2026-11-21T08:00:00"), Build.context(1, meal: 1), ErasureTests.mark(1, filling: 3)],
            device: one)
        try await harness.contact(
            [Build.glucose(1, "2026-11-21T08:00:00", status: 0x20), Build.context(1, meal: 2, rich: true)],
            device: one, at: "2026-11-21T10:59:00Z")
        try await harness.contact(
            [Build.glucose(7, "2026-11-20T08:00:00"), ErasureTests.mark(2, filling: 4)], device: other,
            at: "2026-11-21T11:00:00Z")
        for (age, at) in [(600, "2026-11-21T10:00:30Z"), (620, "2026-11-21T10:20:30Z")] {
            try await harness.contact([Build.scan(age: age, at: at)], device: Build.sensor)
        }
        let readings = try await harness.all()
        #expect(readings.contains { $0.excluded == .superseded })
        #expect(try await harness.store.verify().isEmpty)
        // The other one is found to be the first.
        try await harness.contact(
            [], device: Build.device(0xC000_0000_1809, serial: "S1"), at: "2026-11-21T11:10:00Z")
        #expect(try await harness.store.devices().count == 2)
        #expect(try await harness.all().count == readings.count)
        #expect(try await harness.store.verify().isEmpty)
        try await PruneTests.deliver(harness.store)
    }
}
