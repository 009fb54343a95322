import GRDB
import HealthReadings
import Testing

@testable import ReadingStore

@Suite("What is kept for a time only")
struct RetentionTests {
    private static let hour = Duration.seconds(3600)

    private static func frames(_ harness: Harness) async throws -> Int { try await harness.store.statistics().frames }

    @Test("a kind goes when it is old enough, and everything else stays")
    func kinds() async throws {
        let harness = try await Harness()
        try await harness.contact(
            (0..<4).map { Build.glucose($0, "2026-11-21T08:1\($0):00") }
                + (0..<3).map { Build.pressure(120 + $0, "2026-11-21T0\(7 + $0):30:00", ordinal: Int($0)) })
        let late = "2026-11-21T11:40:00Z"
        try await harness.contact([Build.pressure(130, "2026-11-21T12:30:00", at: late)], at: late)
        try await PruneTests.deliver(harness.store)
        let retention = Retention([.kind(.bloodPressure): Self.hour])
        let gone = try await harness.store.thin(retention)
        #expect(gone.map(\.part) == [.kind(.bloodPressure)] && gone.map(\.readings) == [3] && gone.map(\.frames) == [3])
        let left = try await harness.all().map(\.kind)
        #expect(left.count { $0 == .glucose } == 4 && left.count { $0 == .bloodPressure } == 1)
        #expect(try await harness.store.thin(retention).isEmpty)
        let statistics = try await harness.store.statistics()
        #expect(statistics.letGo.map(\.readings) == [3] && statistics.delivered == 8)
        #expect(try await harness.store.verify().isEmpty)
        // A cuff that sends its memory again brings nothing back.
        let again = try await harness.contact([Build.pressure(120, "2026-11-21T07:30:00")], at: "2026-11-21T11:45:00Z")
        #expect(again.map(\.name) == ["repeated"])
    }

    @Test("promise 1: what waits, what was refused and what was never delivered stays, however old it is")
    func undelivered() async throws {
        let harness = try await Harness()
        try await harness.contact(
            (0..<4).map { Build.glucose($0, "2026-11-21T08:1\($0):00") } + [
                Build.glucose(4, "2026-11-21T08:20:00", nil)
            ])
        let group = try #require(try await harness.store.groupsWaiting().first)
        let batch = try await harness.store.outboxBatch(
            user: group.user, resource: .glucose, provider: group.provider, limit: 10)
        try await harness.store.reject(batch[1].id, serverSaid: "no")
        try await harness.store.acknowledge([batch[2].id, batch[3].id], at: Instant(seconds: 1))
        try await harness.store.requeue(batch[3].reading.id)
        let frames = try await Self.frames(harness)
        let gone = try await harness.store.thin(Retention([.frames: .zero]))
        #expect(gone.map(\.part) == [.frames] && gone.map(\.frames) == [1] && gone.map(\.readings) == [0])
        #expect(try await Self.frames(harness) == frames - 1)
        let second = try await harness.store.thin(Retention([.kind(.glucose): .zero]))
        #expect(second.map(\.readings) == [1])
        #expect(Set(try await harness.all().compactMap(\.record.sequence)) == [0, 1, 3, 4])
        #expect(try await harness.store.verify().isEmpty)
    }

    @Test("of a sensor its trend goes; its history and finger sticks stay")
    func trend() async throws {
        let harness = try await Harness()
        let time = "2026-11-21T10:02:30Z"
        try await harness.contact([Build.scan(age: 602, at: time)], device: Build.sensor, at: time)
        try await harness.contact((0..<4).map { Build.glucose($0, "2026-11-21T08:1\($0):00") })
        try await PruneTests.deliver(harness.store)
        let before = try await harness.all()
        let trend = before.count { $0.record.sensor?.source == .trend }
        let gone = try await harness.store.thin(Retention([.trend: Self.hour]))
        #expect(gone.map(\.readings) == [trend] && trend > 0 && gone.map(\.frames) == [0])
        let after = try await harness.all()
        #expect(after.count == before.count - trend && !after.contains { $0.record.sensor?.source == .trend })
        #expect(after.count { $0.record.sensor == nil } == 4)
        // The scan's octets say what the history was read from.
        #expect(try await harness.store.thin(Retention([.frames: .zero])).map(\.frames) == [4])
        #expect(try await harness.store.verify().isEmpty)
    }

