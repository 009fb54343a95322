import Foundation
import HealthReadings
import Testing

@testable import ReadingStore

@Suite("Readings that are another person's")
struct MoveTests {
    private static func anna(_ store: ReadingStore) async throws -> UserKey {
        try await store.setPeople([StorePerson(clientUserID: "anna", timeZone: "America/New_York", shares: [])])
        return try #require(try await store.user("anna")).key
    }

    /// A destination that tells readings by their ids, and takes them back.
    private static func addFile(_ store: ReadingStore) async throws -> DestinationKey {
        try await store.setDestination(
            "file", kind: "file", kinds: [.glucose, .bloodPressure], hasUniqueSeconds: false, needsSource: false,
            canRetract: true)
    }

    private static func fill(_ harness: Harness, _ numbers: Range<UInt16> = 0..<6) async throws {
        try await harness.contact(numbers.map { Build.glucose($0, "2026-11-21T08:\(10 + $0):00", 90 + $0) })
    }

    private static func waiting(_ store: ReadingStore, at place: DestinationKey) async throws -> [String: [OutboxItem]]
    {
        var found: [String: [OutboxItem]] = [:]
        for group in try await store.groupsWaiting(at: place) {
            let person = try #require(try await store.user(group.user)).clientUserID
            found[person, default: []] += try await store.outboxBatch(
                user: group.user, resource: group.resource, provider: group.provider, limit: 1000, at: place)
        }
        return found
    }

    private static func deliver(_ store: ReadingStore, at place: DestinationKey) async throws {
        for items in try await waiting(store, at: place).values {
            try await store.acknowledge(items.map(\.id), at: Build.instant("2026-11-21T11:00:00Z"))
        }
    }

    @Test("a moved reading keeps its id, time and value; it is taken back from the one and delivered to the other")
    func moved() async throws {
        let harness = try await Harness()
        let store = harness.store
        let (anna, place) = (try await Self.anna(store), try await Self.addFile(store))
        try await Self.fill(harness)
        try await Self.deliver(store, at: place)
        let before = try await harness.all()
        let ids = before.prefix(2).map(\.id)
        let preview = try await store.previewMove(of: .readings(ids), to: anna)
        #expect(preview.readings == ["white_bear": 2] && preview.delivered == ["file": 2] && preview.unchanged == 0)
        let move = try await store.moveReadings(.readings(ids), to: anna)
        #expect(move.moved == 2 && move.unchanged == 0)
        #expect(move.destinations["file"] == .init(retracting: 2, leftBehind: 0, waiting: 2))

        for (old, new) in zip(before, try await harness.all()) {
            #expect(new.id == old.id && new.time == old.time && new.record == old.record)
            #expect(new.person == (ids.contains(old.id) ? "anna" : "white_bear"))
        }
        let retractions = try await store.retractions(at: place, limit: 10)
        #expect(Set(retractions.map(\.reading)) == Set(ids))
        #expect(retractions.allSatisfy { $0.person == "white_bear" && $0.wasDelivered })
        // Told by its id there, it must not come before the former is taken back.
        #expect(try await Self.waiting(store, at: place).values.joined().isEmpty)
        try await store.acknowledgeRetractions(retractions.map(\.key))
        let waiting = try await Self.waiting(store, at: place)
        #expect(Set(waiting["anna"]?.map(\.reading.id) ?? []) == Set(ids) && waiting["white_bear"] == nil)
        #expect(try await store.verify().isEmpty)
        #expect(try await store.moveReadings(.readings(ids), to: anna).unchanged == 2)
    }

