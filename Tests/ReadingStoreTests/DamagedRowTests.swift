import Crypto
import Foundation
import GRDB
import HealthReadings
import LogLines
import Logging
import TestSupport
import Testing

@testable import ReadingStore

/// A row that was damaged or changed is left as it is and reported; work on all rows continues without it.
@Suite("Damaged rows among others")
struct DamagedRowTests {
    @Test("damaged rows are skipped, named and counted when a new key re-encrypts all others")
    func damagedRows() async throws {
        let harness = try await Harness()
        try await SealingTests.fill(harness)
        let readings = try await harness.all()
        let refused = try await harness.store.read { db in
            try #require(try Int64.fetchOne(db, sql: "SELECT reading FROM outbox WHERE state = 2"))
        }
        try await harness.store.write(.device) { db in
            try db.execute(
                sql: """
                    UPDATE reading SET content = CAST(x'01' || randomblob(60) AS BLOB) WHERE key = 1;
                    UPDATE reading SET content = x'' WHERE key = 2;
                    UPDATE frame SET payload = x'80' WHERE key = 1;
                    UPDATE device SET label = x'0100112233445566778899' WHERE key = 1;
                    UPDATE outbox SET words = randomblob(40) WHERE state = 2;
                    UPDATE outbox SET tag = x'80' WHERE reading = 3
                    """)
        }
        let before = try await harness.store.verify()
        #expect(try await harness.store.verify(atOnce: 1) == before, "the same, however many are looked at in one go")
        let change = try await harness.store.rotateKey()
        #expect(change.readings == readings.count - 2)
        #expect(
            change.unreadable.sorted() == [
                "device 1", "frame 1", "reading 1", "reading 2", "words on reading \(refused)",
            ])
        #expect(harness.store.sealing.inUse == [2])
        #expect(
            try await Set(harness.store.verify()) == Set(before), "what was damaged is still told, and nothing else")
        let text = try String(contentsOfFile: SealingTests.keyPath(harness.directory), encoding: .utf8)
        #expect(text.split(separator: "\n").count == 1)
    }

    @Test("rows are checked wherever their keys lie")
    func farKeys() async throws {
        let harness = try await Harness()
        try await SealingTests.fill(harness)
        let store = harness.store
        try await store.write(.device) { db in
            try db.execute(
                sql: """
                    UPDATE outbox SET rowid = \(Int64.max) WHERE reading = 1;
                    UPDATE outbox SET rowid = \(Int64.min) WHERE reading = 2
                    """)
        }
        #expect(try await store.verify(atOnce: 1).isEmpty)
        try await store.write(.device) { db in
            try db.execute(sql: "UPDATE outbox SET tag = x'80' WHERE reading IN (1, 2)")
        }
        for atOnce in [1, 2, 4096] {
            let found = try await store.verify(atOnce: atOnce)
            #expect(found.map(\.problem) == [.queueChanged, .queueChanged])
            #expect(found.map(\.subject) == ["reading 2", "reading 1"])
        }
    }

    @Test("what SQLite's own check finds is told, however the file answers what is asked beside it", arguments: 0..<8)
    func damagedPages(seed: UInt64) async throws {
        let harness = try await Harness()
        try await SealingTests.fill(harness)
        try harness.store.close()
        let name = "/readings.sqlite"
        let sound = try Data(contentsOf: URL(fileURLWithPath: harness.directory + name))
        let pageSize = 1024
        var random = SeededGenerator(seed: seed)
        var told = 0
        for _ in 0..<12 {
            var octets = sound
            // Heads of pages and their cells' places, what is in cells, or one page instead of another: trees that go wrong or in circles.
            for _ in 0..<Int.random(in: 1...3, using: &random) {
                let page = Int.random(in: 1..<octets.count / pageSize, using: &random) * pageSize
                if let place = [64, pageSize, nil].randomElement(using: &random), let place {
                    octets[page + Int.random(in: 0..<place, using: &random)] = .random(in: 0...255, using: &random)
                } else {
                    let other = Int.random(in: 1..<octets.count / pageSize, using: &random) * pageSize
                    octets.replaceSubrange(page..<page + pageSize, with: sound[other..<other + pageSize])
                }
            }
            for suffix in ["-wal", "-shm"] { unlink(harness.directory + name + suffix) }
            try octets.write(to: URL(fileURLWithPath: harness.directory + name))
            let isSound = try? await DatabaseQueue(path: harness.directory + name).read { db in
                try String.fetchOne(db, sql: "PRAGMA integrity_check") == "ok"
            }
            // What cannot be opened, or read to the end, has been told.
            guard let store = try? await Harness.open(harness.directory) else { continue }
            if let findings = try? await store.verify(atOnce: 3), isSound != true {
                #expect(findings.contains { $0.problem == .database })
                told += 1
            }
            try? store.close()
        }
        #expect(told > 0)
    }

    @Test("a destination's words on a reading that is revised during a change of keys are re-encrypted too")
    func wordsOfRevised() async throws {
        let harness = try await Harness()
        try await SealingTests.fill(harness)
        let store = harness.store
        // Both keys are in use, and nothing is re-encrypted yet.
        try store.keyFile.replace(with: (try store.keyFile.read() ?? []) + [SymmetricKey(size: .bits256)])
        try await store.takeKeys()
        #expect(store.sealing.inUse == [2, 1])
        // A revision that changes nothing that is sent leaves the server's words.
        try await store.write(.device) { db in
            let key = try #require(try Int64.fetchOne(db, sql: "SELECT reading FROM outbox WHERE state = 2"))
            try ReadingRow.change(db, key, RowReader(db, store.sealing)) { $0.columns.timeOffsetMinutes = 7 }
        }
        #expect(try await store.reseal().unreadable.isEmpty)
        #expect(store.sealing.inUse == [2])
        #expect(try await store.refused().map(\.serverSaid) == ["a pressure of 127 is refused"])
        #expect(try await store.verify().filter { $0.problem == .unreadable }.isEmpty)
    }

    @Test("rules judge no reading whose place in the queue was changed, and go on behind a damaged frame")
    func judgement() async throws {
        let harness = try await Harness()
        try await harness.contact((1...4).map { Build.glucose($0, "2026-11-21T08:0\($0):00", $0 < 4 ? 50 : 95) })
        try harness.store.close()
        try TamperingTests.edit(harness.directory) { db in
            try db.execute(
                sql: """
                    UPDATE outbox SET timestamp = timestamp + 1 WHERE reading = 1;
                    UPDATE frame SET payload = CAST(x'01' || randomblob(60) AS BLOB) WHERE key = 2
                    """)
        }
        let store = try await Harness.open(harness.directory, decoder: TestDecoder(lowest: 60))
        let rows = try await store.read { db in
            try Row.fetchAll(db, sql: "SELECT reading, state, revision FROM outbox ORDER BY reading")
                .map { row in [row[0], row[1], row[2]] as [Int] }
        }
        #expect(rows == [[1, 0, 0], [2, 0, 0], [3, 3, 1], [4, 0, 0]])
        let excluded = try await store.query(ReadingQuery(limit: 100)).readings.filter { $0.excluded == .implausible }
        #expect(excluded.map(\.record.sequence) == [3])
        let findings = try await store.verify()
        #expect(findings.contains(VerificationFinding(problem: .queueChanged, subject: "reading 1")))
        #expect(findings.contains(VerificationFinding(problem: .unreadable, subject: "frame 2")))
        try store.close()
    }

    @Test("two devices that are one are joined, damaged rows included, which are named and counted")
    func joinedDevices() async throws {
        let (directory, lines) = (Harness.newDirectory(), LogLines())
        do {
            let harness = try await Harness(directory)
            try await harness.contact([Build.glucose(1, "2026-11-21T08:00:00")], device: Build.device(serial: "S1"))
            try await harness.contact(
                (5...8).map { Build.glucose($0, "2026-11-20T08:0\($0):00") }, device: Build.device(0xC000_0000_1809),
                at: "2026-11-21T11:00:00Z")
            try harness.store.close()
        }
        try TamperingTests.edit(directory) { db in
            try db.execute(
                sql: """
                    UPDATE frame SET payload = CAST(x'01' || randomblob(60) AS BLOB) WHERE key = 2;
                    UPDATE frame SET payload = x'80' WHERE key = 3;
                    UPDATE reading SET content = CAST(x'01' || randomblob(60) AS BLOB) WHERE key = 4
                    """)
        }
        let store = try await ReadingStore.open(
            directory: directory, decoder: TestDecoder(), clientUserID: "white_bear", timeZone: "Europe/Berlin",
            encryption: .on(), logger: lines.logger(), now: { Build.instant("2026-11-21T12:00:00Z") })
        let before = try await store.verify()
        #expect(before.count >= 3)
        let contact = try await store.beginContact(
            with: Build.device(0xC000_0000_1809, serial: "S1"), at: Build.instant("2026-11-21T11:30:00Z"), clock: nil,
            batteryPercent: nil)
        #expect(try await store.devices().count == 1)
        #expect(try await Set(store.verify()) == Set(before), "what was damaged is still told, and nothing else")
        let owners = try await store.read { db in
            try Int64.fetchAll(db, sql: "SELECT device FROM frame UNION SELECT device FROM reading")
        }
        #expect(owners == [1])
        let said = try #require(lines.lines(from: .warning).first { $0.contains("joined") })
        #expect(said.contains("frame 2, frame 3, reading 4") && said.contains(#""count": 3"#), "\(said)")
        // The device goes on.
        #expect(try await store.append([Build.glucose(9, "2026-11-21T08:30:00")], of: contact).map(\.name) == ["new"])
        try store.close()
    }

    @Test("a trend reading whose place in the queue was changed is not moved, and its timestamp not written anew")
    func trendMinute() async throws {
        let directory = Harness.newDirectory()
        let late: Int64
        do {
            let harness = try await Harness(directory, decoder: TestDecoder(countsTrendFromAge: true))
            let frame = Build.scan(age: 611, at: "2026-11-21T10:11:30Z", lag: 1) { 1000 + 2 * $1 + $0 }
            try await harness.contact([frame], device: Build.sensor, at: "2026-11-21T10:11:30Z")
            late = try await harness.store.write(.setting) { db in
                try ReadingStore.set(db, ReadingStore.trendRule, lines: [])
                return try #require(
                    try Int64.fetchOne(db, sql: "SELECT reading FROM sensor_record WHERE source = 1 AND minute = 606"))
            }
            try harness.store.close()
        }
        try TamperingTests.edit(directory) { db in
            try db.execute(
                sql: "UPDATE outbox SET timestamp = timestamp + 86400, state = 1, delivered_at = 5 WHERE reading = ?",
                arguments: [late])
            #expect(db.changesCount == 1)
        }
        let harness = try await Harness(directory)
        #expect(
            try await harness.store.verify().contains(
                VerificationFinding(problem: .queueChanged, subject: "reading \(late)")))
        // The others went to their own minutes.
        let minutes = try await harness.store.read { db in
            try Int.fetchAll(
                db, sql: "SELECT minute FROM sensor_record WHERE source = 1 AND reading <> ?", arguments: [late])
        }
        #expect(minutes.contains(596) && !minutes.contains(611))
        let timestamps = try await harness.store.read { db in
            try Int64.fetchAll(db, sql: "SELECT timestamp FROM outbox WHERE reading <> ?", arguments: [late])
        }
        #expect(timestamps.allSatisfy { $0 < Build.instant("2026-11-21T12:00:00Z").seconds })
    }
}
