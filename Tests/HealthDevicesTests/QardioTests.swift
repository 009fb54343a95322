import GATTClient
import GATTProfiles
import HealthReadings
import Testing

@testable import HealthDevices

@Suite struct QardioTests {
    private let bench = RadioBench()
    private static let start: [UInt8] = [0xF1, 0x01]
    private static let stop: [UInt8] = [0xF1, 0x02]

    /// Measures, and says what was told.
    private func measure() async throws -> (reading: Reading, told: [MeasurementEvent]) {
        let told = Told<MeasurementEvent>()
        let reading = try await bench.manager.measure(.device(1)) { told.note($0) }
        return (reading, told.events)
    }

    /// What `measure` fails with.
    private func failure() async throws -> String {
        do {
            _ = try await measure()
            return "none"
        } catch let failure as ContactFailure {
            return failure.code
        }
    }

    private var messages: [Frame] { bench.store.frames.filter { $0.format == .qardioMessage } }

    // MARK: Octets

    @Test("what is written to a QardioArm is a start and a stop, and nothing else can be said")
    func requests() {
        #expect(QardioRequest.start.octets == Self.start && QardioRequest.stop.octets == Self.stop)
        #expect(Qardio.control == BluetoothUUID("583cb5b3-875d-40ed-9098-c39eb0c1983d"))
    }

    @Test("a cuff is known by its name, and by its control characteristic once it is connected")
    func model() {
        let catalogue = Catalogue()
        func model(_ name: String, _ places: [OfferedServices.Place]) -> DeviceModel? {
            let advertisement = Advertisement(
                address: nil, name: name, services: [0x1810], seenAt: Instant(seconds: 0))
            return catalogue.model(
                for: advertisement,
                offering: OfferedServices(
                    places.map { Characteristic(uuid: $0.characteristic, service: $0.service, valueHandle: 1) }))
        }
        let values = OfferedServices.Place(0x2A35, in: 0x1810)
        for name in ["QardioARM", "QardioARM 2", "QardioArm"] {
            #expect(model(name, [values, .init(Qardio.control, in: 0x1810)])?.measuresOnCommand == true)
        }
        #expect(model("QardioARM", [values])?.id == "generic_blood_pressure")
        #expect(catalogue["qardio_arm"]?.certainty == .fromCode && catalogue["qardio_arm"]?.consumesRecords == false)
    }

    @Test("promise 6: pressures in the cuff and failures are never readings of a person")
    func meanings() throws {
        func frame(_ octets: [UInt8]) throws -> QardioFrame { try QardioFrame(decoding: octets) }
        let pressure = try frame(EmulatedQardio.pressure(120))
        #expect(pressure.meaning == .pressure(Quantity(ExactDecimal(significand: 120), .millimetresOfMercury)))
        #expect(pressure.record.exclusion == .intermediate)
        let result = try frame(EmulatedQardio.result(121, 79))
        #expect(result.meaning == .result && result.record.exclusion == nil)
        // A result of a cuff that sends no pulse with it.
        #expect(try frame([0, 121, 0, 79, 0, 93, 0]).meaning == .result)
        for (octets, failure) in [
            (EmulatedQardio.failure(), QardioFrame.Failure.unknown),
            (EmulatedQardio.failure(status: 1), .bodyMovement), (EmulatedQardio.failure(status: 2), .cuffTooLoose),
            // "2047/238", "1823/43", an abort without status, a result below its diastolic pressure or without one.
            ([0x14, 0xFF, 0x07, 238, 0, 0, 0, 0, 0, 0, 0], .unknown),
            ([0x14, 0x1F, 0x07, 43, 0, 0, 0, 0, 0, 0, 0], .unknown),
            ([0x04, 0xFF, 0x07, 2, 0, 0, 0, 0, 0], .unknown), (EmulatedQardio.result(70, 90), .unknown),
            (EmulatedQardio.result(121, 0), .unknown), ([0, 0xFF, 0x07, 0, 0, 0, 0], .unknown),
        ] {
            #expect(try frame(octets).meaning == .failure(failure), "\(octets)")
            #expect(try frame(octets).record.exclusion != nil, "\(octets)")
        }
        #expect(throws: MalformedFrame.self) { try frame([0x14, 1, 0]) }
        // So say frames of such a cuff that came to the store by another way.
        let decoded = ModelFrameDecoder().decode(
            Frame(
                format: FrameFormat(characteristic: 0x2A35), payload: EmulatedQardio.pressure(120),
                receivedAt: Instant(seconds: 0), ordinal: 0), model: "qardio_arm")
        guard case .record(let record) = decoded else {
            Issue.record("no record: \(decoded)")
            return
        }
        #expect(record.exclusion == .intermediate)
    }

