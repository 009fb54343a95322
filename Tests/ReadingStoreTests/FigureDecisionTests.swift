import Foundation
import GRDB
import HealthReadings
import Testing

@testable import ReadingStore

@Suite("Readings left out of figures")
struct FigureDecisionTests {
    private static func fill(_ harness: Harness, _ numbers: Range<UInt16> = 0..<3) async throws -> [ReadingID] {
        try await harness.contact(numbers.map { Build.glucose($0, "2026-11-21T08:\(10 + $0):00", 90 + $0) })
        return try await harness.all().map(\.id)
    }

    @Test(
        "a reading is left out with a reason, stays stored and queued, and counts again; verification agrees each time")
    func course() async throws {
        let harness = try await Harness()
        let store = harness.store
        let ids = try await Self.fill(harness)
        let before = try await harness.all()
        let result = try await store.leaveOut([ids[0], ids[2], ids[0]], reason: "hands not washed", by: "page")
        #expect(result.changed == 2 && result.readings.map(\.id) == [ids[0], ids[2]])
        let left = try await harness.all()
        #expect(left.map { $0.leftOut?.reason } == ["hands not washed", nil, "hands not washed"])
        #expect(left[0].leftOut?.by == "page" && left[0].excluded == nil)
        for (old, new) in zip(before, left) {
            #expect(new.id == old.id && new.record == old.record && new.deliveries == old.deliveries)
        }
        #expect(try await store.verify().isEmpty)
        // The same again is no news; another reason is.
        #expect(try await store.leaveOut([ids[0]], reason: "hands not washed", by: "command").changed == 0)
        #expect(try await store.leaveOut([ids[0]], reason: nil, by: "command").changed == 1)
        #expect(try await store.include(ids, by: "command").changed == 2)
        #expect(try await harness.all() == before)
        #expect(try await store.verify().isEmpty)
        #expect(try await store.redecode().frames == 0)
    }

