import Foundation
import GATTClient
import GATTProfiles
import HealthReadings
import ReadingStore
import Synchronization
import Testing

@testable import HealthDevices

/// Straps and oximeters that are recorded.
@Suite struct RecordingTests {
    private static let root: String = {
        atexit { try? FileManager.default.removeItem(atPath: NSTemporaryDirectory() + "recordings-\(getpid())") }
        return NSTemporaryDirectory() + "recordings-\(getpid())"
    }()

    private static func newDirectory() -> String { root + "/" + UUID().uuidString }

    private static func open(_ directory: String) async throws -> ReadingStore {
        try await ReadingStore.open(
            directory: directory, decoder: ModelFrameDecoder(), clientUserID: "white_bear", timeZone: "Europe/Berlin")
    }

    private static func all(_ store: ReadingStore) async throws -> [Reading] {
        try await store.query(ReadingQuery(limit: 10_000)).readings.reversed()
    }

    /// A measurement with so many intervals.
    private static func rate(_ bpm: UInt16, _ intervals: [UInt16] = [], contact: Bool? = nil) -> [UInt8] {
        HeartRateMeasurement(beatsPerMinute: bpm, hasContact: contact, intervals: intervals).encoded
    }

    /// 2026-11-20T23:58:20Z, in milliseconds.
    private static let start: Int64 = 1_795_219_100_000

    private static func series(_ reading: Reading) -> SampleSeries? {
        if case .vital(let value) = reading.record.value { value.series } else { nil }
    }

