import Foundation
import GATTClient
import GATTProfiles
import HealthReadings
import ReadingStore
import Testing

@testable import HealthDevices

/// Continuous sensors with the standard service (181F): sessions, minutes and clocks.
@Suite struct ContinuousGlucoseTests {
    private static let checksums = ContinuousGlucoseFeature.checksums
    private static let start = WallTime.spring

    /// A value at a minute, with its checksum where there is to be one.
    private static func value(_ minute: UInt16, above: UInt16 = 0, hasChecksum: Bool = true) -> [UInt8] {
        ContinuousGlucoseMeasurement(
            concentration: MedFloat16(rawValue: 90 + above + minute), timeOffset: minute, warning: 0,
            trend: MedFloat16(rawValue: 1)
        ).encoded(hasChecksum: hasChecksum)
    }

    private static func sealed(_ octets: [UInt8], _ hasChecksum: Bool) -> [UInt8] {
        hasChecksum ? ContinuousGlucoseChecksum.appended(to: octets) : octets
    }

    /// What can be read of a sensor whose session began then, and has come to this minute.
    private static func readable(
        start: WallTime?, minute: UInt16, hasChecksum: Bool
    ) -> [BluetoothUUID: Result<[UInt8], GATTError>] {
        let began = ContinuousGlucoseSessionStart(
            dateTime: start.map(DateTime.init) ?? .unknown, zone: LocalTimeInformation(timeZone: 4, dstOffset: 0))
        return [
            0x2AA8: .success(
                ContinuousGlucoseFeature(rawValue: hasChecksum ? checksums : 0, typeAndLocation: 0x59).encoded),
            0x2AA9: .success(sealed(ContinuousGlucoseStatus(timeOffset: minute).encoded, hasChecksum)),
            0x2AAA: .success(sealed(began.encoded, hasChecksum)),
            0x2AAB: .success(sealed(ContinuousGlucoseRunTime(hours: 336).encoded, hasChecksum)),
        ]
    }

    private func bench(
        _ minutes: ClosedRange<UInt16> = 1...12, start: WallTime? = start, now: UInt16 = 12, together: Int = 2,
        hasChecksum: Bool = true, burst: Int = 3, _ adjust: (inout EmulatedDevice.Behaviour) -> Void = { _ in }
    ) -> Bench {
        var behaviour = EmulatedDevice.Behaviour()
        behaviour.name = "CGM"
        var memory = EmulatedGlucoseMemory(minutes.map { Self.value($0, hasChecksum: hasChecksum) })
        memory.valuesPerNotification = together
        behaviour.glucose = memory
        behaviour.readable = Self.readable(start: start, minute: now, hasChecksum: hasChecksum)
        behaviour.burst = burst
        adjust(&behaviour)
        return Bench(behaviour)
    }

    private func go(_ bench: Bench, to minute: UInt16, start: WallTime? = start) {
        bench.glucose { memory in
            let last = memory.records.last.map { UInt16($0[4]) | UInt16($0[5]) << 8 } ?? 0
            if last < minute { memory.records += ((last + 1)...minute).map { Self.value($0) } }
        }
        bench.device.change {
            $0.readable = Self.readable(start: start, minute: minute, hasChecksum: true)
        }
    }

    @Test(
        "promise 1 and 2: values are read, each once, whether one or several come together, with checksums or not",
        arguments: [1, 2, 5], [true, false])
    func reading(together: Int, hasChecksum: Bool) async throws {
        let bench = bench(together: together, hasChecksum: hasChecksum)
        #expect(try await bench.read() == ContactSummary(isComplete: true, announced: 12, received: 12))
        #expect(bench.store.contacts[0].device.model == "generic_cgm" && bench.store.readingCount == 12)
        #expect(bench.store.records.allSatisfy { $0.exclusion == nil && $0.baseTime == Self.start.at($0.sequence) })
        // What its clock shows is the session's start and its minute.
        #expect(bench.store.clocks.map(\.deviceTime) == [Self.start.shown(inMinute: 12)])
        #expect(try await bench.read().isComplete && bench.store.readingCount == 12)
        #expect(bench.log.requests.last == [1, 6], "only the newest was asked for")
    }

