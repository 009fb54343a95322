import GATTClient
import GATTProfiles
import HealthReadings
import Synchronization
import Testing

@testable import HealthDevices

/// Straps and oximeters while somebody looks, and devices that send one finished measurement.
@Suite struct LiveTests {
    private let bench = RadioBench()

    // MARK: Variability

    @Test("RMSSD and SDNN are those of the definition: Task Force 1996, over the window's intervals")
    func variability() throws {
        var generator = SystemRandomNumberGenerator()
        for _ in 0..<40 {
            let seconds = Int.random(in: 5...60, using: &generator)
            var window = HeartRateVariability(windowSeconds: seconds)
            var (all, now): ([(at: Int64, interval: Double)], Int64) = ([], 1_000_000_000_000)
            for _ in 0..<Int.random(in: 20...200, using: &generator) {
                let raw = (0..<Int.random(in: 1...3, using: &generator)).map { _ in
                    UInt16.random(in: 500...1500, using: &generator)
                }
                let total = raw.reduce(0) { $0 + Int64($1) * 1_000_000 / 1024 }
                now += max(total, 1_000_000)
                var end = now - total
                for interval in raw {
                    end += Int64(interval) * 1_000_000 / 1024
                    all.append((end, Double(interval) * 1000 / 1024))
                }
                window.add(raw, at: Instant(microseconds: now))
                let kept = all.suffix(while: { $0.at > now - Int64(seconds) * 1_000_000 })
                guard kept.count >= 3 else { continue }
                let intervals = kept.map(\.interval)
                let mean = intervals.reduce(0, +) / Double(intervals.count)
                let sdnn = (intervals.map { ($0 - mean) * ($0 - mean) }.reduce(0, +) / Double(intervals.count - 1))
                    .squareRoot()
                let squares = zip(intervals, intervals.dropFirst()).map { ($1 - $0) * ($1 - $0) }
                let rmssd = (squares.reduce(0, +) / Double(squares.count)).squareRoot()
                let result = try #require(window.result)
                #expect(result.count == kept.count)
                #expect(
                    abs(result.sdnn.approximation - sdnn) <= 0.06 && abs(result.rmssd.approximation - rmssd) <= 0.06)
            }
        }
    }

    @Test("what is no beat breaks the chain: impossible intervals, no contact, a silence")
    func breaks() {
        func feed(_ window: inout HeartRateVariability, _ raw: [UInt16], _ second: Int64, _ contact: Bool? = nil) {
            window.add(raw, at: Instant(seconds: 1000 + second), hasContact: contact)
        }
        var window = HeartRateVariability(windowSeconds: 60)
        feed(&window, [1024, 100, 2048], 3)
        #expect(window.result == nil, "no two are successive")
        feed(&window, [2048], 5)
        #expect(window.result?.rmssd.description == "0.0")
        feed(&window, [700], 6, false)
        #expect(window.result?.count == 3 && !window.isFull)
        feed(&window, [1024], 8, true)
        #expect(window.result?.rmssd.description == "0.0", "the first after a break has no predecessor")
        for second in 9..<70 { feed(&window, [1024], Int64(second), true) }
        #expect(window.isFull && window.result?.rmssd.description == "0.0")
        feed(&window, [1024], 90)
        #expect(!window.isFull, "a silence begins it anew")
        var hostile = HeartRateVariability(windowSeconds: -5)
        for _ in 0..<500 { hostile.add([UInt16](repeating: 205, count: 9), at: Instant(seconds: 5)) }
        #expect(hostile.result != nil)
    }

    @Test("the gateway's clock set back begins the window anew, and a strap whose own clock is fast does not widen it")
    func clocks() throws {
        var window = HeartRateVariability(windowSeconds: 60)
        for second in 0..<120 { window.add([1024, 1024], at: Instant(seconds: 10_000 + Int64(second))) }
        #expect(window.isFull)
        for second in 0..<50 { window.add([1000], at: Instant(seconds: 6000 + Int64(second))) }
        #expect(!window.isFull && window.result?.count == 50, "\(String(describing: window.result))")
        for second in 50..<70 { window.add([1000], at: Instant(seconds: 6000 + Int64(second))) }
        #expect(window.isFull && window.result?.sdnn.description == "0.0")
        // One per cent fast: after an hour it is 36 s ahead.
        var fast = HeartRateVariability(windowSeconds: 60)
        for second in 0..<3600 { fast.add([1034], at: Instant(seconds: 10_000 + Int64(second))) }
        #expect((59...61).contains(try #require(fast.result).count))
    }

    @Test("a strap at 2 Hz for a day takes the memory of its window, and each beat the same")
    func day() throws {
        var window = HeartRateVariability(windowSeconds: 300)
        let capacity = window.capacity
        for half in 0..<172_800 {
            window.add(
                [UInt16(480 + half % 64)], at: Instant(microseconds: 1_790_000_000_000_000 + Int64(half) * 500_000))
        }
        let result = try #require(window.result)
        #expect(window.isFull && abs(result.count - 600) <= 2)
        #expect(abs(result.sdnn.approximation - 18.0) < 0.5)
        #expect(window.capacity == capacity)
    }

    @Test("a beat costs the same with a window of a day as with one of a minute")
    func costOfABeat() {
        /// The quickest of three goes at a quarter of a day.
        func time(windowSeconds: Int) -> Duration {
            let times = (0..<3).map { _ in
                var window = HeartRateVariability(windowSeconds: windowSeconds)
                return ContinuousClock().measure {
                    for half in 0..<43_200 {
                        window.add(
                            [UInt16(480 + half % 64)],
                            at: Instant(microseconds: 1_790_000_000_000_000 + Int64(half) * 500_000))
                        _ = window.result
                    }
                }
            }
            return times.min() ?? .zero
        }
        let (day, minute) = (time(windowSeconds: 86_400), time(windowSeconds: 60))
        #expect(day < minute * 5, "\(day) and \(minute); computed anew it would be some hundred times as much")
    }

    @Test("a strap that sends at 2 Hz for a day to somebody who does not look keeps no more than the newest values")
    func dayUnheeded() async throws {
        let peripheral = TickingStrap(measurements: 172_800, log: EventLog(), interval: 500)
        let values = AsyncThrowingStream<LiveReading, any Error>.producing(keeping: DevicesManager.newestLive) {
            yield in
            var course = LiveCourse(peripheral, DeviceDescription(address: .device(1)), LivePace())
            try await course.run(try await peripheral.characteristics(), yield)
        }
        try await eventually("the day is over") { peripheral.isOver }
        var kept = 0
        for try await _ in values { kept += 1 }
        #expect(kept == 1024)
    }

    // MARK: Straps

    private func strap(_ values: [[UInt8]], _ adjust: (inout EmulatedDevice.Behaviour) -> Void = { _ in })
        async throws -> EmulatedDevice
    {
        var behaviour = EmulatedDevice.Behaviour()
        behaviour.address = .device(1)
        behaviour.name = "Strap"
        behaviour.services = [0x180D]
        behaviour.more = [(0x2A37, 0x180D)]
        behaviour.streams[0x2A37] = values
        behaviour.isPaired = true
        behaviour.isInReach = false
        adjust(&behaviour)
        let device = EmulatedDevice(behaviour, log: EventLog())
        try await bench.store.notePairing(
            of: DeviceDescription(address: .device(1), model: "generic_heart_rate", name: "Strap"), as: .proven)
        bench.radio.add(device)
        return device
    }

    @Test("a strap's values are told as they come, with contact and intervals, and nothing is stored")
    func strapValues() async throws {
        let device = try await strap([[0x16, 72, 0, 4], [0x00], [0x06, 73], [0x04, 0]])
        var told = bench.manager.live().makeAsyncIterator()
        try await eventually("it is watched for") { bench.radio.watched == [.device(1)] }
        bench.radio.appear(device)
        var documents: [String] = []
        for _ in 0..<3 {
            let reading = try #require(try await told.next())
            #expect(reading.device.model == "generic_heart_rate")
            documents.append(reading.document.text)
        }
        #expect(documents[0].contains(#""heart_rate":{"value":72,"unit":"bpm"},"rr_ms":[1000.00],"contact":true"#))
        #expect(documents[0].contains(#""time_basis":"reception""#) && documents[0].contains(#""id":null"#))
        #expect(documents[1].contains(#""value":73"#) && documents[2].contains(#""excluded":"no_value""#))
        #expect(bench.store.frames.isEmpty && bench.store.contacts.isEmpty)
    }

    @Test("ending the iteration stops notifications, then disconnects")
    func endsInOrder() async throws {
        let device = try await strap([[0x06, 73]])
        device.change { $0.silence = .lastsUntilCancelled }
        let first = Task {
            for try await reading in bench.manager.live() { return reading.kind }
            return .glucose
        }
        try await eventually("it is watched for") { bench.radio.watched == [.device(1)] }
        bench.radio.appear(device)
        #expect(try await first.value == .heartRate)
        try await eventually("it is left") { !device.isConnected && device.log.events.last == .disconnect }
        #expect(device.log.events.suffix(2) == [.stop(0x2A37), .disconnect])
        #expect(bench.radio.watched.isEmpty)
    }

    @Test(
        "a device that brings nothing is left alone, each time for longer, though it is heard again, until it sends values",
        arguments: [true, false])
    func restsAfterFailures(_ refuses: Bool) async throws {
        let fails: @Sendable (inout EmulatedDevice.Behaviour) -> Void = {
            if refuses { $0.refusesToNotify = [0x2A37] } else { $0.cutAfter = 0 }
        }
        let device = try await strap([[0x06, 73]]) {
            $0.isInReach = true
            fails(&$0)
        }
        let told = Told<LiveReading>()
        let task = Task { for try await reading in bench.manager.live() { told.note(reading) } }
        func rest(_ seconds: Double) async throws -> Duration {
            try await eventually("it rests for about \(seconds) s") { bench.clock.sleeps.count == 1 }
            let sleep = try #require(bench.clock.sleeps.first)
            #expect((Duration.seconds(seconds * 0.79)...Duration.seconds(seconds * 1.21)).contains(sleep))
            return sleep
        }
        var left = Duration.zero
        for (count, seconds) in zip(1..., [5.0, 15, 30, 60, 60]) {
            bench.clock.advance(by: left)
            left = try await rest(seconds)
            bench.radio.appear(device)
            try await settle()
            #expect(device.log.events.count { $0 == .connect } == count)
        }
        #expect(told.events.isEmpty)
        device.change {
            $0.refusesToNotify = []
            $0.cutAfter = nil
            $0.leavesWhenSent = true
        }
        bench.clock.advance(by: left)
        try await eventually("it sends, leaves, and is followed again without a rest") { told.events.count >= 3 }
        #expect(bench.clock.sleeps.isEmpty)
        device.change(fails)
        _ = try await rest(5)
        task.cancel()
        try await eventually("the wait is over at once") { bench.clock.sleeps.isEmpty }
        _ = await task.result
        #expect(!device.isConnected)
    }

    @Test("the variability is told once its window is full, then every five seconds of the strap's own time")
    func variabilityStream() async throws {
        let log = EventLog()
        let peripheral = TickingStrap(measurements: 200, log: log)
        var pace = LivePace()
        pace.variabilityWindowSeconds = 30
        var course = LiveCourse(peripheral, DeviceDescription(address: .device(1)), pace)
        let told = Told<LiveReading>()
        try await course.run(try await peripheral.characteristics()) { told.note($0) }
        let hrv = told.events.filter { $0.kind == .hrv }
        #expect(told.events.count { $0.kind == .heartRate } == 200)
        #expect((33...36).contains(hrv.count), "\(hrv.count)")
        guard case .vital(let vital) = try #require(hrv.last).record.value else {
            Issue.record("\(hrv)")
            return
        }
        #expect(vital.windowSeconds == 30 && vital[.rmssd]?.number.number?.description == "7.8")
        #expect(hrv.last?.document.text.contains(#""hrv":{"rmssd":7.8,"sdnn":"#) == true)
    }

    @Test("of each interval the first value is told, as it was sent; the variability counts the beats of all")
    func intervals() async throws {
        func readings(every: Duration) async throws -> [LiveReading] {
            let peripheral = TickingStrap(measurements: 200, log: EventLog())
            var pace = LivePace()
            pace.variabilityWindowSeconds = 30
            pace.valueEvery = every
            var course = LiveCourse(peripheral, DeviceDescription(address: .device(1)), pace)
            let told = Told<LiveReading>()
            try await course.run(try await peripheral.characteristics()) { told.note($0) }
            return told.events
        }
        let all = try await readings(every: .zero)
        let few = try await readings(every: .seconds(5))
        let rates = few.filter { $0.kind == .heartRate }
        let expected: [Int64] = [1_790_000_001] + Array(stride(from: 1_790_000_005, through: 1_790_000_200, by: 5))
        #expect(rates.map(\.receivedAt.seconds) == expected)
        #expect(rates.allSatisfy { all.contains($0) })
        #expect(few.filter { $0.kind == .hrv } == all.filter { $0.kind == .hrv })
        let (negative, endless) = (
            try await readings(every: .seconds(-5)), try await readings(every: .seconds(Int64.max))
        )
        #expect(negative == all)
        #expect(endless.count { $0.kind == .heartRate } == 1)
    }

    @Test("a value that is none takes no value's turn, each kind has its own, and a clock may be set back")
    func intervalTurns() {
        func rate(_ beats: UInt16) -> Record {
            HeartRateMeasurement(beatsPerMinute: beats, hasContact: beats > 0, intervals: []).record
        }
        let saturation = PulseOximeterContinuous(
            normal: SaturationAndPulse(
                saturation: MedFloat16(rawValue: 97), pulseRate: MedFloat16(rawValue: 72))
        ).record
        #expect(rate(0).exclusion != nil && rate(60).exclusion == nil && saturation.exclusion == nil)
        var intervals = LiveIntervals(of: .seconds(10))
        func told(_ records: [(second: Int64, record: Record)]) -> [Bool] {
            records.map { intervals.admit($0.record, at: Instant(seconds: 1_790_000_000 + $0.second)) }
        }
        // Nobody wears it at first; then it is worn, and taken off.
        let first = told([(0, rate(0)), (1, rate(0)), (2, rate(60)), (3, rate(61)), (4, rate(0)), (5, saturation)])
        #expect(first == [true, false, true, false, false, true])
        let next = told([(10, rate(62)), (11, rate(0)), (19, rate(63)), (20, rate(0))])
        #expect(next == [true, false, false, true])
        let setBack = told([(-3600, rate(64)), (-3599, rate(65))])
        #expect(setBack == [true, false])
        let before1970 = told([(-1_790_000_001, rate(66)), (-1_790_000_000, rate(67))])
        #expect(before1970 == [true, true])
    }

    @Test("a strap has no records: the schedule leaves it alone, and reading it brings nothing and is no failure")
    func notScheduled() async throws {
        let device = try await strap([[0x06, 73]]) { $0.isInReach = true }
        #expect(try await bench.manager.read(.device(1)) { _ in } == ContactSummary(isComplete: true, received: 0))
        #expect(try await bench.manager.devicesWithRecords([.device(1), .device(2)]) == [.device(2)])
        #expect(try await bench.manager.liveDevices() == [.device(1)])
        #expect(!device.log.events.contains(.start(0x2A37)))
    }

    @Test("without a live device there is nothing to follow, and the stream ends")
    func nothingLive() async throws {
        try await bench.meter(paired: .proven)
        var stream = bench.manager.live().makeAsyncIterator()
        #expect(try await stream.next() == nil)
    }

    // MARK: Finished measurements

    @Test(
        "thermometers, oximeters and scales send what they have measured, and it is kept",
        arguments: [
            (0x2A1C, 0x1809, [0x00, 0x6E, 0x01, 0x00, 0xFF], "generic_thermometer", ReadingKind.temperature),
            (0x2A5E, 0x1822, [0x00, 0x61, 0x00, 0x48, 0x00], "generic_pulse_oximeter", .spo2),
            (0x2A9D, 0x181D, [0x00, 0x14, 0x37], "generic_weight_scale", .weight),
            (0x2A9C, 0x181B, [0x00, 0x00, 0xE1, 0x00], "generic_body_composition", .bodyComposition),
        ] as [(UInt16, UInt16, [UInt8], String, ReadingKind)])
    func spots(characteristic: UInt16, service: UInt16, octets: [UInt8], model: String, kind: ReadingKind) async throws
    {
        var behaviour = EmulatedDevice.Behaviour()
        behaviour.name = "Thing"
        behaviour.more = [(BluetoothUUID(characteristic), BluetoothUUID(service))]
        behaviour.streams[BluetoothUUID(characteristic)] = [octets]
        let bench = Bench(behaviour)
        #expect(try await bench.read() == ContactSummary(isComplete: true, received: 1))
        #expect(bench.store.contacts.first?.device.model == model)
        #expect(bench.store.records.map(\.value.kind) == [kind] && bench.store.records[0].exclusion == nil)
    }

    @Test(
        "a device that may be measuring is waited for; a cuff that is known to keep its records is left soon",
        arguments: [("BLESmart_1", 15), ("BM57", 15), ("Cuff", 60)])
    func idleCuff(name: String, seconds: Int) async throws {
        var behaviour = EmulatedDevice.Behaviour()
        behaviour.name = name
        behaviour.cuffRecords = []
        behaviour.cuffDisconnects = false
        let bench = Bench(behaviour)
        #expect(try await bench.read() == ContactSummary(isComplete: true, received: 0))
        #expect(bench.device.waited == .seconds(seconds))
    }

    @Test("promise 2: an oximeter's stored spot checks are asked for, and come once; its answers have names")
    func storedSpotChecks() async throws {
        @Sendable func spot(_ second: UInt8) -> [UInt8] {
            [0x01, 0x61, 0x00, 0x48, 0x00, 0xEA, 0x07, 11, 20, 8, 0, second]
        }
        var behaviour = EmulatedDevice.Behaviour()
        behaviour.name = "Oximeter"
        behaviour.more = [(0x2A5E, 0x1822), (0x2A52, 0x1822)]
        behaviour.spotChecks = (stored: (1...3).map(spot), answer: 1)
        let bench = Bench(behaviour)
        #expect(try await bench.read() == ContactSummary(isComplete: true, received: 3))
        #expect(bench.log.requests == [[1, 1]] && bench.store.records.count == 3)
        bench.device.change { $0.spotChecks = (stored: (1...4).map(spot), answer: 1) }
        #expect(try await bench.read().isComplete)
        #expect(bench.store.records.count == 4)
        bench.device.change { $0.spotChecks = (stored: [], answer: 6) }
        #expect(try await bench.read() == ContactSummary(isComplete: true, received: 0))
        bench.device.change { $0.spotChecks = (stored: [spot(5)], answer: 8) }
        let failed = ContactSummary(isComplete: false, error: "racp_procedure_not_completed", received: 1)
        var summary = try await bench.read()
        #expect(summary.errorDetail != nil)
        summary.errorDetail = nil
        #expect(summary == failed && bench.store.records.count == 5)
        // A meter's control point is none of an oximeter's.
        behaviour.more = [(0x2A5E, 0x1822), (0x2A52, 0x1808)]
        let other = Bench(behaviour)
        #expect(try await other.read().isComplete && other.log.requests.isEmpty)
    }

    @Test("promise 2: stored spot checks of an oximeter whose clock was never set come once, and have no time")
    func storedWithoutTime() async throws {
        @Sendable func spot(_ saturation: UInt8) -> [UInt8] {
            [0x13, saturation, 0x00, 0x48, 0x00, 0xDF, 0x07, 1, 1, 0, 0, 0, 0x00, 0x02]
        }
        var behaviour = EmulatedDevice.Behaviour()
        behaviour.name = "Oximeter"
        behaviour.more = [(0x2A5E, 0x1822), (0x2A52, 0x1822)]
        behaviour.spotChecks = (stored: [spot(97), spot(96)], answer: 1)
        let bench = Bench(behaviour)
        let journal = MemoryJournal(timeZone: try #require(ZoneRules.named("Europe/Berlin")))
        for _ in 0..<3 {
            #expect(try await bench.read().isComplete)
            #expect(try await MeterReader(journal: journal, memory: journal).read(bench.device).isComplete)
        }
        #expect(bench.store.readingCount == 2 && journal.readings.count == 2)
        #expect(journal.readings.allSatisfy { $0.time.instant == nil && $0.excluded == .noTime })
    }

    /// A scale with both its services, which is gone as soon as it has sent what was enabled.
    private func scale(_ adjust: (inout EmulatedDevice.Behaviour) -> Void = { _ in }) -> Bench {
        var behaviour = EmulatedDevice.Behaviour()
        behaviour.name = "Scale"
        behaviour.more = [(0x2A9D, 0x181D), (0x2A9C, 0x181B)]
        behaviour.streams = [0x2A9D: [[0x00, 0x14, 0x37]], 0x2A9C: [[0x00, 0x00, 0xE1, 0x00]]]
        behaviour.leavesWhenSent = true
        adjust(&behaviour)
        return Bench(behaviour)
    }

    @Test("a scale that leaves when it has sent its weight has sent its composition, too: both are enabled first")
    func scaleWithBoth() async throws {
        let bench = scale()
        #expect(try await bench.read() == ContactSummary(isComplete: true, received: 2))
        #expect(Set(bench.store.records.map(\.value.kind)) == [.weight, .bodyComposition])
        #expect(bench.store.contacts.first?.device.model == "generic_body_composition")
        // Nobody waits for one after the other where nothing comes.
        let idle = scale { $0.streams = [:] }
        #expect(try await idle.read().isComplete)
        #expect(idle.device.waited == UnpromptedTransfer.measurement)
    }

    @Test(
        "of a scale that refuses its composition the weight is kept, and the refusal told; of both, nothing more is asked"
    )
    func scaleThatRefuses() async throws {
        let bench = scale { $0.refusesToNotify = [0x2A9C] }
        #expect(
            try await bench.read() == ContactSummary(isComplete: false, error: "device_refused", received: 1))
        #expect(bench.store.records.map(\.value.kind) == [.weight])
        let shut = scale { $0.refusesToNotify = [0x2A9C, 0x2A9D] }
        #expect(try await shut.read() == ContactSummary(isComplete: false, error: "device_refused", received: 0))
        #expect(shut.device.waited == .zero)
    }
}

