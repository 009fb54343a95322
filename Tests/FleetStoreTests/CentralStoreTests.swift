import FleetStore
import Foundation
import GRDB
import HealthReadings
import TestPostgreSQL
import TestSupport
import Testing

/// What both stores promise, tried on a real file and on a real server.
@Suite struct CentralStoreTests {
    enum Kind: String, CaseIterable, CustomTestStringConvertible {
        case sqlite, postgreSQL

        var testDescription: String { rawValue }

        /// Those that can be had here.
        static var installed: [Kind] { TestPostgreSQL.isInstalled ? allCases : [.sqlite] }

        func store() throws -> any CentralStore {
            switch self {
            case .sqlite: try SQLiteCentralStore(directory: Self.folder())
            case .postgreSQL: PostgreSQLCentralStore(address: try TestPostgreSQL.shared.get().database())
            }
        }

        static func folder() -> String {
            FileManager.default.temporaryDirectory.path + "/fleet-" + UUID().uuidString.prefix(8)
        }
    }

    static let noon = Instant(seconds: 1_800_000_000)

    static func reading(
        _ gateway: String, _ id: String, revision: Int64 = 1, batch: Int64 = 1, body: String? = #"{"value": 127.0}"#
    ) -> CentralReading {
        CentralReading(
            gateway: gateway, id: id, revision: revision, batch: batch,
            taken: Instant(microseconds: 1_799_000_000_250_000),
            kind: "glucose", person: "white_bear", body: body)
    }

    static func batch(_ gateway: String, _ number: Int64, _ readings: [CentralReading], at second: Int64 = 0)
        -> ArrivedBatch
    {
        ArrivedBatch(
            gateway: gateway, number: number, received: noon.advanced(bySeconds: second), readings: readings)
    }

    @Test(arguments: Kind.installed) func aRepeatChangesNothing(kind: Kind) async throws {
        let store = try kind.store()
        try await store.prepare()
        let batch = Self.batch("gw1", 1, [Self.reading("gw1", "a"), Self.reading("gw1", "b")])
        #expect(try await store.keep([batch]) == [BatchOutcome(stored: 2)])
        let before = try await store.newest(of: nil, limit: 10)
        #expect(before.map(\.id) == ["a", "b"])
        #expect(before[0].taken?.description == "2027-01-03T10:13:20.25Z" || before[0].taken == batch.readings[0].taken)
        #expect(before[0].body.map { $0.contains("127.0") } ?? false)
        var again = batch
        again.received = Self.noon.advanced(bySeconds: 60)
        #expect(try await store.keep([again]) == [BatchOutcome(repeated: 2)])
        #expect(try await store.newest(of: nil, limit: 10) == before)
        #expect(try await store.gateways().map(\.stored) == [2])
        await store.close()
    }

