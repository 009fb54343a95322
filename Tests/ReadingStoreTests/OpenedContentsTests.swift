import GRDB
import HealthReadings
import Testing

@testable import ReadingStore

@Suite("Rows that were opened before")
struct OpenedContentsTests {
    private static func count(_ store: ReadingStore) async throws -> Int {
        try await store.read { [sealing = store.sealing] db in
            let (known, reader) = (sealing.knownContents, RowReader(db, sealing))
            let select = try PreparedStatement(db, "SELECT \(ReadingRow.columns) FROM reading AS r")
            var count = 0
            while try select.next() {
                let columns = try reader.columns(select)
                count += select.withOctets(ReadingRow.content) { blob in
                    known.content(of: ReadingRow.key(select), columns, blob) == nil ? 0 : 1
                }
            }
            return count
        }
    }

    @Test("a page that is asked for again is the same, and is not opened again")
    func again() async throws {
        let harness = try await Harness()
        try await SealingTests.fill(harness)
        let page = try await harness.store.query(ReadingQuery())
        #expect(try await Self.count(harness.store) == page.readings.count && page.readings.count > 2)
        #expect(try await harness.store.query(ReadingQuery()) == page)
    }

    @Test(
        "whatever is changed of a row by another program is noticed also where it was opened before",
        arguments: [
            "content = CAST(substr(content, 1, length(content) - 1) || x'00' AS BLOB)",
            "content = (SELECT content FROM reading WHERE key = 2)", "time = time + 60", "device = device + 1",
            "content = x'0001020304'", "record_exclusion = 1", "clash = clash + 1",
        ])
    func changed(_ change: String) async throws {
        let harness = try await Harness()
        try await SealingTests.fill(harness)
        _ = try await harness.store.query(ReadingQuery())
        try TamperingTests.edit(harness.directory) { db in
            try db.execute(sql: "UPDATE reading SET \(change) WHERE key = 1")
        }
        await #expect(throws: StoreError.self) { try await harness.store.query(ReadingQuery()) }
        #expect(try await harness.store.verify().contains { $0.subject == "reading 1" })
    }

    @Test("nothing stays known of who is erased, or under a key that is retired")
    func forgotten() async throws {
        let harness = try await Harness()
        try await SealingTests.fill(harness)
        let page = try await harness.store.query(ReadingQuery())
        _ = try await harness.store.pairings()
        #expect(!harness.store.sealing.knownLabels.isEmpty)
        _ = try await harness.store.rotateKey()
        #expect(harness.store.sealing.knownLabels.isEmpty)
        #expect(try await Self.count(harness.store) == 0)
        #expect(try await Set(harness.store.query(ReadingQuery()).readings) == Set(page.readings))
        #expect(try await Self.count(harness.store) == page.readings.count)
        _ = try await harness.store.pairings()
        #expect(!harness.store.sealing.knownLabels.isEmpty)
        _ = try await harness.store.eraseUser(harness.store.currentUser().key, retracts: false)
        #expect(harness.store.sealing.knownContents.isEmpty && harness.store.sealing.knownLabels.isEmpty)
    }

    @Test("no more are known than the longest page has, and nothing once nobody looks")
    func bounds() async throws {
        let harness = try await Harness()
        try await SealingTests.fill(harness)
        let sealing = harness.store.sealing
        let (columns, id, content) = try await harness.store.read { db in
            let reader = RowReader(db, sealing)
            let select = try PreparedStatement(db, "SELECT \(ReadingRow.columns) FROM reading AS r WHERE r.key = 1")
            defer { select.reset() }
            #expect(try select.next())
            let columns = try reader.columns(select)
            let (id, content) = try reader.content(select, columns)
            return (columns, id, content)
        }
        let blob: [UInt8] = [1, 2, 3]
        func opened(_ key: Int64) -> OpenedContent {
            blob.withUnsafeBytes { OpenedContent(key, columns, $0, id, content) }
        }
        var known = OpenedContents()
        func isKnown(_ key: Int64) -> Bool {
            blob.withUnsafeBytes { known.content(of: key, columns, $0) != nil }
        }
        let isFirst = known.keep((1...10_000).map(opened), of: Array(1...10_000))
        // The next page has one that is new, and one less of those before.
        let isFirstAgain = known.keep([opened(10_001)], of: Array(2...10_001))
        #expect(isFirst && !isFirstAgain)
        #expect(!isKnown(1) && (2...10_001).allSatisfy(isKnown))
        let isLeft = known.forgetUnused()
        #expect(isLeft && isKnown(2))
        let isStillLeft = known.forgetUnused()
        #expect(!isStillLeft && known.isEmpty)
    }
}