    @Test("only what is new is asked for, by the minute of the newest one, and minutes without a value are no gaps")
    func news() async throws {
        let bench = bench()
        try await bench.read()
        bench.glucose { $0.records += [20, 25].map { Self.value($0) } }
        #expect(try await bench.read() == ContactSummary(isComplete: true, announced: 3, received: 3))
        #expect(bench.log.requests.contains([1, 3, 1, 12, 0]) && bench.store.readingCount == 14)
        // A sensor that cannot count is no worse.
        bench.glucose {
            $0.records.append(Self.value(40))
            $0.refuses = [.count: 2]
        }
        #expect(try await bench.read().isComplete && bench.store.readingCount == 15)
    }

    @Test(
        "a session that began behind the newest record, if only by a minute, is another, also where it has come further",
        arguments: [13, 14, 60])
    func anotherSession(minute: Int) async throws {
        let bench = bench()
        try await bench.read()
        let later = Self.start.advanced(byMinutes: minute)
        bench.device.change { $0.readable = Self.readable(start: later, minute: 30, hasChecksum: true) }
        bench.glucose { $0.records = (1...30).map { Self.value($0) } }
        #expect(try await bench.read() == ContactSummary(isComplete: true, announced: 30, received: 30))
        #expect(bench.store.epoch == 1 && bench.store.readingCount == 42)
        #expect(try await bench.read().isComplete && bench.store.readingCount == 42 && bench.store.epoch == 1)
    }

    @Test("the start of a session that has only just begun may come a little later at the next contact")
    func youngSession() async throws {
        let bench = bench(1...1, now: 1)
        try await bench.read()
        go(bench, to: 3, start: WallTime(secondsSinceEpoch: Self.start.secondsSinceEpoch + 90))
        #expect(try await bench.read().isComplete)
        #expect(bench.store.epoch == 0 && bench.store.readingCount == 3)
    }

    @Test("another session is found by its numbers where its start says nothing")
    func restarted() async throws {
        let bench = bench(start: nil)
        try await bench.read()
        bench.glucose { $0.records = (1...3).map { Self.value($0, above: 7) } }
        try await bench.read()
        #expect(bench.store.epoch == 1 && bench.store.readingCount == 15)
    }

    @Test(
        "a host that sets the sensor's time again moves its start: no record comes as a new one",
        arguments: [30, -30, 6 * 60, 2 * 3600, -7 * 3600] as [Int64])
    func movedStart(seconds: Int64) async throws {
        let bench = bench()
        try await bench.read()
        let moved = WallTime(secondsSinceEpoch: Self.start.secondsSinceEpoch + seconds)
        // An hour later.
        go(bench, to: 72, start: moved)
        #expect(try await bench.read().isComplete)
        #expect(bench.store.epoch == 0 && bench.store.readingCount == 72)
        #expect(Set(bench.store.records.map(\.baseTime)) == Set((1...72).map { Self.start.at(UInt16($0)) }))
        // The clock is compared by the start the session is known by, and so is as far off as its records.
        #expect(bench.store.clocks.last?.deviceTime == Self.start.shown(inMinute: 72))
        bench.device.change { $0.readable = Self.readable(start: moved, minute: 132, hasChecksum: true) }
        #expect(try await bench.reader.read(bench.device, allRecords: true).isComplete)
        #expect(bench.store.epoch == 0 && bench.store.readingCount == 72)
    }

