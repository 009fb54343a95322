import Foundation
import GRDB
import HealthReadings
import Synchronization
import TestSupport
import Testing

@testable import ReadingStore

@Suite("What takes as long in a store of ten years as in a new one")
struct GrowthTests {
    @Test("a contact walks along nothing that grows with the readings")
    func contact() async throws {
        let harness = try await Harness()
        try await harness.contact([Build.glucose(1, "2026-11-20T12:31:00", ordinal: 0)])
        let walks = try await harness.walks {
            try await harness.contact(
                [Build.glucose(2, "2026-11-20T12:32:00", ordinal: 0)], at: "2026-11-21T10:59:00Z")
        }
        #expect(walks.isEmpty)
    }

    @Test("a contact that ends has those of its device wait whose context did not come, and no others")
    func awaited() async throws {
        let harness = try await Harness()
        let other = DeviceDescription(address: DeviceAddress(bits: 0xC0FF_EE00_0001, kind: .random), provider: "manual")
        try await harness.contact([Build.glucose(1, "2026-11-20T12:31:00", ordinal: 0)])
        try await harness.contact([Build.glucose(2, "2026-11-20T12:32:00", ordinal: 0)], device: other)
        try await harness.store.write(.setting) { db in
            try db.execute(sql: "UPDATE outbox SET state = \(outbox: .withdrawn)")
        }
        try await harness.contact([], at: "2026-11-21T10:59:00Z")
        let states = try await harness.store.read { db in
            try Int64.fetchAll(db, sql: "SELECT state FROM outbox ORDER BY reading")
        }
        #expect(states == [OutboxState.waiting.rawValue, OutboxState.withdrawn.rawValue])
    }

    @Test("the first contact with a device whose model has rules walks along no readings")
    func firstContact() async throws {
        let harness = try await Harness(decoder: TestDecoder(lowest: 60))
        let other = DeviceDescription(
            address: DeviceAddress(bits: 0xC0FF_EE00_0001, kind: .random), model: "accuchek_guide",
            provider: "accuchek_ble")
        try await harness.contact([Build.glucose(1, "2026-11-20T12:31:00", ordinal: 0)])
        let walks = try await harness.walks {
            try await harness.contact(
                [Build.glucose(2, "2026-11-20T12:32:00")], device: other, at: "2026-11-21T10:59:00Z")
        }
        #expect(walks.isEmpty)
    }

    @Test("an import that brings nothing leaves no contact, and one that brings something leaves one")
    func emptyImport() async throws {
        let harness = try await Harness()
        func contacts() async throws -> [Int64] {
            try await harness.store.read { db in try Int64.fetchAll(db, sql: "SELECT key FROM contact ORDER BY key") }
        }
        let samples = (0..<3).map { ImportTests.weight("155.4", at: Int64($0)) }
        try await harness.store.add(Array(samples.prefix(2)))
        let first = try await contacts()
        #expect(first.count == 1)
        try await harness.store.add(Array(samples.prefix(2)))
        #expect(try await contacts() == first)
        try await harness.store.add(samples)
        #expect(try await contacts().count == 2)
        #expect(try await harness.all().count == 3)
        #expect(try await harness.store.verify().isEmpty)
    }

    @Test("what a destination has that is newest is found without walking along what it had before")
    func newestDelivered() async throws {
        let harness = try await Harness()
        let place = try #require(try await harness.store.destinations().first)
        let user = try await harness.store.currentUser().key
        func deliver() async throws {
            let items = try await harness.store.outboxBatch(
                user: user, resource: .glucose, provider: "accuchek_ble", limit: 100)
            try await harness.store.acknowledge(items.map(\.id), at: Build.instant("2026-11-21T11:00:00Z"))
        }
        try await harness.contact((1...3).map { Build.glucose($0, "2026-11-20T12:3\($0):00", ordinal: Int($0)) })
        try await deliver()
        #expect(try await harness.store.newestDelivered(at: place.key).map(\.reading.record.sequence) == [3])
        try await harness.contact([Build.glucose(4, "2026-11-20T12:34:00")], at: "2026-11-21T10:00:00Z")
        try await deliver()
        let walks = try await harness.walks {
            let newest = try await harness.store.newestDelivered(at: place.key)
            #expect(newest.map(\.reading.record.sequence) == [4])
        }
        #expect(walks.isEmpty)
    }

