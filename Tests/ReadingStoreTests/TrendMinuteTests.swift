import Foundation
import GRDB
import HealthReadings
import TestSupport
import Testing

@testable import ReadingStore

/// Stores that an earlier version filled, which took the newest trend record for one of the sensor's age.
@Suite("Trend readings that were stored a minute late")
struct TrendMinuteTests {
    private static let former = TestDecoder(countsTrendFromAge: true)

    /// What a server has: what it was sent last under each second.
    private struct Server {
        var samples: [Int64: SensorFacts] = [:]

        /// Sends what waits. Of some the answer is lost.
        mutating func take(
            from store: ReadingStore, isTaken: (OutboxItem) -> Bool = { _ in true },
            isAnswered: (OutboxItem) -> Bool = { _ in true }
        ) async throws -> [OutboxItem] {
            var sent: [OutboxItem] = []
            for group in try await store.groupsWaiting() {
                sent += try await store.outboxBatch(
                    user: group.user, resource: group.resource, provider: group.provider, limit: 10_000
                ).filter(isTaken)
            }
            for item in sent { samples[item.timestamp.seconds] = item.reading.record.sensor }
            // Decided once for each: what was sent is either answered or noted as an attempt.
            let answered = Set(sent.filter(isAnswered).map(\.id))
            try await store.acknowledge(Array(answered), at: Build.instant("2026-11-22T00:00:00Z"))
            try await store.noteAttempt(sent.map(\.id).filter { !answered.contains($0) }, serverSaid: "no answer")
            return sent
        }

        /// The seconds under which the server has a record. Its value tells a record: each minute and ring has another.
        func seconds(of facts: SensorFacts) -> [Int64] {
            samples.filter { $0.value.glucose == facts.glucose }.keys.sorted()
        }
    }

    /// What a reading is, whatever the store.
    private struct Summary: Hashable {
        let id: ReadingID
        let record: HealthReadings.Record
        let instant: Instant?
        let excluded: Exclusion?
        let receivedAt: Instant
    }

    private func summaries(_ harness: Harness) async throws -> Set<Summary> {
        let readings = try await harness.all().map {
            Summary(
                id: $0.id, record: $0.record, instant: $0.time.instant, excluded: $0.excluded, receivedAt: $0.receivedAt
            )
        }
        #expect(Set(readings).count == readings.count)
        return Set(readings)
    }

    private static func instant(age: Int) -> String {
        Build.instant("2026-11-21T00:00:30Z").advanced(bySeconds: Int64(age) * 60).description
    }

    private func scan(_ harness: Harness, age: Int, lag: Int, isContradictory: Bool = false) async throws {
        let at = Self.instant(age: age)
        let frame = Build.scan(age: age, at: at, lag: lag, isContradictory: isContradictory) { 1000 + 2 * $1 + $0 }
        try await harness.contact([frame], device: Build.sensor, at: at)
    }

    /// Closes a store as the earlier version left it.
    private func close(_ harness: Harness) async throws {
        try await harness.store.write(.setting) { db in try ReadingStore.set(db, ReadingStore.trendRule, lines: []) }
        try harness.store.close()
    }