    @Test(
        "promise 1 and 2: another session is found where the sensor's time was set back before it, however far it has come",
        arguments: [(-60, 9), (-5, 9), (-10, 40)])
    func timeSetBack(start minute: Int, now: UInt16) async throws {
        let bench = bench()
        try await bench.read()
        let other = Self.start.advanced(byMinutes: minute)
        bench.device.change { $0.readable = Self.readable(start: other, minute: now, hasChecksum: true) }
        bench.glucose { $0.records = (1...now).map { Self.value($0) } }
        let count = Int(now)
        #expect(try await bench.read() == ContactSummary(isComplete: true, announced: count, received: count))
        let times = (1...12).map { Self.start.at($0) } + (1...now).map { other.at($0) }
        #expect(bench.store.epoch == 1 && bench.store.readingCount == 12 + count)
        #expect(Set(bench.store.records.map(\.baseTime)) == Set(times))
        #expect(try await bench.read().isComplete && bench.store.readingCount == 12 + count && bench.store.epoch == 1)
    }

    @Test("where the sensor's time was set, our clock tells whether a session is another")
    func whichSession() {
        let begin = Instant(seconds: 1_795_000_000)
        // Its newest record is of minute 1000, and the sensor's clock is right.
        func isAnother(
            start: Int, minute: UInt16, at now: Int, last sequence: UInt16 = 1000, hasTime: Bool = true
        ) -> Bool {
            var session = ContinuousGlucoseSession(feature: nil, start: Self.start.advanced(byMinutes: start))
            let time = hasTime ? Instant(seconds: begin.seconds + Int64(sequence) * 60) : nil
            return session.isAnother(
                than: LastRecord(sequence: sequence, baseTime: Self.start.at(sequence), time: time, count: 1),
                now: ContinuousGlucoseMinute(minute: minute, readAt: Instant(seconds: begin.seconds + Int64(now) * 60)))
        }
        // A capture from before the time was set, when the session had come to minute 500.
        #expect(!isAnother(start: -60, minute: 500, at: 500) && !isAnother(start: 60, minute: 500, at: 500))
        // A status that was read long before the newest record came, in the same connection.
        #expect(!isAnother(start: 60, minute: 601, at: 601, last: 1200))
        // The sensor's minutes are a little longer than ours.
        #expect(!isAnother(start: 60, minute: 19_990, at: 20_002, last: 19_800))
        // Another session, which has come further than the newest record.
        #expect(isAnother(start: -60, minute: 1500, at: 2600) && isAnother(start: 1400, minute: 1500, at: 2600))
        // No count of the sensor's, or no time of the record: its start tells.
        for (minute, hasTime) in [(0, true), (1500, false)] as [(UInt16, Bool)] {
            #expect(!isAnother(start: -60, minute: minute, at: 2600, hasTime: hasTime))
            #expect(isAnother(start: 1001, minute: minute, at: 2600, hasTime: hasTime))
        }
        // Our clock was set: neither the same session nor one behind the record.
        #expect(!isAnother(start: 60, minute: 1100, at: 1160) && !isAnother(start: -60, minute: 1100, at: 1040))
    }

    @Test("of a sensor that begins each session by the same time, one that has come further is read from its beginning")
    func sameStart() async throws {
        let bench = bench()
        let store = try await ReadingStore.open(
            directory: FileManager.default.temporaryDirectory
                .appending(path: "cgm-\(ProcessInfo.processInfo.globallyUniqueString)").path,
            decoder: ModelFrameDecoder(), clientUserID: "white_bear", timeZone: "Europe/Berlin")
        let reader = MeterReader(journal: store, memory: store)
        #expect(try await reader.read(bench.device).isComplete)
        // An hour later another session is in its 30th minute.
        bench.device.change { $0.readable = Self.readable(start: Self.start, minute: 30, hasChecksum: true) }
        bench.glucose { $0.records = (1...30).map { Self.value($0, above: 7) } }
        #expect(try await reader.read(bench.device).isComplete)
        let readings = try await store.query(ReadingQuery()).readings
        #expect(readings.count == 12 + 30 && readings.allSatisfy { $0.excluded == nil })
        // Its values, and those of the session before, are an hour apart but for the minutes that it has come further.
        let times = readings.filter { $0.record.sequence == 12 }.compactMap(\.time.instant?.seconds).sorted()
        #expect(zip(times, times.dropFirst()).map { $1 - $0 } == [3600 - 18 * 60])
        try store.close()
    }