    @Test("an hour of a strap is a block a minute, with every notification in it, and a variability each five minutes")
    func hour() async throws {
        let store = try await Self.open(Self.newDirectory())
        let values = (0..<3600).map { second in
            (
                Self.start + Int64(second) * 1000 + Int64(second % 7),
                Self.rate(60, [second.isMultiple(of: 2) ? 1020 : 1028])
            )
        }
        let strap = ScriptedStrap(values)
        let summary = try await MeterReader(journal: store, memory: store).recording().read(strap)
        let readings = try await Self.all(store)
        let rates = readings.filter { $0.kind == .heartRate }
        #expect((60...61).contains(rates.count) && rates.allSatisfy { $0.excluded == nil })
        #expect(rates.compactMap(Self.series).map(\.count).reduce(0, +) == 3600)
        #expect(
            rates[0].record.document().text.contains(
                #""offset_seconds":0.000,"bpm":60,"rr_ms":[996.09],"contact":null"#))
        // Blocks follow each other, through midnight too.
        let begins = rates.compactMap(\.time.instant?.seconds)
        #expect(zip(begins, begins.dropFirst()).allSatisfy { (60...61).contains($1 - $0) })
        let variability = readings.filter { $0.kind == .hrv }
        #expect((10...12).contains(variability.count))
        #expect(variability.allSatisfy { ($0.time.instant?.seconds ?? 1) % 300 == 0 })
        guard case .vital(let value) = try #require(variability.first).record.value else {
            Issue.record("\(variability)")
            return
        }
        #expect(value.windowSeconds == 300 && value[.rmssd]?.number.number?.description == "7.8")
        #expect((value.beats?.counted ?? 0) >= 290 && value.beats?.leftOut == 0)
        #expect(summary.isComplete && summary.received == rates.count + variability.count)
        #expect(try await store.verify().isEmpty)
        // Read again it is the same.
        #expect(try await Self.all(store) == readings)
        // And what is stored says the same when it is decoded by itself.
        for reading in rates { #expect(Self.series(reading)?.isEmpty == false) }
        try store.close()
    }

    @Test("a strap without contact, an impossible rate and a dropout are no values, and nothing is made up for them")
    func noValues() async throws {
        let store = try await Self.open(Self.newDirectory())
        var values: [(Int64, [UInt8])] = (0..<10).map { (Self.start + $0 * 1000, Self.rate(70, [870], contact: true)) }
        values += (10..<20).map { (Self.start + $0 * 1000, Self.rate(70, [870], contact: false)) }
        values += [(Self.start + 20_000, Self.rate(400)), (Self.start + 21_000, Self.rate(0))]
        // Forty seconds later, which is another block.
        values += (70..<75).map { (Self.start + $0 * 1000, Self.rate(80)) }
        // And a minute in which it lay on a table.
        values += (140..<150).map { (Self.start + $0 * 1000, Self.rate(80, contact: false)) }
        let strap = ScriptedStrap(values)
        _ = try await MeterReader(journal: store, memory: store).recording().read(strap)
        let readings = try await Self.all(store)
        #expect(readings.map(\.kind) == [.heartRate, .heartRate, .heartRate])
        #expect(readings.map(\.excluded) == [nil, nil, .noValue])
        let first = try #require(Self.series(readings[0])).map(\.self)
        #expect(first.count == 22 && first.compactMap(\.value).count == 10)
        #expect(first[10...19].allSatisfy { $0.intervals.isEmpty && $0.hasContact == false })
        guard case .vital(let value) = readings[0].record.value else {
            Issue.record("\(readings[0])")
            return
        }
        #expect(value.main?.number.number?.description == "70.0")
        #expect(try await store.verify().isEmpty)
        try store.close()
    }

    @Test("a strap that is heard again while its former contact is being ended is followed next, once")
    func comesBack() {
        let (busy, address) = (BusyDevices(), DeviceAddress.device(1))
        let (first, early, late) = (ScriptedStrap([]), ScriptedStrap([]), ScriptedStrap([]))
        #expect(busy.take(first, at: address))
        // Before it is connected it is the same coming.
        #expect(!busy.take(early, at: address))
        busy.noteConnection(of: address)
        #expect(!busy.take(late, at: address))
        #expect(busy.leave(address) as? ScriptedStrap === late)
        #expect(busy.leave(address) == nil)
        // Now it is free.
        #expect(busy.take(first, at: address))
        busy.noteConnection(of: .device(2))
        #expect(busy.leave(address) == nil && busy.leave(.device(2)) == nil)
    }

    @Test("recordings of the first version are read by the former rule of what is no value")
    func formerRule() {
        #expect(!PulseOximeterStatus(measurement: 1 << 12, device: 1 << 1).saidNoValue)
        #expect(PulseOximeterStatus(measurement: 1 << 15).saidNoValue)
        #expect(PulseOximeterStatus(device: 1 << 14).saidNoValue)
    }

    @Test("an oximeter is kept as its pulse and as its saturation")
    func oximeter() async throws {
        let store = try await Self.open(Self.newDirectory())
        let values = (0..<90).map { second -> (Int64, [UInt8]) in
            let pair = SaturationAndPulse(
                saturation: MedFloat16(rawValue: second == 5 ? 0x07FF : 97), pulseRate: MedFloat16(rawValue: 64))
            return (Self.start + Int64(second) * 1000, PulseOximeterContinuous(normal: pair).encoded)
        }
        let oximeter = ScriptedStrap(values, characteristic: 0x2A5F, service: 0x1822)
        _ = try await MeterReader(journal: store, memory: store).recording().read(oximeter)
        let readings = try await Self.all(store)
        #expect(readings.count { $0.kind == .heartRate } == 2 && readings.count { $0.kind == .spo2 } == 2)
        let saturation = try #require(readings.first { $0.kind == .spo2 })
        #expect(Self.series(saturation)?.compactMap(\.value).count == 59)
        #expect(
            saturation.record.document().text.contains(#""spo2":{"value":97.0,"unit":"%"},"pulse":null,"series":[{"#))
        #expect(try await store.verify().isEmpty)
        try store.close()
    }

    @Test("a device that sends heart rates and saturations has a minute of each at a time, and its heart rate once")
    func both() async throws {
        let store = try await Self.open(Self.newDirectory())
        let pair = SaturationAndPulse(saturation: MedFloat16(rawValue: 97), pulseRate: MedFloat16(rawValue: 64))
        let saturation = PulseOximeterContinuous(normal: pair).encoded
        // The finger is taken out after two minutes.
        let device = ScriptedStrap(
            (0..<410).map { (Self.start + $0 * 1000, Self.rate(63, [1024])) },
            saturations: (0..<120).map { (Self.start + 400 + $0 * 1000, saturation) })
        let saturations = Told<Int>()
        _ = try await MeterReader(journal: store, memory: store).recording().read(device) { event in
            guard case .stored(let outcomes) = event else { return }
            for case .new(let reading) in outcomes where reading.kind == .spo2 { saturations.note(device.left) }
        }
        let readings = try await Self.all(store)
        let rates = readings.filter { $0.kind == .heartRate }
        #expect(rates.compactMap(Self.series).map(\.count) == [60, 60, 60, 60, 60, 60, 50])
        #expect(rates.compactMap(Self.series).allSatisfy { $0.allSatisfy { $0.value?.description == "63" } })
        let kept = readings.filter { $0.kind == .spo2 }
        #expect(kept.compactMap(Self.series).map(\.count) == [60, 60])
        // What ended is stored as soon as its minute is over, not when the device leaves.
        #expect(saturations.events.count == 2 && saturations.events.allSatisfy { $0 > 100 }, "\(saturations.events)")
        #expect(readings.count { $0.kind == .hrv } == 1)
        #expect(try await store.statistics().pendingFrames == 0)
        #expect(try await store.verify().isEmpty)
        try store.close()
    }

    @Test("of a device that sends both, what its person consents to is kept, also if nothing else comes any more")
    func consentToOne() async throws {
        let store = try await Self.open(Self.newDirectory())
        let contact = try await store.beginContact(
            with: DeviceDescription(address: .device(1)), at: Instant(microseconds: Self.start * 1000), clock: nil,
            batteryPercent: nil)
        let pair = SaturationAndPulse(saturation: MedFloat16(rawValue: 97), pulseRate: MedFloat16(rawValue: 64))
        let saturation = PulseOximeterContinuous(normal: pair).encoded
        let device = ScriptedStrap(
            (0..<10).map { (Self.start + $0 * 1000, Self.rate(63)) },
            saturations: (0..<100).map { (Self.start + 400 + $0 * 1000, saturation) })
        let recorder = Recorder(
            contact: contact, journal: store, window: HeartBeatWindow(), permitted: { [.heartRate] }
        ) { _ in }
        let recorded = await MeterReader(journal: store, memory: store).record(
            device, try await device.characteristics(), with: recorder, of: contact
        ) { _ in }
        #expect(recorded.summary.isComplete && recorded.summary.error == nil)
        let readings = try await Self.all(store)
        #expect(readings.allSatisfy { $0.kind == .heartRate })
        // The oximeter's pulse takes over in the next minute.
        #expect(readings.compactMap(Self.series).map(\.count) == [10, 40])
        #expect(try await store.statistics().pendingFrames == 0)
        try store.close()
    }

    @Test("of a device that sends both, the pulse beside the saturations is kept while its heart rates are none")
    func notWorn() async throws {
        let store = try await Self.open(Self.newDirectory())
        let pair = SaturationAndPulse(saturation: MedFloat16(rawValue: 97), pulseRate: MedFloat16(rawValue: 64))
        let saturation = PulseOximeterContinuous(normal: pair).encoded
        // The strap is put on after two minutes.
        let rates = (Int64(0)..<180).map { second in
            (Self.start + second * 1000, Self.rate(second < 120 ? 0 : 63, contact: second >= 120))
        }
        let device = ScriptedStrap(
            rates, saturations: (0..<180).map { (Self.start + 400 + $0 * 1000, saturation) })
        _ = try await MeterReader(journal: store, memory: store).recording().read(device) { _ in }
        let kept = try await Self.all(store).filter { $0.kind == .heartRate && $0.excluded == nil }
        let series = kept.compactMap(Self.series)
        #expect(series.map(\.count) == [60, 60, 60])
        #expect(series.map { Set($0.compactMap { $0.value?.description }) } == [["64"], ["64"], ["63"]])
        #expect(try await store.statistics().pendingFrames == 0)
        try store.close()
    }

    @Test("what cannot be understood is kept once and ends nothing")
    func malformed() async throws {
        let store = try await Self.open(Self.newDirectory())
        var values: [(Int64, [UInt8])] = (0..<30).map { (Self.start + $0 * 1000, Self.rate(70)) }
        values.insert((Self.start + 500, [0x01, 0x40]), at: 1)
        values.insert((Self.start + 1500, []), at: 3)
        let outcomes = Told<FrameOutcome>()
        _ = try await MeterReader(journal: store, memory: store).recording().read(ScriptedStrap(values)) { event in
            if case .stored(let all) = event { for one in all { outcomes.note(one) } }
        }
        #expect(outcomes.events.count { if case .malformed = $0 { true } else { false } } == 2)
        #expect(try await Self.all(store).compactMap(Self.series).map(\.count) == [30])
        try store.close()
    }

    @Test(
        "the gateway's clock set back or forward begins another block, and no sample gets a time that it did not have")
    func clockJumps() async throws {
        let store = try await Self.open(Self.newDirectory())
        var values: [(Int64, [UInt8])] = (0..<20).map { (Self.start + $0 * 1000, Self.rate(60, [1024])) }
        values += (0..<20).map { (Self.start - 3_600_000 + $0 * 1000, Self.rate(61, [1024])) }
        values += (0..<20).map { (Self.start + 7_200_000 + $0 * 1000, Self.rate(62, [1024])) }
        // A step of half a second is jitter.
        values += [(Self.start + 7_200_000 + 18_600, Self.rate(62))]
        _ = try await MeterReader(journal: store, memory: store).recording().read(ScriptedStrap(values))
        let readings = try await Self.all(store)
        #expect(
            readings.map { ($0.time.instant?.seconds ?? 0) - Self.start / 1000 } == [-3600, 0, 7200])
        #expect(readings.compactMap(Self.series).map(\.count) == [20, 20, 21])
        #expect(
            readings.compactMap(Self.series).allSatisfy { series in series.allSatisfy { $0.milliseconds < 60_000 } })
        try store.close()
    }