    @Test("the newest contact that counts is found without walking along all contacts")
    func newestContact() async throws {
        let harness = try await Harness()
        #expect(try await harness.store.newestContact() == nil)
        let other = DeviceDescription(address: DeviceAddress(bits: 0xC0FF_EE00_0001, kind: .random), provider: "manual")
        for time in ["2026-11-21T10:59:00Z", "2026-11-23T10:59:00Z", "2026-11-22T10:59:00Z"] {
            try await harness.contact([], at: time)
        }
        try await harness.contact([], device: other, at: "2026-11-22T11:00:00Z")
        let walks = try await harness.walks {
            let newest = try await harness.store.newestContact()
            #expect(newest == Build.instant("2026-11-23T10:59:00Z"))
        }
        #expect(walks.isEmpty)
        _ = try await harness.store.setContactsAside(after: Build.instant("2026-11-22T10:59:30Z"))
        #expect(try await harness.store.newestContact() == Build.instant("2026-11-22T10:59:00Z"))
        try await harness.contact([], device: other, at: "2026-11-24T10:59:00Z")
        #expect(try await harness.store.newestContact() == Build.instant("2026-11-24T10:59:00Z"))
    }

    @Test("a contact writes few pages, and no more when the store has grown")
    func pages() async throws {
        let harness = try await Harness()
        for name in ["archive", "clinic"] {
            try await harness.store.setDestination(
                name, kind: name, kinds: [.glucose], hasUniqueSeconds: name == "clinic", needsSource: false)
        }
        let path = harness.directory + "/readings.sqlite-wal"
        var number: UInt16 = 0
        var written: [Int] = []
        for contact in 0..<120 {
            try await harness.store.pool.writeWithoutTransaction { db in _ = try db.checkpoint(.truncate) }
            let readings = (0..<5).map { ordinal in
                number += 1
                let time = Build.instant("2026-11-20T00:00:00Z").advanced(bySeconds: 60 * Int64(number))
                return Build.glucose(number, String(time.description.prefix(19)), ordinal: ordinal)
            }
            let time = Build.instant("2026-11-21T00:00:00Z").advanced(bySeconds: 300 * Int64(contact))
            try await harness.contact(readings, at: time.description)
            let octets = try FileManager.default.attributesOfItem(atPath: path)[.size] as? Int ?? 0
            written.append(octets / (1024 + 24))
        }
        // 62 with pages of the outbox that were spread over their neighbours.
        let mean = Double(written.suffix(60).reduce(0, +)) / 60
        #expect(mean < 50, "\(written)")
        #expect(mean < 1.5 * Double(written[20..<60].reduce(0, +)) / 40, "\(written)")
        try harness.store.close()
    }

    @Test("a store that opens looks for interrupted recordings without walking along all frames")
    func pending() async throws {
        let harness = try await Harness()
        try await harness.contact([Build.glucose(1, "2026-11-20T12:31:00", ordinal: 0)])
        let walks = try await harness.walks { try await harness.store.decodePending() }
        #expect(walks.isEmpty)
    }

    @Test("what waits is counted without walking along what was delivered")
    func waiting() async throws {
        let harness = try await Harness()
        try await harness.contact((1...3).map { Build.glucose($0, "2026-11-20T12:3\($0):00", ordinal: Int($0)) })
        let walks = try await harness.walks {
            let groups = try await harness.store.groupsWaiting()
            #expect(groups.map(\.count) == [3])
        }
        #expect(walks.isEmpty)
    }

