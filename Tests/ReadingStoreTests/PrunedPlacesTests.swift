import Foundation
import GRDB
import HealthReadings
import TestSupport
import Testing

@testable import ReadingStore

@Suite("Where pruned readings were delivered")
struct PrunedPlacesTests {
    private struct Place: Hashable {
        var identity: Data
        var provider: String
        var timestamp: Int64?

        init(_ row: Row) { (identity, provider, timestamp) = (row[0], row[1], row[2]) }
    }

    private static let minute: Int64 = 60_000_000
    private static let destinations: [Int64] = Array(1...8) + [31, 32, 33, 63, 64, 95, 96, 1000]

    /// Places as the version before kept them: a row for each destination. Some destinations have moved at a time.
    private static func former(
        _ generator: inout SeededGenerator, moved: [Int64: Int64]
    ) throws -> DatabaseQueue {
        var configuration = Configuration()
        configuration.foreignKeysEnabled = false
        let store = try DatabaseQueue(configuration: configuration)
        try Schema.migrator.migrate(store, upTo: "24 deliveries that grow at their end")
        try store.write { db in
            for (destination, time) in moved {
                try ReadingStore.set(db, "destination.moved.\(destination)", lines: [String(time)])
            }
            for number in 0..<UInt8(50) {
                let identity = Data(repeating: number, count: 16)
                try db.execute(
                    sql: """
                        INSERT INTO pruned (identity, value, kind, device, user, sequence_epoch, time)
                        VALUES (?, ?, 1, 1, ?, 0, 5)
                        """,
                    arguments: [identity, identity, Int64.random(in: 1...2, using: &generator)])
                for destination in destinations where Bool.random(using: &generator) {
                    let timestamp: Int64? = [1000, 1000, 1001, nil].randomElement(using: &generator) ?? nil
                    try db.execute(
                        sql: "INSERT INTO pruned_place VALUES (?, ?, ?, 1, ?, ?)",
                        arguments: [
                            identity, destination, ["manual", "omron"].randomElement(using: &generator), timestamp,
                            Int64.random(in: 0..<3 * minute, using: &generator),
                        ])
                }
            }
        }
        return store
    }

    private static func places(_ db: Database, at condition: String) throws -> [Place: Int64] {
        let rows = try Row.fetchAll(
            db, sql: "SELECT identity, provider, timestamp, delivered_at FROM pruned_place AS p WHERE \(condition)")
        return Dictionary(uniqueKeysWithValues: rows.map { (Place($0), $0[3]) })
    }

    @Test("the table that had a row for each destination says the same when one row stands for several")
    func migrated() throws {
        for _ in 0..<trials(20) {
            let seed = UInt64.random(in: .min ... .max)
            var generator = SeededGenerator(seed: seed)
            var moved: [Int64: Int64] = [:]
            for destination in Self.destinations where Bool.random(using: &generator) {
                moved[destination] = Int64.random(in: 0..<4 * Self.minute, using: &generator)
            }
            let store = try Self.former(&generator, moved: moved)
            let before = try store.read { db in
                try Self.destinations.map { try Self.places(db, at: "p.destination = \($0)") }
            }
            let rows = try store.read { db in try Int.fetchOne(db, sql: "SELECT count(*) FROM pruned_place") ?? 0 }
            try Schema.migrator.migrate(store)
            try store.write { db in
                #expect(try Int.fetchOne(db, sql: "SELECT count(*) FROM pruned_place") ?? 0 < rows)
                func check(_ destination: Int64, _ expected: [Place: Int64]) throws {
                    let found = try Self.places(db, at: PrunedPlaces.holds("\(destination)"))
                    #expect(Set(found.keys) == Set(expected.keys), "seed \(seed), destination \(destination)")
                    for (place, at) in expected {
                        let other = found[place] ?? .max
                        #expect(abs(other - at) < Self.minute, "seed \(seed), destination \(destination)")
                        let move = moved[destination] ?? -1
                        #expect((other <= move) == (at <= move), "seed \(seed), destination \(destination)")
                        #expect(other >= at || at <= move, "seed \(seed), destination \(destination)")
                    }
                }
                for (destination, expected) in zip(Self.destinations, before) { try check(destination, expected) }
                let some = Self.destinations.filter { _ in Bool.random(using: &generator) }
                let identities = try Set(
                    Data.fetchAll(
                        db, sql: "SELECT identity FROM pruned_place AS p WHERE \(PrunedPlaces.holdsAny(of: some))"))
                let expected = zip(Self.destinations, before).filter { some.contains($0.0) }.flatMap(\.1.keys)
                #expect(identities == Set(expected.map(\.identity)), "seed \(seed)")
                let listed = try Row.fetchAll(db, sql: "SELECT block, destinations FROM pruned_place").map {
                    PrunedPlaces.destinations($0[0], $0[1])
                }
                #expect(listed.joined().count == rows && listed.allSatisfy { !$0.isEmpty }, "seed \(seed)")
                // Of those that forget, nothing is left; the others have what they had.
                for destination in some { try PrunedPlaces.forget(destination, db) }
                for (destination, expected) in zip(Self.destinations, before) {
                    try check(destination, some.contains(destination) ? [:] : expected)
                }
            }
        }
    }

    @Test("what is remembered of a pruned reading takes no more room with four destinations than with one")
    func room() async throws {
        var sizes: [Int] = []
        for names in [[], ["lines", "study", "clinic"]] {
            let harness = try await Harness()
            for name in names {
                try await harness.store.setDestination(
                    name, kind: "webhook", kinds: [.glucose], hasUniqueSeconds: false, needsSource: false)
            }
            let begin = Build.instant("2026-11-01T00:00:00Z")
            try await harness.contact(
                (0..<1000).map { number in
                    let time = begin.advanced(bySeconds: 300 * Int64(number))
                    return Build.glucose(
                        UInt16(number + 1), String(time.description.prefix(19)), UInt16(90 + number % 40),
                        ordinal: number)
                })
            for destination in try await harness.store.destinations() {
                let waiting = try await DestinationTests.batch(harness.store, at: destination.key)
                try await harness.store.acknowledge(waiting.map(\.id), at: harness.store.now())
            }
            #expect(try await harness.store.prune(olderThan: .zero).readings == 1000)
            sizes.append(
                try await harness.store.read { db in
                    try Int.fetchOne(
                        db, sql: "SELECT sum(pgsize) FROM dbstat WHERE name = 'pruned' OR name GLOB 'pruned_*'") ?? 0
                } / 1000)
        }
        #expect(sizes[1] <= sizes[0] + 8 && sizes[0] <= 200, "\(sizes)")
    }
}