    @Test("reading the device, a capture or stored frames again moves nothing back, with contexts and revisions")
    func durable() async throws {
        let harness = try await Harness()
        let store = harness.store
        let anna = try await Self.anna(store)
        try await Self.fill(harness)
        let device = MoveSelection.device(.init(address: DeviceAddress(bits: 0xC000_0000_1808, kind: .random)))
        #expect(try await store.moveReadings(device, to: anna).moved == 6)
        try await Self.fill(harness)
        // A status that differs is a revision; a context comes later.
        try await harness.contact(
            [Build.glucose(3, "2026-11-21T08:13:00", 93, status: 1)], [Build.context(4, meal: 1)],
            at: "2026-11-21T10:30:00Z")
        _ = try await store.redecode()
        #expect(try await harness.all().allSatisfy { $0.person == "anna" })
        let place = try await Self.addFile(store)
        try await harness.contact(
            [Build.glucose(2, "2026-11-21T08:12:00", 92, status: 1)], at: "2026-11-21T10:40:00Z")
        #expect(try await Self.waiting(store, at: place).keys.allSatisfy { $0 == "anna" })
        #expect(try await Self.waiting(store, at: .vital)["white_bear"] == nil)
        // What the device measures next is whose it was before.
        try await Self.fill(harness, 6..<7)
        #expect(try await harness.all().filter { $0.person == "white_bear" }.map(\.record.sequence) == [6])
        #expect(try await store.verify().isEmpty)
    }

    @Test(
        "a sensor whose readings are moved is the person's from then on; its history supersedes the trend that was moved"
    )
    func sensor() async throws {
        let harness = try await Harness()
        let store = harness.store
        let anna = try await Self.anna(store)
        func scan(_ age: Int, _ time: String, of sensor: DeviceDescription = Build.sensor) async throws {
            try await harness.contact([Build.scan(age: age, at: time)], device: sensor, at: time)
        }
        try await scan(602, "2026-11-21T10:02:30Z")
        let ids = try await harness.all().map(\.id)
        #expect(try await store.moveReadings(.readings(ids), to: anna).moved == ids.count)
        // The history record of minute 600 has come.
        try await scan(603, "2026-11-21T10:03:30Z")
        let readings = try await harness.all()
        #expect(readings.count > ids.count && readings.allSatisfy { $0.person == "anna" })
        let minute = readings.filter { $0.record.sensor?.minute == 600 }
        #expect(minute.count == 2 && minute.count { $0.excluded == .superseded } == 1)
        var other = Build.sensor
        other.serial = "0M000OTHER1"
        try await scan(600, "2026-11-21T10:10:30Z", of: other)
        let others = try await harness.all().filter { $0.device.serial == other.serial }
        #expect(others.count == 48 && others.allSatisfy { $0.person == "white_bear" })
        #expect(try await store.verify().isEmpty)
        // Moving them back moves the sensor too.
        let white = try #require(try await store.user("white_bear")).key
        try await store.moveReadings(.readings(try await harness.all().map(\.id)), to: white)
        try await scan(620, "2026-11-21T10:20:30Z")
        #expect(try await harness.all().allSatisfy { $0.person == "white_bear" })
    }

