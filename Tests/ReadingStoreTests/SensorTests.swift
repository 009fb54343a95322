import EncodedSensor
import FreeStyleLibre
import HealthReadings
import TestSupport
import Testing

@testable import ReadingStore

/// Decodes memories as sensors have them.
private struct LibreDecoder: FrameDecoding {
    /// Places the trend of a sensor that has ended at its age, excluded, as earlier versions did, and its history eight hours late,
    /// as they did where its index agreed with the age.
    var placesByAge = false

    func decode(_ frame: Frame, model: String?) -> DecodedFrame {
        guard let scan = try? LibreScan(payload: frame.payload), var sensor = scan.sensorScan else { return .nothing }
        guard placesByAge, !sensor.isRunning, let life = scan.memory.maximumLifeMinutes else { return .sensor(sensor) }
        for place in sensor.records.indices {
            let delay = sensor.records[place].sensor?.source == .trend ? sensor.ageMinutes - life : 480
            sensor.records[place].sensor?.minute += delay
            sensor.records[place].exclusion = .sensorNotActive
        }
        return .sensor(sensor)
    }
}

@Suite("Sensors")
struct SensorTests {
    private func scan(
        _ harness: Harness, age: Int, at time: String, failing: Set<Int> = [], inactive: Bool = false
    ) async throws -> [FrameOutcome] {
        try await harness.contact(
            [Build.scan(age: age, at: time, failing: failing, inactive: inactive)], device: Build.sensor, at: time)
    }

    private func times(_ harness: Harness) async throws -> [ReadingID: Instant?] {
        try await Dictionary(uniqueKeysWithValues: harness.all().map { ($0.id, $0.time.instant) })
    }

    @Test("every field of a sensor's reading comes back as it was stored, and verification agrees")
    func roundTrip() async throws {
        let harness = try await Harness()
        let outcomes = try await scan(harness, age: 600, at: "2026-11-21T10:00:30Z")
        #expect(outcomes.allSatisfy { $0.name == "new" || $0.name == "revised" } && outcomes.count >= 48)
        let readings = try await harness.all()
        #expect(readings.count == 48)
        let newest = try #require(readings.first { $0.record.sensor?.minute == 600 })
        #expect(newest.time == ResolvedTime(instant: Build.instant("2026-11-21T10:00:00Z"), basis: .sensorStart))
        #expect(newest.device == Build.sensor)
        #expect(
            newest.record.sensor
                == SensorFacts(
                    source: .trend, minute: 600, glucose: 1001, temperature: 6800, adjustment: -12, quality: 0x120,
                    flags: 2, hasError: false, calibration: .factoryEstimate))
        #expect(newest.deliveries.map(\.hold) == [.noSource])
        let document = newest.document.text
        for member in [
            #""source":"trend","minute":600"#, #""calibration":"factory_estimate""#,
            #""raw":{"glucose":1001,"temperature":6800,"adjustment":-12,"quality":288,"flags":2,"error":false}"#,
        ] { #expect(document.contains(member), "\(document)") }
        #expect(try await harness.store.verify().isEmpty)
    }

    @Test("promise 2: five scans over a day give each minute once, under one time, and the last again brings nothing")
    func fiveScans() async throws {
        let harness = try await Harness()
        var known: [ReadingID: Instant?] = [:]
        // Seconds differ, so that the age is cut differently at each scan.
        for (age, time) in [
            (600, "2026-11-21T10:00:59Z"), (608, "2026-11-21T10:08:01Z"), (900, "2026-11-21T15:00:30Z"),
            (1200, "2026-11-21T20:00:05Z"), (1210, "2026-11-21T20:10:58Z"),
        ] {
            let scanned = Build.instant(time)
            _ = try await scan(harness, age: age, at: time)
            let now = try await times(harness)
            #expect(known.allSatisfy { now[$0.key] == $0.value })
            #expect(now.values.allSatisfy { ($0 ?? scanned) <= scanned })
            known = now
        }
        let readings = try await harness.all()
        let keys = readings.map { [Int($0.record.sensor?.minute ?? 0), Int($0.record.sensor?.source.rawValue ?? 0)] }
        #expect(Set(keys).count == keys.count)
        let again = try await harness.contact(
            [Build.scan(age: 1210, at: "2026-11-21T20:10:59Z")], device: Build.sensor, at: "2026-11-21T20:10:59Z")
        #expect(again.allSatisfy { $0.name == "repeated" })
        #expect(try await times(harness) == known)
        #expect(try await harness.store.statistics().frames == 5)
        #expect(try await harness.store.verify().isEmpty)
    }

