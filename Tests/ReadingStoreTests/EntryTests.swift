import Foundation
import HealthReadings
import Testing

@testable import ReadingStore

@Suite("Entries by hand in the store")
struct EntryTests {
    static func entry(
        _ value: String = "5.6", at time: String = "2026-11-21T08:00", note: String? = nil,
        person: String = "white_bear",
        corrects: ReadingID? = nil
    ) throws -> ManualEntry {
        let zone = try #require(ZoneRules.named("Europe/Berlin"))
        var entry = try ManualEntry(
            EntryText(kind: "glucose", value: value, unit: "mmol/L", time: time, meal: "fasting", note: note),
            person: person, zones: [(Instant(microseconds: .min), zone)], now: Build.instant("2026-11-21T12:00:00Z"))
        entry.corrects = corrects
        return entry
    }

    private static func isAdded(_ outcome: EntryOutcome) -> Bool { if case .added = outcome { true } else { false } }
    private static func isPresent(_ outcome: EntryOutcome) -> Bool {
        if case .present = outcome { true } else { false }
    }

    @Test("an entry comes back as it was typed, with its frame, and verification agrees")
    func stored() async throws {
        let harness = try await Harness()
        let entry = try Self.entry("5.60", note: "before breakfast")
        #expect(Self.isAdded(try await harness.store.enter(entry)))
        let reading = try #require(try await harness.all().first)
        #expect(reading.id == entry.id && reading.record == entry.record && reading.context?.meal == "fasting")
        #expect(reading.person == "white_bear" && reading.device.provider == "manual" && reading.excluded == nil)
        #expect(reading.time == entry.time)
        #expect(reading.deliveries.map(\.hold) == [.noSource])
        #expect(try await harness.store.devices().isEmpty)
        #expect(try await harness.store.verify().isEmpty)
        try harness.store.close()
        let again = try await Harness(harness.directory)
        #expect(try await again.all() == [reading])
        #expect(try await again.store.redecode().frames == 0)
    }