    // MARK: Interruption

    @Test(
        "a frame that grows is durable as far as it has come, belongs to nothing, and is read when the store is opened")
    func growing() async throws {
        let directory = Self.newDirectory()
        var store = try await Self.open(directory)
        let contact = try await store.beginContact(
            with: DeviceDescription(address: .device(1), model: "generic_heart_rate"),
            at: Instant(seconds: 1_795_219_000),
            clock: nil, batteryPercent: nil)
        var block = RecordedBlock(characteristic: 0x2A37)
        func frame() -> Frame {
            Frame(
                format: .heartRateBlock, payload: block.payload, receivedAt: Instant(microseconds: Self.start * 1000),
                ordinal: 0)
        }
        for second in 0..<45 {
            block.add(Self.rate(60, [1024]), atMilliseconds: second * 1000)
            if second % 15 == 14 { try await store.keep(frame(), of: contact) }
        }
        #expect(try await Self.all(store).isEmpty)
        #expect(try await store.verify().isEmpty)
        #expect(try await store.statistics().pendingFrames == 1)
        try store.close()
        // Nobody adds to it any more.
        store = try await Self.open(directory)
        let readings = try await Self.all(store)
        #expect(readings.compactMap(Self.series).map(\.count) == [45])
        #expect(try await store.statistics().pendingFrames == 0)
        #expect(try await store.verify().isEmpty)
        try store.close()
        store = try await Self.open(directory)
        #expect(try await Self.all(store) == readings)
        try store.close()
    }