    // MARK: Measurements

    @Test("a measurement is started once; pressures are told and not stored, and the result is a reading")
    func measuring() async throws {
        let cuff = try await bench.qardio()
        let (reading, told) = try await measure()
        guard case .bloodPressure(let value) = reading.record.value else {
            Issue.record("no pressure")
            return
        }
        #expect(value.systolic.number.number?.significand == 121 && value.diastolic.number.number?.significand == 79)
        #expect(value.pulse?.number.number?.significand == 64 && reading.excluded == nil)
        #expect(reading.record.baseTime == nil && reading.device.model == "qardio_arm")
        #expect(cuff.log.requests == [Self.start])
        let pressures = told.compactMap {
            if case .pressure(let one) = $0 { one.number.number?.significand } else { nil }
        }
        #expect(pressures == [10, 60, 120, 170, 150, 110, 70])
        #expect(told.contains(.inflating) && bench.store.readingCount == 1)
        #expect(bench.store.frames.map(\.format) == [.qardioMessage, FrameFormat(characteristic: 0x2A35)])
        #expect(bench.store.summaries == [ContactSummary(isComplete: true, received: 1)])
        #expect(cuff.log.events.suffix(2) == [.stop(0x2A35), .disconnect])
    }

    @Test("promise 1: what ends a measurement is durable before the cuff is asked or told anything more")
    func durable() async throws {
        for values in [EmulatedQardio.measurement, [EmulatedQardio.pressure(90), EmulatedQardio.failure()]] {
            let bench = RadioBench()
            let cuff = try await bench.qardio(values)
            bench.store.failAppending(after: 0)
            await #expect(throws: RecordingStore.Full.self) { try await bench.manager.measure(.device(1)) }
            #expect(bench.store.readingCount == 0 && cuff.log.requests == [Self.start, Self.stop])
        }
    }

    @Test("a result that comes again is one reading, and of two results the last counts")
    func repeated() async throws {
        let first = EmulatedQardio.result(131, 85)
        try await bench.qardio(EmulatedQardio.measurement.dropLast() + [first, first])
        #expect(try await measure().reading.record.words == "131/85" && bench.store.readingCount == 1)
        let bench = RadioBench()
        try await bench.qardio(EmulatedQardio.measurement.dropLast() + [first, EmulatedQardio.result(121, 79)])
        #expect(try await bench.manager.measure(.device(1)).record.words == "121/79" && bench.store.readingCount == 1)
        #expect(bench.store.frames.count { $0.format == .qardioMessage } == 2)
    }

    @Test("two measurements with the same values are two readings")
    func twice() async throws {
        let cuff = try await bench.qardio()
        let first = try await measure().reading.id
        #expect(try await measure().reading.id != first)
        #expect(bench.store.readingCount == 2 && cuff.log.requests == [Self.start, Self.start])
    }

    @Test(
        "a failure at the cuff is an error with a name, its octets are kept, and it is no reading",
        arguments: [(UInt8(0), "qardio_no_result"), (1, "qardio_body_movement"), (2, "qardio_cuff_too_loose")])
    func failures(status: UInt8, code: String) async throws {
        let cuff = try await bench.qardio([
            EmulatedQardio.pressure(30), EmulatedQardio.failure(status: status),
        ])
        #expect(try await failure() == code)
        #expect(bench.store.readingCount == 0 && messages.map(\.payload) == [EmulatedQardio.failure(status: status)])
        #expect(cuff.log.requests == [Self.start, Self.stop])
        #expect(bench.store.summaries == [ContactSummary(isComplete: false, error: code, received: 0)])
    }