    @Test(
        "a former store becomes the one the right rule makes, and no measurement is sent under a second timestamp",
        arguments: UInt64(1)...12)
    func becomesRight(seed: UInt64) async throws {
        var generator = SeededGenerator(seed: seed)
        let directory = Harness.newDirectory()
        var (server, age) = (Server(), 590)
        let fresh = try await Harness()
        do {
            let harness = try await Harness(directory, decoder: Self.former)
            for _ in 0..<7 {
                age += Int.random(in: 0...9, using: &generator)
                let lag = Int.random(in: 0...1, using: &generator)
                try await scan(harness, age: age, lag: lag)
                try await scan(fresh, age: age, lag: lag)
                var (takes, answers) = (generator, generator)
                let rarity = Int.random(in: 1...4, using: &generator)
                _ = try await server.take(
                    from: harness.store, isTaken: { _ in Int.random(in: 0..<rarity, using: &takes) == 0 },
                    isAnswered: { _ in Int.random(in: 0...3, using: &answers) > 0 })
            }
            try await close(harness)
        }
        let before = server
        let harness = try await Harness(directory)
        #expect(try await summaries(harness) == summaries(fresh))
        #expect(try await harness.store.verify().isEmpty)
        #expect(try await harness.store.statistics().frames == fresh.store.statistics().frames)

        // The sensor is scanned on; what was read before is met again.
        for _ in 0..<3 {
            let lag = Int.random(in: 0...1, using: &generator)
            try await scan(harness, age: age, lag: lag)
            try await scan(fresh, age: age, lag: lag)
            age += Int.random(in: 1...9, using: &generator)
        }
        #expect(try await summaries(harness) == summaries(fresh))
        let sent = try await server.take(from: harness.store)
        #expect(Set(sent.map(\.timestamp)).count == sent.count)
        // The former version may have sent a record twice; this one adds no second sample.
        for reading in try await harness.all() {
            let facts = try #require(reading.record.sensor)
            let (former, now) = (before.seconds(of: facts), server.seconds(of: facts))
            #expect(now.count <= max(1, former.count), "minute \(facts.minute): \(former), \(now)")
            #expect(!now.isEmpty || reading.excluded != nil, "minute \(facts.minute) is not at the server")
        }
        #expect(try await harness.store.verify().isEmpty)
    }

