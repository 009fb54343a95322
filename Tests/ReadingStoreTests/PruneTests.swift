import Foundation
import GRDB
import HealthReadings
import Synchronization
import Testing

@testable import ReadingStore

@Suite("Pruning")
struct PruneTests {
    /// Takes notice that the server has everything that waits.
    static func deliver(_ store: ReadingStore, only: (OutboxItem) -> Bool = { _ in true }) async throws {
        for group in try await store.groupsWaiting() {
            let batch = try await store.outboxBatch(
                user: group.user, resource: group.resource, provider: group.provider, limit: 10_000)
            try await store.acknowledge(
                batch.filter(only).map(\.id), at: Build.instant("2026-11-21T11:00:00Z"))
        }
    }

    /// What a meter holds: records of twenty minutes, each with a context, some before their record.
    static let frames = (0..<20).flatMap { (number: UInt16) -> [Frame] in
        let record = Build.glucose(number, "2026-11-21T08:\(10 + number):00", 90 + number)
        let context = Build.context(number, meal: 1, rich: true)
        return number % 3 == 0 ? [context, record] : [record, context]
    }

    private func last(_ harness: Harness) async throws -> LastRecord? {
        try await harness.store.read { db in
            let row = try Row.fetchOne(
                db, sql: "SELECT key, sequence_epoch FROM device WHERE last_seen IS NOT NULL ORDER BY key LIMIT 1")
            return try row.flatMap { try ReadingStore.lastRecord(db, device: $0.value(0), epoch: $0.value(1)) }
        }
    }