    @Test(arguments: Kind.installed) func theHighestRevisionStays(kind: Kind) async throws {
        let store = try kind.store()
        try await store.prepare()
        _ = try await store.keep([Self.batch("gw1", 1, [Self.reading("gw1", "a", revision: 2, body: #"{"n": 2}"#)])])
        let older = Self.batch("gw1", 2, [Self.reading("gw1", "a", revision: 1, batch: 2, body: #"{"n": 1}"#)])
        #expect(try await store.keep([older]) == [BatchOutcome(repeated: 1, ignored: ["a"], highest: 2)])
        #expect(try await store.newest(of: "gw1", limit: 1).first?.body == #"{"n": 2}"#)
        let newer = Self.batch("gw1", 3, [Self.reading("gw1", "a", revision: 3, batch: 3, body: #"{"n": 3}"#)])
        #expect(try await store.keep([newer]) == [BatchOutcome(revised: 1)])
        let row = try #require(try await store.newest(of: "gw1", limit: 1).first)
        #expect(row.body == #"{"n": 3}"# && row.batch == 3 && row.revision == 3)
        await store.close()
    }

    @Test(arguments: Kind.installed) func aRetractionEmptiesTheBodyAndStays(kind: Kind) async throws {
        let store = try kind.store()
        try await store.prepare()
        _ = try await store.keep([Self.batch("gw1", 1, [Self.reading("gw1", "a")])])
        let retraction = Self.batch("gw1", 2, [Self.reading("gw1", "a", revision: 2, batch: 2, body: nil)])
        #expect(try await store.keep([retraction]) == [BatchOutcome(revised: 1)])
        let row = try #require(try await store.newest(of: nil, limit: 1).first)
        #expect(row.isRetracted && row.revision == 2)
        // What was sent before the retraction and comes late brings nothing back.
        #expect(
            try await store.keep([Self.batch("gw1", 1, [Self.reading("gw1", "a")])])
                == [BatchOutcome(repeated: 1, ignored: ["a"], highest: 2)])
        #expect(try await store.newest(of: nil, limit: 1).first?.isRetracted == true)
        await store.close()
    }

    /// A gateway that was restored counts from where its backup was.
    @Test(arguments: Kind.installed) func whatIsIgnoredIsNamedWithTheNumberToExceed(kind: Kind) async throws {
        let store = try kind.store()
        try await store.prepare()
        func keep(_ number: Int64, _ body: String?) async throws -> BatchOutcome? {
            let reading = Self.reading("gw1", "a", revision: number, batch: number, body: body)
            return try await store.keep([Self.batch("gw1", number, [reading])]).first
        }
        #expect(try await store.highestBatch(of: "gw1") == nil)
        #expect(try await keep(100, #"{"id":"a","revision":100,"n":[1, 2.0]}"#) == BatchOutcome(stored: 1))
        // The same is there already, whatever its number is.
        let same = BatchOutcome(repeated: 1, highest: 100)
        #expect(try await keep(50, #"{"id":"a","revision":50,"n":[1, 2.0]}"#) == same)
        let ignored = BatchOutcome(repeated: 1, ignored: ["a"], highest: 100)
        #expect(try await keep(60, #"{"id":"a","revision":60,"n":[1, 3.0]}"#) == ignored)
        #expect(try await keep(100, #"{"id":"a","revision":100,"n":[1, 3.0]}"#) == ignored)
        #expect(try await keep(70, nil) == ignored)
        #expect(try await store.newest(of: "gw1", limit: 1).first?.body?.contains("2.0") == true)
        #expect(try await keep(101, nil) == BatchOutcome(revised: 1))
        #expect(try await keep(80, nil) == BatchOutcome(repeated: 1, highest: 101))
        #expect(try await store.highestBatch(of: "gw1") == 101)
        #expect(try await store.highestBatch(of: "gw2") == nil)
        await store.close()
    }

    @Test(arguments: Kind.installed) func noGatewayReplacesAnothersReading(kind: Kind) async throws {
        let store = try kind.store()
        try await store.prepare()
        let mine = Self.batch("gw1", 1, [Self.reading("gw1", "a")])
        let theirs = Self.batch("gw2", 1, [Self.reading("gw2", "a", revision: 9, body: #"{"n": 9}"#)])
        #expect(try await store.keep([mine, theirs]) == [BatchOutcome(stored: 1), BatchOutcome(stored: 1)])
        let kept = try await store.newest(of: "gw1", limit: 10)
        #expect(kept.map(\.revision) == [1])
        await store.close()
    }

    @Test(arguments: Kind.installed) func oneTransactionTakesTheSameReadingSeveralTimes(kind: Kind) async throws {
        let store = try kind.store()
        try await store.prepare()
        let batches = [
            Self.batch("gw1", 1, [Self.reading("gw1", "a", body: #"{"n": 1}"#), Self.reading("gw1", "b")]),
            Self.batch("gw1", 2, [Self.reading("gw1", "a", revision: 2, batch: 2, body: #"{"n": 2}"#)]),
            Self.batch("gw1", 1, [Self.reading("gw1", "b")]),
        ]
        let outcomes = try await store.keep(batches)
        #expect(outcomes.map { $0.stored + $0.revised + $0.repeated } == [2, 1, 1])
        #expect(try await store.newest(of: nil, limit: 10).first { $0.id == "a" }?.body == #"{"n": 2}"#)
        #expect(try await store.gateways().map(\.stored) == [2])
        #expect(try await store.gateways().map(\.highestBatch) == [2])
        await store.close()
    }

    @Test(arguments: Kind.installed) func writersOfTheSameReadingsDoNotStopEachOther(kind: Kind) async throws {
        let store = try kind.store()
        try await store.prepare()
        let readings = (0..<50).map { Self.reading("gw1", "id\($0)") }
        let outcomes = try await withThrowingTaskGroup(of: [BatchOutcome].self) { group in
            for number in 0..<8 {
                let order = number.isMultiple(of: 2) ? readings : readings.reversed()
                group.addTask { try await store.keep([Self.batch("gw1", Int64(number), order)]) }
            }
            return try await group.reduce(into: []) { $0 += $1 }
        }
        #expect(outcomes.map(\.stored).reduce(0, +) == 50)
        #expect(outcomes.map(\.repeated).reduce(0, +) == 350)
        await store.close()
    }

    @Test(arguments: Kind.installed) func whatAGatewaySaysOfItselfIsKept(kind: Kind) async throws {
        let store = try kind.store()
        try await store.prepare()
        let heard = Self.noon
        let nothing = try await store.note(
            GatewaySighting(
                gateway: "gw1", heard: heard, version: "1.2", backlog: 7, oldest: heard.advanced(bySeconds: -90),
                status: #"{"a": 1}"#))
        #expect(nothing == nil)
        let former = try await store.note(GatewaySighting(gateway: "gw1", heard: heard.advanced(bySeconds: -5)))
        #expect(former == #"{"a": 1}"#)
        let record = try #require(try await store.gateways().first)
        #expect(record.heard == heard && record.version == "1.2" && record.backlog == 7)
        #expect(record.oldest == heard.advanced(bySeconds: -90) && record.status == #"{"a": 1}"#)
        try await store.note(GatewaySighting(gateway: "gw1", heard: heard, backlog: 0))
        #expect(try await store.gateways().first?.oldest == nil)
        await store.close()
    }

    @Test(arguments: Kind.installed) func aTimeOfAClockThatWasAheadDoesNotStay(kind: Kind) async throws {
        let store = try kind.store()
        try await store.prepare()
        let noon = Self.noon
        try await store.note(
            GatewaySighting(gateway: "gw1", heard: noon.advanced(bySeconds: 86_400), status: #"{"a": 1}"#))
        try await store.note(GatewaySighting(gateway: "gw1", heard: noon))
        #expect(try await store.gateways().map(\.heard) == [noon])
        _ = try await store.keep([Self.batch("gw1", 1, [Self.reading("gw1", "a")], at: 90_000)])
        _ = try await store.keep([Self.batch("gw1", 2, [Self.reading("gw1", "b", batch: 2)], at: 60)])
        let records = try await store.gateways(hasStatuses: false)
        #expect(records.map(\.heard) == [noon.advanced(bySeconds: 60)] && records.map(\.stored) == [2])
        #expect(records.map(\.status) == [nil])
        #expect(try await store.gateways().map(\.status) == [#"{"a": 1}"#])
        await store.close()
    }

    @Test(arguments: Kind.installed) func tokensBelongToAGateway(kind: Kind) async throws {
        let store = try kind.store()
        try await store.prepare()
        try await store.add(tokenDigest: "d1", for: "gw1", at: Self.noon)
        #expect(try await store.gateway(ofTokenDigest: "d1") == "gw1")
        #expect(try await store.gateway(ofTokenDigest: "d2") == nil)
        #expect(try await store.gateways().map(\.gateway) == ["gw1"])
        #expect(try await store.removeTokens(of: "gw1") == 1)
        #expect(try await store.gateway(ofTokenDigest: "d1") == nil)
        await store.close()
    }

    @Test(arguments: Kind.installed) func whatCannotBeTakenIsKeptWhole(kind: Kind) async throws {
        let store = try kind.store()
        try await store.prepare()
        let document = AsideDocument(
            received: Self.noon, gateway: "gw1", reason: "not_json", words: "expected {", octets: [0, 255, 39, 92])
        try await store.putAside(document)
        #expect(try await store.aside(limit: 5) == [document])
        await store.close()
    }

    @Test(arguments: Kind.installed) func ofALargeDocumentTheBeginningIsKeptOnce(kind: Kind) async throws {
        let store = try kind.store()
        try await store.prepare()
        func document(_ gateway: String, _ count: Int, last: UInt8 = 0, at second: Int64 = 0) -> AsideDocument {
            AsideDocument(
                received: Self.noon.advanced(bySeconds: second), gateway: gateway, reason: "document_too_large",
                words: "", octets: [UInt8](repeating: 120, count: count - 1) + [last])
        }
        let large = document("gw1", 3_000_000)
        #expect(large.octets.count == 65_536 && large.bytes == 3_000_000 && large.digest.count == 64)
        // A document that comes again, as after a connection that broke, changes nothing.
        try await store.putAside(large)
        try await store.putAside(document("gw1", 3_000_000, at: 60))
        #expect(try await store.aside(limit: 5) == [large])
        try await store.putAside(document("gw1", 3_000_000, last: 1))
        try await store.putAside(document("gw2", 1_000_000))
        #expect(try await store.aside(limit: 5).map(\.octets.count) == [1_000_000, 65_536, 65_536])
        await store.close()
    }

    @Test(arguments: Kind.installed)
    func ofAGatewayThatFillsTheDiskSoMuchIsKeptAndTheRestIsCounted(kind: Kind) async throws {
        let store = try kind.store()
        try await store.prepare()
        func document(_ gateway: String, _ count: Int, last: UInt8, at second: Int64 = 0) -> AsideDocument {
            AsideDocument(
                received: Self.noon.advanced(bySeconds: second), gateway: gateway, reason: "newer_schema", words: "",
                octets: [UInt8](repeating: 120, count: count - 1) + [last])
        }
        for last in 0..<UInt8(4) { #expect(try await store.putAside(document("gw1", 1_000_000, last: last))) }
        #expect(try await !store.putAside(document("gw1", 30, last: 4)))
        let counted = try #require(try await store.aside(limit: 1).first)
        #expect(counted.reason == "aside_full" && counted.words == "1 more document of the gateway was not kept")
        #expect(try await !store.putAside(document("gw1", 2_000_000, last: 5, at: 60)))
        // One that is there already is kept, and so is another gateway's.
        #expect(try await store.putAside(document("gw1", 1_000_000, last: 3)))
        #expect(try await store.putAside(document("gw2", 30, last: 4)))
        let newest = try await store.aside(limit: 2)
        #expect(newest.map(\.gateway) == ["gw2", "gw1"] && newest.map(\.reason) == ["newer_schema", "aside_full"])
        #expect(newest[1].words == "2 more documents of the gateway were not kept" && newest[1].octets.isEmpty)
        #expect(newest[1].bytes == 2_000_030 && newest[1].received == Self.noon.advanced(bySeconds: 60))
        #expect(newest[1].digest.isEmpty)
        await store.close()
    }

    @Test func ofAGatewayThatSendsManySmallDocumentsAThousandAreKept() async throws {
        let folder = Kind.folder()
        let store = try SQLiteCentralStore(directory: folder)
        try await store.prepare()
        let file = try DatabaseQueue(path: folder + "/" + SQLiteCentralStore.fileName)
        try await file.write { db in
            // Those of the first schema have neither length nor digest.
            try db.execute(
                sql: """
                    WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 999)
                    INSERT INTO set_aside (received, gateway, reason, words, document)
                    SELECT i, 'gw1', 'bad_document', '', x'01' FROM n
                    """)
        }
        try file.close()
        func document(_ octet: UInt8) -> AsideDocument {
            AsideDocument(received: Self.noon, gateway: "gw1", reason: "bad_document", words: "", octets: [octet])
        }
        #expect(try await store.putAside(document(2)))
        #expect(try await !store.putAside(document(3)))
        #expect(try await !store.putAside(document(4)))
        #expect(try await store.aside(limit: 2000).count == 1001)
        // There is room again after the operator's command.
        let emptied = try DatabaseQueue(path: folder + "/" + SQLiteCentralStore.fileName)
        try await emptied.write { try $0.execute(sql: "DELETE FROM set_aside WHERE received < 500") }
        try emptied.close()
        #expect(try await store.putAside(document(3)))
        await store.close()
    }

    @Test(arguments: Kind.installed) func preparingAgainChangesNothing(kind: Kind) async throws {
        let store = try kind.store()
        try await store.prepare()
        _ = try await store.keep([Self.batch("gw1", 1, [Self.reading("gw1", "a")])])
        try await store.prepare()
        #expect(try await store.newest(of: nil, limit: 10).count == 1)
        await store.close()
    }

    @Test func aNewerFileIsRefused() async throws {
        let folder = Kind.folder()
        let store = try SQLiteCentralStore(directory: folder)
        try await store.prepare()
        await store.close()
        let file = try DatabaseQueue(path: folder + "/" + SQLiteCentralStore.fileName)
        try await file.write { try $0.execute(sql: "PRAGMA user_version = 99") }
        try file.close()
        let older = try SQLiteCentralStore(directory: folder)
        await #expect(throws: CentralStoreError.newerSchema(found: 99, known: 3)) { try await older.prepare() }
    }

    @Test func anotherProgramsFileIsRefused() async throws {
        let folder = Kind.folder()
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        let file = try DatabaseQueue(path: folder + "/" + SQLiteCentralStore.fileName)
        try await file.write { try $0.execute(sql: "CREATE TABLE other (a)") }
        try file.close()
        let store = try SQLiteCentralStore(directory: folder)
        await #expect { try await store.prepare() } throws: { error in
            if case .foreign? = error as? CentralStoreError { true } else { false }
        }
    }

    @Test(.enabled(if: TestPostgreSQL.isInstalled)) func newerTablesAreRefused() async throws {
        let server = try TestPostgreSQL.shared.get()
        let address = try server.database()
        let store = PostgreSQLCentralStore(address: address)
        try await store.prepare()
        _ = try server.run(at: address, "UPDATE fleet_schema SET version = 99")
        await #expect(throws: CentralStoreError.newerSchema(found: 99, known: 3)) { try await store.prepare() }
        await store.close()
    }

    @Test(.enabled(if: TestPostgreSQL.isInstalled)) func collectorsThatStartAtOnceMakeTheTablesOnce() async throws {
        let address = try TestPostgreSQL.shared.get().database()
        try await withThrowingTaskGroup(of: Void.self) { group in
            for _ in 0..<4 {
                group.addTask {
                    let store = PostgreSQLCentralStore(address: address)
                    try await store.prepare()
                    await store.close()
                }
            }
            try await group.waitForAll()
        }
    }

    @Test(.enabled(if: TestPostgreSQL.isInstalled), arguments: ["SQL_ASCII", "LATIN1"])
    func aDatabaseOfAnotherEncodingIsRefused(encoding: String) async throws {
        let server = try TestPostgreSQL.shared.get()
        let address = try server.database()
        let name = "encoding_\(encoding.lowercased())"
        _ = try server.run(at: address, "CREATE DATABASE \(name) ENCODING '\(encoding)' LOCALE 'C' TEMPLATE template0")
        let others = address.split(separator: " ").dropLast().map(String.init) + ["dbname=\(name)"]
        let store = PostgreSQLCentralStore(address: others.joined(separator: " "))
        await #expect { try await store.prepare() } throws: { error in
            guard case .refused(let words)? = error as? CentralStoreError else { return false }
            return words.contains("the encoding \(encoding)") && words.contains("ENCODING 'UTF8' TEMPLATE template0")
        }
        await store.close()
    }

    @Test(.enabled(if: TestPostgreSQL.isInstalled)) func aServerThatRestartsLosesNothing() async throws {
        let server = try TestPostgreSQL()
        let store = PostgreSQLCentralStore(address: try server.database())
        try await store.prepare()
        _ = try await store.keep([Self.batch("gw1", 1, [Self.reading("gw1", "a")])])
        server.stop()
        await #expect { try await store.keep([Self.batch("gw1", 2, [Self.reading("gw1", "b")])]) } throws: { error in
            (error as? CentralStoreError)?.isTemporary ?? false
        }
        try server.start()
        let outcomes = try await store.keep([Self.batch("gw1", 2, [Self.reading("gw1", "b")])])
        #expect(outcomes == [BatchOutcome(stored: 1)])
        #expect(try await store.newest(of: nil, limit: 10).count == 2)
        await store.close()
    }

    @Test(.enabled(if: TestPostgreSQL.isInstalled)) func aValueThatTheDatabaseRefusesIsNamed() async throws {
        let store = PostgreSQLCentralStore(address: try TestPostgreSQL.shared.get().database())
        try await store.prepare()
        let batch = Self.batch("gw1", 1, [Self.reading("gw1", "a", body: #"{"a": 1e999999}"#)])
        await #expect { try await store.keep([batch]) } throws: { error in
            if case .badValue? = error as? CentralStoreError { true } else { false }
        }
        await store.close()
    }
}