    @Test("what waits and was never offered is sent at its own minute; what was delivered keeps the timestamp it has")
    func timestamps() async throws {
        for isDelivered in [false, true] {
            let directory = Harness.newDirectory()
            var server = Server()
            do {
                let harness = try await Harness(directory, decoder: Self.former)
                try await scan(harness, age: 611, lag: 1)
                if isDelivered { _ = try await server.take(from: harness.store) }
                try await close(harness)
            }
            let harness = try await Harness(directory)
            let sent = try await server.take(from: harness.store).compactMap(\.reading.record.sensor)
                .filter { $0.source == .trend }.map { Int($0.minute) }
            // The record of minute 599 was taken for the one of 600, gave way to history, and never went to the server.
            #expect(sent == (isDelivered ? [599] : (595...610).filter { $0 != 600 }))
            for reading in try await harness.all() {
                let facts = try #require(reading.record.sensor)
                let own = Build.instant("2026-11-21T00:00:00Z").advanced(bySeconds: Int64(facts.minute) * 60)
                #expect(reading.time.instant == own)
                guard facts.source == .trend, reading.excluded == nil else { continue }
                // What was sent as minute 599 has that timestamp.
                let late: Int64 = facts.minute == 599 ? 1 : 60
                #expect(server.seconds(of: facts) == [own.seconds + (isDelivered ? late : 0)])
            }
            #expect(try await harness.store.verify().isEmpty)
            // History comes for a minute whose trend the server has a minute late: it takes that sample's place.
            try await scan(harness, age: 618, lag: 0)
            let later = try await server.take(from: harness.store)
            let history = try #require(
                later.first { $0.reading.record.sensor?.source == .history && $0.reading.record.sensor?.minute == 615 })
            #expect(history.timestamp == Build.instant("2026-11-21T10:15:00Z"))
            #expect(later.allSatisfy { ($0.reading.record.sensor?.minute ?? 0) > 610 })
        }
    }

    @Test("history takes the place of the trend sample that the server has a minute late")
    func supersededLater() async throws {
        let directory = Harness.newDirectory()
        var server = Server()
        do {
            let harness = try await Harness(directory, decoder: Self.former)
            try await scan(harness, age: 617, lag: 1)
            _ = try await server.take(from: harness.store)
            try await close(harness)
        }
        let late = Build.instant("2026-11-21T10:16:00Z").seconds
        let trend: UInt16 = 1000 + 2 * 615 + 1
        #expect(server.samples[late]?.glucose == trend)
        let harness = try await Harness(directory)
        try await scan(harness, age: 618, lag: 0)
        _ = try await server.take(from: harness.store)
        #expect(server.samples[late]?.source == .history && server.samples[late]?.minute == 615)
        #expect(server.samples.values.allSatisfy { $0.glucose != trend })
        #expect(try await harness.store.verify().isEmpty)
    }

    @Test("trend readings whose minute is not known are no readings any more; their scan stays, and history with it")
    func contradictory() async throws {
        let directory = Harness.newDirectory()
        do {
            let harness = try await Harness(directory, decoder: Self.former)
            try await scan(harness, age: 611, lag: 0, isContradictory: true)
            var young = Build.sensor
            young.serial = "0M000YOUNG1"
            try await harness.contact(
                [Build.scan(age: 12, at: Self.instant(age: 700), isContradictory: true)], device: young,
                at: Self.instant(age: 700))
            try await close(harness)
        }
        let harness = try await Harness(directory)
        let readings = try await harness.all()
        #expect(readings.filter { $0.device.serial == Build.sensor.serial }.count == 32)
        #expect(readings.allSatisfy { $0.record.sensor?.source == .history })
        #expect(try await harness.store.statistics().frames == 2)
        #expect(try await harness.store.verify().isEmpty)
        #expect(try await harness.store.redecode().newReadings == 0)
    }

    @Test("two minutes with the same record are told apart by the scans that show them")
    func sameRecordTwice() async throws {
        let directory = Harness.newDirectory()
        let fresh = try await Harness()
        do {
            let harness = try await Harness(directory, decoder: Self.former)
            for (age, lag) in [(611, 1), (614, 0), (619, 1)] {
                let at = Self.instant(age: age)
                let frame = Build.scan(age: age, at: at, lag: lag) { source, minute in 1000 + minute / 4 + source }
                for each in [harness, fresh] { try await each.contact([frame], device: Build.sensor, at: at) }
            }
            try await close(harness)
        }
        let harness = try await Harness(directory)
        #expect(try await summaries(harness) == summaries(fresh))
        #expect(try await harness.store.verify().isEmpty)
    }

    @Test("what was delivered a minute late and pruned since is not stored or sent again")
    func pruned() async throws {
        let directory = Harness.newDirectory()
        var server = Server()
        do {
            let harness = try await Harness(directory, decoder: Self.former)
            try await scan(harness, age: 611, lag: 1)
            // Some waits, so that the scan's frame stays.
            _ = try await server.take(from: harness.store, isTaken: { ($0.reading.record.sensor?.minute ?? 0) < 605 })
            try await harness.store.prune(olderThan: .seconds(60))
            #expect(try await harness.store.statistics().readings[.glucose] ?? 0 < 20)
            try await close(harness)
        }
        let before = server
        let harness = try await Harness(directory)
        for item in try await server.take(from: harness.store) {
            let facts = try #require(item.reading.record.sensor)
            #expect(before.seconds(of: facts).isEmpty, "minute \(facts.minute)")
        }
        #expect(try await harness.store.verify().isEmpty)
    }

    @Test("a corrected store is corrected once; one of today's rule is left as it is")
    func once() async throws {
        let directory = Harness.newDirectory()
        let wanted: Set<Summary>
        do {
            let harness = try await Harness(directory)
            for (age, lag) in [(611, 1), (614, 0), (619, 1)] { try await scan(harness, age: age, lag: lag) }
            wanted = try await summaries(harness)
            try await close(harness)
        }
        let harness = try await Harness(directory)
        #expect(try await summaries(harness) == wanted)
        let rule = try await harness.store.read { db in try ReadingStore.lines(db, ReadingStore.trendRule) }
        #expect(rule == ["2"])
    }

    @Test("a store whose key is missing is corrected when the key is back")
    func locked() async throws {
        let directory = Harness.newDirectory()
        do {
            let harness = try await Harness(directory, decoder: Self.former)
            try await scan(harness, age: 611, lag: 1)
            try await close(harness)
        }
        let key = directory + "/" + StoreEncryption.keyName
        try FileManager.default.moveItem(atPath: key, toPath: key + ".away")
        let harness = try await Harness(directory)
        #expect(harness.store.lockedBecause != nil)
        try FileManager.default.moveItem(atPath: key + ".away", toPath: key)
        try await harness.store.requireKeys()
        let newest = try await harness.all().compactMap(\.record.sensor).filter { $0.source == .trend }.map(\.minute)
            .max()
        #expect(newest == 610)
        #expect(try await harness.store.verify().isEmpty)
    }
}