    @Test("promise 2: a meter that is read from its beginning brings nothing back, and its numbers go on")
    func rereading() async throws {
        let harness = try await Harness(encryption: .off())
        try await harness.contact(Self.frames)
        try await Self.deliver(harness.store)
        let (before, statistics) = (try await last(harness), try await harness.store.statistics())
        let payload = Self.frames[1].payload
        #expect(before?.sequence == 19 && before?.count == 20)
        #expect(try ErasureTests.contains(payload, in: harness.directory))

        let pruning = try await harness.store.prune(olderThan: .seconds(3600))
        #expect(pruning.readings == 20 && pruning.frames == 40)
        #expect(pruning.waiting == 0 && pruning.refused == 0 && pruning.excluded == 0)
        #expect(try await harness.all().isEmpty)
        #expect(try await last(harness) == before)
        for frame in Self.frames { #expect(try !ErasureTests.contains(frame.payload, in: harness.directory)) }
        for round in 0..<2 {
            let outcomes = try await harness.contact(Self.frames, at: "2026-11-21T1\(round):59:00Z")
            #expect(Set(outcomes.map(\.name)).isSubset(of: ["repeated", "nothing"]), "\(outcomes.map(\.name))")
        }
        #expect(try await harness.all().isEmpty)
        #expect(try await last(harness) == before)
        let after = try await harness.store.statistics()
        #expect(after.frames == 0 && after.waitingContexts == 0 && after.waiting == 0)
        #expect(after.delivered == statistics.delivered && after.lastDelivery == statistics.lastDelivery)
        #expect(try await harness.store.verify().isEmpty)
        // What the meter has new is new.
        #expect(try await harness.contact([Build.glucose(20, "2026-11-21T09:00:00")]).map(\.name) == ["new"])
        let newest = try await last(harness)
        #expect(newest?.sequence == 20 && newest?.count == 21)
    }

    @Test("what waits, what was refused and what is never delivered stays, and so does what is younger")
    func kept() async throws {
        let harness = try await Harness()
        try await harness.contact(
            (0..<4).map { Build.glucose($0, "2026-11-21T08:1\($0):00") }
                + [Build.glucose(4, "2026-11-21T08:20:00", nil), Build.glucose(5, "2026-11-21T12:30:00")])
        let group = try #require(try await harness.store.groupsWaiting().first)
        let batch = try await harness.store.outboxBatch(
            user: group.user, resource: .glucose, provider: group.provider, limit: 10)
        try await harness.store.reject(batch[1].id, serverSaid: "no")
        try await harness.store.acknowledge([batch[2].id, batch[3].id, batch[4].id], at: Instant(seconds: 1))
        // Sent again: the server's copy is old, so this one waits.
        try await harness.store.requeue(batch[3].reading.id)
        let pruning = try await harness.store.prune(olderThan: .seconds(1800))
        #expect(pruning.readings == 1 && pruning.waiting == 2 && pruning.refused == 1 && pruning.excluded == 1)
        #expect(Set(try await harness.all().compactMap(\.record.sequence)) == [0, 1, 3, 4, 5])
        #expect(try await harness.store.verify().isEmpty)
        let again = try await harness.store.prune(olderThan: .seconds(1800))
        #expect(again.readings == 0 && again.frames == 0)
    }

    @Test("a record that shares its number or minute with a pruned one and has another value is not lost")
    func clash() async throws {
        let harness = try await Harness()
        let frames = [
            Build.glucose(1, "2026-11-21T08:10:00", 95), Build.pressure(127, "2026-11-21T08:10:00", user: 1),
            Build.pressure(128, nil),
        ]
        try await harness.contact(frames)
        try await Self.deliver(harness.store)
        let first = try await harness.all()
        #expect(try await harness.store.prune(olderThan: .zero).readings == 3)
        let others = [Build.glucose(1, "2026-11-21T08:10:00", 96), Build.pressure(129, "2026-11-21T08:10:00", user: 1)]
        #expect(try await harness.contact([others[0]]).map(\.name) == ["clash"])
        #expect(try await harness.contact([others[1]]).map(\.name) == ["new"])
        #expect(Set(try await harness.all().map(\.id)).isDisjoint(with: first.map(\.id)))
        #expect(try await harness.contact(frames + others).map(\.name) == Array(repeating: "repeated", count: 5))
        // No other takes a pruned reading's place at the server.
        var times: [Instant] = []
        for group in try await harness.store.groupsWaiting() {
            times += try await harness.store.outboxBatch(
                user: group.user, resource: group.resource, provider: group.provider, limit: 10
            ).map(\.timestamp)
        }
        #expect(times == Array(repeating: Build.instant("2026-11-21T07:10:01Z"), count: 2))
        #expect(try await harness.store.verify().isEmpty)
    }

    @Test("pruned records are known in a later epoch of numbers, and under an address of the same device")
    func elsewhere() async throws {
        let harness = try await Harness()
        var (old, new) = (Build.device(), Build.device(0xC000_0000_1809))
        (old.serial, new.serial) = ("00001808", nil)
        let frames = (1...3).map { Build.glucose($0, "2026-11-21T08:1\($0):00") }
        try await harness.contact(frames, device: old)
        try await harness.contact([Build.glucose(7, "2026-11-21T08:30:00")], device: new)
        try await Self.deliver(harness.store)
        #expect(try await harness.store.prune(olderThan: .zero).readings == 4)
        // The two turn out to be one.
        new.serial = old.serial
        #expect(
            try await harness.contact(frames + [Build.glucose(7, "2026-11-21T08:30:00")], device: new).map(\.name)
                == Array(repeating: "repeated", count: 4))
        let contact = try await harness.store.beginContact(
            with: old, at: Build.instant("2026-11-21T11:00:00Z"), clock: nil, batteryPercent: nil)
        let renewed = try await harness.store.beginSequenceEpoch(in: contact)
        let outcomes = try await harness.store.append(
            [Build.context(1, meal: 2)] + frames + [Build.context(2, meal: 2)], of: renewed)
        #expect(outcomes.map(\.name) == ["waiting", "repeated", "repeated", "repeated", "nothing"])
        let statistics = try await harness.store.statistics()
        #expect(statistics.waitingContexts == 0 && statistics.frames == 0)
        #expect(try await harness.store.lastRecord(of: renewed) == nil)
        #expect(try await harness.store.verify().isEmpty)
    }