    @Test("history wins its minute: the trend value is superseded, and its sample is replaced at the same timestamp")
    func superseded() async throws {
        let harness = try await Harness()
        _ = try await scan(harness, age: 602, at: "2026-11-21T10:02:30Z")
        func outbox() async throws -> [OutboxItem] {
            try await harness.store.groupsWaiting().asyncFlatMap { group in
                try await harness.store.outboxBatch(
                    user: group.user, resource: group.resource, provider: group.provider, limit: 10_000)
            }
        }
        let first = try await outbox()
        let trend = try #require(first.first { $0.reading.record.sensor?.minute == 600 })
        #expect(trend.reading.record.sensor?.source == .trend)
        try await harness.store.acknowledge(first.map(\.id), at: Build.instant("2026-11-21T10:03:00Z"))

        // The history record of minute 600 is there three minutes later.
        let outcomes = try await scan(harness, age: 603, at: "2026-11-21T10:03:30Z")
        let revised = try #require(
            outcomes.compactMap { if case .revised(let reading) = $0 { reading } else { nil } }.first)
        #expect(revised.id == trend.reading.id && revised.excluded == .superseded)
        let second = try await outbox()
        let history = try #require(second.first { $0.reading.record.sensor?.source == .history })
        #expect(second.count == 2 && history.timestamp == trend.timestamp && history.originalTime == nil)
        #expect(try await harness.store.verify().isEmpty)
    }

    @Test("a trend value whose history is there already is superseded at once; an excluded history record wins nothing")
    func supersededAtOnce() async throws {
        let harness = try await Harness()
        _ = try await scan(harness, age: 610, at: "2026-11-21T10:10:30Z", failing: [600])
        let readings = try await harness.all()
        func excluded(_ minute: UInt16, _ source: SensorFacts.Source) -> Exclusion? {
            readings.first { $0.record.sensor?.minute == minute && $0.record.sensor?.source == source }?.excluded
        }
        #expect(excluded(600, .trend) == nil && excluded(600, .history) == .errorRecord)
        let other = try await Harness()
        _ = try await scan(other, age: 615, at: "2026-11-21T10:15:30Z")
        #expect(
            try await other.all().contains { $0.record.sensor?.minute == 600 && $0.excluded == .superseded })
    }

    @Test("records of a sensor that is not active are kept, and never delivered")
    func inactive() async throws {
        let harness = try await Harness()
        _ = try await scan(harness, age: 30, at: "2026-11-21T10:10:30Z", inactive: true)
        #expect(try await harness.all().allSatisfy { $0.excluded == .sensorNotActive })
        #expect(try await harness.store.groupsWaiting().isEmpty)
    }

    @Test("a start proven more than two minutes wrong is corrected for minutes to come; what is stored keeps its time")
    func corrected() async throws {
        let harness = try await Harness()
        // The gateway's clock was seven minutes fast at the first scan.
        _ = try await scan(harness, age: 600, at: "2026-11-21T10:07:00Z")
        let before = try await times(harness)
        _ = try await scan(harness, age: 700, at: "2026-11-21T11:40:00Z")
        let after = try await times(harness)
        #expect(before.allSatisfy { after[$0.key] == $0.value })
        let readings = try await harness.all()
        func time(_ minute: UInt16) -> Instant? { readings.first { $0.record.sensor?.minute == minute }?.time.instant }
        #expect(time(600) == Build.instant("2026-11-21T10:07:00Z"))
        #expect(time(700) == Build.instant("2026-11-21T11:40:00Z"))
        // Two minutes are within what cutting to minutes explains; a clock that was set back proves nothing.
        _ = try await scan(harness, age: 702, at: "2026-11-21T11:40:30Z")
        _ = try await scan(harness, age: 705, at: "2026-11-21T09:00:00Z")
        let last = try await harness.all()
        #expect(last.first { $0.record.sensor?.minute == 701 }?.time.instant == Build.instant("2026-11-21T11:40:30Z"))
        let early = try #require(last.first { $0.record.sensor?.minute == 705 }?.time.instant)
        #expect(early <= Build.instant("2026-11-21T09:00:00Z"))
    }

    @Test(
        "a sensor that was reset begins another epoch: its minutes are placed by its new start, and share nothing with the old"
    )
    func restarted() async throws {
        let harness = try await Harness()
        let store = harness.store
        _ = try await scan(harness, age: 600, at: "2026-11-21T10:00:30Z")
        let before = try await harness.all()
        let start = Build.instant("2026-11-21T20:00:30Z")
        let contact = try await store.beginContact(with: Build.sensor, at: start, clock: nil, batteryPercent: nil)
        func isRestarted(_ age: UInt16, at instant: Instant, isRunning: Bool = true) async throws -> Bool {
            let shown = SensorScan(serial: "0M000TEST01", ageMinutes: age, isRunning: isRunning, records: [])
            return try await store.isRestarted(shown, in: contact, scannedAt: instant)
        }
        // No clock, however wrong, makes a sensor younger, and two scans may be stored in the other order.
        for age in [600, 1200, 20_000] as [UInt16] {
            let isReset = try await isRestarted(age, at: start)
            #expect(!isReset, "\(age)")
        }
        let isLate = try await isRestarted(599, at: Build.instant("2026-11-21T09:59:50Z"))
        let isStopped = try await isRestarted(595, at: start, isRunning: false)
        let isReset = try await isRestarted(595, at: start)
        #expect(!isLate && !isStopped && isReset)

        // Its records are those of its former life to the last bit.
        let renewed = try await store.beginSequenceEpoch(in: contact)
        let outcomes = try await store.append([Build.scan(age: 595, at: "2026-11-21T20:00:30Z")], of: renewed)
        try await store.endContact(renewed, ContactSummary(isComplete: true, received: outcomes.count))
        #expect(outcomes.count { $0.name == "new" } == 48)
        let after = try await harness.all()
        let stored = Dictionary(uniqueKeysWithValues: after.map { ($0.id, $0) })
        for reading in before {
            let now = stored[reading.id]
            #expect(now?.time == reading.time && now?.excluded == reading.excluded, "\(reading.id)")
        }
        let known = Set(before.map(\.id))
        let fresh = after.filter { !known.contains($0.id) }
        #expect(fresh.count == 48 && fresh.count { $0.excluded == .superseded } == 1)
        for reading in fresh {
            let minute = Int64(try #require(reading.record.sensor).minute)
            let time = Build.instant("2026-11-21T20:00:00Z").advanced(bySeconds: (minute - 595) * 60)
            #expect(reading.time.instant == time, "\(minute)")
        }
        #expect(try await store.verify().isEmpty)
        // Five minutes later it is the same life.
        let next = try await scan(harness, age: 600, at: "2026-11-21T20:05:30Z")
        #expect(next.count { $0.name == "new" } == 5)
        let sensor = try await store.sensor(serial: "0M000TEST01", model: "libre1")
        #expect(sensor?.start == start.advanced(bySeconds: -30 - 595 * 60))
    }

    /// Stores a scan as the gateway does.
    private static func store(
        _ sensor: EncodedSensor, at now: Instant, in store: ReadingStore
    ) async throws -> (epoch: Int, outcomes: [FrameOutcome]) {
        let scan = try LibreScan(payload: sensor.payload)
        var contact = try await store.beginContact(
            with: LibreScan.device(serial: scan.serial), at: now, clock: nil, batteryPercent: nil)
        if let shown = scan.sensorScan, try await store.isRestarted(shown, in: contact, scannedAt: now) {
            contact = try await store.beginSequenceEpoch(in: contact)
        }
        let frame = Frame(format: .libre1Scan, payload: scan.payload, receivedAt: now, ordinal: 0)
        let outcomes = try await store.append([frame], of: contact)
        try await store.endContact(contact, ContactSummary(isComplete: true, received: outcomes.count))
        return (contact.sequenceEpoch, outcomes)
    }

    private static func open(now: Instant) async throws -> ReadingStore {
        try await ReadingStore.open(
            directory: Harness.newDirectory(), decoder: LibreDecoder(), clientUserID: "white_bear",
            timeZone: "Europe/Berlin", encryption: .on(), now: { now })
    }

    @Test("whenever a sensor is reset, each record of each of its lives is one reading, at its own time")
    func anyResets() async throws {
        for _ in 0..<trials(15) {
            let seed = UInt64.random(in: .min ... .max)
            var generator = SeededGenerator(seed: seed)
            let lives = SensorLives(using: &generator)
            let store = try await Self.open(now: Instant(seconds: 1_796_000_000))
            var life: Libre1Life?
            for scan in lives.scans {
                life = Libre1Read(try LibreScan(payload: scan.sensor.payload), at: scan.at, life: life).life
                let stored = try await Self.store(scan.sensor, at: scan.at, in: store)
                #expect(stored.epoch == life?.sequenceEpoch, "seed \(seed)")
                // What is known is known, and nothing is taken for it.
                #expect(!stored.outcomes.contains { $0.name == "clash" }, "seed \(seed)")
            }
            let readings = try await store.query(ReadingQuery(limit: 10_000)).readings
            let places = readings.compactMap { $0.record.sensor.map(lives.place(of:)) }
            #expect(readings.count == lives.shown.count && Set(places) == lives.shown, "seed \(seed)")
            for (reading, place) in zip(readings, places) {
                let time = try #require(reading.time.instant)
                let distance = abs(time.microseconds - lives.instant(of: place).microseconds)
                #expect(distance <= 60_000_000, "seed \(seed): \(place)")
            }
            let findings = try await store.verify()
            #expect(findings.isEmpty, "seed \(seed)")
            try store.close()
        }
    }

    @Test("a short life that was delivered and pruned is told from the next one, and from a clock that was put right")
    func prunedLife() async throws {
        let first = Build.instant("2026-11-21T06:00:30Z")
        for isReset in [false, true] {
            let store = try await Self.open(now: Build.instant("2026-11-22T12:00:00Z"))
            var sensor = EncodedSensor(age: 300)
            let known = try await Self.store(sensor, at: first, in: store)
            try await PruneTests.deliver(store)
            let pruning = try await store.prune(olderThan: .zero)
            #expect(pruning.readings > 25)
            sensor.age = 400
            if isReset {
                sensor.rule = { source, minute in
                    var record = EncodedSensor.wave(source, minute)
                    record?.glucose += 1
                    return record
                }
            }
            let now = first.advanced(bySeconds: 1000 * 60)
            let stored = try await Self.store(sensor, at: now, in: store)
            #expect(known.epoch == 0 && stored.epoch == (isReset ? 1 : 0))
            #expect(stored.outcomes.count { $0.name == "new" } == (isReset ? 42 : 23))
            #expect(!stored.outcomes.contains { $0.name == "clash" })
            let start = Build.instant("2026-11-21T16:00:00Z")
            for case .new(let reading) in stored.outcomes {
                let minute = Int64(try #require(reading.record.sensor).minute)
                guard minute > 300 || isReset else { continue }
                #expect(reading.time.instant == start.advanced(bySeconds: 60 * minute), "\(minute)")
            }
            try store.close()
        }
    }

    @Test(
        "records that were pruned are known again without their values, and where others of their minutes are stored",
        arguments: [false, true])
    func prunedAndOthers(hasOthers: Bool) async throws {
        let first = Build.instant("2026-11-21T06:00:30Z")
        let store = try await Self.open(now: Build.instant("2026-11-22T12:00:00Z"))
        var sensor = EncodedSensor(age: 300)
        if hasOthers {
            var early = sensor
            early.rule = { source, minute in
                var record = EncodedSensor.wave(source, minute)
                record?.hasError = true
                return record
            }
            _ = try await Self.store(early, at: first, in: store)
        }
        _ = try await Self.store(sensor, at: first.advanced(bySeconds: 10), in: store)
        try await PruneTests.deliver(store)
        let pruning = try await store.prune(olderThan: .zero)
        #expect(pruning.readings > 25)
        // The clock was most of a day behind.
        sensor.age = 310
        if !hasOthers { sensor.damaged = [.footer] }
        let stored = try await Self.store(sensor, at: first.advanced(bySeconds: 1000 * 60), in: store)
        #expect(stored.epoch == 0)
        try store.close()
    }

    @Test("scans that are read without a store make the readings that a store has, across a wrong clock and a reset")
    func withoutStore() async throws {
        let store = try await Self.open(now: Build.instant("2026-11-22T12:00:00Z"))
        var (life, made): (Libre1Life?, [ReadingID: Instant?]) = (nil, [:])
        // The clock was seven minutes fast at the first scan. After the third the sensor was reset.
        for (age, time) in [
            (600, "2026-11-21T10:07:30Z"), (700, "2026-11-21T11:40:30Z"), (704, "2026-11-21T11:44:10Z"),
            (90, "2026-11-21T14:00:30Z"), (97, "2026-11-21T14:07:59Z"),
        ] as [(UInt16, String)] {
            let (sensor, now) = (EncodedSensor(age: age), Build.instant(time))
            let read = Libre1Read(try LibreScan(payload: sensor.payload), at: now, life: life)
            life = read.life
            // What is known keeps its time.
            for reading in read.readings where made[reading.id] == nil { made[reading.id] = reading.time.instant }
            let stored = try await Self.store(sensor, at: now, in: store)
            #expect(stored.epoch == read.life.sequenceEpoch, "\(time)")
        }
        #expect(life?.sequenceEpoch == 1)
        let stored = try await store.query(ReadingQuery(limit: 10_000)).readings
        #expect(Dictionary(uniqueKeysWithValues: stored.map { ($0.id, $0.time.instant) }) == made)
        try store.close()
    }

    @Test("a start that was fixed under a clock ahead of its time is corrected as soon as that is known")
    func ahead() async throws {
        let harness = try await Harness()
        _ = try await scan(harness, age: 600, at: "2026-12-01T10:00:20Z")
        _ = try await harness.store.setContactsAside(after: Build.instant("2026-11-21T12:02:00Z"))
        _ = try await scan(harness, age: 1020, at: "2026-11-21T17:00:20Z")
        let times = try await harness.all().reduce(into: [UInt16: Instant]()) { times, reading in
            if let sensor = reading.record.sensor, reading.excluded == nil {
                times[sensor.minute] = reading.time.instant
            }
        }
        // The last is of a minute that the first scan had, too, and that is final only now.
        for (minute, time) in [
            (615, "10:15:00"), (750, "12:30:00"), (900, "15:00:00"), (1005, "16:45:00"), (600, "10:00:00"),
        ] {
            #expect(times[UInt16(minute)] == Build.instant("2026-11-21T\(time)Z"), "\(minute)")
        }
        #expect(times[599] == Build.instant("2026-12-01T09:59:00Z"))
    }

    @Test(
        "a sensor whose age stands still proves no start: its records have no time, or the one of the start known before"
    )
    func stopped() async throws {
        let harness = try await Harness(decoder: TestDecoder(sensorHasStopped: true))
        _ = try await scan(harness, age: 600, at: "2026-11-21T10:00:30Z")
        let readings = try await harness.all()
        #expect(readings.count == 48 && readings.allSatisfy { $0.time.instant == nil && $0.excluded == .noTime })
        let directory = Harness.newDirectory()
        let times: [ReadingID: Instant?]
        do {
            let known = try await Harness(directory)
            _ = try await scan(known, age: 600, at: "2026-11-21T10:00:30Z")
            times = try await self.times(known)
            try known.store.close()
        }
        let again = try await Harness(directory, decoder: TestDecoder(sensorHasStopped: true))
        _ = try await scan(again, age: 600, at: "2026-11-25T10:00:30Z")
        #expect(try await self.times(again) == times)
    }

    @Test("a sensor that has expired is dated by its known start, and what it measured before its end counts")
    func expired() async throws {
        let store = try await ReadingStore.open(
            directory: Harness.newDirectory(), decoder: LibreDecoder(), clientUserID: "white_bear",
            timeZone: "Europe/Berlin", encryption: .on(), now: { Build.instant("2026-11-21T12:00:00Z") })
        func scan(_ sensor: EncodedSensor, at time: String) async throws {
            let start = Build.instant(time)
            let contact = try await store.beginContact(
                with: Build.sensor, at: start, clock: nil, batteryPercent: nil)
            let frame = Frame(format: .libre1Scan, payload: sensor.payload, receivedAt: start, ordinal: 0)
            let outcomes = try await store.append([frame], of: contact)
            try await store.endContact(contact, ContactSummary(isComplete: true, received: outcomes.count))
        }
        var sensor = EncodedSensor(age: 20_700)
        try await scan(sensor, at: "2026-11-21T06:00:30Z")
        // It has ended at nine o'clock, and its memory has not changed since.
        sensor.age = sensor.maximumLife
        sensor.state = .expired
        try await scan(sensor, at: "2026-11-21T11:40:30Z")
        let start = Build.instant("2026-11-21T06:00:00Z").advanced(bySeconds: -20_700 * 60)
        let readings = try await store.query(ReadingQuery(limit: 10_000)).readings
        for reading in readings {
            let minute = try #require(reading.record.sensor).minute
            #expect(reading.time.instant == start.advanced(bySeconds: Int64(minute) * 60), "\(minute)")
            let isOver = minute >= sensor.maximumLife
            #expect(isOver == (reading.excluded == .sensorNotActive), "\(minute)")
        }
        let last = readings.filter { $0.excluded == nil }.compactMap { $0.record.sensor?.minute }.max()
        #expect(last == sensor.maximumLife - 1)
        #expect(try await store.verify().isEmpty)
        try store.close()
    }

    @Test("the last hours of a sensor that has shut down count, also if an earlier version has placed them at its age")
    func shutDown() async throws {
        let directory = Harness.newDirectory()
        func with(_ decoder: LibreDecoder, _ body: (ReadingStore) async throws -> Void) async throws {
            let store = try await ReadingStore.open(
                directory: directory, decoder: decoder, clientUserID: "white_bear", timeZone: "Europe/Berlin",
                encryption: .on(), now: { Build.instant("2026-11-22T12:00:00Z") })
            try await body(store)
            try store.close()
        }
        func scan(_ sensor: EncodedSensor, at time: String, _ store: ReadingStore) async throws {
            let start = Build.instant(time)
            let contact = try await store.beginContact(
                with: Build.sensor, at: start, clock: nil, batteryPercent: nil)
            let frame = Frame(format: .libre1Scan, payload: sensor.payload, receivedAt: start, ordinal: 0)
            let outcomes = try await store.append([frame], of: contact)
            try await store.endContact(contact, ContactSummary(isComplete: true, received: outcomes.count))
        }
        var sensor = EncodedSensor(age: 20_400)
        let start = Build.instant("2026-11-21T01:00:00Z").advanced(bySeconds: -20_400 * 60)
        let life = sensor.maximumLife
        var ended = sensor
        (ended.age, ended.stoppedAt, ended.trendLag, ended.state) = (life + 720, life, 1, .shutDown)
        ended.failure = SensorFailure(code: 3, ageMinutes: life)
        sensor.trendLag = 1
        try await with(LibreDecoder(placesByAge: true)) { [sensor, ended] store in
            try await scan(sensor, at: "2026-11-21T01:00:30Z", store)
            try await scan(ended, at: "2026-11-22T08:00:30Z", store)
        }
        try await with(LibreDecoder()) { [ended] store in
            #expect(try await store.verify().isEmpty)
            try await scan(ended, at: "2026-11-22T09:00:30Z", store)
            let readings = try await store.query(ReadingQuery(limit: 10_000)).readings
            let counting = readings.filter { $0.excluded == nil }
            for reading in counting {
                let minute = try #require(reading.record.sensor).minute
                #expect(reading.time.instant == start.advanced(bySeconds: Int64(minute) * 60), "\(minute)")
            }
            let minutes = Set(counting.compactMap { $0.record.sensor?.minute })
            #expect(minutes.max() == life - 1)
            #expect(stride(from: 20_415, to: life, by: 15).allSatisfy { minutes.contains($0) })
            #expect(readings.allSatisfy { $0.excluded != nil || ($0.record.sensor?.minute ?? 0) < life })
            #expect(try await store.verify().isEmpty)
        }
    }

    @Test(
        "a record that a later scan shows in another state of the sensor is sound; so is one that was excluded by an earlier rule"
    )
    func verified() async throws {
        let harness = try await Harness()
        _ = try await scan(harness, age: 600, at: "2026-11-21T10:00:30Z")
        _ = try await scan(harness, age: 603, at: "2026-11-21T10:03:30Z", inactive: true)
        #expect(try await harness.all().contains { $0.excluded == .sensorNotActive })
        #expect(try await harness.store.verify().isEmpty)

        // An earlier version has excluded what this one would not.
        let directory = Harness.newDirectory()
        do {
            let earlier = try await Harness(directory)
            _ = try await scan(earlier, age: 600, at: "2026-11-21T10:00:30Z", inactive: true)
            try earlier.store.close()
        }
        do {
            let later = try await Harness(directory, decoder: TestDecoder(heedsState: false))
            #expect(try await later.store.verify().isEmpty)
            _ = try await scan(later, age: 600, at: "2026-11-21T10:00:50Z", inactive: true)
            #expect(try await later.all().allSatisfy { $0.excluded == .sensorNotActive })
            #expect(try await later.store.verify().isEmpty)
            // What no scan has ever excluded is still told.
            _ = try await scan(later, age: 700, at: "2026-11-21T11:40:30Z", inactive: true)
            try later.store.close()
        }
        let findings = try await Harness(directory).store.verify()
        #expect(!findings.isEmpty && findings.allSatisfy { $0.problem == .differs })
    }

    @Test("of an erased person's sensor nothing is left, its serial number and start neither; another's stays")
    func erased() async throws {
        // Sealed, the serial number that has to go would be in no file in any case.
        let harness = try await Harness(encryption: .off())
        _ = try await scan(harness, age: 600, at: "2026-11-21T10:00:30Z")
        #expect(try ErasureTests.contains(Array("0M000TEST01".utf8), in: harness.directory))
        let first = try await harness.store.currentUser()
        try await harness.store.setCurrentUser("brown_bear", timeZone: "Europe/Berlin")
        var other = Build.sensor
        other.serial = "0M000OTHER1"
        _ = try await harness.contact(
            [Build.scan(age: 600, at: "2026-11-21T10:30:30Z")], device: other, at: "2026-11-21T10:30:30Z")
        try await harness.store.eraseUser(first.key)
        #expect(try await harness.store.devices().map(\.description.serial) == ["0M000OTHER1"])
        #expect(try await harness.store.statistics().readings == [.glucose: 48])
        #expect(try !ErasureTests.contains(Array("0M000TEST01".utf8), in: harness.directory))
        #expect(try await harness.store.verify().isEmpty)
    }

    @Test("readings of ignored providers are kept and wait, until they are ignored no longer")
    func ignored() async throws {
        let harness = try await Harness()
        try await harness.store.setIgnored(IgnoredOrigins(providers: ["freestyle_libre_ble"]))
        _ = try await scan(harness, age: 600, at: "2026-11-21T10:00:30Z")
        try await harness.contact([Build.glucose(1, "2026-11-20T12:30:00")])
        func holds() async throws -> [String: Hold?] {
            try await Dictionary(
                harness.store.groupsWaiting().map { ($0.provider, $0.held) }, uniquingKeysWith: { first, _ in first })
        }
        #expect(try await holds() == ["freestyle_libre_ble": .ignored, "accuchek_ble": .noSource])
        #expect(try await harness.all().count { $0.deliveries.map(\.hold) == [.ignored] } == 47)
        try await harness.store.setIgnored(IgnoredOrigins())
        #expect(try await holds() == ["freestyle_libre_ble": .noSource, "accuchek_ble": .noSource])
    }

    @Test("an ignored model waits under whatever slug it was queued, and what others measured under that slug goes on")
    func ignoredModel() async throws {
        let harness = try await Harness()
        var sensor = Build.sensor
        for (provider, age, time) in [
            ("freestyle_libre_ble", 600, "2026-11-21T10:00:30Z"), ("accuchek_ble", 610, "2026-11-21T10:10:30Z"),
        ] {
            sensor.provider = provider
            try await harness.contact([Build.scan(age: age, at: time)], device: sensor, at: time)
        }
        try await harness.contact([Build.glucose(1, "2026-11-20T12:30:00")])
        try await harness.store.setIgnored(IgnoredOrigins(models: ["libre1"]))
        let groups = try await harness.store.groupsWaiting()
        let holds = Set(groups.map { "\($0.provider) \($0.held?.rawValue ?? "none")" })
        #expect(holds == ["freestyle_libre_ble ignored", "accuchek_ble ignored", "accuchek_ble no_source"])
        #expect(groups.first { $0.held == .noSource }?.count == 1)
    }

    @Test("two sensors share nothing")
    func twoSensors() async throws {
        let harness = try await Harness()
        _ = try await scan(harness, age: 600, at: "2026-11-21T10:00:30Z")
        var other = Build.sensor
        other.serial = "0M000TEST02"
        let outcomes = try await harness.contact(
            [Build.scan(age: 600, at: "2026-11-21T10:30:30Z")], device: other, at: "2026-11-21T10:30:30Z")
        #expect(outcomes.count { $0.name == "new" } == 48)
        #expect(try await harness.store.statistics().readings == [.glucose: 96])
    }
}

extension Sequence {
    fileprivate func asyncFlatMap<T>(_ transform: (Element) async throws -> [T]) async rethrows -> [T] {
        var all: [T] = []
        for element in self { all += try await transform(element) }
        return all
    }
}
