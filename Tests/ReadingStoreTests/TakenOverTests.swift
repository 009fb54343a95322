import Foundation
import GRDB
import HealthReadings
import Testing

@testable import ReadingStore

/// Another gateway's export is imported, and this gateway reads the same meter.
@Suite("Readings that another gateway's export brought")
struct TakenOverTests {
    static let glucose = (0..<6).map { Build.glucose($0, "2026-11-21T08:\(10 + $0):00", 90 + $0, offset: 60) }
    static let pressures = (0..<3).map { Build.pressure(120 + $0, "2026-11-21T08:\(20 + $0):00") }
    static let meter = Build.device()

    /// The reading as its gateway's export has it.
    ///
    /// - Parameter isPlain: whether the export has the main value alone, as those of earlier versions.
    static func exported(
        _ reading: Reading, isPlain: Bool = false, id: ReadingID? = nil, person: String? = nil
    ) throws -> ImportedSample {
        var value = reading.record.value
        if isPlain, case .glucose(let glucose) = value {
            value = .glucose(GlucoseValue(concentration: glucose.concentration))
        }
        return ImportedSample(
            person: person ?? reading.person ?? "", provider: reading.device.provider, source: reading.device.model,
            sourceDevice: reading.device.address?.description, value: value,
            time: ImportedTime(
                try #require(reading.time.instant), utcOffsetMinutes: 0, basis: reading.time.basis,
                uncertaintyMinutes: reading.time.uncertaintyMinutes),
            originalID: id ?? reading.id,
            deviceTime: reading.record.baseTime.map {
                .init(base: $0, offsetMinutes: reading.record.timeOffsetMinutes)
            },
            sequence: reading.record.sequence)
    }

    /// What two gateways have to agree on. Of one time, each store has an order of its own.
    private static func facts(_ readings: [Reading]) -> [[String]] {
        readings.sorted { $0.id < $1.id }.map { reading in
            [
                "\(reading.id)", "\(reading.record)", "\(reading.device)", "\(reading.time.instant as Any)",
                "\(reading.person as Any)", "\(reading.excluded as Any)",
            ]
        }
    }

    private static func frames(_ what: String) -> [Frame] {
        what == "glucose" ? glucose : what == "pressures" ? pressures : [Build.scan(age: 300, at: scannedAt)]
    }
    private static let scannedAt = "2026-11-21T10:00:00Z"
    @Test(
        "promise 2: a meter that is read after its readings were imported adds none, and they are its own from then on",
        arguments: ["glucose", "pressures", "sensor"], [false, true])
    func adopted(_ what: String, isPlain: Bool) async throws {
        let frames = Self.frames(what)
        let device = what == "sensor" ? Build.sensor : Self.meter
        let first = try await Harness()
        try await first.contact(frames, device: device)
        let expected = try await first.all()

        let second = try await Harness()
        let samples = try expected.filter { $0.excluded == nil }.map { try Self.exported($0, isPlain: isPlain) }
        try await second.store.add(samples)
        #expect(try await Set(second.all().map(\.id)) == Set(samples.map(\.id)))
        try await PruneTests.deliver(second.store)
        try await second.contact(frames, device: device)
        #expect(try await Self.facts(second.all()) == Self.facts(expected))
        #expect(try await second.store.verify().isEmpty)
        let again = try await second.contact(frames, device: device)
        #expect(again.allSatisfy { $0.name == "repeated" })
        #expect(try await second.store.add(samples) == samples.map { .present($0.id) })
        #expect(try await Self.facts(second.all()) == Self.facts(expected))
        #expect(try await second.store.devices().first?.readings == expected.count)
        // The server has each at one place.
        let places = try await second.store.read { db in
            try Int.fetchAll(db, sql: "SELECT count(*) FROM outbox GROUP BY user, resource, provider, type, timestamp")
        }
        #expect(places.allSatisfy { $0 == 1 } && places.count == samples.count)
        try second.store.close()
        let reopened = try await Harness(second.directory)
        #expect(try await Self.facts(reopened.all()) == Self.facts(expected))
    }