    @Test("where our clock was set, a session that goes on is read again, and nothing comes as new")
    func clockWasSet() async throws {
        let bench = bench()
        try await bench.read()
        // An hour later by our clock, 8 minutes by the sensor's.
        go(bench, to: 20)
        #expect(try await bench.read().isComplete)
        #expect(bench.log.requests.contains([1, 1]))
        #expect(bench.store.epoch == 0 && bench.store.readingCount == 20)
    }

    @Test("a session whose start cannot be read for once is the one that its minutes tell")
    func startNotTold() async throws {
        let bench = bench()
        try await bench.read()
        // An hour later.
        go(bench, to: 72)
        bench.device.change { $0.readable[0x2AAA] = .failure(.attribute(0x0E)) }
        #expect(try await bench.read().isComplete)
        #expect(bench.store.epoch == 0 && bench.store.readingCount == 72)
        #expect(bench.store.records.allSatisfy { $0.baseTime == Self.start.at($0.sequence) })
        // Another one, of which nothing is known.
        bench.device.change { behaviour in
            behaviour.readable = Self.readable(start: nil, minute: 20, hasChecksum: true)
        }
        bench.glucose { $0.records = (1...20).map { Self.value($0, above: 7) } }
        try await bench.read()
        #expect(bench.store.epoch == 1 && bench.store.readingCount == 92)
    }

    @Test("promise 7: a session whose start was never set gives no time, and its records come anew once it is")
    func withoutStart() async throws {
        let bench = bench(start: nil)
        try await bench.read()
        #expect(bench.store.clocks.isEmpty && bench.store.records.allSatisfy { $0.baseTime == nil })
        go(bench, to: 13)
        try await bench.read()
        #expect(bench.store.epoch == 1 && bench.store.records.count { $0.baseTime != nil } == 13)
    }

    @Test("promise 5: a value with a wrong checksum is kept, told, and does not stop the others")
    func malformed() async throws {
        let bench = bench()
        bench.glucose { $0.records[4][2] ^= 0x10 }
        let summary = try await bench.read()
        #expect(summary.received == 12 && bench.store.readingCount == 11 && bench.reported.malformed == 1)
        #expect(bench.store.frames.count == 12)
    }

    @Test(
        "a sensor whose own values make no sense is left by name, and nothing is enabled", arguments: [0x2AA8, 0x2AAA])
    func nonsense(characteristic: UInt16) async throws {
        let bench = bench { behaviour in
            guard case .success(var octets) = behaviour.readable[BluetoothUUID(characteristic)] else { return }
            octets[0] ^= 1
            behaviour.readable[BluetoothUUID(characteristic)] = .success(octets)
        }
        let summary = try await bench.read()
        #expect(summary.error == "cgm_malformed" && bench.log.requests.isEmpty)
        #expect(!bench.log.events.contains { if case .start = $0 { true } else { false } })
    }

    @Test("a sensor that tells nothing of itself is read without types and times")
    func silent() async throws {
        let bench = bench(hasChecksum: false) { $0.readable = [:] }
        #expect(try await bench.read().isComplete && bench.store.readingCount == 12)
        for record in bench.store.records {
            guard case .glucose(let value) = record.value else { continue }
            #expect(value.sampleType == nil && value.continuous != nil && record.baseTime == nil)
        }
    }

