import Foundation
import GATTClient
import HealthReadings
import ReadingStore
import Testing

@testable import HealthDevices

/// Xiaomi's scales: what they advertise, read without a connection.
@Suite struct XiaomiTests {
    private let bench = RadioBench()
    private let told = Told<ScheduleEvent>()

    // MARK: Octets

    private func record(_ hex: String, _ format: FrameFormat) -> Record? {
        guard case .record(let record) = XiaomiMeasurement.decode([UInt8](hex: hex), as: format) else { return nil }
        return record
    }

    private func digits(_ record: Record?, _ part: VitalValue.Part) -> String? {
        guard case .vital(let value)? = record?.value else { return nil }
        return value[part].map { "\($0.document.text)" }
    }

    @Test("the octets that owners have logged are read: weight, time and impedance")
    func logged() throws {
        // xiaomi_mi_scale; ble_monitor's tests; its issue 1094, of a scale whose clock was never set.
        for (hex, time, weight, impedance) in [
            ("02a6e40709060d2614e9015a37", "2020-09-06T13:38:20", "70.850", "489"),
            ("0226b20705040f0201ac018642", "1970-05-04T15:02:01", "85.150", "428"),
            ("0226B2070103131A15E601604A", "1970-01-03T19:26:21", "95.200", "486"),
            ("02A6B2070103131A15E601604A", "1970-01-03T19:26:21", "95.200", "486"),
            // Without impedance, as people have asked about it.
            ("02a4b2070101023a38fdfff03c", "1970-01-01T02:58:56", "78.000", nil),
        ] {
            let record = record(hex, .xiaomiComposition)
            #expect(record?.baseTime == WallTime(time), "\(hex)")
            #expect(digits(record, .weight) == #"{"value":\#(weight),"unit":"kg"}"#, "\(hex)")
            #expect(digits(record, .impedance) == impedance.map { #"{"value":\#($0),"unit":"Ω"}"# }, "\(hex)")
            #expect(record?.exclusion == nil && record?.userSlot == nil)
        }
        // ble_monitor's tests and its issue 366; openScale's page on the scale, of a person on one that was weighing things.
        for (hex, time, weight) in [
            ("a22044b20701010a1a15", "1970-01-01T10:26:21", "87.200"),
            ("229e43e507040b101301", "2021-04-11T16:19:01", "86.550"),
            ("A29844E507051B162135", "2021-05-27T22:33:53", "87.800"),
            ("62AC49E0070C140D1C04", "2016-12-20T13:28:04", "94.300"),
        ] {
            let record = record(hex, .xiaomiWeight)
            #expect(record?.baseTime == WallTime(time) && record?.exclusion == nil, "\(hex)")
            #expect(digits(record, .weight) == #"{"value":\#(weight),"unit":"kg"}"#, "\(hex)")
            #expect(digits(record, .impedance) == nil)
        }
    }

