import Foundation
import GRDB
import HealthReadings
import TestSupport
import Testing

@testable import ReadingStore

@Suite("Records of earlier epochs of a device's numbers")
struct RenumberedTests {
    /// What tells a record of these tests apart.
    private struct Key: Hashable {
        var number: UInt16
        var minute: Int
        var value: Int

        var frame: Frame { Build.glucose(number, "2026-11-20T09:\(10 + minute):00", UInt16(value)) }
    }

    /// A record that shares all but its value with one of its epoch, or a device's number in another epoch, is another record: a
    /// debug build asks each epoch, too, whenever a record is said to be in none.
    @Test("what any earlier epoch brought is known in a later one, also after it was pruned, and nothing else is")
    func known() async throws {
        for _ in 0..<trials(10) {
            let seed = UInt64.random(in: .min ... .max)
            var generator = SeededGenerator(seed: seed)
            let harness = try await Harness()
            var contact = try await harness.store.beginContact(
                with: Build.device(), at: Build.instant("2026-11-21T10:00:00Z"), clock: nil, batteryPercent: nil)
            var brought: Set<Key> = []
            for epoch in 0..<8 {
                if epoch > 0 { contact = try await harness.store.beginSequenceEpoch(in: contact) }
                var own: [[Int]: Key] = [:]
                for _ in 0..<6 {
                    var key = Key(
                        number: .random(in: 1...3, using: &generator), minute: .random(in: 0...5, using: &generator),
                        value: .random(in: 90...91, using: &generator))
                    if Bool.random(using: &generator) { key = brought.randomElement(using: &generator) ?? key }
                    let place = [Int(key.number), key.minute]
                    guard own[place, default: key] == key else { continue }
                    own[place] = key
                    let outcomes = try await harness.store.append([key.frame], of: contact)
                    let expected = brought.insert(key).inserted ? "new" : "repeated"
                    #expect(outcomes.map(\.name) == [expected], "seed \(seed), epoch \(epoch), \(key)")
                }
                if epoch % 3 == 2 {
                    try await PruneTests.deliver(harness.store)
                    _ = try await harness.store.prune(olderThan: .zero)
                }
            }
            #expect(try await harness.store.verify().isEmpty)
            try harness.store.close()
        }
    }

    @Test("the epochs that have a record of some time are found among all, stored or pruned")
    func candidates() async throws {
        let harness = try await Harness()
        var contact = try await harness.store.beginContact(
            with: Build.device(), at: Build.instant("2026-11-21T10:00:00Z"), clock: nil, batteryPercent: nil)
        for epoch in 0..<9 {
            if epoch > 0 { contact = try await harness.store.beginSequenceEpoch(in: contact) }
            _ = try await harness.store.append([Key(number: 1, minute: epoch, value: 90).frame], of: contact)
        }
        try await PruneTests.deliver(harness.store)
        // Those that were measured until now, but for the newest three.
        let age = Build.instant("2026-11-21T12:00:00Z").seconds - Build.instant("2026-11-20T08:15:30Z").seconds
        #expect(try await harness.store.prune(olderThan: .seconds(age)).readings == 6)
        let epochs = try await harness.store.read { db in
            try (0..<12).map { minute in
                let time = Build.wall("2026-11-20T09:\(10 + minute):00").secondsSinceEpoch
                return try Int.fetchAll(db, sql: Journal.pastEpochsSQL, arguments: [1, time, time, 8])
            }
        }
        #expect(epochs == [[], [1], [2], [3], [4], [5], [6], [7], [], [], [], []])
    }

    @Test("a store of the version before finds what its readings had as their numbers")
    func migrated() async throws {
        let directory = Harness.newDirectory()
        try FileManager.default.createDirectory(atPath: directory, withIntermediateDirectories: true)
        let former = try DatabaseQueue(path: directory + "/former.sqlite")
        try Schema.migrator.migrate(former, upTo: "25 places of pruned readings together, rules of devices")
        try await former.write { db in
            try db.execute(
                sql: """
                    PRAGMA defer_foreign_keys = ON;
                    INSERT INTO pruned (identity, value, kind, device, user, sequence_epoch, sequence, base_time, time) VALUES
                        (x'00000000000000000000000000000001', x'00000000000000000000000000000000', 1, 1, 1, 3, 7, 500, 500),
                        (x'00000000000000000000000000000002', x'00000000000000000000000000000000', 1, 1, 1, 0, 7, 500, 500),
                        (x'00000000000000000000000000000003', x'00000000000000000000000000000000', 1, 1, 1, 2, NULL, 500, 500);
                    INSERT INTO reading (key, id, kind, device, user, sequence_epoch, clash, sequence, base_time,
                        time_offset_unknown, time_basis, received_at, content) VALUES
                        (1, x'00000000000000000000000000000004', 1, 1, 1, 5, 0, 7, 501, 0, 1, 0, x''),
                        (2, x'00000000000000000000000000000005', 1, 1, 1, 6, 0, 7, 502, 0, 1, 0, x'');
                    INSERT INTO user (key, client_user_id, created_at) VALUES (1, 'anna', 0);
                    INSERT INTO device (key, provider) VALUES (1, 'manual');
                    """)
        }
        try Schema.migrator.migrate(former)
        let epochs = try await former.read { db in
            try Int.fetchAll(db, sql: Journal.pastEpochsSQL, arguments: [1, 500, 501, 9])
        }
        #expect(epochs == [5, 3])
        try former.close()
        try FileManager.default.removeItem(atPath: directory)
    }
}