    @Test("a sensor's minutes stay known: a later scan brings what is new alone, each minute once at the server")
    func sensor() async throws {
        let harness = try await Harness()
        func scan(_ age: Int, _ time: String) async throws -> [FrameOutcome] {
            try await harness.contact([Build.scan(age: age, at: time)], device: Build.sensor, at: time)
        }
        _ = try await scan(602, "2026-11-21T10:02:30Z")
        try await Self.deliver(harness.store)
        let before = try await harness.all().count
        let first = try await harness.store.prune(olderThan: .zero)
        #expect(first.readings == before && first.frames == 1)
        let again = try await scan(602, "2026-11-21T10:02:40Z")
        #expect(again.allSatisfy { $0.name == "repeated" } && again.count == 48)
        // Minute 600 was trend, and is history now: it goes to the server in the trend value's place.
        let later = try await scan(604, "2026-11-21T10:04:30Z")
        let new = later.compactMap(\.changedReading)
        #expect(Set(new.map { $0.record.sensor?.minute }) == [600, 603, 604])
        let group = try #require(try await harness.store.groupsWaiting().first)
        let waiting = try await harness.store.outboxBatch(
            user: group.user, resource: group.resource, provider: group.provider, limit: 100)
        #expect(
            waiting.map(\.timestamp.description).sorted()
                == ["2026-11-21T10:00:00Z", "2026-11-21T10:03:00Z", "2026-11-21T10:04:00Z"])
        // The frame of the later scan stays as long as one of its readings does.
        try await Self.deliver(harness.store) { $0.reading.record.sensor?.minute == 603 }
        let second = try await harness.store.prune(olderThan: .zero)
        #expect(second.readings == 1 && second.frames == 0)
        #expect(try await harness.store.verify().isEmpty)
    }

    @Test(
        "a pruned trend value is left behind until the history value of its minute has replaced it there",
        arguments: [false, true])
    func replacedSensor(isReplaced: Bool) async throws {
        let harness = try await Harness()
        let store = harness.store
        func scan(_ age: Int, _ time: String) async throws {
            try await harness.contact([Build.scan(age: age, at: time)], device: Build.sensor, at: time)
        }
        try await scan(602, "2026-11-21T10:02:30Z")
        let sent = try await store.groupsWaiting().reduce(0) { $0 + $1.count }
        try await Self.deliver(store)
        try await store.prune(olderThan: .zero)
        // Two new minutes, and minute 600 in the trend value's place.
        try await scan(604, "2026-11-21T10:04:30Z")
        if isReplaced { try await Self.deliver(store) }
        let erasure = try await store.eraseUser(try await store.currentUser().key, retracts: true)
        #expect(
            erasure.destinations == [
                ErasureAtDestination(
                    destination: "vital", retracting: 0, leftBehind: isReplaced ? sent + 2 : sent)
            ])
    }

    @Test("what a cloud says anew of a pruned record is not stored, and is counted once")
    func prunedRecord() async throws {
        let harness = try await Harness()
        let store = harness.store
        func add(_ text: String) async throws -> RecordsAdded {
            var sample = ImportTests.weight(text, at: 0, provider: "garmin")
            sample.recordName = "bodyComps/1/weight"
            let frame = sample.frame(receivedAt: Build.instant("2026-11-21T11:00:00Z"))
            return try await store.addRecords(of: "garmin", person: "white_bear") { _ in [frame] }
        }
        #expect(try await add("155.4").outcomes.count == 1)
        try await Self.deliver(store)
        #expect(try await store.prune(olderThan: .zero).readings == 1)
        for (text, revised) in [("155.4", 0), ("156.4", 1), ("156.4", 0), ("157.4", 1), ("157.4", 0)] {
            let added = try await add(text)
            #expect(added.outcomes.map(\.name) == ["repeated"] && added.revisedPruned == revised, "\(text)")
        }
        #expect(try await harness.all().isEmpty)
        #expect(try await store.groupsWaiting().isEmpty)
        #expect(try await store.statistics().frames == 0)
        #expect(try await store.verify().isEmpty)
    }

    @Test("without the key nothing is lost: what is pruned comes back, it is said, and pruning stops")
    func key() async throws {
        let harness = try await Harness(encryption: .off())
        try await harness.contact(Self.frames)
        try await Self.deliver(harness.store)
        try await harness.store.prune(olderThan: .zero)
        let path = PruneKey.path(in: harness.directory)
        #expect(try FileManager.default.attributesOfItem(atPath: path)[.posixPermissions] as? Int == 0o600)
        let key = try #require(FileManager.default.contents(atPath: path))
        for file in ReadingStore.databaseFiles(in: harness.directory) {
            #expect(try Data(contentsOf: URL(fileURLWithPath: file)).range(of: key) == nil)
        }
        for other in [nil, Data(count: 32), Data("short".utf8)] {
            harness.store.pruneKey.withLock { $0 = nil }
            try? FileManager.default.removeItem(atPath: path)
            if let other { try other.write(to: URL(fileURLWithPath: path)) }
            try await harness.store.loadPruneKey()
            #expect(try await harness.store.verify().map(\.problem) == [.pruneKey])
            await #expect(throws: StoreError.pruneKeyMissing(path: path)) {
                try await harness.store.prune(olderThan: .zero)
            }
        }
        #expect(try await harness.contact([Build.glucose(1, "2026-11-21T08:11:00", 91)]).map(\.name) == ["new"])
        try key.write(to: URL(fileURLWithPath: path))
        try await harness.store.loadPruneKey()
        #expect(try await harness.store.verify().isEmpty)
        #expect(try await harness.contact([Build.glucose(2, "2026-11-21T08:12:00", 92)]).map(\.name) == ["repeated"])
        // What came back is pruned with the rest.
        try await Self.deliver(harness.store)
        #expect(try await harness.store.prune(olderThan: .zero).readings == 1)
        #expect(try await harness.all().isEmpty)
        #expect(try await harness.contact([Build.glucose(1, "2026-11-21T08:11:00", 91)]).map(\.name) == ["repeated"])
        #expect(try await harness.store.verify().isEmpty)
    }

    @Test("of a reading that came back while the key was missing, each destination has one place, the last")
    func givenAgain() async throws {
        let harness = try await Harness(encryption: .off())
        let store = harness.store
        func add(_ name: String, _ kinds: Set<ReadingKind> = [.glucose]) async throws -> DestinationKey {
            try await store.setDestination(
                name, kind: "webhook", kinds: kinds, hasUniqueSeconds: false, needsSource: false)
        }
        func read() async throws -> [String] {
            try await harness.contact([Build.glucose(1, "2026-11-21T08:11:00", 91)]).map(\.name)
        }
        func deliver(to places: [DestinationKey], at time: Instant) async throws {
            for place in places {
                let items = try await DestinationTests.batch(store, at: place)
                #expect(items.count == 1)
                try await store.acknowledge(items.map(\.id), at: time)
            }
        }
        let (first, second) = (Build.instant("2026-11-21T11:00:00Z"), Build.instant("2026-11-21T11:30:00Z"))
        let lines = try await add("lines")
        #expect(try await read() == ["new"])
        try await deliver(to: [.vital, lines], at: first)
        #expect(try await store.prune(olderThan: .zero).readings == 1)

        store.pruneKey.withLock { $0 = nil }
        // One destination gets it no more, and another one is new.
        _ = try await add("lines", [.weight])
        let clinic = try await add("clinic")
        #expect(try await read() == ["new"])
        try await deliver(to: [.vital, clinic], at: second)
        try await store.loadPruneKey()
        #expect(try await store.prune(olderThan: .zero).readings == 1)
        let places = try await store.read { db in
            try [DestinationKey.vital, lines, clinic].map { place in
                try Int64.fetchAll(
                    db,
                    sql: """
                        SELECT delivered_at FROM pruned_place AS p WHERE \(PrunedPlaces.holds("\(place.rawValue)"))
                        """)
            }
        }
        #expect(places == [[second.microseconds], [first.microseconds], [second.microseconds]])
        #expect(try await read() == ["repeated"])
        #expect(try await store.statistics().delivered == 1)
        // And none has it once it has forgotten what it was given.
        try await store.write(.setting) { db in
            for place in [DestinationKey.vital, lines, clinic] { try PrunedPlaces.forget(place.rawValue, db) }
        }
        let left = try await store.read { db in try Int.fetchOne(db, sql: "SELECT count(*) FROM pruned_place") }
        #expect(left == 0)
    }

    @Test("a contact that goes on while its readings are pruned goes on")
    func ongoing() async throws {
        let harness = try await Harness()
        let contact = try await harness.store.beginContact(
            with: Build.device(), at: Build.instant("2026-11-21T09:59:00Z"), clock: nil, batteryPercent: nil)
        _ = try await harness.store.append([Build.glucose(1, "2026-11-20T12:30:00")], of: contact)
        try await Self.deliver(harness.store)
        let batches = harness.store.committedReadings()
        try await harness.store.prune(olderThan: .zero)
        #expect(await batches.first { _ in true }?.isEmpty == true)
        let outcomes = try await harness.store.append(
            [Build.context(1, meal: 1), Build.glucose(2, "2026-11-20T13:30:00"), Build.context(2, meal: 1)], of: contact
        )
        #expect(outcomes.map(\.name) == ["nothing", "new", "revised"])
        #expect(try await harness.store.verify().isEmpty)
    }

    @Test("erasing a person leaves nothing of what was pruned")
    func erased() async throws {
        let harness = try await Harness()
        try await harness.contact(Self.frames)
        try await harness.contact([Build.scan(age: 600, at: "2026-11-21T10:00:30Z")], device: Build.sensor)
        try await Self.deliver(harness.store)
        try await harness.store.prune(olderThan: .zero)
        try await harness.store.eraseUser(harness.store.currentUser().key)
        #expect(try await harness.store.statistics().delivered == 0)
        #expect(try await harness.store.verify().isEmpty)
        #expect(try await harness.contact([Build.glucose(1, "2026-11-21T08:11:00", 91)]).map(\.name) == ["new"])
    }
}