    @Test("all that a continuous monitor measured is its trend, and a meter's finger sticks of the same hours are not")
    func continuous() async throws {
        let harness = try await Harness()
        let monitor = Build.device(0xC000_0000_181F, model: nil, provider: "dexcom")
        try await harness.contact(
            (0..<6).map { Build.glucose($0, "2026-11-21T08:1\($0):30", 100 + $0, characteristic: 0x2AA7) },
            device: monitor)
        let late = "2026-11-21T11:40:00Z"
        try await harness.contact(
            [Build.glucose(6, "2026-11-21T12:30:00", at: late, characteristic: 0x2AA7)], device: monitor, at: late)
        try await harness.contact((0..<4).map { Build.glucose($0, "2026-11-21T08:1\($0):00") })
        let retention = Retention([.trend: Self.hour])
        #expect(try await harness.store.thin(retention).isEmpty, "nothing was delivered yet")
        try await PruneTests.deliver(harness.store)
        let gone = try await harness.store.thin(retention)
        #expect(gone.map(\.part) == [.trend] && gone.map(\.readings) == [6] && gone.map(\.frames) == [6])
        let left = try await harness.all().map(\.record)
        #expect(left.count(where: \.isTrend) == 1 && left.count { !$0.isTrend } == 4)
        #expect(try await harness.store.verify().isEmpty)
    }

