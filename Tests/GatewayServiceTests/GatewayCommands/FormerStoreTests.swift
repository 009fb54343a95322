import Foundation
import HealthReadings
import ReadingStore
import Testing

@testable import GatewayCommands

/// Stores that earlier versions wrote, recorded with what they printed of them.
@Suite("Stores of earlier versions")
struct FormerStoreTests {
    private static let fixtures = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
        .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()
        .appendingPathComponent("Fixtures/stores")

    static let versions =
        ((try? FileManager.default.contentsOfDirectory(atPath: fixtures.path)) ?? [])
        .filter { !$0.hasPrefix(".") }.sorted()

    @Test(
        "every earlier version's store opens with every reading as it was, in the clear and sealed", arguments: versions
    )
    func opens(version: String) async throws {
        let folder = Self.fixtures.appendingPathComponent(version)
        let expected = try String(
            contentsOf: folder.appendingPathComponent("readings.expected.ndjson"), encoding: .utf8
        ).split(separator: "\n").map { Self.settled(String($0)) }
        #expect(expected.count > 50)
        for encryption in [StoreEncryption.off(), .on()] {
            let directory = FileManager.default.temporaryDirectory.appendingPathComponent(UUID().uuidString)
            defer { try? FileManager.default.removeItem(at: directory) }
            try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
            try FileManager.default.copyItem(
                at: folder.appendingPathComponent("readings.sqlite"),
                to: directory.appendingPathComponent("readings.sqlite"))
            let key = folder.appendingPathComponent("store.key")
            if FileManager.default.fileExists(atPath: key.path) {
                try FileManager.default.copyItem(at: key, to: directory.appendingPathComponent("store.key"))
            }
            let store = try await ReadingStore.open(
                directory: directory.path, decoder: Gateway.decoder, encryption: encryption)
            let readings = try await store.query(ReadingQuery(limit: 10_000)).readings
            // One of them has another person beside, of whom there is no reading.
            #expect(readings.count == expected.count && readings.allSatisfy { $0.person == "white_bear" })
            #expect(Set(readings.map { Self.settled($0.document.text) }) == Set(expected))
            #expect(try await store.verify().isEmpty)
            #expect(try await store.refused().count == 1)
            let statistics = try await store.statistics()
            let isRecent = ["14", "15", "16", "20", "21", "22", "23", "24", "25"].contains(version)
            // It also has entries by hand, corrected and withdrawn ones among them, and imported readings.
            let more = ["20", "21", "22", "23", "24", "25"].contains(version) ? 5 : 0
            #expect(statistics.delivered == (isRecent ? 80 : ["10", "13"].contains(version) ? 59 : 46))
            #expect(statistics.malformedFrames == (isRecent || version == "8" ? 2 : 1))
            let destinations = try await store.destinations()
            #expect(destinations.map(\.name) == (isRecent ? ["vital", "archive"] : ["vital"]))
            var waiting: [Int] = []
            for destination in destinations {
                waiting.append(try await store.groupsWaiting(at: destination.key).reduce(0) { $0 + $1.count })
            }
            #expect(waiting == (isRecent ? [23 + more, 21 + more] : [statistics.waiting]))
            try store.close()
        }
    }

    @Test("an export that an earlier version wrote, its key by another library's scrypt, has every reading as it was")
    func imports() async throws {
        let folder = Self.fixtures.appendingPathComponent("23")
        let expected = try String(
            contentsOf: folder.appendingPathComponent("readings.expected.ndjson"), encoding: .utf8
        ).split(separator: "\n").map { Self.settled(String($0)) }
        let directory = FileManager.default.temporaryDirectory.appendingPathComponent(UUID().uuidString)
        defer { try? FileManager.default.removeItem(at: directory) }
        try await ReadingStore.importing(
            folder.appendingPathComponent("readings.export").path, passphrase: "correct horse battery staple",
            into: directory.path, decoder: Gateway.decoder, encryption: .on())
        let store = try await ReadingStore.open(
            directory: directory.path, decoder: Gateway.decoder, encryption: .on())
        let readings = try await store.query(ReadingQuery(limit: 10_000)).readings
        #expect(readings.count == expected.count && readings.allSatisfy { $0.person == "white_bear" })
        #expect(Set(readings.map { Self.settled($0.document.text) }) == Set(expected))
        #expect(try await store.verify().isEmpty)
        #expect(try await store.statistics().delivered == 80)
        try store.close()
    }

    /// Without why a reading waits, which depends on what is connected today, and without what earlier versions did not say.
    private static func settled(_ document: String) -> String {
        document.replacing(#/"deliveries":\[[^\]]*\]/#, with: "\"deliveries\":[]")
            .replacing(#/"person":"[^"]*",/#, with: "")
            // Earlier versions did not tell a sensor's values apart.
            .replacing(#","sensor_source":null"#, with: "")
    }
}