/// A strap that beats once a second, 1000 and 1007.8 ms in turn, and leaves after so many measurements.
private final class TickingStrap: Peripheral {
    private let left: Mutex<(measurements: Int, millisecond: Int64)>
    private let log: EventLog

    private let interval: Int64

    /// - Parameter interval: milliseconds between two measurements.
    init(measurements: Int, log: EventLog, interval: Int64 = 1000) {
        left = Mutex((measurements, 1_790_000_000_000))
        self.log = log
        self.interval = interval
    }

    /// Whether all were taken.
    var isOver: Bool { left.withLock { $0.measurements == 0 } }

    var advertisement: Advertisement { Advertisement(address: .device(1), name: "Strap", seenAt: Instant(seconds: 0)) }
    func connect() async throws -> Instant { Instant(seconds: 0) }
    func characteristics() async throws -> [Characteristic] {
        [Characteristic(uuid: 0x2A37, service: 0x180D, valueHandle: 3)]
    }
    func read(_ characteristic: Characteristic) async throws -> CharacteristicValue { throw GATTError.attribute(2) }
    func write(_ octets: [UInt8], to characteristic: Characteristic, expectingResponse: Bool) async throws {}
    func startNotifying(_ characteristic: Characteristic) async throws {}
    func stopNotifying(_ characteristic: Characteristic) async throws {}
    func nextValues(within timeout: Duration) async throws -> ValueBurst {
        left.withLock { left in
            guard left.measurements > 0 else { return .disconnected }
            left.measurements -= 1
            left.millisecond += interval
            let octets = HeartRateMeasurement(
                beatsPerMinute: 60, hasContact: true, intervals: [left.measurements.isMultiple(of: 2) ? 1024 : 1032]
            ).encoded
            return .values([
                CharacteristicValue(
                    uuid: 0x2A37, octets: octets, receivedAt: Instant(microseconds: left.millisecond * 1000))
            ])
        }
    }
    func disconnect() async {}
}

extension Array {
    /// The longest end of which every element is so.
    fileprivate func suffix(while isSo: (Element) -> Bool) -> ArraySlice<Element> {
        let start = lastIndex { !isSo($0) }.map { $0 + 1 } ?? startIndex
        return self[start...]
    }
}