    @Test(
        "promise 2: the other gateway counted the meter's numbers otherwise, and gave it other ids",
        arguments: [
            "glucose", "pressures",
        ])
    func otherIDs(_ what: String) async throws {
        let frames = Self.frames(what)
        let first = try await Harness()
        try await first.contact(frames)
        let expected = try await first.all()
        func id(_ place: Int) -> ReadingID { ReadingID(high: 77, low: UInt64(place)) }
        let samples = try expected.enumerated().map { try Self.exported($1, id: id($0)) }

        let imported = try await Harness()
        try await imported.store.add(samples)
        for name in ["revised", "repeated", "repeated"] {
            let outcomes = try await imported.contact(frames)
            #expect(outcomes.allSatisfy { $0.name == name }, "\(outcomes.map(\.name))")
        }
        #expect(try await imported.all().map(\.id) == samples.map(\.id))
        #expect(try await imported.all().map(\.device) == expected.map(\.device))
        #expect(try await imported.store.verify().isEmpty)

        // The meter came first.
        #expect(try await first.store.add(samples) == expected.map { .present($0.id) })
        #expect(try await first.all() == expected)
        // Another meter's record is another's.
        var other = samples[0]
        other.sourceDevice = "C0:00:00:00:99:99"
        #expect(try await first.store.add([other]) == [.stored(other.id, excluded: nil)])
    }

    @Test(
        "promise 2: what was imported, delivered and pruned does not come back with its meter",
        arguments: [
            "glucose", "pressures", "sensor",
        ])
    func pruned(_ what: String) async throws {
        let frames = Self.frames(what)
        let device = what == "sensor" ? Build.sensor : Self.meter
        let first = try await Harness()
        try await first.contact(frames, device: device)
        let readings = try await first.all().filter { $0.excluded == nil }
        let second = try await Harness()
        try await second.store.add(try readings.map { try Self.exported($0, isPlain: true) })
        try await PruneTests.deliver(second.store)
        _ = try await second.store.prune(olderThan: .seconds(1800))
        #expect(try await second.all().isEmpty)
        try await second.contact(frames, device: device)
        // A sensor's value of a minute that its history has, too, was never exported.
        let known = Set(readings.map(\.id))
        #expect(try await second.all().filter { known.contains($0.id) }.isEmpty)
        #expect(try await second.all().count <= 1)
    }

    /// Begins a contact in which the meter has begun its numbers anew so often, and reads it.
    private static func read(_ harness: Harness, at start: String, begun times: Int) async throws -> [String] {
        var contact = try await harness.store.beginContact(
            with: meter, at: Build.instant(start), clock: nil, batteryPercent: nil)
        for _ in 0..<times { contact = try await harness.store.beginSequenceEpoch(in: contact) }
        let outcomes = try await harness.store.append(glucose, of: contact)
        try await harness.store.endContact(contact, ContactSummary(isComplete: true, received: glucose.count))
        return outcomes.map(\.name)
    }

