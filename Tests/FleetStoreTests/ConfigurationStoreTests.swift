import FleetStore
import Foundation
import GRDB
import HealthReadings
import TestSupport
import Testing

/// Desired settings and the batches that are stored, in both stores.
@Suite struct ConfigurationStoreTests {
    typealias Kind = CentralStoreTests.Kind
    private static let noon = CentralStoreTests.noon

    @Test(arguments: Kind.installed) func theNewestSettingsCountAndVersionsGrow(kind: Kind) async throws {
        let store = try kind.store()
        try await store.prepare()
        #expect(try await store.configuration(of: "gw1") == nil)
        let first = try await store.setConfiguration(#"{"a":1}"#, of: nil, at: Self.noon)
        #expect(first == Self.noon.microseconds / 1000)
        // Within the same millisecond, and by a clock that went back.
        let second = try await store.setConfiguration(#"{"a":2}"#, of: "gw1", at: Self.noon)
        let third = try await store.setConfiguration(#"{"a":3}"#, of: "gw2", at: Self.noon.advanced(bySeconds: -900))
        #expect([second, third] == [first + 1, first + 2])
        #expect(
            try await store.configuration(of: "gw1") == DesiredConfiguration(version: second, settings: #"{"a":2}"#))
        #expect(try await store.configuration(of: "gw3") == DesiredConfiguration(version: first, settings: #"{"a":1}"#))
        let all = try await store.setConfiguration(#"{"a":4}"#, of: nil, at: Self.noon.advanced(bySeconds: 1))
        for gateway in ["gw1", "gw2", "gw3"] {
            #expect(
                try await store.configuration(of: gateway) == DesiredConfiguration(version: all, settings: #"{"a":4}"#))
        }
        try await store.note(
            GatewaySighting(gateway: "gw1", heard: Self.noon, configuration: #"{"state": "applied"}"#))
        try await store.note(GatewaySighting(gateway: "gw1", heard: Self.noon))
        try await store.add(tokenDigest: "d", for: "gw9", at: Self.noon)
        let gateways = try await store.gateways()
        #expect(gateways.map(\.gateway) == ["gw1", "gw9"])
        #expect(gateways.map(\.wantedVersion) == [all, all])
        #expect(gateways.map(\.configuration) == [#"{"state": "applied"}"#, nil])
        await store.close()
    }

    @Test(arguments: Kind.installed) func operatorsWhoSetAtOnceGetVersionsOfTheirOwn(kind: Kind) async throws {
        let store = try kind.store()
        try await store.prepare()
        let versions = try await withThrowingTaskGroup(of: Int64.self) { group in
            for number in 0..<8 {
                group.addTask { try await store.setConfiguration("{}", of: "gw\(number % 3)", at: Self.noon) }
            }
            return try await group.reduce(into: []) { $0.append($1) }
        }
        #expect(Set(versions).count == 8)
        await store.close()
    }

    @Test(arguments: Kind.installed) func aBatchIsKnownByItsNumber(kind: Kind) async throws {
        let store = try kind.store()
        try await store.prepare()
        func reading(_ id: String, _ batch: Int64) -> CentralReading {
            CentralStoreTests.reading("gw1", id, revision: batch, batch: batch)
        }
        _ = try await store.keep([
            CentralStoreTests.batch("gw1", 1, [reading("a", 1), reading("b", 1)]),
            CentralStoreTests.batch("gw1", 2, [reading("c", 2)]),
            CentralStoreTests.batch("gw2", 3, [CentralStoreTests.reading("gw2", "d", batch: 3)]),
        ])
        #expect(try await store.storedIDs(of: "gw1", batches: [1, 2, 3, 4]) == [1: ["a", "b"], 2: ["c"]])
        // What a later batch said again is the later one's.
        _ = try await store.keep([CentralStoreTests.batch("gw1", 5, [reading("a", 5)])])
        #expect(try await store.storedIDs(of: "gw1", batches: [1, 5]) == [1: ["b"], 5: ["a"]])
        #expect(try await store.storedIDs(of: "gw1", batches: []) == [:])
        await store.close()
    }

    @Test func tablesOfTheFirstSchemaAreBroughtUpToDate() async throws {
        let folder = Kind.folder()
        let store = try SQLiteCentralStore(directory: folder)
        try await store.prepare()
        _ = try await store.keep([CentralStoreTests.batch("gw1", 1, [CentralStoreTests.reading("gw1", "a")])])
        await store.close()
        let file = try DatabaseQueue(path: folder + "/" + SQLiteCentralStore.fileName)
        try await file.write { db in
            try db.execute(
                sql: """
                    DROP TABLE desired_configuration; DROP INDEX reading_batch;
                    ALTER TABLE gateway DROP COLUMN configuration; DROP INDEX set_aside_document;
                    ALTER TABLE set_aside DROP COLUMN bytes; ALTER TABLE set_aside DROP COLUMN digest;
                    INSERT INTO set_aside (received, gateway, reason, words, document)
                    VALUES (1, 'gw1', 'bad_document', '', x'0102'), (2, 'gw1', 'bad_document', '', x'0102');
                    PRAGMA user_version = 1;
                    """)
        }
        try file.close()
        let newer = try SQLiteCentralStore(directory: folder)
        try await newer.prepare()
        #expect(try await newer.gateways().map(\.stored) == [1])
        #expect(try await newer.storedIDs(of: "gw1", batches: [1]) == [1: ["a"]])
        #expect(try await newer.aside(limit: 10).map(\.bytes) == [2, 2])
        await newer.close()
    }
}