    @Test("values that come before the cuff can have measured are kept, and are no reading")
    func early() async throws {
        try await bench.qardio([EmulatedQardio.pressure(30), EmulatedQardio.result(121, 79)])
        #expect(try await failure() == "qardio_ended_early")
        #expect(bench.store.readingCount == 0 && messages.count == 1)
    }

    @Test("octets that are no value are kept and told, and the measurement goes on")
    func malformed() async throws {
        try await bench.qardio([[0x14, 1]] + EmulatedQardio.measurement)
        let told = try await measure().told
        #expect(told.contains { if case .malformed = $0 { true } else { false } })
        #expect(messages.first?.payload == [0x14, 1] && bench.store.readingCount == 1)
    }

    @Test("a cuff that falls silent, or goes on for ever, is stopped")
    func silence() async throws {
        let cuff = try await bench.qardio([EmulatedQardio.pressure(30)])
        #expect(try await failure() == "qardio_silent" && cuff.log.requests == [Self.start, Self.stop])
        cuff.change { $0.qardio?.values = (0..<200).map { _ in EmulatedQardio.pressure(100) } }
        #expect(try await failure() == "qardio_too_long")
        #expect(cuff.log.requests == [Self.start, Self.stop, Self.start, Self.stop] && messages.isEmpty)
    }

    @Test("a link that is lost is made once more, only to let the air out; nothing is started again")
    func lost() async throws {
        let cuff = try await bench.qardio { $0.cutAfter = 3 }
        #expect(try await failure() == "qardio_link_lost")
        #expect(cuff.log.requests.filter { $0 == Self.start }.count == 1 && cuff.log.requests.last == Self.stop)
        #expect(cuff.log.events.count { $0 == .connect } == 2 && cuff.log.events.last == .disconnect)
        #expect(bench.store.readingCount == 0 && !cuff.isConnected)
        // Where it does not come back, that is said.
        cuff.change { behaviour in
            let lapse = behaviour.qardio?.lapse
            behaviour.qardio?.lapse = { [weak cuff] in
                lapse?()
                cuff?.change { $0.failsToConnect = true }
                cuff?.cut()
            }
        }
        let error = await #expect(throws: ContactFailure.self) { try await bench.manager.measure(.device(1)) }
        #expect(error?.description.contains("could not be told to stop") == true)
        #expect(cuff.log.requests.filter { $0 == Self.start }.count == 2)
    }

    @Test("a cuff that leaves when it has sent its result has measured")
    func leaves() async throws {
        let cuff = try await bench.qardio { $0.cutAfter = EmulatedQardio.measurement.count }
        #expect(try await measure().reading.record.words == "121/79")
        #expect(cuff.log.requests == [Self.start])
    }

    @Test("cancelling lets the air out, whenever it comes; before the start it starts nothing", arguments: 0...3)
    func cancelled(pressures: Int) async throws {
        let cuff = try await bench.qardio { $0.isHeld = pressures == 3 }
        let seen = Told<MeasurementEvent>()
        let measuring = Task { [manager = bench.manager] in
            try await manager.measure(.device(1)) { event in
                seen.note(event)
                let count = seen.events.count { if case .pressure = $0 { true } else { false } }
                guard event == .inflating ? pressures == 0 : count == pressures, pressures < 3 else { return }
                if case .began = event { return }
                withUnsafeCurrentTask { $0?.cancel() }
            }
        }
        if pressures == 3 {
            // While it waits for the cuff.
            try await eventually("it inflates") { cuff.log.requests == [Self.start] }
            measuring.cancel()
        }
        await #expect(throws: CancellationError.self) { try await measuring.value }
        #expect(cuff.log.requests == (pressures == 0 ? [] : [Self.start, Self.stop]))
        #expect(bench.store.readingCount == 0 && !cuff.isConnected)
    }