    @Test(
        "promise 2: the other gateway began the meter's numbers anew more often, or less, and this one does so again",
        arguments: [0, 1, 2, 3], [false, true])
    func otherEpochs(_ own: Int, isPruned: Bool) async throws {
        let first = try await Harness()
        #expect(Set(try await Self.read(first, at: "2026-11-21T10:00:00Z", begun: 1)) == ["new"])
        let second = try await Harness()
        try await second.store.add(try await first.all().map { try Self.exported($0) })
        if isPruned {
            try await PruneTests.deliver(second.store)
            #expect(try await second.store.prune(olderThan: .zero).readings == Self.glucose.count)
        }
        let ids = try await second.all().map(\.id)
        let begun = try await Self.read(second, at: "2026-11-21T11:00:00Z", begun: own)
        let isKnown = !isPruned || own >= 1
        if isKnown { #expect(Set(begun) == [isPruned ? "repeated" : "revised"]) }
        let known = try await second.all().map(\.id)
        if isKnown { #expect(known == ids) }
        for minute in 1...3 {
            let again = try await Self.read(second, at: "2026-11-21T11:0\(minute):00Z", begun: minute - 1)
            #expect(Set(again) == ["repeated"], "\(minute)")
        }
        #expect(try await second.all().map(\.id) == known)
        #expect(try await second.store.verify().isEmpty)
    }

    @Test("a value that is another under the same number stays another")
    func clash() async throws {
        let first = try await Harness()
        try await first.contact(Self.glucose)
        let second = try await Harness()
        try await second.store.add(try await first.all().map { try Self.exported($0) })
        let outcomes = try await second.contact([Build.glucose(2, "2026-11-21T08:12:00", 180, offset: 60)])
        #expect(outcomes.map(\.name) == ["clash"])
        #expect(try await second.all().count == 7)
        #expect(try await second.store.verify().isEmpty)
    }

    @Test("a sample that another person has here is said to be there, and stays theirs")
    func people() async throws {
        let harness = try await Harness()
        try await harness.store.setPeople([StorePerson(clientUserID: "anna", timeZone: "Asia/Tokyo", shares: [])])
        try await harness.contact(Self.glucose)
        let reading = try #require(try await harness.all().first)
        #expect(
            try await harness.store.add([try Self.exported(reading, person: "anna")])
                == [.presentOfAnother(reading.id, person: "white_bear")])
        #expect(try await harness.all().allSatisfy { $0.person == "white_bear" })
    }

    @Test("promise 2: what was imported for the wrong person and moved is not stored again for the right one")
    func moved() async throws {
        let harness = try await Harness()
        try await harness.store.setPeople([StorePerson(clientUserID: "anna", timeZone: "Asia/Tokyo", shares: [])])
        let anna = try #require(try await harness.store.user("anna")).key
        func samples(_ person: String) -> [ImportedSample] {
            (0..<4).map { ImportTests.weight("155.4", at: Int64($0), person: person) }
        }
        try await harness.store.add(samples("white_bear"))
        let moved = try await harness.all().prefix(3).map(\.id)
        try await harness.store.moveReadings(.readings(Array(moved)), to: anna)
        let outcomes = try await harness.store.add(samples("anna"))
        #expect(outcomes.filter { if case .present = $0 { true } else { false } }.count == 3)
        // The fourth is still the other's: both may weigh as much.
        #expect(try await harness.all().count == 5)
        #expect(
            try await harness.store.add(samples("white_bear")).allSatisfy {
                if case .present = $0 { true } else { false }
            })
        #expect(
            try await harness.store.add(samples("anna")).allSatisfy { if case .present = $0 { true } else { false } })
    }

    @Test("promise 2: nor once it was delivered and pruned")
    func movedAndPruned() async throws {
        let harness = try await Harness()
        try await harness.store.setPeople([StorePerson(clientUserID: "anna", timeZone: "Asia/Tokyo", shares: [])])
        let anna = try #require(try await harness.store.user("anna")).key
        func samples(_ person: String) -> [ImportedSample] {
            (0..<4).map { ImportTests.weight("155.4", at: Int64($0), person: person) }
        }
        try await harness.store.add(samples("white_bear"))
        let moved = try await harness.all().prefix(3).map(\.id)
        try await harness.store.moveReadings(.readings(Array(moved)), to: anna)
        try await PruneTests.deliver(harness.store)
        #expect(try await harness.store.prune(olderThan: .zero).readings == 4)
        let outcomes = try await harness.store.add(samples("anna"))
        #expect(outcomes.filter { if case .present = $0 { true } else { false } }.count == 3)
        // The fourth was the other's: both may weigh as much.
        #expect(try await harness.all().map(\.person) == ["anna"])
        #expect(try await harness.store.groupsWaiting().map(\.count) == [1])
        for person in ["white_bear", "anna"] {
            #expect(
                try await harness.store.add(samples(person)).allSatisfy {
                    if case .present = $0 { true } else { false }
                })
        }
        #expect(try await harness.all().count == 1)
        #expect(try await harness.store.verify().isEmpty)
    }

    @Test("promise 2: nor are a cloud's records, and what they say anew is a revision of what was moved")
    func movedRecords() async throws {
        let harness = try await Harness()
        let store = harness.store
        try await store.setPeople([StorePerson(clientUserID: "anna", timeZone: "Asia/Tokyo", shares: [])])
        let anna = try #require(try await store.user("anna")).key
        func add(_ text: String, of person: String) async throws -> [String] {
            let frames = (0..<3).map { (number: Int) -> Frame in
                var sample = ImportTests.weight(text, at: Int64(number), person: person, provider: "garmin")
                sample.recordName = "bodyComps/\(number)/weight"
                return sample.frame(receivedAt: Build.instant("2026-11-21T11:00:00Z"))
            }
            return try await store.add(of: "garmin", person: person) { _ in frames }.map(\.name).sorted()
        }
        #expect(try await add("155.4", of: "white_bear") == ["new", "new", "new"])
        let moved = try await harness.all().prefix(2).map(\.id)
        try await store.moveReadings(.readings(Array(moved)), to: anna)
        // The third is still the other's.
        #expect(try await add("155.4", of: "anna") == ["new", "repeated", "repeated"])
        #expect(try await add("156.4", of: "anna") == ["revised", "revised", "revised"])
        #expect(try await add("156.4", of: "anna") == ["repeated", "repeated", "repeated"])
        #expect(try await harness.all().filter { $0.person == "anna" }.count == 3)
        #expect(try await harness.all().count == 4)
        #expect(try await store.verify().isEmpty)
    }

    @Test("promise 2: what was imported before its person had a name is not stored again")
    func named() async throws {
        let store = try await Harness.open(Harness.newDirectory(), user: "")
        let sample = ImportTests.weight("155.4", at: 0, person: "")
        #expect(try await store.add([sample]) == [.stored(sample.id, excluded: nil)])
        try await store.setCurrentUser("white_bear", timeZone: "Europe/Berlin")
        #expect(try await store.add([ImportTests.weight("155.4", at: 0)]) == [.present(sample.id)])
        let frame = ImportTests.weight("155.4", at: 0).frame(receivedAt: Build.instant("2026-11-21T11:00:00Z"))
        let outcomes = try await store.add(of: "apple_health_kit", person: "white_bear") { _ in [frame] }
        #expect(outcomes.map(\.name) == ["repeated"])
        #expect(try await store.query(ReadingQuery(limit: 10)).readings.map(\.person) == ["white_bear"])
    }

    @Test("an imported reading can be withdrawn, and neither its file nor its meter brings it back")
    func withdrawn() async throws {
        let first = try await Harness()
        try await first.contact(Self.glucose)
        let harness = try await Harness()
        let samples = try await first.all().map { try Self.exported($0) }
        try await harness.store.add(samples)
        try await PruneTests.deliver(harness.store)
        let id = samples[2].id
        #expect(try await harness.store.withdraw(id).excluded == .withdrawn)
        #expect(try await harness.store.withdraw(id).excluded == .withdrawn)
        #expect(try await harness.store.add(samples) == samples.map { .present($0.id) })
        try await harness.contact(Self.glucose)
        #expect(try await harness.store.reading(id)?.excluded == .withdrawn)
        #expect(try await harness.store.verify().isEmpty)
        await #expect(throws: EntryChangeError.measured(samples[0].id)) {
            try await harness.store.withdraw(samples[0].id)
        }
    }

    @Test("promise 1: an import of anything takes none of a meter's equal records away")
    func twins() async throws {
        // Two records that are equal but for their number, in a store that has an import.
        let harness = try await Harness()
        try await harness.store.add([ImportTests.weight("155.4", at: 0)])
        let frames = [
            Build.glucose(4, "2026-11-21T08:10:00", 95), Build.glucose(5, "2026-11-21T08:10:00", 95),
            Build.pressure(120, "2026-11-21T08:20:00"), Build.pressure(121, "2026-11-21T08:20:00"),
        ]
        for name in ["new", "repeated"] {
            #expect(try await harness.contact(frames).allSatisfy { $0.name == name })
        }
        #expect(try await harness.all().count == 5)
        #expect(try await harness.store.verify().isEmpty)
    }

    @Test("a row under the id of another kind's reading keeps no meter from being read")
    func otherKind() async throws {
        let first = try await Harness()
        try await first.contact(Self.pressures + Self.glucose)
        let readings = try await first.all()
        let glucose = try #require(readings.first { $0.kind == .glucose })
        let pressure = try #require(readings.first { $0.kind == .bloodPressure })
        let harness = try await Harness()
        try await harness.store.add([try Self.exported(glucose, id: pressure.id)])
        for _ in 0..<2 { try await harness.contact(Self.pressures + Self.glucose) }
        #expect(try await harness.all().filter { $0.kind == .bloodPressure }.count == 3)
        #expect(try await harness.store.verify().isEmpty)
    }

    @Test("a time that the meter contradicts by more than a day does not outlive the meter's own")
    func otherTime() async throws {
        let first = try await Harness()
        try await first.contact(Self.glucose)
        let reading = try #require(try await first.all().first)
        var sample = try Self.exported(reading)
        sample.time = ImportedTime(Build.instant("2025-11-21T08:10:00Z"), utcOffsetMinutes: 0)
        let harness = try await Harness()
        try await harness.store.add([sample])
        try await PruneTests.deliver(harness.store)
        try await harness.contact(Self.glucose)
        #expect(try await harness.store.reading(reading.id)?.time == reading.time)
        #expect(try await harness.all().count == 6)
        #expect(try await harness.store.verify().isEmpty)
    }

    @Test("a reading that becomes another point of its person's waits until the former one is deleted")
    func otherPoint() async throws {
        let first = try await Harness()
        try await first.contact(Self.glucose)
        let reading = try #require(try await first.all().first)
        var sample = try Self.exported(reading)
        sample.time = ImportedTime(Build.instant("2025-11-21T08:10:00Z"), utcOffsetMinutes: 0)
        let harness = try await Harness()
        let store = harness.store
        let place = try await store.setDestination(
            "charts", kind: "influxdb", kinds: [.glucose], hasUniqueSeconds: true, isSeriesByDevice: true,
            needsSource: false, canRetract: true)
        func waiting() async throws -> [OutboxItem] {
            var items: [OutboxItem] = []
            for group in try await store.groupsWaiting(at: place) {
                items += try await store.outboxBatch(
                    user: group.user, resource: group.resource, provider: group.provider, limit: 100, at: place)
            }
            return items
        }
        try await store.add([sample])
        let imported = try await waiting()
        #expect(imported.map(\.reading.id) == [reading.id])
        try await store.acknowledge(imported.map(\.id), at: Build.instant("2026-11-21T11:00:00Z"))
        try await harness.contact(Self.glucose)
        let retractions = try await store.retractions(at: place, limit: 10)
        #expect(retractions.map(\.reading) == [reading.id])
        #expect(try await !waiting().contains { $0.reading.id == reading.id })
        try await store.acknowledgeRetractions(retractions.map(\.key))
        #expect(try await waiting().contains { $0.reading.id == reading.id })
        #expect(try await store.verify().isEmpty)
    }
}