    @Test("a damaged reading keeps none but its own part from going, and what went is told")
    func damaged() async throws {
        var harness = try await Harness()
        try await harness.contact(
            (0..<4).map { Build.glucose($0, "2026-11-21T08:1\($0):00") }
                + (0..<3).map { Build.pressure(120 + $0, "2026-11-21T0\(7 + $0):30:00", ordinal: Int($0)) })
        try await PruneTests.deliver(harness.store)
        try harness.store.close()
        try TamperingTests.edit(harness.directory) { db in
            try db.execute(
                sql: "UPDATE reading SET content = x'00' WHERE key = (SELECT min(key) FROM reading WHERE kind = ?)",
                arguments: [ReadingKind.bloodPressure.code])
        }
        harness = try await Harness(harness.directory)
        var told: [Thinning] = []
        await #expect(throws: (any Error).self) {
            _ = try await harness.store.thin(
                Retention([.kind(.bloodPressure): Self.hour, .kind(.glucose): Self.hour])
            ) { told.append($0) }
        }
        #expect(told.map(\.part) == [.kind(.glucose)] && told.map(\.readings) == [4])
    }

    @Test("octets go, their readings stay, and a meter that sends them again brings nothing back")
    func octets() async throws {
        let harness = try await Harness(encryption: .off())
        try await harness.contact(PruneTests.frames)
        try await PruneTests.deliver(harness.store)
        let before = try await harness.all()
        let record = try #require(PruneTests.frames.first { $0.format == FrameFormat(characteristic: 0x2A18) })
        #expect(try ErasureTests.contains(record.payload, in: harness.directory))
        // A context's octets stay: they say which record they were taken for.
        #expect(try await harness.store.thin(Retention([.frames: Self.hour])).map(\.frames) == [20])
        #expect(try await Self.frames(harness) == 20)
        #expect(try await harness.all() == before)
        #expect(try await harness.store.verify().isEmpty)
        let again = try await harness.contact(PruneTests.frames, at: "2026-11-21T11:30:00Z")
        #expect(again.allSatisfy { $0.name == "repeated" || $0.name == "waiting" }, "\(again.map(\.name))")
        #expect(try await Self.frames(harness) == 20)
        #expect(try await harness.all() == before)
        // What the device says otherwise now is stored, with its octets.
        let changed = try await harness.contact(
            [Build.glucose(3, "2026-11-21T08:13:00", 93, status: 0x0001)], at: "2026-11-21T11:40:00Z")
        #expect(changed.map(\.name) == ["revised"])
        #expect(try await Self.frames(harness) == 21)
        #expect(try await harness.store.verify().isEmpty)
    }

    @Test("a reading whose octets are missing and were not let go is still a finding")
    func missing() async throws {
        let harness = try await Harness()
        try await harness.contact((0..<4).map { Build.glucose($0, "2026-11-21T08:1\($0):00") })
        try await PruneTests.deliver(harness.store)
        #expect(try await harness.store.thin(Retention([.frames: Self.hour])).map(\.frames) == [4])
        try await harness.contact(
            [Build.glucose(4, "2026-11-21T11:10:00", at: "2026-11-21T11:20:00Z")], at: "2026-11-21T11:20:00Z")
        try await harness.store.write(.prune) { db in
            try db.execute(sql: "DELETE FROM reading_frame; DELETE FROM frame")
        }
        #expect(try await harness.store.verify().map(\.problem) == [.noFrame])
    }

    @Test("a cloud's records keep their octets: what is stored may have come before an older version")
    func cloudRecords() async throws {
        let harness = try await Harness()
        let store = harness.store
        for (text, updated, received) in [
            ("156.4", "2026-11-21T08:30:00Z", "2026-11-21T09:00:00Z"),
            ("155.4", "2026-11-21T08:10:00Z", "2026-11-21T11:30:00Z"),
        ] {
            var sample = ImportTests.weight(text, at: 0, provider: "garmin")
            sample.recordName = "bodyComps/1/weight"
            sample.updatedAt = Build.instant(updated)
            let frame = Frame(
                format: .cloudRecord, payload: sample.octets, receivedAt: Build.instant(received), ordinal: 0)
            try await store.add(of: "garmin", person: "white_bear") { _ in [frame] }
        }
        try await PruneTests.deliver(store)
        #expect(try await store.thin(Retention([.frames: Self.hour])).isEmpty)
        #expect(try await harness.all().count == 1)
        #expect(try await store.verify().isEmpty)
    }

    @Test("a recording whose octets are gone is not known, since it may have gone on; one that was pruned is")
    func recordings() async throws {
        let harness = try await Harness()
        let store = harness.store
        let frames = [Build.glucose(1, "2026-11-21T08:10:00"), Build.glucose(2, "2026-11-21T08:20:00")]
        try await harness.contact(frames)
        let contact = try await store.beginContact(
            with: Build.device(), at: Build.instant("2026-11-21T11:00:00Z"), clock: nil, batteryPercent: nil)
        let starts = [Build.wall("2026-11-21T08:10:00"), Build.wall("2026-11-21T08:20:00")]
        let lengths = Set(frames.map(\.payload.count))
        try await store.write(.prune) { db in
            try db.execute(sql: "UPDATE reading SET kind = \(kind: .spo2)")
        }
        #expect(
            try await store.recordings(of: contact, beganAt: starts) == [starts[0]: lengths, starts[1]: lengths])
        try await store.write(.prune) { db in
            try db.execute(
                sql: """
                    DELETE FROM reading_frame WHERE reading = (SELECT key FROM reading WHERE base_time = ?)
                    """, arguments: [starts[0].secondsSinceEpoch])
        }
        #expect(try await store.recordings(of: contact, beganAt: starts) == [starts[1]: lengths])
        try await store.write(.prune) { db in
            try db.execute(
                sql: """
                    INSERT INTO pruned (identity, value, kind, device, user, sequence_epoch, base_time, time)
                    SELECT randomblob(16), randomblob(16), kind, device, user, 0, base_time, time FROM reading
                    """)
            let second = try Int64.fetchOne(
                db, sql: "SELECT key FROM reading WHERE base_time = ?", arguments: [starts[1].secondsSinceEpoch])
            _ = try RowRemoval(db: db).removeReading(try #require(second))
        }
        // Another recording under the same name was pruned: that says nothing of the one that is stored.
        #expect(try await store.recordings(of: contact, beganAt: starts) == [starts[1]: []])
    }

    @Test("thousands of records go batch by batch, and what is younger is not looked at")
    func many() async throws {
        let harness = try await Harness()
        for first in stride(from: 0, to: 5000, by: 1000) {
            try await harness.contact(
                (first..<first + 1000).map { number in
                    Build.glucose(
                        UInt16(number),
                        "2026-11-20T\(10 + number / 3600):\(10 + number / 60 % 50):\(10 + number % 50)", ordinal: number
                    )
                })
        }
        try await PruneTests.deliver(harness.store)
        let delivered = try await harness.store.statistics().delivered
        #expect(try await harness.store.thin(Retention([.frames: Self.hour])).map(\.frames) == [delivered])
        #expect(try await harness.store.thin(Retention([.kind(.glucose): Self.hour])).map(\.readings) == [delivered])
        #expect(try await harness.all().isEmpty)
        #expect(try await harness.store.verify().isEmpty)
    }

    @Test("every part has a name, and a name its part")
    func names() {
        for part in Retention.Part.all { #expect(Retention.Part(name: part.name) == part) }
        #expect(Retention.Part(name: "sleep") == nil && Retention.Part(name: "") == nil)
    }
}
