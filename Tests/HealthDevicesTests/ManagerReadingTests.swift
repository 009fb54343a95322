import GATTClient
import HealthReadings
import Testing

@testable import HealthDevices

/// Reading on request.
@Suite struct ManagerReadingTests {
    private let bench = RadioBench()
    private let told = Told<TransferEvent>()

    private func read(allRecords: Bool = false) async throws -> ContactSummary {
        try await bench.manager.read(.device(1), allRecords: allRecords) { [told] in told.note($0) }
    }

    @Test("a stream tells of a transfer to its end; promise 2: a second one brings nothing new")
    func stream() async throws {
        try await bench.meter(paired: .paired)
        var events: [TransferEvent] = []
        for try await event in bench.manager.read(.device(1)) { events.append(event) }
        guard case .began? = events.first, case .ended(let summary)? = events.last else {
            Issue.record("\(events)")
            return
        }
        #expect(summary == ContactSummary(isComplete: true, announced: 5, received: 5))
        #expect(events.contains(.progress(received: 0, of: 5)) && events.contains(.progress(received: 5, of: 5)))
        #expect(bench.store.pairing(.device(1)) == .proven)
        for try await event in bench.manager.read(.device(1)) {
            guard case .stored(let outcomes) = event else { continue }
            for case .new in outcomes { Issue.record("new, though it was read before") }
        }
    }

    @Test("a device that is not paired is not read, and one that is not heard is not waited for any longer")
    func unreachable() async throws {
        try await bench.meter()
        await #expect(throws: RadioError.notBonded(.device(1))) { try await read() }
        try await bench.meter(2, paired: .proven) { $0.isInReach = false }
        let reading = Task { try await bench.manager.read(.device(2), within: .seconds(9)) { _ in } }
        try await eventually("it is waited for") { bench.clock.sleeps == [.seconds(9)] }
        bench.clock.advance(by: .seconds(9))
        await #expect(throws: RadioError.notSeen(.device(2), within: .seconds(9))) { try await reading.value }
    }

    @Test("a device may be named by its digits alone, or by an address it had before")
    func names() async throws {
        try await bench.meter(paired: .proven)
        let asPublic = DeviceAddress(bits: DeviceAddress.device(1).bits, kind: .public)
        #expect(try await bench.manager.read(asPublic) { _ in }.isComplete)
        try await bench.store.notePairing(
            of: DeviceDescription(address: .device(7), serial: "1"), as: .unpaired)
        try await bench.store.notePairing(
            of: DeviceDescription(address: .device(8), serial: "1"), as: .proven)
        try await bench.meter(8) { $0.isPaired = true }
        #expect(try await bench.manager.read(.device(7)) { _ in }.isComplete)
    }

    @Test("a device that is heard and cannot be connected is waited for")
    func retries() async throws {
        let meter = try await bench.meter(paired: .proven) { $0.failsToConnect = true }
        let reading = Task { try await read() }
        try await eventually("it is tried") { bench.clock.sleeps.contains(.seconds(1)) }
        meter.change { $0.failsToConnect = false }
        bench.clock.advance(by: .seconds(1))
        #expect(try await reading.value.isComplete)
        meter.change { $0.failsToConnect = true }
        let second = Task { try await read() }
        try await eventually("it is tried") { bench.clock.sleeps.contains(.seconds(1)) }
        bench.clock.advance(by: .seconds(60))
        await #expect(throws: GATTError.timedOut) { try await second.value }
    }

    @Test("promise 3: a cut transfer is in the summary, and resumed")
    func cut() async throws {
        let meter = try await bench.meter(paired: .proven) { $0.cutAfter = 3 }
        let first = try await read()
        #expect(first.error == "transfer_interrupted" && first.received == 2)
        meter.change { $0.cutAfter = nil }
        #expect(try await read() == ContactSummary(isComplete: true, announced: 5, received: 5))
        #expect(bench.store.readingCount == 5)
    }

    @Test("all records are asked for on request; promise 2: nothing is new for that")
    func allRecords() async throws {
        let meter = try await bench.meter(paired: .proven)
        _ = try await read()
        meter.log.clear()
        let summary = try await read(allRecords: true)
        #expect(summary == ContactSummary(isComplete: true, announced: 5, received: 5))
        #expect(meter.log.requests == [[1, 6], [4, 1], [1, 1]])
        #expect(bench.store.readingCount == 5 && bench.store.epoch == 0)
        meter.glucoseRecords { $0 = glucoseRecords(1...3, since: .summer) }
        #expect(try await read(allRecords: true).isComplete)
        #expect(bench.store.epoch == 1 && bench.store.readingCount == 8)
    }

    @Test("a device that is being read is joined from the beginning")
    func joined() async throws {
        let meter = try await bench.meter(paired: .proven) { $0.isHeld = true }
        let first = Task { try await bench.manager.read(.device(1)) { _ in } }
        try await eventually("it is being read") { meter.log.events.contains(.start(0x2A52)) }
        let second = Task { try await read() }
        try await eventually("it is followed") { !told.events.isEmpty }
        meter.change { $0.isHeld = false }
        let summary = try await first.value
        #expect(try await second.value == summary)
        if case .began? = told.events.first {} else { Issue.record("not from the beginning") }
        #expect(told.events.last == .ended(summary))
        #expect(meter.log.events.count { $0 == .connect } == 1)
    }