    @Test("a frame that has grown becomes its reading when it is whole, and once")
    func grown() async throws {
        let store = try await Self.open(Self.newDirectory())
        let contact = try await store.beginContact(
            with: DeviceDescription(address: .device(1), model: "generic_heart_rate"),
            at: Instant(seconds: 1_795_219_000),
            clock: nil, batteryPercent: nil)
        var block = RecordedBlock(characteristic: 0x2A37)
        block.add(Self.rate(60), atMilliseconds: 0)
        var frame = Frame(
            format: .heartRateBlock, payload: block.payload, receivedAt: Instant(microseconds: Self.start * 1000),
            ordinal: 0)
        try await store.keep(frame, of: contact)
        block.add(Self.rate(62), atMilliseconds: 1000)
        frame.payload = block.payload
        let outcomes = try await store.append([frame], of: contact)
        guard case .new(let reading)? = outcomes.first else {
            Issue.record("\(outcomes)")
            return
        }
        #expect(Self.series(reading)?.count == 2)
        #expect(try await store.statistics().pendingFrames == 0)
        #expect(try await store.verify().isEmpty)
        #expect(try await Self.all(store).count == 1)
        try store.close()
    }

    #if DEBUG && compiler(>=6.3)  // Earlier exit tests capture nothing.
        @Test("promise 1: a kill at any commit of a recording costs a quarter of a minute at most", arguments: 1...12)
        func kill(commit: Int) async throws {
            let directory = Self.newDirectory()
            try FileManager.default.createDirectory(atPath: directory, withIntermediateDirectories: true)
            _ = FileManager.default.createFile(atPath: directory + "/sent", contents: Data())
            await #expect(processExitsWith: .signal(SIGKILL)) {
                [directory = directory as String, commit = commit as Int] in
                setenv("HEALTHRELAY_CRASH_AT", "journal.after-commit:\(commit)", 1)
                let store = try await RecordingTests.open(directory)
                let notes = FileHandle(forWritingAtPath: directory + "/sent")
                let strap = ScriptedStrap(
                    (0..<600).map { (RecordingTests.start + $0 * 1000, RecordingTests.rate(60, [1024])) }
                ) { try? notes?.write(contentsOf: Data("\n".utf8)) }
                _ = try await MeterReader(journal: store, memory: store).recording().read(strap)
            }
            let sent = try Data(contentsOf: URL(filePath: directory + "/sent")).count
            let store = try await Self.open(directory)
            let kept = try await Self.all(store).filter { $0.kind == .heartRate }.compactMap(Self.series).map(\.count)
                .reduce(0, +)
            #expect(sent > 0 && kept <= sent && sent - kept <= 16, "\(sent) sent, \(kept) kept")
            #expect(try await store.verify().isEmpty)
            try store.close()
        }
    #endif

    @Test("while nothing can be stored a recording waits in memory, and is there when something can")
    func full() async throws {
        let log = EventLog()
        let store = RecordingStore(log)
        store.failAppending(after: 1)
        let strap = ScriptedStrap((0..<300).map { (Self.start + $0 * 1000, Self.rate(60)) }) {}
        let seen = Mutex(0)
        let events = Told<RecordingEvent>()
        let contact = try await store.beginContact(
            with: DeviceDescription(address: .device(1)), at: Instant(seconds: 0), clock: nil, batteryPercent: nil)
        let recorder = Recorder(
            contact: contact, journal: store, window: HeartBeatWindow(), permitted: { Set(ReadingKind.allCases) }
        ) { events.note($0) }
        let characteristics = try await strap.characteristics()
        let recorded = await MeterReader(journal: store, memory: store).record(
            strap, characteristics, with: recorder, of: contact
        ) { event in
            guard case .live = event else { return }
            let count = seen.withLock { seen in
                seen += 1
                return seen
            }
            if count == 250 { store.failAppending(after: nil) }
        }
        #expect(recorded.summary.isComplete && recorded.summary.received == 5)
        #expect(store.frames.filter { $0.format == .heartRateBlock }.count == 5)
        #expect(events.events.count { if case .notStored = $0 { true } else { false } } == 1)
    }

    // MARK: Consent

    @Test("consent that is withdrawn ends the recording; what came before stays, what came after is dropped")
    func consent() async throws {
        let store = try await Self.open(Self.newDirectory())
        let contact = try await store.beginContact(
            with: DeviceDescription(address: .device(1), model: "generic_heart_rate"),
            at: Instant(microseconds: Self.start * 1000), clock: nil, batteryPercent: nil)
        let user = try await store.currentUser().key
        let heard = Mutex(0)
        let strap = ScriptedStrap((0..<300).map { (Self.start + $0 * 1000, Self.rate(60, [1024])) }) {
            heard.withLock { $0 += 1 }
        }
        let recorder = Recorder(
            contact: contact, journal: store, window: HeartBeatWindow(),
            permitted: { [store] in
                if heard.withLock(\.self) > 100 {
                    try await store.setConsent(.heartRate, granted: false, of: user)
                    try await store.setConsent(.hrv, granted: false, of: user)
                }
                return try await store.recordableKinds(of: .device(1))
            }
        ) { _ in }
        let recorded = await MeterReader(journal: store, memory: store).record(
            strap, try await strap.characteristics(), with: recorder, of: contact
        ) { _ in }
        #expect(throws: Recorder.ConsentWithdrawn.self) { try recorded.end.get() }
        #expect(recorded.summary.error == "no_consent")
        let kept = try await Self.all(store).compactMap(Self.series).map(\.count)
        // One whole block, and of the second what was durable when consent was withdrawn.
        #expect(kept == [60, 31], "\(kept)")
        #expect(heard.withLock(\.self) < 120)
        #expect(try await store.statistics().pendingFrames == 0)
        #expect(try await store.verify().isEmpty)
        try store.close()
    }

    @Test("a person without consent is not recorded: the device is not even connected")
    func noConsent() async throws {
        let bench = RadioBench()
        var behaviour = EmulatedDevice.Behaviour()
        behaviour.address = .device(1)
        behaviour.services = [0x180D]
        behaviour.more = [(0x2A37, 0x180D)]
        behaviour.streams[0x2A37] = [[0x06, 73]]
        let device = EmulatedDevice(behaviour, log: EventLog())
        bench.radio.add(device)
        let events = Told<RecordingEvent>()
        let task = Task {
            try await bench.manager.record([.device(1)]) {
                events.note($0)
            } permitted: { _ in
                [.glucose]
            }
        }
        try await eventually("it was looked at") { events.events == [.notConsented(.device(1))] }
        task.cancel()
        await #expect(throws: (any Error).self) { try await task.value }
        #expect(!device.log.events.contains(.connect) && bench.store.frames.isEmpty)
    }

    // MARK: The manager

    @Test("a recording connects the device again when it comes back, and stopping it stores what is open and lets go")
    func sessions() async throws {
        let bench = RadioBench()
        var behaviour = EmulatedDevice.Behaviour()
        behaviour.address = .device(1)
        behaviour.name = "Strap"
        behaviour.services = [0x180D]
        behaviour.more = [(0x2A37, 0x180D)]
        behaviour.streams[0x2A37] = (0..<20).map { Self.rate(60 + UInt16($0)) }
        behaviour.leavesWhenSent = true
        behaviour.isInReach = false
        let device = EmulatedDevice(behaviour, log: EventLog())
        bench.radio.add(device)
        let events = Told<RecordingEvent>()
        let task = Task {
            try await bench.manager.record([.device(1)]) { event in
                events.note(event)
                // Else it would be heard at once, and recorded again.
                if case .ended = event { bench.radio.vanish(device) }
            }
        }
        try await eventually("it is watched for") { bench.radio.watched == [.device(1)] }
        for contact in 1...2 {
            bench.radio.appear(device)
            try await eventually("contact \(contact) is over") {
                events.events.count { if case .ended = $0 { true } else { false } } == contact
            }
        }
        device.change {
            $0.leavesWhenSent = false
            $0.silence = .lastsUntilCancelled
        }
        bench.radio.appear(device)
        try await eventually("the third goes on") {
            events.events.count { if case .live = $0 { true } else { false } } == 60
        }
        task.cancel()
        await #expect(throws: CancellationError.self) { try await task.value }
        #expect(bench.store.frames.filter { $0.format == .heartRateBlock }.count >= 3)
        #expect(
            bench.store.summaries.allSatisfy { $0 == ContactSummary(isComplete: true, received: $0?.received ?? 0) })
        #expect(device.log.events.suffix(2) == [.stop(0x2A37), .disconnect])
    }

    /// A strap in reach of the bench's radio, which sends these beats when it is subscribed to.
    private static func strap(
        _ bench: RadioBench, _ beats: Range<UInt16>, _ adjust: (inout EmulatedDevice.Behaviour) -> Void
    ) -> EmulatedDevice {
        var behaviour = EmulatedDevice.Behaviour()
        behaviour.address = .device(1)
        behaviour.name = "Strap"
        behaviour.services = [0x180D]
        behaviour.more = [(0x2A37, 0x180D)]
        behaviour.streams[0x2A37] = beats.map { Self.rate($0) }
        adjust(&behaviour)
        let device = EmulatedDevice(behaviour, log: EventLog())
        bench.radio.add(device)
        return device
    }

    @Test("a device that cannot be recorded is left alone, each time for longer, though it is heard again at once")
    func restsAfterFailures() async throws {
        let bench = RadioBench()
        bench.store.close()
        let device = Self.strap(bench, 60..<61) { _ in }
        let failures = Told<RecordingEvent>()
        let task = Task {
            try await bench.manager.record([.device(1)]) { event in
                if case .failed = event { failures.note(event) }
            }
        }
        for (count, rest) in zip(1..., [Duration.seconds(5), .seconds(15), .seconds(30), .seconds(60), .seconds(60)]) {
            try await eventually("it rests after failure \(count)") {
                failures.events.count == count && bench.clock.sleeps == [rest]
            }
            #expect(device.log.events.count { $0 == .connect } == count)
            bench.clock.advance(by: rest)
        }
        task.cancel()
        await #expect(throws: (any Error).self) { try await task.value }
    }

    @Test("a device that is recorded, or watched, is let go of for whoever unpairs it", arguments: [true, false])
    func letsGo(_ isRecorded: Bool) async throws {
        let bench = RadioBench()
        let device = Self.strap(bench, 60..<80) {
            $0.isPaired = true
            $0.silence = .lastsUntilCancelled
            $0.isHeld = true
        }
        try await bench.store.notePairing(of: DeviceDescription(address: .device(1), name: "Strap"), as: .proven)
        let task = Task {
            if isRecorded { return try await bench.manager.record([.device(1)]) }
            for try await _ in bench.manager.live([.device(1)]) {}
        }
        try await eventually("it is subscribed to") { device.log.events.contains(.start(0x2A37)) }
        let unpaired = Told<Bool>()
        let unpairing = Task { unpaired.note(try await bench.manager.unpair(.device(1))) }
        while await !bench.manager.turns.isWanted(.device(1)) { try await Task.sleep(for: .milliseconds(1)) }
        // Else it would be heard at once, and recorded again.
        device.change {
            $0.isHeld = false
            $0.isInReach = false
        }
        try await eventually("it is unpaired") { unpaired.events == [true] }
        try await unpairing.value
        #expect(device.log.events.suffix(2) == [.stop(0x2A37), .disconnect])
        #expect(bench.store.frames.contains { $0.format == .heartRateBlock } == isRecorded)
        task.cancel()
        _ = await task.result
    }

    // MARK: Statuses

    @Test("what an oximeter measures while it calibrates has no value, a doubt marks the minute; earlier blocks stay")
    func statuses() throws {
        let pair = SaturationAndPulse(saturation: MedFloat16(rawValue: 97), pulseRate: MedFloat16(rawValue: 72))
        let low = SaturationAndPulse(saturation: MedFloat16(rawValue: 80), pulseRate: MedFloat16(rawValue: 60))
        func payload(_ values: [PulseOximeterContinuous]) -> [UInt8] {
            var block = RecordedBlock(characteristic: 0x2A5F)
            for (second, value) in values.enumerated() { block.add(value.encoded, atMilliseconds: second * 1000) }
            return block.payload
        }
        func record(_ payload: [UInt8], _ format: FrameFormat = .saturationBlock) throws -> Record {
            let frame = Frame(format: format, payload: payload, receivedAt: Instant(seconds: 1), ordinal: 0)
            guard case .record(let record) = ModelFrameDecoder().decode(frame, model: nil) else {
                throw MalformedFrame(subject: "test", expected: "a record", octet: 0, found: "none")
            }
            return record
        }
        func mean(_ record: Record) -> String? {
            if case .vital(let value) = record.value { value.main?.number.number?.description } else { nil }
        }
        // Calibration ongoing; equipment malfunction.
        let faulty = payload([
            PulseOximeterContinuous(normal: pair),
            PulseOximeterContinuous(normal: low, status: PulseOximeterStatus(measurement: 1 << 12)),
            PulseOximeterContinuous(normal: low, status: PulseOximeterStatus(device: 1 << 1)),
        ])
        for (format, expected) in [(FrameFormat.saturationBlock, "97.0"), (.heartRateBlock, "72.0")] {
            let found = try record(faulty, format)
            #expect(mean(found) == expected && found.status.isEmpty && found.exclusion == nil)
        }
        let doubted = payload([
            PulseOximeterContinuous(normal: pair),
            PulseOximeterContinuous(normal: pair, status: PulseOximeterStatus(device: 1 << 4)),
        ])
        let marked = try [record(doubted), record(doubted, .heartRateBlock)]
        #expect(marked.allSatisfy { $0.status == .questionable })
        // A doubt about what has no value anyway marks nothing.
        let invalid = PulseOximeterStatus(measurement: 1 << 15, device: 1 << 4)
        let other = payload([
            PulseOximeterContinuous(normal: pair), PulseOximeterContinuous(normal: low, status: invalid),
        ])
        let unmarked = try record(other)
        #expect(unmarked.status.isEmpty)
        // A block of the first version is the reading that it was.
        let former = try [faulty, doubted].map { try record([1] + Array($0.dropFirst())) }
        #expect(former.map(mean) == ["85.7", "97.0"] && former.allSatisfy(\.status.isEmpty))
    }

    // MARK: Octets

    @Test("blocks and windows are read as they were written; whatever else is refused with its place")
    func octets() throws {
        var generator = SystemRandomNumberGenerator()
        for _ in 0..<200 {
            var (block, time) = (RecordedBlock(characteristic: 0x2A37), 0)
            for _ in 0..<Int.random(in: 0...70, using: &generator) {
                time += Int.random(in: 0...3000, using: &generator)
                block.add(
                    (0..<Int.random(in: 0...20, using: &generator)).map { _ in
                        UInt8.random(in: 0...255, using: &generator)
                    },
                    atMilliseconds: time)
            }
            #expect(try RecordedBlock(payload: block.payload) == block)
            let window = RecordedWindow(
                seconds: Int.random(in: 1...86_400, using: &generator),
                runs: (0..<Int.random(in: 0...4, using: &generator)).map { _ in
                    (0..<Int.random(in: 0...300, using: &generator)).map { _ in
                        UInt16.random(in: 0...UInt16.max, using: &generator)
                    }
                })
            #expect(try RecordedWindow(payload: window.payload) == window)
            let decoder = ModelFrameDecoder()
            for format in [FrameFormat.heartRateBlock, .saturationBlock, .beatWindow] {
                let octets = (0..<Int.random(in: 0...80, using: &generator)).map { place in
                    place == 0 ? 1 : UInt8.random(in: 0...255, using: &generator)
                }
                _ = decoder.decode(
                    Frame(format: format, payload: octets, receivedAt: Instant(seconds: 1), ordinal: 0), model: nil)
            }
        }
        #expect(throws: MalformedFrame.self) { try RecordedBlock(payload: [3, 0x37, 0x2A]) }
        #expect(throws: MalformedFrame.self) { try RecordedBlock(payload: [0, 0x37, 0x2A]) }
        #expect(throws: MalformedFrame.self) { try RecordedBlock(payload: [1, 0x18, 0x2A]) }
        #expect(throws: MalformedFrame.self) { try RecordedBlock(payload: [1, 0x37, 0x2A, 0, 3, 0, 60]) }
        #expect(throws: MalformedFrame.self) { try RecordedWindow(payload: [1, 60, 3, 0, 4]) }
    }
}