    @Test("a cuff that no longer knows its bond says so, and is not asked again")
    func bond() async throws {
        let cuff = try await bench.qardio { $0.qardio?.refuses = 0x05 }
        await #expect(throws: RadioError.forgottenByDevice(.device(1))) { try await bench.manager.measure(.device(1)) }
        #expect(cuff.log.requests == [Self.start, Self.stop])
        cuff.change { $0.qardio?.refuses = 0x80 }
        await #expect(throws: GATTError.attribute(0x80)) { try await bench.manager.measure(.device(1)) }
        #expect(try await bench.manager.unpair(.device(1)))
        await #expect(throws: RadioError.notBonded(.device(1))) { try await bench.manager.measure(.device(1)) }
    }

    @Test("other devices do not measure, and nothing is written to them")
    func others() async throws {
        let meter = try await bench.meter(1, paired: .proven)
        #expect(try await failure() == "cannot_measure")
        #expect(meter.log.requests.isEmpty)
        let cuff = try await bench.cuff(2, paired: .proven)
        let error = await #expect(throws: ContactFailure.self) { try await bench.manager.measure(.device(2)) }
        #expect(error?.code == "cannot_measure" && cuff.log.requests.isEmpty && cuff.cuffRecords.count == 2)
    }

    @Test("a cuff that is not heard in time is not started when it comes later")
    func late() async throws {
        let cuff = try await bench.qardio { $0.isInReach = false }
        let measuring = Task { [manager = bench.manager] in try await manager.measure(.device(1)) }
        try await eventually("it is waited for") { bench.radio.listens == 1 }
        bench.clock.advance(by: .seconds(61))
        await #expect(throws: RadioError.notSeen(.device(1), within: .seconds(60))) { try await measuring.value }
        bench.radio.appear(cuff)
        try await settle()
        #expect(cuff.log.requests.isEmpty)
    }

    // MARK: Nothing else starts a cuff

    @Test("nothing but a measurement writes to a cuff: no pairing, reading, probing, looking, and no schedule")
    func nothingElse() async throws {
        let cuff = try await bench.qardio(paired: .unpaired)
        let manager = bench.manager
        for try await _ in manager.search() { break }
        #expect(try await manager.pair(.device(1), agent: TestAgent()).isProven)
        #expect(try await manager.pair(.device(1), agent: TestAgent()).isProven)
        #expect(try await manager.pair(.device(1), repair: true, agent: TestAgent()).isPaired)
        for allRecords in [false, true] {
            let error = await #expect(throws: ContactFailure.self) {
                try await manager.read(.device(1), allRecords: allRecords) { _ in }
            }
            #expect(error?.code == "nothing_to_read" && error?.hint?.contains("healthrelay measure") == true)
        }
        // Also by the reader itself, as a replay does.
        #expect(
            try await MeterReader(journal: bench.store, memory: bench.store).read(cuff, allRecords: true).error
                == "nothing_to_read")
        _ = try await manager.probe(.device(1))
        await #expect(throws: ContactFailure.self) { try await manager.setClock(of: .device(1)) { _ in .summer } }
        #expect(try await manager.liveDevices().isEmpty)
        let looking = Task { for try await _ in manager.live([.device(1)]) {} }
        try await settle()
        looking.cancel()
        try await looking.value
        try await settle()
        let before = cuff.log.events.count
        let schedule = Task { await MeterSchedule(manager).run { _ in } }
        try await settle()
        for _ in 0..<3 {
            bench.radio.vanish(cuff)
            bench.radio.appear(cuff)
            manager.refresh()
            bench.clock.advance(by: .seconds(400))
            try await settle()
        }
        schedule.cancel()
        await schedule.value
        #expect(cuff.log.events.count == before, "the schedule leaves it alone")
        #expect(try await manager.unpair(.device(1)))
        #expect(cuff.log.requests.isEmpty && !cuff.log.events.contains(.start(0x2A35)))
        #expect(bench.store.readingCount == 0)
    }
}

extension Record {
    /// `121/79`.
    fileprivate var words: String {
        guard case .bloodPressure(let value) = value else { return "no pressure" }
        return [value.systolic, value.diastolic].map { $0.number.number?.description ?? "-" }.joined(separator: "/")
    }
}