    @Test("promise 2: what a sensor samples is asked again where it was not answered, and no value comes as another")
    func featureNotAnswered() async throws {
        let bench = bench()
        let journal = MemoryJournal(timeZone: try #require(ZoneRules.named("Europe/Berlin")))
        let reader = MeterReader(journal: journal, memory: journal)
        #expect(try await reader.read(bench.device).isComplete && journal.readings.count == 12)
        bench.device.change { $0.readable[0x2AA8] = .failure(.timedOut) }
        #expect(try await reader.read(bench.device).error == "timeout")
        #expect(journal.readings.count == 12)
        bench.device.change { $0.readable = Self.readable(start: Self.start, minute: 12, hasChecksum: true) }
        #expect(try await reader.read(bench.device).isComplete && journal.readings.count == 12)
    }

    @Test("promise 3 and 4: a transfer that is cut is kept and read on; a silent sensor is aborted by name")
    func faults() async throws {
        let cut = bench { $0.cutAfter = 5 }
        #expect(try await cut.read().error == "transfer_interrupted")
        cut.device.change { $0.cutAfter = nil }
        #expect(try await cut.read().isComplete && cut.store.readingCount == 12)
        let silent = bench()
        silent.glucose { $0.silentOn = [.all, .count] }
        #expect(try await silent.read().error == "timeout")
        #expect(silent.log.requests.contains([3, 0]))
    }

    @Test("of two control points the one of its own service is asked")
    func controlPoints() {
        let both = [
            Characteristic(uuid: 0x2A52, service: 0x1808, valueHandle: 3),
            Characteristic(uuid: 0x2A52, service: 0x181F, valueHandle: 9),
        ]
        #expect(both.controlPoint(of: 0x181F)?.valueHandle == 9 && both.controlPoint(of: 0x1808)?.valueHandle == 3)
        #expect([both[0]].controlPoint(of: 0x181F)?.valueHandle == 3)
    }

    @Test(
        "promise 7: its time is set when a person asks for it: the present, in the zone of the wall",
        arguments: [true, false])
    func setClock(hasChecksum: Bool) async throws {
        let bench = RadioBench()
        let sensor = try await bench.meter(paired: .proven) {
            $0.readable = Self.readable(start: nil, minute: 12, hasChecksum: hasChecksum)
            $0.glucose?.valuesPerNotification = 1
            $0.writable[0x2AAA] = .some(nil)
        }
        let setting = try await bench.manager.setClock(of: .device(1)) { moment in
            WallTime(secondsSinceEpoch: moment.seconds + 3600)
        }
        #expect(setting.before == nil && setting.after?.deviceTime == setting.written.shown(inMinute: 12))
        let written = ContinuousGlucoseSessionStart(
            dateTime: DateTime(setting.written), zone: LocalTimeInformation(timeZone: 4, dstOffset: 0)
        ).encoded
        #expect(sensor.log.requests == [Self.sealed(written, hasChecksum)])
        sensor.change { $0.writable[0x2AAA] = .attribute(0x80) }
        let failure = await #expect(throws: ContactFailure.self) {
            try await bench.manager.setClock(of: .device(1)) { _ in .summer }
        }
        #expect(failure?.code == "clock_refused")
    }

    @Test("promise 7: where a sensor's time is set, its values are dated by the start that they are known by")
    func clockOfSession() async throws {
        let bench = bench { $0.writable[0x2AAA] = .some(nil) }
        /// This sensor takes what is written as its session's start.
        func set(_ start: WallTime) async throws -> ClockSetting {
            try await MeterReader(journal: bench.store, memory: bench.store).setClock(of: bench.device) { _ in start }
        }
        // Nothing was read of it: what it showed before is of no use.
        bench.device.change { $0.readable = Self.readable(start: .summer, minute: 12, hasChecksum: true) }
        let first = try await set(Self.start)
        #expect(first.before?.deviceTime == WallTime.summer.shown(inMinute: 12))
        #expect(first.after?.deviceTime == Self.start.shown(inMinute: 12))
        #expect(bench.store.clocks.map(\.deviceTime) == [Self.start.shown(inMinute: 12)])
        try await bench.read()
        // An hour later: it was two hours slow.
        let moved = Self.start.advanced(byMinutes: 120)
        go(bench, to: 72)
        #expect(try await set(moved).after?.deviceTime == moved.shown(inMinute: 72))
        #expect(bench.store.clocks.last?.deviceTime == Self.start.shown(inMinute: 72))
        // Another hour later.
        go(bench, to: 132, start: moved)
        #expect(try await bench.read().isComplete && bench.store.readingCount == 132 && bench.store.epoch == 0)
        #expect(Set(bench.store.clocks.map(\.deviceTime)) == Set([12, 72, 132].map { Self.start.shown(inMinute: $0) }))
        // Another session has begun by the new time: what is known of it is its start.
        let other = moved.advanced(byMinutes: 132 + 55)
        bench.device.change { $0.readable = Self.readable(start: moved, minute: 5, hasChecksum: true) }
        #expect(try await set(other).after?.deviceTime == other.shown(inMinute: 5))
        #expect(bench.store.clocks.last?.deviceTime == other.shown(inMinute: 5))
    }