/// A device that sends these values at these times, in milliseconds, and leaves.
final class ScriptedStrap: Peripheral {
    private let state: Mutex<[(Int64, BluetoothUUID, [UInt8])]>
    private let first: Int64
    private let offered: [Characteristic]
    private let sent: @Sendable () -> Void

    /// - Parameter saturations: what it sends as an oximeter besides.
    init(
        _ values: [(Int64, [UInt8])], characteristic: BluetoothUUID = 0x2A37, service: BluetoothUUID = 0x180D,
        saturations: [(Int64, [UInt8])] = [], sent: @escaping @Sendable () -> Void = {}
    ) {
        first = values.first?.0 ?? 0
        var all = values.map { ($0.0, characteristic, $0.1) }
        var offered = [Characteristic(uuid: characteristic, service: service, valueHandle: 3)]
        if !saturations.isEmpty {
            let oximeter = Characteristic(uuid: 0x2A5F, service: 0x1822, valueHandle: 5)
            all += saturations.map { ($0.0, oximeter.uuid, $0.1) }
            all.sort { $0.0 < $1.0 }
            offered.append(oximeter)
        }
        state = Mutex(all.reversed())
        self.offered = offered
        self.sent = sent
    }

    /// How many values it still has to send.
    var left: Int { state.withLock(\.count) }

    var advertisement: Advertisement {
        Advertisement(address: .device(1), name: "Strap", seenAt: Instant(microseconds: first * 1000))
    }
    func connect() async throws -> Instant { Instant(microseconds: (first - 1000) * 1000) }
    func characteristics() async throws -> [Characteristic] { offered }
    func read(_ characteristic: Characteristic) async throws -> CharacteristicValue { throw GATTError.attribute(2) }
    func write(_ octets: [UInt8], to characteristic: Characteristic, expectingResponse: Bool) async throws {}
    func startNotifying(_ characteristic: Characteristic) async throws {}
    func stopNotifying(_ characteristic: Characteristic) async throws {}
    func nextValues(within timeout: Duration) async throws -> ValueBurst {
        guard let (time, uuid, octets) = state.withLock({ $0.popLast() }) else { return .disconnected }
        sent()
        return .values([
            CharacteristicValue(uuid: uuid, octets: octets, receivedAt: Instant(microseconds: time * 1000))
        ])
    }
    func disconnect() async {}
}