    @Test("the weight of a thing is no person's: bit 2 of the first octet says so in 181B, and bit 6 in 181D")
    func things() {
        // As an owner has asked about it; OpenMQTTGateway's issue 1123, in pounds. Theengs' decoder names the bit.
        for (hex, time, weight) in [
            ("0624b2070101002e3800004c04", "1970-01-01T00:46:56", #"{"value":5.500,"unit":"kg"}"#),
            ("07a4e60701040b073a00008601", "2022-01-04T11:07:58", #"{"value":3.90,"unit":"lb"}"#),
        ] {
            let thing = record(hex, .xiaomiComposition)
            #expect(thing?.exclusion == .errorRecord && thing?.baseTime == WallTime(time), "\(hex)")
            #expect(digits(thing, .weight) == weight, "\(hex)")
        }
        #expect(record("0624b2070101002e380000f03c", .xiaomiComposition)?.exclusion == .errorRecord)
        #expect(record("0224b2070101002e380000f03c", .xiaomiComposition)?.exclusion == nil)
        // An owner's things of 9.55 and 4.3 kg, with the display on and off (pull requests 71 and 76 of Theengs' decoder).
        for (hex, weight) in [
            ("627607b2070101000111", "9.550"), ("e27607b2070101000111", "9.550"), ("e25c03b2070101001236", "4.300"),
        ] {
            let thing = record(hex, .xiaomiWeight)
            #expect(thing?.exclusion == .errorRecord && thing?.baseTime != nil, "\(hex)")
            #expect(digits(thing, .weight) == #"{"value":\#(weight),"unit":"kg"}"#, "\(hex)")
        }
        // Whoever is heavier than 10 kg is believed to have tapped that scale first, and stepped onto it: 10 kg, 22.05 lb, 20 jin.
        for (thing, person) in [("62d007", "62d107"), ("639d08", "639e08"), ("72d007", "72d107")] {
            #expect(record(thing + "b2070101000111", .xiaomiWeight)?.exclusion == .errorRecord, "\(thing)")
            #expect(record(person + "b2070101000111", .xiaomiWeight)?.exclusion == nil, "\(person)")
        }
        // 181B's bit says nothing that is known in 181D.
        #expect(record("269e43e507040b101301", .xiaomiWeight)?.exclusion == nil)
    }

    @Test("a weight that still changes is none")
    func changing() {
        for hex in ["0204b207010112101a0000a852", "0204B2070103131A130000AC49", "0284B2070103131A130000AC49"] {
            #expect(XiaomiMeasurement.decode([UInt8](hex: hex), as: .xiaomiComposition) == .nothing)
        }
        for hex in ["821400e507040b101708", "024844E507051C110C09"] {
            #expect(XiaomiMeasurement.decode([UInt8](hex: hex), as: .xiaomiWeight) == .nothing)
        }
    }

    @Test("pounds stay pounds; a jin is half a kilogram; both at once are refused")
    func units() throws {
        let time = try #require(WallTime("2026-11-20T07:00:00"))
        for format in [FrameFormat.xiaomiComposition, .xiaomiWeight] {
            for (unit, text) in [
                (XiaomiMeasurement.Unit.kilograms, #"{"value":75.000,"unit":"kg"}"#),
                (.pounds, #"{"value":150.00,"unit":"lb"}"#), (.jin, #"{"value":75.000,"unit":"kg"}"#),
            ] {
                let said = XiaomiMeasurement(format, unit: unit, time: time, rawWeight: 15_000)
                guard case .record(let record) = XiaomiMeasurement.decode(said.encoded, as: format) else {
                    Issue.record("\(unit) is not read")
                    continue
                }
                #expect(digits(record, .weight) == text)
            }
        }
        for (hex, format) in [
            ("0366e40709060d2614e9015a37", FrameFormat.xiaomiComposition), ("339e43e507040b101301", .xiaomiWeight),
        ] {
            guard case .malformed(let error) = XiaomiMeasurement.decode([UInt8](hex: hex), as: format) else {
                Issue.record("two units are accepted")
                continue
            }
            #expect(error.expected == "one unit")
        }
    }

    @Test("decode(encode(x)) == x, whatever bits besides are set")
    func roundTrip() throws {
        var generator = SystemRandomNumberGenerator()
        for _ in 0..<500 {
            let format = Bool.random() ? FrameFormat.xiaomiComposition : .xiaomiWeight
            let said = XiaomiMeasurement(
                format, unit: try #require(XiaomiMeasurement.Unit.allCases.randomElement()), isStable: .random(),
                isRemoved: .random(), isOfThing: .random(),
                impedance: format == .xiaomiComposition && Bool.random() ? .random(in: 1..<0xFFFD) : nil,
                time: WallTime(secondsSinceEpoch: .random(in: 0..<4_000_000_000)), rawWeight: .random(in: 0...(.max)))
            #expect(try XiaomiMeasurement(decoding: said.encoded, as: format) == said)
            var octets = said.encoded
            octets[0] |= format == .xiaomiComposition ? UInt8.random(in: .min ... .max, using: &generator) & 0xF8 : 0x0C
            #expect(try XiaomiMeasurement(decoding: octets, as: format) == said)
        }
    }

    @Test("whatever the octets, a measurement that is understood is what its own octets say")
    func anyOctets() throws {
        for _ in 0..<2000 {
            let format = Bool.random() ? FrameFormat.xiaomiComposition : .xiaomiWeight
            let octets = (0..<XiaomiMeasurement.length(of: format)).map { _ in UInt8.random(in: .min ... .max) }
            guard let said = try? XiaomiMeasurement(decoding: octets, as: format) else { continue }
            #expect(try XiaomiMeasurement(decoding: said.encoded, as: format) == said)
            #expect(XiaomiMeasurement.decode(octets, as: format) == XiaomiMeasurement.decode(said.encoded, as: format))
        }
    }

    @Test("octets of another length are refused", arguments: [0, 1, 9, 11, 12, 14, 26])
    func lengths(count: Int) {
        for format in [FrameFormat.xiaomiComposition, .xiaomiWeight] {
            guard
                case .malformed(let error) = XiaomiMeasurement.decode(
                    [UInt8](repeating: 0x22, count: count), as: format)
            else {
                Issue.record("\(count) octets are accepted")
                continue
            }
            #expect(error.found == "\(count)")
        }
    }

    @Test("no impedance is invented: FFFE, FFFD and 0 are none, and so is what the flags don't announce")
    func noImpedance() {
        for hex in ["feff", "fdff", "ffff", "0000"] {
            let record = record("0226e40709060d2614\(hex)5a37", .xiaomiComposition)
            #expect(digits(record, .weight) != nil && digits(record, .impedance) == nil)
        }
        #expect(digits(record("0224e40709060d2614e9015a37", .xiaomiComposition), .impedance) == nil)
        // What no body has is kept as the frame, and shown as none.
        let record = record("0226e40709060d2614a00f5a37", .xiaomiComposition)
        #expect(digits(record, .impedance) == #"{"value":4000,"unit":"Ω"}"#)
    }

    @Test("a clock that shows no time gives none; what is still shown when the person has left has no time at all")
    func noTime() throws {
        let zone = try #require(ZoneRules.named("Europe/Berlin"))
        let times = TimeResolution(zone: zone, clock: nil)
        let received = Instant(seconds: 1_795_000_000)
        let live = try #require(record("022600000000000000e9015a37", .xiaomiComposition))
        #expect(live.baseTime == nil)
        #expect(times.resolve(live, receivedAt: received) { nil }.basis == .reception)
        let left = try #require(record("02a600000000000000e9015a37", .xiaomiComposition))
        #expect(times.resolve(left, receivedAt: received) { nil }.basis == .unknown)
    }

    @Test("a scale is known by its name, or by what it says; others are not taken for one")
    func catalogue() {
        let catalogue = Catalogue()
        func model(_ name: String?, _ data: [BluetoothUUID: [UInt8]], _ services: [BluetoothUUID] = []) -> String? {
            catalogue.model(
                for: Advertisement(
                    address: .device(1), name: name, services: services, serviceData: data, seenAt: Instant(seconds: 0))
            )?.id
        }
        #expect(model("MIBFS", [:]) == XiaomiScale.bodyComposition)
        #expect(model("MI SCALE2", [:], [0x181D]) == XiaomiScale.weight)
        #expect(model(nil, [0x181B: .init(repeating: 0, count: 13)], [0x181B]) == XiaomiScale.bodyComposition)
        #expect(model(nil, [0x181D: .init(repeating: 0, count: 10)], [0x181D]) == XiaomiScale.weight)
        #expect(model(nil, [0x181D: .init(repeating: 0, count: 9)], [0x181D]) == "generic_weight_scale")
        #expect(model("MIBFS 2", [:], [0x181B]) == "generic_body_composition")
        #expect(catalogue[XiaomiScale.weight]?.isLiveOnly == false)
    }

    // MARK: A scale and a gateway

    private static let scale = DeviceAddress.device(27)

    private func scale(paired: Bool = true, _ adjust: (inout EmulatedDevice.Behaviour) -> Void = { _ in }) async throws
        -> EmulatedDevice
    {
        var behaviour = EmulatedDevice.Behaviour()
        behaviour.address = Self.scale
        behaviour.name = "MIBFS"
        behaviour.isInReach = false
        adjust(&behaviour)
        let device = EmulatedDevice(behaviour, log: EventLog())
        bench.radio.add(device)
        if paired {
            try await bench.store.admit(
                DeviceDescription(address: Self.scale, model: XiaomiScale.bodyComposition, name: "MIBFS"), as: .proven)
        }
        return device
    }

    private func say(_ scale: EmulatedDevice, _ hex: String, at second: Int64 = 0) {
        say(scale, [UInt8](hex: hex), at: second)
    }

    private func say(
        _ scale: EmulatedDevice, _ octets: [UInt8], at second: Int64 = 0, as service: BluetoothUUID = 0x181B
    ) {
        scale.change {
            $0.serviceData = [service: octets]
            $0.heardAt = Instant(seconds: 1_795_000_000 + second)
        }
        bench.radio.appear(scale)
    }

    private func outcomes() -> [FrameOutcome] {
        told.events.flatMap { event -> [FrameOutcome] in
            if case .transfer(Self.scale, .stored(let outcomes)) = event { outcomes } else { [] }
        }
    }

    private func running(_ body: () async throws -> Void) async throws {
        var pace = SchedulePace()
        pace.jitter = { $0 }
        let run = Task { [told, manager = bench.manager] in
            await MeterSchedule(manager, pace: pace).run { told.note($0) }
        }
        do {
            try await body()
        } catch {
            run.cancel()
            await run.value
            throw error
        }
        run.cancel()
        await run.value
        #expect(bench.clock.sleeps.isEmpty && bench.radio.heeded.isEmpty)
    }

    private let unstable = "0204e40709060d26130000ac49"
    private let weightOnly = "0224e40709060d261400005a37"
    private let withImpedance = "0226e40709060d2614e9015a37"
    private let left = "02a6e40709060d2614e9015a37"

    @Test("promise 2: a gateway takes a measurement once from what is advertised, and connects nothing")
    func schedule() async throws {
        let scale = try await scale()
        try await running {
            try await eventually("it listens") { bench.radio.heeded == [Self.scale] }
            #expect(bench.radio.watched.isEmpty, "there is nothing to connect")
            for second in 0..<3 { say(scale, unstable, at: Int64(second)) }
            say(scale, weightOnly, at: 4)
            try await eventually("the weight is stored") { bench.store.frames.count == 1 }
            for second in 5..<8 { say(scale, weightOnly, at: Int64(second)) }
            say(scale, withImpedance, at: 9)
            try await eventually("the impedance is stored") { bench.store.frames.count == 2 }
            for second in 10..<20 { say(scale, left, at: Int64(second)) }
            try await settle()
        }
        #expect(bench.store.frames.map(\.payload) == [weightOnly, withImpedance].map { [UInt8](hex: $0) })
        #expect(bench.store.readingCount == 1, "it is one measurement")
        #expect(bench.store.summaries == .init(repeating: ContactSummary(isComplete: true, received: 1), count: 2))
        #expect(bench.store.contacts.map(\.device.model) == [XiaomiScale.bodyComposition, XiaomiScale.bodyComposition])
        #expect(scale.log.events.isEmpty, "nothing was connected or written")
    }

    @Test("a weight that is shown with a later time once the person has left is the same; a later one is another")
    func leaving() async throws {
        let scale = try await scale()
        // An owner has logged these octets of a weighing in socks, which gives no impedance: xiaomi_mi_scale.
        let (stable, left) = ("0224e3070a1e163b2cfdff3e30", "02a4e3070a1e17000bfdff3e30")
        try await running {
            try await eventually("it listens") { bench.radio.heeded == [Self.scale] }
            say(scale, stable, at: 1)
            try await eventually("the weight is stored") { bench.store.readingCount == 1 }
            for second in 28..<32 { say(scale, left, at: Int64(second)) }
            try await settle()
            #expect(bench.store.readingCount == 1 && bench.store.frames.count == 1)
            // Nobody heard the scale the next morning before this.
            say(scale, "02a4e3070a1f07000bfdff3e30", at: 30_000)
            try await eventually("it is another weighing") { bench.store.readingCount == 2 }
        }
    }

    /// Takes a thing for a person, as earlier versions did.
    private struct ThinglessDecoder: FrameDecoding {
        func decode(_ frame: Frame, model: String?) -> DecodedFrame {
            guard case .record(var record) = ModelFrameDecoder().decode(frame, model: model) else { return .nothing }
            record.exclusion = nil
            return .record(record)
        }
    }

    @Test("a thing's weight waits for no destination; one that an earlier version took for a person's stays as it is")
    func storedThing() async throws {
        let directory = FileManager.default.temporaryDirectory.appending(path: "things-\(UUID().uuidString)").path
        defer { try? FileManager.default.removeItem(atPath: directory) }
        func open(_ decoder: some FrameDecoding) async throws -> ReadingStore {
            try await ReadingStore.open(
                directory: directory, decoder: decoder, clientUserID: "white_bear", timeZone: "Europe/Berlin")
        }
        func take(_ hex: String, _ store: ReadingStore) async throws {
            let now = Instant(seconds: 1_795_000_000)
            let contact = try await store.beginContact(
                with: DeviceDescription(address: Self.scale, model: XiaomiScale.bodyComposition, name: "MIBFS"),
                at: now, clock: nil, batteryPercent: nil)
            let frame = Frame(
                format: .xiaomiComposition, payload: [UInt8](hex: hex), receivedAt: now, ordinal: 0)
            _ = try await store.append([frame], of: contact)
            try await store.endContact(contact, ContactSummary(isComplete: true, received: 1))
        }
        // 2026-11-18, a minute apart.
        let (before, after) = ("0624ea070b120a1e0000004c04", "0624ea070b120a1f0000004c04")
        let earlier = try await open(ThinglessDecoder())
        try await take(before, earlier)
        try earlier.close()
        let store = try await open(ModelFrameDecoder())
        #expect(try await store.verify().isEmpty)
        try await take(before, store)
        #expect(try await store.query(ReadingQuery()).readings.map(\.excluded) == [nil])
        try await take(after, store)
        let excluded = try await store.query(ReadingQuery()).readings.map(\.excluded)
        #expect(excluded.count == 2 && excluded.count { $0 == .errorRecord } == 1)
        #expect(try await store.verify().isEmpty)
        try store.close()
    }

    @Test("two persons in one minute are two readings, also where they weigh the same")
    func twoPersons() async throws {
        let scale = try await scale()
        try await running {
            try await eventually("it listens") { bench.radio.heeded == [Self.scale] }
            for (number, hex) in [
                weightOnly, "0224e40709060d262c00001e46", "0224e40709060d263a00001e46",
            ].enumerated() {
                say(scale, hex, at: Int64(number * 20))
                try await eventually("it is stored") { bench.store.readingCount == number + 1 }
            }
        }
        #expect(bench.store.readingCount == 3)
    }

    @Test("scales that nobody has paired are not listened to")
    func neighbours() async throws {
        let stranger = try await scale(paired: false)
        try await bench.meter(1, paired: .paired) { $0.isInReach = false }
        try await running {
            try await eventually("it watches") { bench.radio.watched == [.device(1)] }
            say(stranger, withImpedance)
            try await settle()
        }
        #expect(bench.store.frames.isEmpty && stranger.log.events.isEmpty)
    }

    @Test("a person's erasure bars the scale: nothing of it is stored")
    func barred() async throws {
        let scale = try await scale()
        try await running {
            try await eventually("it listens") { bench.radio.heeded == [Self.scale] }
            bench.store.bar(Self.scale)
            say(scale, withImpedance)
            try await settle()
        }
        #expect(bench.store.frames.isEmpty)
    }

    @Test("promise 1: a measurement that cannot be stored is tried again until it is")
    func fullStore() async throws {
        let scale = try await scale()
        bench.store.failAppending(after: 0)
        try await running {
            try await eventually("it listens") { bench.radio.heeded == [Self.scale] }
            say(scale, withImpedance)
            try await eventually("it waits") { bench.clock.sleeps == [.seconds(10)] }
            bench.store.failAppending(after: nil)
            bench.clock.advance(by: .seconds(10))
            try await eventually("it is stored") { bench.store.readingCount == 1 }
        }
        #expect(told.events.contains { if case .failed(Self.scale, _, .seconds(10)) = $0 { true } else { false } })
    }

    @Test("promise 5: octets that cannot be understood are kept, once, and named")
    func malformed() async throws {
        let scale = try await scale()
        try await running {
            try await eventually("it listens") { bench.radio.heeded == [Self.scale] }
            for _ in 0..<3 { say(scale, "0226e407") }
            try await eventually("it is kept") { bench.store.frames.count == 1 }
            say(scale, withImpedance)
            try await eventually("what is read is stored") { bench.store.readingCount == 1 }
        }
        #expect(bench.store.frames.count == 2)
        guard case .malformed(let error)? = outcomes().first else {
            Issue.record("\(outcomes())")
            return
        }
        #expect(error.subject == "Xiaomi scale" && error.found == "4")
    }

    @Test("pairing remembers a scale without a bond and without a connection; it can be unpaired again")
    func pairing() async throws {
        let scale = try await scale(paired: false) {
            $0.serviceData = [0x181B: [UInt8](hex: "0204e40709060d26130000ac49")]
        }
        bench.radio.appear(scale)
        let paired = try await bench.manager.pair(Self.scale, within: .seconds(1), agent: TestAgent())
        #expect(paired.isPaired && paired.isProven && !paired.wasPaired)
        #expect(paired.model?.id == XiaomiScale.bodyComposition)
        #expect(try await bench.manager.pair(Self.scale, within: .seconds(1), agent: TestAgent()).wasPaired)
        #expect(try await bench.manager.reconcilePairings() == [Self.scale])
        await #expect(throws: ContactFailure.self) {
            try await bench.manager.setClock(of: Self.scale) { _ in WallTime(secondsSinceEpoch: 0) }
        }
        #expect(try await bench.manager.unpair(Self.scale))
        #expect(try await bench.manager.reconcilePairings().isEmpty)
        #expect(scale.log.events.isEmpty, "nothing was connected")
    }

    @Test("an address is typed without its type, and the scale is known by the one that it is heard with")
    func addressType() async throws {
        let scale = try await scale(paired: false)
        bench.radio.appear(scale)
        let typed = DeviceAddress(bits: Self.scale.bits, kind: .public)
        #expect(try await bench.manager.pair(typed, within: .seconds(1), agent: TestAgent()).address == Self.scale)
        #expect(try await bench.manager.reconcilePairings() == [Self.scale])
        try await running {
            try await eventually("it listens") { bench.radio.heeded == [Self.scale] }
            say(scale, withImpedance)
            try await eventually("it is stored") { bench.store.readingCount == 1 }
        }
        #expect(try await bench.manager.unpair(typed))
    }

    @Test("a scale that encrypts what it says is recognised, and not paired")
    func encrypted() async throws {
        let s400 = try await scale(paired: false) {
            $0.name = "XMTZC14HM"
            $0.serviceData = [0xFE95: [UInt8](hex: "4859d53b0b1122334455aa")]
        }
        bench.radio.appear(s400)
        for name in [s400.behaviour.name, "Mijia Scale S800 A1AB"] {
            s400.change { $0.name = name }
            if name?.hasPrefix("Mijia") == true { s400.change { $0.serviceData = [:] } }
            let failure = await #expect(throws: ContactFailure.self) {
                try await bench.manager.pair(Self.scale, within: .seconds(1), agent: TestAgent())
            }
            #expect(failure?.code == "encrypted_scale")
        }
        #expect(try await bench.store.pairings().isEmpty && s400.log.events.isEmpty)
    }

    // MARK: `read`

    @Test("read waits for the next measurement and for its impedance; what was stored before is not the next")
    func read() async throws {
        let scale = try await scale()
        let events = Told<TransferEvent>()
        func reading() -> Task<ContactSummary, any Error> {
            Task { [manager = bench.manager] in
                try await manager.read(Self.scale, within: .seconds(60)) { events.note($0) }
            }
        }
        let first = reading()
        try await eventually("it listens") { bench.radio.heeded == [Self.scale] }
        say(scale, unstable)
        say(scale, weightOnly, at: 1)
        try await eventually("the weight is stored") { bench.store.readingCount == 1 }
        say(scale, withImpedance, at: 6)
        #expect(try await first.value == ContactSummary(isComplete: true, received: 1))
        #expect(bench.store.frames.count == 2)

        say(scale, left, at: 8)
        let second = reading()
        try await eventually("it listens") { bench.radio.heeded == [Self.scale] && !bench.clock.sleeps.isEmpty }
        try await settle()
        bench.clock.advance(by: .seconds(60))
        let failure = await #expect(throws: ContactFailure.self) { try await second.value }
        #expect(failure?.code == "no_measurement")
        #expect(bench.store.frames.count == 2 && scale.log.events.isEmpty)
    }

    @Test("read ends without an impedance where the person leaves, or none comes")
    func readWithoutImpedance() async throws {
        let scale = try await scale()
        for (number, leaves) in [true, false].enumerated() {
            let read = Task { [manager = bench.manager] in
                try await manager.read(Self.scale, within: .seconds(60)) { _ in }
            }
            try await eventually("it listens") { bench.radio.heeded == [Self.scale] }
            var weight = [UInt8](hex: weightOnly)
            weight[8] = UInt8(20 + number)
            say(scale, weight)
            try await eventually("the weight is stored") { bench.store.readingCount == number + 1 }
            try await eventually("it waits for more") { bench.clock.sleeps.contains(.seconds(20)) }
            if leaves {
                weight[1] |= 0x80
                say(scale, weight)
            } else {
                bench.clock.advance(by: .seconds(20))
            }
            #expect(try await read.value.received == 1)
        }
    }

    // MARK: In the store

    private let directory = FileManager.default.temporaryDirectory
        .appending(path: "xiaomi-\(ProcessInfo.processInfo.globallyUniqueString)").path

    private func manager(_ store: ReadingStore) -> DevicesManager {
        DevicesManager(radio: bench.radio, journal: store, memory: store, pairings: store, clock: bench.clock)
    }

    @Test(
        "in the store: the impedance joins the weight under its id; the scale's clock places it while one stands on it")
    func stored() async throws {
        let store = try await ReadingStore.open(
            directory: directory, decoder: ModelFrameDecoder(), clientUserID: "white_bear", timeZone: "Europe/Berlin")
        let scale = try await scale(paired: false)
        let manager = manager(store)
        bench.radio.appear(scale)
        _ = try await manager.pair(Self.scale, within: .seconds(1), agent: TestAgent())
        let events = Told<TransferEvent>()
        func take(_ hex: String, at second: Int64) async throws {
            say(scale, hex, at: second)
            try await manager.takeMeasurement(in: scale.advertisement, of: Self.scale) { events.note($0) }
        }
        func outcomes() -> [FrameOutcome] {
            events.events.flatMap { event -> [FrameOutcome] in
                if case .stored(let outcomes) = event { outcomes } else { [] }
            }
        }
        // The clock was never set.
        let unset = "0224b2070103131a150000604a"
        try await take(unset, at: 2)
        try await take(unset.replacing("0224", with: "0226").replacing("0000604a", with: "e601604a"), at: 9)
        try await take(unset.replacing("0224", with: "02a4"), at: 12)
        guard case .new(let weight)? = outcomes().first, case .revised(let whole)? = outcomes().last else {
            Issue.record("\(outcomes())")
            return
        }
        #expect(outcomes().count == 2 && weight.id == whole.id)
        #expect(weight.record.baseTime == WallTime("1970-01-03T19:26:21"))
        // Differences are whole minutes.
        #expect(weight.time.instant.map { abs($0.seconds - 1_795_000_002) <= 30 } == true)
        #expect(weight.time.basis == .corrected)
        #expect(whole.time == weight.time && whole.excluded == nil)
        #expect(digits(whole.record, .impedance) == #"{"value":486,"unit":"Ω"}"#)
        #expect(digits(weight.record, .impedance) == nil)
        // Another process hears what is still shown.
        let other = DevicesManager(
            radio: bench.radio, journal: store, memory: store, pairings: store, clock: bench.clock)
        say(scale, unset.replacing("0224", with: "02a4"), at: 15)
        try await other.takeMeasurement(in: scale.advertisement, of: Self.scale) { events.note($0) }
        #expect(outcomes().last == .repeated(weight.id))
        #expect(try await store.verify().isEmpty)
        // What was shown before somebody heard the scale has the clock's word only.
        try await take("02a4b2070102131a150000604a", at: 20)
        guard case .new(let missed)? = outcomes().last else {
            Issue.record("\(outcomes())")
            return
        }
        #expect(missed.time.instant != nil)
        try store.close()
    }
}