    @Test("everything that is stored is counted once for all destinations")
    func counts() async throws {
        let harness = try await Harness()
        try await harness.contact([Build.glucose(1, "2026-11-20T12:31:00", ordinal: 0)])
        let first = try await harness.store.statistics()
        let walks = try await harness.walks {
            let other = try await harness.store.statistics(of: .vital)
            #expect(other.readings == first.readings)
            #expect(other.waiting == 1)
        }
        #expect(walks.isEmpty)
    }

    @Test("what waits for its context is found without walking along what a destination has")
    func awaitingContext() async throws {
        let harness = try await Harness()
        try await harness.contact((1...3).map { Build.glucose($0, "2026-11-20T12:3\($0):00", ordinal: Int($0)) })
        try await harness.store.write(.setting) { db in
            try db.execute(sql: "UPDATE outbox SET state = \(outbox: .withdrawn) WHERE reading = 2")
        }
        let walks = try await harness.walks {
            let groups = try await harness.store.groupsAwaitingContext()
            #expect(groups.map(\.count) == [1])
        }
        #expect(walks.isEmpty)
    }

    @Test("the list of devices walks along the readings once, however many devices there are")
    func devices() async throws {
        let harness = try await Harness()
        let other = DeviceDescription(address: DeviceAddress(bits: 0xC0FF_EE00_0001, kind: .random), provider: "manual")
        try await harness.contact([Build.glucose(1, "2026-11-20T12:31:00", ordinal: 0)])
        try await harness.contact(
            [Build.glucose(2, "2026-11-20T12:32:00"), Build.glucose(3, "2026-11-20T12:33:00", ordinal: 1)],
            device: other)
        let walks = try await harness.walks {
            let devices = try await harness.store.devices()
            #expect(devices.map(\.readings) == [1, 2])
        }
        #expect(walks.count == 1)
        #expect(!walks.contains { $0.contains("CORRELATED") })
    }
}

extension Harness {
    /// Runs `body`.
    ///
    /// - Returns: what SQLite says of statements that walk along a table, or an index, with a row for each reading or contact.
    fileprivate func walks(in body: () async throws -> Void) async throws -> [String] {
        let statements = Mutex<Set<String>>([])
        @Sendable func watch(_ db: Database) {
            db.trace { event in
                guard case .statement(let statement) = event else { return }
                let sql = statement.expandedSQL
                statements.withLock { _ = $0.insert(sql) }
            }
        }
        try await store.pool.writeWithoutTransaction(watch)
        try await store.pool.read(watch)
        try await body()
        try await store.pool.writeWithoutTransaction { db in db.trace(options: []) }
        try await store.pool.read { db in db.trace(options: []) }
        // Indexes of what waits or stands apart, which is little at any age.
        let partial = ["outbox_withdrawn", "outbox_handed_over", "outbox_waiting", "outbox_refused", "frame_apart"]
        let growing = ["reading", "r", "frame", "f", "outbox", "o", "reading_frame", "b", "contact", "c"]
        return try await store.pool.read { db in
            try statements.withLock(\.self).sorted().filter {
                ["SELECT", "UPDATE", "INSERT", "DELETE"].contains($0.prefix(6))
            }
            .compactMap { sql in
                let plan = try Row.fetchAll(db, sql: "EXPLAIN QUERY PLAN " + sql).map { $0["detail"] as String }
                let isWalk = plan.contains { step in
                    let words = step.split(separator: " ").map(String.init)
                    // A maximum is called a search even where it walks along everything.
                    let isScan =
                        words.first == "SCAN"
                        || words.first == "SEARCH" && words.contains("USING") && !step.contains("(")
                    return isScan && words.count > 1 && growing.contains(words[1])
                        && !partial.contains(words.last ?? "")
                }
                return isWalk ? "\(plan.joined(separator: "; ")): \(sql)" : nil
            }
        }
    }
}