#if DEBUG && compiler(>=6.3)  // Earlier exit tests capture nothing.
    @Suite("Death while readings are pruned")
    struct PruneCrashTests {
        static let frames = (0..<1200).map { (number: Int) in
            let minutes = number % 60
            return Build.glucose(
                UInt16(number), "2026-11-20T\(10 + number / 60 % 10):\(minutes / 10)\(minutes % 10):0\(number / 600)",
                UInt16(80 + number % 100), ordinal: number)
        }

        // Content is in the clear: sealed, the octets that have to go would be in no file in any case.
        static func work(_ directory: String) async throws {
            let harness = try await Harness(directory, encryption: .off())
            try await harness.contact(frames)
            try await PruneTests.deliver(harness.store)
            try harness.store.close()
        }

        static func prune(_ directory: String) async throws {
            let harness = try await Harness(directory, encryption: .off())
            try await harness.store.prune(olderThan: .zero)
        }

        @Test(
            "promise 10: killed at any commit, each reading is there or known as pruned, and pruning goes on",
            arguments: [
                ("prune.before-commit", 1200), ("prune.after-commit", 700), ("prune.before-commit:3", 200),
                ("prune.after-commit:3", 0),
            ])
        func kill(point: String, left: Int) async throws {
            let directory = Harness.newDirectory()
            try await Self.work(directory)
            for number in [0, 499, 500, 700, 1199] {
                #expect(try ErasureTests.contains(Self.frames[number].payload, in: directory))
            }
            await #expect(processExitsWith: .signal(SIGKILL)) {
                [directory = directory as String, point = point as String] in
                setenv("HEALTHRELAY_CRASH_AT", point, 1)
                try await PruneCrashTests.prune(directory)
            }
            let harness = try await Harness(directory, encryption: .off())
            #expect(try await harness.all().count == left)
            #expect(try await harness.store.statistics().delivered == 1200)
            #expect(try await harness.store.verify().isEmpty)
            let outcomes = try await harness.contact(Self.frames)
            #expect(outcomes.allSatisfy { $0.name == "repeated" })
            #expect(try await harness.store.prune(olderThan: .zero).readings == left)
            #expect(try await harness.all().isEmpty)
            for number in [0, 499, 500, 700, 1199] {
                #expect(try !ErasureTests.contains(Self.frames[number].payload, in: directory))
            }
        }
    }
#endif