    @Test("all readings are left out in one commit, or none; an unknown id and a bad reason change nothing")
    func refused() async throws {
        let harness = try await Harness()
        let ids = try await Self.fill(harness)
        await #expect(throws: FigureDecisionError.noSuchReading(ReadingID(high: 1, low: 2))) {
            try await harness.store.leaveOut(ids + [ReadingID(high: 1, low: 2)], reason: nil, by: "x")
        }
        for reason in [String(repeating: "a", count: 201), "two\nlines", "\u{202E}"] {
            await #expect(throws: EntryError.self) {
                try await harness.store.leaveOut(ids, reason: reason, by: "x")
            }
        }
        let many = (0..<1001).map { ReadingID(high: 0, low: UInt64($0)) }
        await #expect(throws: FigureDecisionError.tooMany(1001)) {
            try await harness.store.include(many, by: "x")
        }
        #expect(try await harness.all().allSatisfy { $0.leftOut == nil })
    }

    @Test("a reason that somebody has given meanwhile is replaced knowingly, or not at all")
    func meanwhile() async throws {
        let harness = try await Harness()
        let (store, ids) = (harness.store, try await Self.fill(harness))
        try await store.leaveOut([ids[0]], reason: "cuff slipped", by: "one")
        let error = await #expect(throws: FigureDecisionError.self) {
            try await store.leaveOut([ids[1], ids[0]], reason: "hands not washed", by: "two", replaces: false)
        }
        #expect(error?.code == "left_out_meanwhile")
        #expect(error?.description.contains("\"cuff slipped\"; yours is with the reason \"hands not washed\"") == true)
        #expect(try await harness.all().map { $0.leftOut?.reason } == ["cuff slipped", nil, nil])
        // The same reason is no news, whoever gives it.
        #expect(try await store.leaveOut([ids[0]], reason: "cuff slipped", by: "two", replaces: false).changed == 0)
        #expect(try await store.leaveOut([ids[0]], reason: "hands not washed", by: "two").changed == 1)
    }

    @Test("another gateway's file decides where nobody has decided here, and its unknown ids are passed over")
    func undecided() async throws {
        let harness = try await Harness()
        let store = harness.store
        let ids = try await Self.fill(harness)
        try await store.leaveOut([ids[0], ids[1]], reason: "here", by: "page")
        try await store.include([ids[1]], by: "page")
        let file: [ReadingID: String?] = [
            ids[0]: "there", ids[1]: "there", ids[2]: nil, ReadingID(high: 1, low: 2): "nobody's",
        ]
        #expect(try await store.leaveOutUndecided(file, by: "import") == 1)
        let left = try await harness.all()
        #expect(left.map { $0.leftOut?.by } == ["page", nil, "import"])
        #expect(left[0].leftOut?.reason == "here" && left[2].leftOut?.reason == nil)
        #expect(try await store.leaveOutUndecided(file, by: "import") == 0)
        try await store.include([ids[2]], by: "page")
        #expect(try await store.leaveOutUndecided(file, by: "import") == 0)
        #expect(try await store.verify().isEmpty)
    }

    @Test("a subscriber hears of it as a revision")
    func told() async throws {
        let harness = try await Harness()
        let ids = try await Self.fill(harness)
        let position = try await harness.store.newestChange()
        try await harness.store.leaveOut([ids[1]], reason: "test", by: "command")
        let page = try #require(try await harness.store.changePage(after: position))
        #expect(page.changes.count == 1 && page.changes[0].revision == 2)
        guard case .revised(let reading) = page.changes[0].event else {
            Issue.record("\(page.changes[0].event)")
            return
        }
        #expect(reading.leftOut?.reason == "test")
    }

    @Test("reading the device again, a move to another person and an export keep it")
    func kept() async throws {
        let harness = try await Harness()
        let store = harness.store
        let ids = try await Self.fill(harness)
        try await store.leaveOut([ids[0]], reason: "slipped", by: "command")
        _ = try await Self.fill(harness)
        #expect(try await store.reading(ids[0])?.leftOut?.reason == "slipped")
        try await store.setPeople([StorePerson(clientUserID: "anna", timeZone: "Europe/Berlin", shares: [])])
        let anna = try #require(try await store.user("anna")).key
        try await store.moveReadings(.readings([ids[0]]), to: anna)
        let moved = try #require(try await store.reading(ids[0]))
        #expect(moved.person == "anna" && moved.leftOut?.reason == "slipped")
        // As anna's it can be decided on again.
        try await store.leaveOut([ids[0]], reason: "not mine", by: "anna's phone")
        #expect(try await store.verify().isEmpty)

        let file = harness.directory + "-export"
        try Data().write(to: URL(fileURLWithPath: file))
        let handle = try FileHandle(forWritingTo: URL(fileURLWithPath: file))
        try await store.export(passphrase: "a long passphrase") { try handle.write(contentsOf: $0) }
        try handle.close()
        let place = Harness.newDirectory()
        try await ReadingStore.importing(
            file, passphrase: "a long passphrase", into: place, decoder: TestDecoder())
        let restored = try await Harness(place)
        let reading = try #require(try await restored.store.reading(ids[0]))
        #expect(
            reading.leftOut
                == .init(reason: "not mine", by: "anna's phone", at: moved.leftOut?.at ?? reading.receivedAt))
        #expect(try await restored.store.verify().isEmpty)
    }

    @Test("erasing the person removes decisions and their frames; another person's stay")
    func erased() async throws {
        let harness = try await Harness()
        let store = harness.store
        let ids = try await Self.fill(harness)
        try await store.leaveOut(ids, reason: "all wrong", by: "command")
        try await store.setPeople([StorePerson(clientUserID: "anna", timeZone: "Europe/Berlin", shares: [])])
        let anna = try #require(try await store.user("anna")).key
        try await store.moveReadings(.readings([ids[0]]), to: anna)
        func frames() async throws -> Int {
            try await store.read { db in
                try Int.fetchOne(
                    db, sql: "SELECT count(*) FROM frame WHERE format = ?",
                    arguments: [Int64(FrameFormat.figureDecision.rawValue)]) ?? 0
            }
        }
        #expect(try await frames() == 3)
        let bear = try #require(try await store.user("white_bear")).key
        _ = try await store.eraseUser(bear)
        #expect(try await frames() == 1)
        #expect(try await store.reading(ids[0])?.leftOut?.reason == "all wrong")
        #expect(try await store.verify().isEmpty)
    }

    @Test("a row that says another thing than the newest decision is found")
    func tampered() async throws {
        let harness = try await Harness()
        let ids = try await Self.fill(harness)
        try await harness.store.leaveOut([ids[0]], reason: nil, by: "command")
        try await harness.store.write(.entry) { [sealing = harness.store.sealing] db in
            let key = try #require(try Int64.fetchOne(db, sql: "SELECT max(key) FROM reading"))
            let rows = RowReader(db, sealing)
            for each in 1...key {
                _ = try? ReadingRow.change(db, each, rows) { $0.content.leftOut = nil }
            }
        }
        let findings = try await harness.store.verify()
        #expect(findings == [.init(problem: .differs, subject: ids[0].description)])
    }

    @Test("a decision is read from its canonical document alone")
    func document() throws {
        let decision = try FigureDecision(
            person: "white_bear", reading: ReadingID(high: 1, low: 2), isLeftOut: true, reason: "a \"b\" é", by: "page",
            at: Build.instant("2026-11-21T08:00:00Z"))
        let payload = decision.frame(receivedAt: decision.at).payload
        #expect(DecodedFrame(figureDecision: payload) == .figures(decision))
        for change in [
            Array(payload.dropLast()), payload + [0x20], [], Array("{}".utf8), [UInt8](repeating: 0x7B, count: 9000),
            Array(String(decoding: payload, as: UTF8.self).replacing("\"format\":1", with: "\"format\":2").utf8),
        ] {
            guard case .malformed = DecodedFrame(figureDecision: change) else {
                Issue.record("\(change.count) octets were read")
                continue
            }
        }
    }

    #if DEBUG && compiler(>=6.3)  // Earlier exit tests capture nothing.
        private static func work(_ directory: String) async throws {
            let harness = try await Harness(directory)
            let ids = try await fill(harness)
            try await harness.store.leaveOut(ids, reason: "all", by: "command")
            try await harness.store.include([ids[0]], by: "command")
            try harness.store.close()
        }

        @Test(
            "promise 10: decisions survive a kill whole or not at all",
            arguments: ["entry.before-commit", "entry.after-commit", "entry.before-commit:2", "entry.after-commit:2"])
        func kill(_ point: String) async throws {
            let directory = Harness.newDirectory()
            try FileManager.default.createDirectory(atPath: directory, withIntermediateDirectories: true)
            await #expect(processExitsWith: .signal(SIGKILL)) {
                [directory = directory as String, point = point as String] in
                setenv("HEALTHRELAY_CRASH_AT", point, 1)
                try await FigureDecisionTests.work(directory)
            }
            let harness = try await Harness(directory)
            #expect(try await harness.store.verify().isEmpty)
            let left = try await harness.all().count { $0.leftOut != nil }
            let expected = ["entry.before-commit": 0, "entry.after-commit": 3, "entry.before-commit:2": 3]
            #expect(left == expected[point] ?? 2)
            try harness.store.close()
            try await Self.work(directory)
        }
    #endif
}