    @Test("a sensor whose clock says that this machine's is wrong is told no other time")
    func clockContradicts() async throws {
        let bench = bench { $0.writable[0x2AAA] = .some(nil) }
        try await bench.read()
        bench.store.refuseClocks()
        let asked = bench.log.requests.count
        let failure = await #expect(throws: ContactFailure.self) {
            try await MeterReader(journal: bench.store, memory: bench.store).setClock(of: bench.device) { _ in .summer }
        }
        #expect(failure?.code == "clock_not_trusted" && bench.log.requests.count == asked)
    }

    // MARK: The store

    @Test("in the store a value has its trend and quality, its time by the gateway's clock, and waits as automatic")
    func stored() async throws {
        let directory = FileManager.default.temporaryDirectory
            .appending(path: "cgm-\(ProcessInfo.processInfo.globallyUniqueString)").path
        func open() async throws -> ReadingStore {
            try await ReadingStore.open(
                directory: directory, decoder: ModelFrameDecoder(), clientUserID: "white_bear",
                timeZone: "Europe/Berlin")
        }
        var store = try await open()
        let device = DeviceDescription(address: .device(3), model: "generic_cgm", provider: "manual")
        let readAt = try #require(Instant(rfc3339: "2026-11-21T10:00:40Z"))
        // By the sensor's clock, which is an hour slow, it is 10:00 at minute 150; on the user's wall 11:00.
        let start = try #require(WallTime("2026-11-21T07:30:00"))
        let session = ContinuousGlucoseSession(
            feature: ContinuousGlucoseFeature(rawValue: 0, typeAndLocation: 0x59), start: start)
        let contact = try await store.beginContact(with: device, at: readAt, clock: nil, batteryPercent: nil)
        let placed = try await store.noteClock(
            try #require(session.clock(in: ContinuousGlucoseMinute(minute: 150, readAt: readAt))), in: contact)
        let record = try #require(session.records(in: hex("0A 03 6400 9600 F5EF 5F00")).first)
        let frame = Frame(
            format: .continuousGlucoseRecord, payload: record.payload, receivedAt: readAt, ordinal: 0)
        let outcomes = try await store.append([frame], of: placed)
        guard case .new(let reading)? = outcomes.first else {
            Issue.record("\(outcomes)")
            return
        }
        #expect(reading.time.instant?.description == "2026-11-21T10:00:00Z" && reading.time.basis == .corrected)
        try await store.endContact(placed, ContactSummary(isComplete: true, received: 1))
        try store.close()
        store = try await open()
        let again = try #require(try await store.query(ReadingQuery()).readings.first)
        #expect(again.document.text == reading.document.text)
        #expect(again.document.text.contains(#""trend":{"value":-0.11,"unit":"mg/dL/min"}"#))
        var octets: [UInt8] = []
        again.write(into: &octets)
        #expect(String(decoding: octets, as: UTF8.self) == again.document.text)
        try store.close()
    }

    private func hex(_ text: String) -> [UInt8] {
        let digits = text.filter { !$0.isWhitespace }
        return stride(from: 0, to: digits.count, by: 2).compactMap { start in
            UInt8(digits.dropFirst(start).prefix(2), radix: 16)
        }
    }
}

extension WallTime {
    fileprivate func at(_ minute: UInt16?) -> WallTime? { minute.map { advanced(byMinutes: Int($0)) } }
    /// What a sensor that counts minutes shows in one.
    fileprivate func shown(inMinute minute: Int) -> WallTime {
        WallTime(secondsSinceEpoch: advanced(byMinutes: minute).secondsSinceEpoch + 30)
    }
}