    @Test("promise 2: the same entry again is the same reading")
    func repeated() async throws {
        let harness = try await Harness()
        let entry = try Self.entry()
        #expect(Self.isAdded(try await harness.store.enter(entry)))
        for _ in 0..<3 { #expect(Self.isPresent(try await harness.store.enter(entry))) }
        #expect(try await harness.all().count == 1)
        #expect(try await harness.store.entries(of: "white_bear", .glucose, at: entry.instant).map(\.id) == [entry.id])
        #expect(try await harness.store.verify().isEmpty)
    }

    @Test("an entry that is withdrawn is delivered to nobody, and is a reading again once it is entered again")
    func withdrawn() async throws {
        let harness = try await Harness()
        let entry = try Self.entry()
        try await harness.store.enter(entry)
        let withdrawn = try await harness.store.withdraw(entry.id)
        #expect(withdrawn.excluded == .withdrawn && withdrawn.deliveries.isEmpty)
        #expect(try await harness.store.withdraw(entry.id) == withdrawn)
        #expect(try await harness.store.entries(of: "white_bear", .glucose, at: entry.instant).isEmpty)
        #expect(try await harness.store.verify().isEmpty)
        #expect(Self.isAdded(try await harness.store.enter(entry)))
        let again = try #require(try await harness.store.reading(entry.id))
        #expect(again.excluded == nil && again.deliveries.map(\.hold) == [.noSource])
        #expect(try await harness.store.withdraw(entry.id).excluded == .withdrawn)
        #expect(try await harness.all().count == 1)
        #expect(try await harness.store.verify().isEmpty)
    }

    @Test("what is excluded, or awaits its context, is not sent again, whoever asks")
    func requeued() async throws {
        let harness = try await Harness(decoder: TestDecoder(awaitsSomeContexts: true))
        let entry = try Self.entry()
        try await harness.store.enter(entry)
        try await harness.store.withdraw(entry.id)
        let contact = try await harness.store.beginContact(
            with: Build.device(), at: Build.instant("2026-11-21T09:59:00Z"), clock: nil, batteryPercent: 80)
        _ = try await harness.store.append([Build.glucose(1, "2026-11-21T08:10:00")], of: contact)
        for reading in try await harness.all() { try await harness.store.requeue(reading.id) }
        #expect(try await harness.store.groupsWaiting().isEmpty)
        #expect(try await harness.store.groupsAwaitingContext().map(\.count) == [1])
        #expect(try await harness.store.verify().isEmpty)
    }

    @Test("a correction withdraws the former entry and names it", arguments: ["2026-11-21T08:00", "2026-11-21T09:00"])
    func corrected(_ time: String) async throws {
        let harness = try await Harness()
        let former = try Self.entry()
        try await harness.store.enter(former)
        let entry = try Self.entry("6.5", at: time, corrects: former.id)
        #expect(Self.isAdded(try await harness.store.enter(entry)))
        // A command that did not hear the answer is run again.
        #expect(Self.isPresent(try await harness.store.enter(entry)))
        let readings = Dictionary(uniqueKeysWithValues: try await harness.all().map { ($0.id, $0) })
        #expect(readings.count == 2)
        #expect(readings[former.id]?.excluded == .withdrawn)
        #expect(readings[entry.id]?.excluded == nil && readings[entry.id]?.record.entry?.corrects == former.id)
        #expect(readings[entry.id]?.deliveries.map(\.hold) == [.noSource])
        #expect(try await harness.store.verify().isEmpty)
        // And back again.
        let back = try Self.entry(corrects: entry.id)
        #expect(Self.isAdded(try await harness.store.enter(back)))
        #expect(try await harness.store.reading(former.id)?.excluded == nil)
        #expect(try await harness.store.reading(entry.id)?.excluded == .withdrawn)
        #expect(try await harness.store.verify().isEmpty)
    }

    @Test("an entry that is corrected to one that was pruned is withdrawn, and taken back where it is")
    func correctedToPruned() async throws {
        let harness = try await Harness()
        let store = harness.store
        let charts = try await store.setDestination(
            "charts", kind: "influxdb", kinds: [.glucose], hasUniqueSeconds: true, isSeriesByDevice: true,
            needsSource: false, canRetract: true)
        let lines = try await store.setDestination(
            "lines", kind: "webhook", kinds: [.glucose], hasUniqueSeconds: false, needsSource: false, canRetract: true)
        func deliver() async throws -> [Instant] {
            try await PruneTests.deliver(store)
            var timestamps: [Instant] = []
            for place in [charts, lines] {
                let items = try await DestinationTests.batch(store, at: place)
                timestamps += items.map(\.timestamp)
                try await store.acknowledge(items.map(\.id), at: Build.instant("2026-11-21T11:00:00Z"))
            }
            return timestamps
        }
        let right = try Self.entry()
        try await store.enter(right)
        #expect(try await deliver() == [right.instant, right.instant])
        #expect(try await store.prune(olderThan: .zero).readings == 1)
        let wrong = try Self.entry("6.5")
        try await store.enter(wrong)
        // Where values are told apart by their second, the pruned one has its own: it stays there.
        let later = right.instant.advanced(bySeconds: 1)
        #expect(try await deliver() == [later, right.instant])

        let correction = try Self.entry(corrects: wrong.id)
        #expect(try await store.knows(correction))
        // A command that did not hear the answer is run again.
        for _ in 0..<2 { #expect(try await store.enter(correction) == .pruned(right.id)) }
        #expect(try await harness.all().map(\.id) == [wrong.id])
        #expect(try await store.reading(wrong.id)?.excluded == .withdrawn)
        for (place, timestamp) in [(charts, later), (lines, right.instant)] {
            let retractions = try await store.retractions(at: place, limit: 10)
            #expect(retractions.map(\.reading) == [wrong.id] && retractions.map(\.timestamp) == [timestamp])
            #expect(try await store.groupsWaiting(at: place).isEmpty)
        }
        #expect(try await store.verify().isEmpty)
    }

    @Test("what a device measured, and what is not there, is neither corrected nor withdrawn")
    func measured() async throws {
        let harness = try await Harness()
        try await harness.contact([Build.glucose(1, "2026-11-21T08:10:00", 95)])
        let id = try #require(try await harness.all().first?.id)
        await #expect(throws: EntryChangeError.measured(id)) { try await harness.store.withdraw(id) }
        let entry = try Self.entry(corrects: id)
        await #expect(throws: EntryChangeError.measured(id)) { try await harness.store.enter(entry) }
        let none = ReadingID(high: 1, low: 1)
        await #expect(throws: EntryChangeError.noSuchReading(none)) { try await harness.store.withdraw(none) }
        let former = try Self.entry("7.1")
        try await harness.store.enter(former)
        try await harness.store.withdraw(former.id)
        let late = try Self.entry("7.2", corrects: former.id)
        await #expect(throws: EntryChangeError.withdrawn(former.id)) { try await harness.store.enter(late) }
        #expect(try await harness.all().count == 2)
    }

    @Test("an entry is its person's, and goes with that person")
    func people() async throws {
        let harness = try await Harness()
        try await harness.store.setPeople([
            StorePerson(clientUserID: "black_bear", timeZone: "Asia/Tokyo", shares: [])
        ])
        try await harness.store.enter(try Self.entry())
        try await harness.store.enter(try Self.entry(person: "black_bear"))
        await #expect(throws: StoreError.self) { try await harness.store.enter(try Self.entry(person: "nobody")) }
        #expect(Set(try await harness.all().map(\.person)) == ["white_bear", "black_bear"])
        let user = try #require(try await harness.store.user("black_bear"))
        #expect(try await harness.store.eraseUser(user.key).readings == 1)
        #expect(try await harness.all().map(\.person) == ["white_bear"])
        #expect(try await harness.store.verify().isEmpty)
    }

    @Test("without the store's key nothing is entered")
    func locked() async throws {
        let harness = try await Harness()
        try harness.store.close()
        try FileManager.default.removeItem(atPath: harness.directory + "/store.key")
        let store = try await Harness.open(harness.directory)
        await #expect(throws: StoreError.self) { try await store.enter(try Self.entry()) }
    }

    #if DEBUG && compiler(>=6.3)  // Earlier exit tests capture nothing.
        /// Enters, corrects and withdraws.
        static func work(_ directory: String) async throws {
            let store = try await Harness.open(directory)
            try await store.enter(try entry())
            try await store.enter(try entry("6.5", corrects: entry().id))
            try await store.withdraw(try entry("6.5").id)
        }

        @Test(
            "promise 10: an entry, a correction and a withdrawal survive a kill whole or not at all",
            arguments: [
                "entry.before-commit", "entry.after-commit", "entry.before-commit:2", "entry.after-commit:2",
                "entry.before-commit:3", "entry.after-commit:3",
            ])
        func kill(_ point: String) async throws {
            let directory = Harness.newDirectory()
            try FileManager.default.createDirectory(atPath: directory, withIntermediateDirectories: true)
            await #expect(processExitsWith: .signal(SIGKILL)) {
                [directory = directory as String, point = point as String] in
                setenv("HEALTHRELAY_CRASH_AT", point, 1)
                try await EntryTests.work(directory)
            }
            let harness = try await Harness(directory)
            #expect(try await harness.store.verify().isEmpty)
            let live = try await harness.all().filter { $0.excluded == nil }.count
            #expect(live == (["entry.before-commit", "entry.after-commit:3"].contains(point) ? 0 : 1))
            try harness.store.close()
            // The same commands again end where they would have ended.
            if point != "entry.after-commit:3" {
                try await Self.work(directory)
            }
        }
    #endif
}
