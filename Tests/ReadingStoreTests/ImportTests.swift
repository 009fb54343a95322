import Foundation
import GRDB
import HealthReadings
import Testing

@testable import ReadingStore

@Suite("Imported samples in the store")
struct ImportTests {
    static func weight(
        _ text: String, at seconds: Int64, person: String = "white_bear", provider: String = "apple_health_kit",
        originalID: ReadingID? = nil
    ) -> ImportedSample {
        let number = ExactDecimal(text) ?? ExactDecimal(significand: 0)
        return ImportedSample(
            person: person, provider: provider, source: "Scale", sourceDevice: "S200", isEntered: true,
            value: .vital(VitalValue(kind: .weight, [.init(.weight, Quantity(number, .pounds))])),
            time: ImportedTime(
                Build.instant("2026-11-20T08:00:00Z").advanced(bySeconds: seconds), utcOffsetMinutes: 60),
            end: Build.instant("2026-11-20T08:00:10Z").advanced(bySeconds: seconds), originalID: originalID)
    }

    @Test("a sample comes back as it was written, with its frame, and verification agrees")
    func stored() async throws {
        let harness = try await Harness()
        let sample = Self.weight("155.40", at: 0)
        #expect(try await harness.store.add([sample]) == [.stored(sample.id, excluded: nil)])
        let reading = try #require(try await harness.all().first)
        #expect(reading.id == sample.id && reading.record == sample.record && reading.time == sample.time.resolved)
        #expect(reading.person == "white_bear" && reading.device == ImportedSample.device(of: "apple_health_kit"))
        #expect(reading.excluded == nil && reading.deliveries.map(\.hold) == [.noSource])
        #expect(try await harness.store.devices().isEmpty)
        #expect(try await harness.store.verify().isEmpty)
        try harness.store.close()
        let again = try await Harness(harness.directory)
        #expect(try await again.all() == [reading])
        #expect(try await again.store.redecode().frames == 0)
    }

    @Test("promise 2: the same samples again change nothing, however they are grouped and written")
    func repeated() async throws {
        let harness = try await Harness()
        let samples = (0..<20).map { Self.weight("155.4", at: Int64($0)) }
        try await harness.store.add(samples)
        let before = try await harness.all()
        let again = try await harness.store.add(samples.reversed() + samples)
        #expect(again.allSatisfy { if case .present = $0 { true } else { false } } && again.count == 40)
        var rewritten = samples[3]
        rewritten.time = ImportedTime(rewritten.time.instant, utcOffsetMinutes: 0)
        #expect(try await harness.store.add([rewritten]) == [.present(samples[3].id)])
        #expect(try await harness.all() == before)
        let rows = try await harness.store.read { db in
            try ["frame", "contact"].map { try Int.fetchOne(db, sql: "SELECT count(*) FROM \($0)") }
        }
        #expect(rows == [20, 1])
    }

    @Test(
        "promise 2: a weight in steps of 5 g is stored once, whichever unit it comes in, and keeps the id that it has")
    func units() async throws {
        for isFirst in [true, false] {
            let harness = try await Harness()
            var metric = Self.weight("154.335", at: 0)
            metric.value = .vital(
                VitalValue(
                    kind: .weight,
                    [.init(.weight, Quantity(ExactDecimal(significand: 70_005, exponent: -3), .kilograms))]))
            let imperial = Self.weight("154.335", at: 0)
            try #require(metric.id != imperial.id)
            let (one, other) = isFirst ? (metric, imperial) : (imperial, metric)
            #expect(try await harness.store.add([one, other]) == [.stored(one.id, excluded: nil), .present(one.id)])
            #expect(try await harness.store.add([other]) == [.present(one.id)])
            #expect(try await harness.all().map(\.id) == [one.id])
            // Nor does it come back when it was pruned.
            try await PruneTests.deliver(harness.store)
            #expect(try await harness.store.prune(olderThan: .zero).readings == 1)
            for sample in [one, other] {
                let outcomes = try await harness.store.add([sample])
                #expect(outcomes.allSatisfy { if case .present = $0 { true } else { false } })
            }
            #expect(try await harness.all().isEmpty)
            #expect(try await harness.store.verify().isEmpty)
        }
    }

    @Test(
        "promise 2: a glucose of LibreView is stored once, whichever unit it comes in, and each of two scans of a minute"
    )
    func glucoseUnits() async throws {
        func scan(_ text: String, _ unit: MeasurementUnit) -> ImportedSample {
            let number = ExactDecimal(text) ?? ExactDecimal(significand: 0)
            return ImportedSample(
                person: "white_bear", provider: "freestyle_libre_ble", source: "FreeStyle LibreLink",
                sourceDevice: "ABC",
                value: .glucose(
                    GlucoseValue(concentration: Quantity(number, unit), sampleType: .interstitialFluid)),
                time: ImportedTime(Build.instant("2026-11-20T08:00:00Z"), utcOffsetMinutes: 0), distinction: "ABC")
        }
        // 181 mg/dL may be 10.1 mmol/L, which has the id of 182 mg/dL.
        let whole = ["182", "181", "101"].map { scan($0, .milligramsPerDecilitre) }
        let tenths = ["10.1", "10.0", "5.6"].map { scan($0, .millimolesPerLitre) }
        for isFirst in [true, false] {
            let harness = try await Harness()
            let (one, other) = isFirst ? (whole, tenths) : (tenths, whole)
            let first = try await harness.store.add(one)
            #expect(first == one.map { ImportOutcome.stored($0.id, excluded: nil) })
            for samples in [other, one, other] {
                let outcomes = try await harness.store.add(samples)
                #expect(outcomes.allSatisfy { if case .present = $0 { true } else { false } })
            }
            let readings = try await harness.all()
            #expect(Set(readings.map(\.id)) == Set(one.map(\.id)))
            let findings = try await harness.store.verify()
            #expect(findings.isEmpty)
        }
    }