    @Test("a second move takes back from the second, and moving back leaves everything as if it had never moved")
    func again() async throws {
        let harness = try await Harness()
        let store = harness.store
        let (anna, place) = (try await Self.anna(store), try await Self.addFile(store))
        try await store.setPeople([
            StorePerson(clientUserID: "anna", timeZone: "Europe/Berlin", shares: []),
            StorePerson(clientUserID: "ben", timeZone: "Europe/Berlin", shares: []),
        ])
        let ben = try #require(try await store.user("ben")).key
        let user = try await store.currentUser().key
        try await Self.fill(harness, 0..<1)
        try await Self.deliver(store, at: place)
        try await Self.deliver(store, at: .vital)
        let id = try #require(try await harness.all().first).id
        try await store.moveReadings(.readings([id]), to: anna)
        try await store.moveReadings(.readings([id]), to: ben)
        #expect(try await Set(store.retractions(at: place, limit: 10).map(\.person)) == ["white_bear", "anna"])
        #expect(try await Self.waiting(store, at: place).values.joined().isEmpty)
        try await store.moveReadings(.readings([id]), to: user)
        // The first retraction is void: the reading is the first person's at the same place.
        let rest = try await store.retractions(at: place, limit: 10)
        #expect(Set(rest.map(\.person)) == ["anna", "ben"])
        try await store.acknowledgeRetractions(rest.map(\.key))
        #expect(try await Self.waiting(store, at: place).mapValues(\.count) == ["white_bear": 1])
        let changes = try await ChangeTests.all(store, of: ChangeScope(person: ben))
        #expect(changes.map(ChangeTests.name) == ["left"])
        #expect(
            try await ChangeTests.all(store, of: ChangeScope(person: user)).map(ChangeTests.name) == [
                "left", "revised",
            ])
        #expect(try await ChangeTests.all(store).map(ChangeTests.name) == ["revised"])
        #expect(try await store.verify().isEmpty)
    }

    @Test("a record of a slot that was nobody's becomes an ordinary reading of the person it is moved to")
    func nobodys() async throws {
        let harness = try await Harness()
        let store = harness.store
        try await store.setPeople([
            StorePerson(clientUserID: "white_bear", timeZone: "Europe/Berlin", shares: [.init(address: 0xC1, slot: 1)]),
            StorePerson(clientUserID: "anna", timeZone: "Europe/Berlin", shares: []),
        ])
        let anna = try #require(try await store.user("anna")).key
        let place = try await Self.addFile(store)
        let cuff = Build.device(0xC1)
        let frames = (0..<6).map {
            Build.pressure(120 + $0, "2026-11-21T08:\(10 + $0):00", user: UInt8($0 % 2 + 1))
        }
        try await harness.contact(frames, device: cuff)
        #expect(try await harness.all().filter { $0.excluded == .otherUser }.count == 3)
        let address = DeviceAddress(bits: 0xC1, kind: .random)
        let range = Build.instant("2026-11-21T07:10:00Z")...Build.instant("2026-11-21T07:13:00Z")
        var selection = MoveSelection.DeviceReadings(address: address, slot: 2, range: range)
        #expect(try await store.moveReadings(.device(selection), to: anna).moved == 2)
        selection.range = nil
        #expect(try await store.previewMove(of: .device(selection), to: anna).count == 1)
        #expect(try await store.moveReadings(.device(selection), to: anna).moved == 1)
        try await harness.contact(frames, device: cuff)
        let hers = try await harness.all().filter { $0.person == "anna" }
        #expect(hers.count == 3 && hers.allSatisfy { $0.excluded == nil && $0.record.userSlot == 2 })
        #expect(try await Self.waiting(store, at: place).mapValues(\.count) == ["anna": 3, "white_bear": 3])
        // Nobody was ever told that these were theirs.
        let user = try await store.currentUser().key
        #expect(
            try await ChangeTests.all(store, of: ChangeScope(person: user)).allSatisfy {
                ChangeTests.name($0) == "added"
            })
        #expect(try await store.verify().isEmpty)
    }

    @Test("what is on its way as the former person's acknowledges nothing of the new person's")
    func inFlight() async throws {
        let harness = try await Harness()
        let store = harness.store
        let (anna, place) = (try await Self.anna(store), try await Self.addFile(store))
        try await Self.fill(harness, 0..<2)
        let sent = try #require(try await Self.waiting(store, at: place)["white_bear"])
        try await store.moveReadings(.readings(sent.map(\.reading.id)), to: anna)
        try await store.acknowledge(sent.map(\.id), at: Build.instant("2026-11-21T11:00:00Z"))
        try await store.reject(sent[0].id, serverSaid: "late")
        let retractions = try await store.retractions(at: place, limit: 10)
        #expect(retractions.count == 2, "it may be there")
        try await store.acknowledgeRetractions(retractions.map(\.key))
        let waiting = try await Self.waiting(store, at: place)["anna"]
        #expect(waiting?.map(\.wasDelivered) == [false, false])
        let delivered = try await store.newestDelivered(at: place)
        #expect(delivered.isEmpty)
    }

    @Test("consent and the destination's people are the new person's; one that cannot take back is told of")
    func rules() async throws {
        let harness = try await Harness()
        let store = harness.store
        let anna = try await Self.anna(store)
        let keeps = try await store.setDestination(
            "keeps", kind: "file", kinds: [.glucose], hasUniqueSeconds: false, needsSource: false)
        try await Self.fill(harness, 0..<2)
        try await Self.deliver(store, at: keeps)
        try await store.setConsent(.glucose, granted: false, of: anna)
        let ids = try await harness.all().map(\.id)
        let move = try await store.moveReadings(.readings(ids), to: anna)
        #expect(move.destinations["keeps"] == .init(retracting: 0, leftBehind: 2, waiting: 2))
        #expect(try await store.leftBehind(at: keeps) == 2)
        #expect(try await harness.all().allSatisfy { $0.deliveries.allSatisfy { $0.hold == .noConsent } })
        #expect(try await Self.waiting(store, at: keeps).values.joined().isEmpty)
        try await store.setConsent(.glucose, granted: true, of: anna)
        #expect(try await Self.waiting(store, at: keeps)["anna"]?.count == 2)
        // The person can be forgotten; what they got goes with them.
        try await store.eraseUser(anna)
        #expect(try await harness.all().isEmpty)
        #expect(try await store.verify().isEmpty)
    }

    @Test("nobody unknown gets anything, and nothing unknown moves")
    func refusals() async throws {
        let harness = try await Harness()
        let store = harness.store
        let anna = try await Self.anna(store)
        try await Self.fill(harness, 0..<2)
        let ids = try await harness.all().map(\.id)
        let stray = ReadingID(high: 1, low: 2)
        await #expect(throws: MoveError.noSuchReading(stray)) {
            try await store.moveReadings(.readings(ids + [stray]), to: anna)
        }
        let nowhere = DeviceAddress(bits: 7, kind: .random)
        await #expect(throws: MoveError.noSuchDevice(nowhere)) {
            try await store.moveReadings(.device(.init(address: nowhere)), to: anna)
        }
        await #expect(throws: StoreError.self) {
            try await store.moveReadings(.readings(ids), to: UserKey(rawValue: 99))
        }
        #expect(try await harness.all().allSatisfy { $0.person == "white_bear" })
    }

    #if DEBUG && compiler(>=6.3)  // Earlier exit tests capture nothing.
        static func work(_ directory: String) async throws {
            let store = try await Harness.open(directory)
            let anna = try #require(try await store.user("anna")).key
            let device = DeviceAddress(bits: 0xC000_0000_1808, kind: .random)
            try await store.moveReadings(.device(.init(address: device)), to: anna)
            try store.close()
        }

        @Test(
            "death in the middle of a move leaves each reading with one person, taken back there and queued here; once more moves the rest",
            arguments: ["move.before-commit", "move.after-commit", "move.before-commit:2", "move.after-commit:3"])
        func kill(point: String) async throws {
            let directory = Harness.newDirectory()
            let first = try await Harness(directory)
            _ = try await Self.anna(first.store)
            let place = try await Self.addFile(first.store)
            try await first.contact(
                (0..<500).map { (number: UInt16) in
                    Build.glucose(number, "2026-11-2\(number / 250)T\(10 + number / 60 % 4):\(10 + number % 50):00", 90)
                })
            try await Self.deliver(first.store, at: place)
            let total = try await first.all().count
            try first.store.close()
            await #expect(processExitsWith: .signal(SIGKILL)) {
                [directory = directory as String, point = point as String] in
                setenv("HEALTHRELAY_CRASH_AT", point, 1)
                try await MoveTests.work(directory)
            }
            func check(_ harness: Harness) async throws -> Int {
                let all = try await harness.all()
                let moved = all.filter { $0.person == "anna" }
                #expect(all.count == total && moved.count + all.count { $0.person == "white_bear" } == total)
                #expect(try await harness.store.retractionCount(at: place) == moved.count)
                let hers = try await harness.store.groupsWaiting(at: place).reduce(0) { $0 + $1.count }
                #expect(hers == moved.count)
                #expect(try await harness.store.verify().isEmpty)
                return moved.count
            }
            let harness = try await Harness(directory)
            let moved = try await check(harness)
            let commits = Int(point.split(separator: ":").dropFirst().first ?? "1") ?? 1
            #expect(moved == min(total, 200 * (point.contains("before") ? commits - 1 : commits)))
            try harness.store.close()
            try await Self.work(directory)
            #expect(try await check(Harness(directory)) == total)
        }
    #endif
}