    @Test("whoever joined goes on where the one who began gives up, and the other way round", arguments: [true, false])
    func givesUp(theFirst: Bool) async throws {
        let meter = try await bench.meter(paired: .proven) { $0.isHeld = true }
        let first = Task { try await bench.manager.read(.device(1)) { _ in } }
        try await eventually("it is being read") { meter.log.events.contains(.start(0x2A52)) }
        let second = Task { try await read() }
        try await eventually("it is followed") { !told.events.isEmpty }
        (theFirst ? first : second).cancel()
        await #expect(throws: CancellationError.self) { try await (theFirst ? first : second).value }
        meter.change { $0.isHeld = false }
        #expect(try await (theFirst ? second : first).value.isComplete)
        #expect(bench.store.readingCount == 5)
    }

    @Test("a request for all records waits for a transfer of what is new")
    func allAfterNews() async throws {
        let meter = try await bench.meter(paired: .proven) { $0.isHeld = true }
        let first = Task { try await bench.manager.read(.device(1)) { _ in } }
        try await eventually("it is being read") { meter.log.events.contains(.start(0x2A52)) }
        let second = Task { try await read(allRecords: true) }
        try await settle()
        meter.change { $0.isHeld = false }
        #expect(try await first.value.isComplete)
        #expect(try await second.value.received == 5)
        #expect(meter.log.events.count { $0 == .connect } == 2)
    }

    @Test("ending the iteration ends the transfer, in order", arguments: [false, true])
    func endedEarly(isCuff: Bool) async throws {
        let device =
            isCuff
            ? try await bench.cuff(paired: .proven)
            : try await bench.meter(records: glucoseRecords(1...50), paired: .proven)
        device.change { $0.cuffDisconnects = false }
        for try await event in bench.manager.read(.device(1)) { if case .stored = event { break } }
        try await eventually("it is left") { device.log.events.last == .disconnect }
        #expect(device.log.events.contains(.stop(isCuff ? 0x2A35 : 0x2A52)))
        try await eventually("it may be read again") {
            (try? await bench.manager.read(.device(1), report: { _ in }).isComplete) == true
        }
    }

    @Test("promise 8: a bond that is lost is noticed in a read, and noted", arguments: [true, false])
    func bondLost(byLink: Bool) async throws {
        let meter = try await bench.meter(paired: .proven)
        meter.change { $0.knowsBond = false }
        if byLink {
            await #expect(throws: RadioError.forgottenByDevice(.device(1))) { try await read() }
        } else {
            // A link that comes about without encryption: the device refuses what it protects.
            meter.change { $0.connectsWithoutBond = true }
            await #expect(throws: RadioError.forgottenByDevice(.device(1))) { try await read() }
            #expect(bench.store.summaries.last??.error == "bond_lost_by_device")
        }
        #expect(bench.store.pairing(.device(1)) == .paired)
        #expect(meter.log.events.last == .disconnect)
    }

    @Test("promise 10: a radio that goes in the middle is named; what came is kept")
    func radioLost() async throws {
        let meter = try await bench.meter(records: glucoseRecords(1...50), paired: .proven)
        meter.change { $0.burst = 1 }
        let summary = try await bench.manager.read(.device(1)) { [radio = bench.radio] event in
            if case .progress(received: 20, of: _) = event { radio.setAdapter(.unusable(.lost)) }
        }
        #expect(summary.error == "transfer_interrupted" && summary.received == 20)
        #expect(bench.store.readingCount == 20)
        await #expect(throws: RadioError.lost) { try await read() }
    }

    @Test("a thermometer that sends for as long as it is worn is left after five minutes, in good order")
    func worn() async throws {
        let thermometer = try await bench.wornThermometer()
        let summary = try await read()
        #expect(summary.isComplete && (295...306).contains(summary.received))
        #expect(told.events.last == .ended(summary) && bench.store.summaries == [summary])
        #expect(thermometer.log.events.suffix(2) == [.stop(0x2A1C), .disconnect])
        #expect(bench.clock.now.offset < .seconds(310))
    }

    @Test("a device that sends is left for others after a minute: what it has stored has come by then")
    func wanted() async throws {
        let (clock, waits) = (bench.clock, Told<Bool>())
        // No time passes before somebody waits for it.
        let thermometer = try await bench.wornThermometer { !waits.events.isEmpty }
        let reading = Task { try await bench.manager.read(.device(1)) { _ in } }
        try await eventually("it is being read") { thermometer.log.events.contains(.start(0x2A1C)) }
        let other = Task { try await bench.manager.turns.inTurn(.device(1)) {} }
        while await !bench.manager.turns.isWanted(.device(1)) { try await Task.sleep(for: .milliseconds(1)) }
        waits.note(true)
        #expect(try await reading.value.isComplete)
        try await other.value
        #expect(clock.now.offset >= .seconds(60) && clock.now.offset < .seconds(70))
    }

    @Test("of a transfer that goes on for days its beginning and the newest events are kept")
    func endless() async throws {
        let device = DeviceDescription(address: .device(1), model: "generic_thermometer", provider: "manual")
        let contact = Contact(id: 1, device: device, startedAt: Instant(seconds: 0), sequenceEpoch: 0, clock: nil)
        let transfer = SharedTransfer(wantsAll: false)
        transfer.note(.began(contact))
        let count = 5 * SharedTransfer.mostKept
        for number in 1...count { transfer.note(.progress(received: number, of: nil)) }
        #expect(transfer.hasBegun && transfer.course.news == 0 && transfer.course.model == "generic_thermometer")
        let end = TransferEvent.ended(ContactSummary(isComplete: true, received: count))
        transfer.note(end)
        transfer.finish(.success(ContactSummary(isComplete: true, received: count)))
        var events: [TransferEvent] = []
        for try await event in transfer.events() { events.append(event) }
        #expect(events.first == .began(contact) && events.suffix(2) == [.progress(received: count, of: nil), end])
        #expect((SharedTransfer.mostKept...(2 * SharedTransfer.mostKept)).contains(events.count))
    }
}