    @Test("samples of two people and providers come together; one of nobody known stores none of them")
    func origins() async throws {
        let harness = try await Harness()
        let samples = [
            Self.weight("155.4", at: 0), Self.weight("155.4", at: 0, provider: "health_connect"),
            Self.weight("155.4", at: 1),
        ]
        #expect(try await harness.store.add(samples).count == 3)
        let readings = try await harness.all()
        #expect(Set(readings.map(\.device.provider)) == ["apple_health_kit", "health_connect"])
        await #expect(throws: StoreError.self) {
            try await harness.store.add([Self.weight("1", at: 5), Self.weight("1", at: 6, person: "nobody")])
        }
        #expect(try await harness.all().count == 3)
    }

    @Test("what cannot be in time is kept and excluded; what is old is not")
    func times() async throws {
        let harness = try await Harness()
        let now = harness.store.now()
        func at(_ instant: Instant) -> ImportedSample {
            var sample = Self.weight("155.4", at: 0)
            (sample.time, sample.end) = (ImportedTime(instant, utcOffsetMinutes: 0), nil)
            return sample
        }
        let samples = [
            at(now.advanced(bySeconds: 3 * 86_400)), at(Instant(seconds: 0)), at(Build.instant("2003-01-01T00:00:00Z")),
        ]
        let excluded = try await harness.store.add(samples).map { outcome -> Exclusion? in
            if case .stored(_, let excluded) = outcome { excluded } else { .withdrawn }
        }
        #expect(excluded == [.implausibleTime, .implausibleTime, nil])
    }

    @Test("an id of another gateway is kept; with another value it is a conflict")
    func originalIDs() async throws {
        let harness = try await Harness()
        let id = ReadingID(high: 7, low: 9)
        let sample = Self.weight("155.4", at: 0, originalID: id)
        #expect(try await harness.store.add([sample]) == [.stored(id, excluded: nil)])
        #expect(try await harness.store.add([sample]) == [.present(id)])
        #expect(try await harness.store.add([Self.weight("156.4", at: 0, originalID: id)]) == [.conflict(id)])
        #expect(try await harness.store.add([Self.weight("155.4", at: 9, originalID: id)]) == [.conflict(id)])
        #expect(try await harness.store.verify().isEmpty)
    }

    @Test("a sample is its person's, and goes with that person")
    func people() async throws {
        let harness = try await Harness()
        try await harness.store.setPeople([
            StorePerson(clientUserID: "black_bear", timeZone: "Asia/Tokyo", shares: [])
        ])
        try await harness.store.add([Self.weight("155.4", at: 0), Self.weight("155.4", at: 0, person: "black_bear")])
        #expect(Set(try await harness.all().map(\.person)) == ["white_bear", "black_bear"])
        let user = try #require(try await harness.store.user("black_bear"))
        #expect(try await harness.store.eraseUser(user.key).readings == 1)
        #expect(try await harness.all().map(\.person) == ["white_bear"])
        #expect(try await harness.store.verify().isEmpty)
    }
}

#if DEBUG && compiler(>=6.3)  // Earlier exit tests capture nothing.
    @Suite("Death while samples are imported")
    struct ImportCrashTests {
        static let samples = (0..<60).map { ImportTests.weight("155.4", at: Int64($0)) }

        /// Imports everything, twenty samples in a commit.
        static func work(_ directory: String) async throws {
            let store = try await Harness.open(directory)
            for begin in stride(from: 0, to: samples.count, by: 20) {
                try await store.add(Array(samples[begin..<(begin + 20)]))
            }
            try store.close()
        }

        @Test(
            "promise 2: killed at any commit of an import, whole commits are there, and the same import completes them",
            arguments: [
                ("imports.before-commit", 0), ("imports.after-commit", 20), ("imports.before-commit:3", 40),
                ("imports.after-commit:3", 60),
            ])
        func kill(point: String, stored: Int) async throws {
            let directory = Harness.newDirectory()
            await #expect(processExitsWith: .signal(SIGKILL)) {
                [directory = directory as String, point = point as String] in
                setenv("HEALTHRELAY_CRASH_AT", point, 1)
                try await ImportCrashTests.work(directory)
            }
            let killed = try await Harness(directory)
            #expect(try await Set(killed.all().map(\.id)) == Set(Self.samples.prefix(stored).map(\.id)))
            #expect(try await killed.store.groupsWaiting().reduce(0) { $0 + $1.count } == stored)
            #expect(try await killed.store.verify().isEmpty)
            try killed.store.close()
            try await Self.work(directory)
            let whole = try await Harness(directory)
            let readings = try await whole.all()
            #expect(readings.count == 60 && Set(readings.map(\.id)) == Set(Self.samples.map(\.id)))
            #expect(try await whole.store.groupsWaiting().reduce(0) { $0 + $1.count } == 60)
            #expect(try await whole.store.verify().isEmpty)
        }
    }
#endif
