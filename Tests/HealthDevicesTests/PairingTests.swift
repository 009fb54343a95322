import GATTClient
import HealthReadings
import LogLines
import Logging
import Testing

@testable import HealthDevices

/// Promise 8: paired means bonded; proven means a bonded reconnect plus an encrypted operation.
@Suite struct PairingTests {
    private let bench = RadioBench()
    private let told = Told<PairingProgress>()

    private func pair(
        _ number: UInt64 = 1, within timeout: Duration = .seconds(60), repair: Bool = false,
        agent: TestAgent = TestAgent()
    ) async throws -> PairedDevice {
        try await bench.manager.pair(.device(number), within: timeout, repair: repair, agent: agent) { [told] in
            told.note($0)
        }
    }

    @Test("promise 8: a glucose meter is proven by a bonded reconnect and its control point, and sends no record")
    func glucose() async throws {
        let meter = try await bench.meter(script: .passkey(123_456))
        let device = try await pair()
        #expect(device.address == .device(1) && device.model?.id == "accuchek_guide")
        #expect(device.isPaired && device.isProven && !device.wasPaired && device.whatToPress == nil)
        #expect(bench.store.pairing(.device(1)) == .proven)
        // Left after pairing, connected by its bond, and left again.
        #expect(meter.log.events == [.disconnect, .connect, .start(0x2A52), .stop(0x2A52), .disconnect])
        #expect(bench.store.contacts.isEmpty)
        #expect(bench.store.log.events == [.paired(.unpaired), .paired(.paired), .paired(.proven)])
        let advertisement = try #require(
            told.events.compactMap { if case .pairing(let found) = $0 { found } else { nil } }.first)
        #expect(
            told.events == [
                .waitingForDevice(.device(1)), .pairing(advertisement), .bonded(.device(1)),
                .waitingForReconnect(.device(1), whatToPress: "switch the meter on with a press of its button"),
                .proven(.device(1)),
            ])
    }

    @Test("promise 8: the proof never starts a cuff's transfer", arguments: [0x2A49, 0x2A25, 0x2A24] as [UInt16])
    func cuff(readable: UInt16) async throws {
        let cuff = try await bench.cuff { $0.readable = [BluetoothUUID(readable): .success([1, 2])] }
        let device = try await pair()
        #expect(device.isProven)
        #expect(cuff.log.events == [.disconnect, .connect, .read(BluetoothUUID(readable)), .disconnect])
        #expect(cuff.cuffRecords.count == 2)
    }

    @Test("promise 8: a cuff that lets nothing be read is paired, and proven at its next contact")
    func silentCuff() async throws {
        let cuff = try await bench.cuff()
        let device = try await pair()
        #expect(device.isPaired && !device.isProven)
        #expect(device.whatToPress == "press the monitor's Bluetooth button once")
        #expect(cuff.cuffRecords.count == 2)
        #expect(bench.store.pairing(.device(1)) == .paired)
        let summary = try await bench.manager.read(.device(1)) { _ in }
        #expect(summary.isComplete && bench.store.readingCount == 2)
        #expect(bench.store.pairing(.device(1)) == .proven)
    }

    @Test("promise 8: a meter that sleeps after bonding is paired, told what to press, and proven at its next contact")
    func sleepsAfterBonding() async throws {
        let meter = try await bench.meter { $0.sleepsAfterBonding = true }
        let pairing = Task { try await pair(within: .seconds(60)) }
        try await eventually("it is waited for") {
            bench.clock.sleeps.contains(.seconds(60)) && meter.behaviour.isPaired
        }
        try await eventually("the wait is told") { told.events.count == 4 }
        bench.clock.advance(by: .seconds(60))
        let device = try await pairing.value
        #expect(device.isPaired && !device.isProven)
        #expect(device.whatToPress == "switch the meter on with a press of its button")
        #expect(bench.store.pairing(.device(1)) == .paired)
        bench.radio.appear(meter)
        #expect(try await bench.manager.read(.device(1)) { _ in }.isComplete)
        #expect(bench.store.pairing(.device(1)) == .proven)
    }

    @Test("promise 8: a meter that is woken in time is proven")
    func woken() async throws {
        let meter = try await bench.meter { $0.sleepsAfterBonding = true }
        let pairing = Task { try await pair() }
        try await eventually("it is waited for") { told.events.count == 4 }
        bench.radio.appear(meter)
        #expect(try await pairing.value.isProven)
    }

    @Test("a bonded connection that fails is tried again")
    func retries() async throws {
        let meter = try await bench.meter { $0.failsToConnect = true }
        let pairing = Task { try await pair() }
        try await eventually("it is tried") {
            meter.log.events.contains(.connect) && bench.clock.sleeps.contains(.seconds(1))
        }
        meter.change { $0.failsToConnect = false }
        bench.clock.advance(by: .seconds(1))
        #expect(try await pairing.value.isProven)
    }

    @Test("a device that is paired already is put to the test, and nothing is asked")
    func alreadyPaired() async throws {
        let meter = try await bench.meter(paired: .proven, script: .fails(.rejectedByDevice))
        let device = try await pair()
        #expect(device.isPaired && device.isProven && device.wasPaired && device.whatToPress == nil)
        #expect(told.events.first == .alreadyPaired(.device(1)))
        #expect(meter.log.events == [.connect, .start(0x2A52), .stop(0x2A52), .disconnect])
    }

    @Test(
        "one that was proven and is away is said to be so, quickly; one that was not is waited for",
        arguments: [true, false])
    func alreadyPairedAndAway(wasProven: Bool) async throws {
        try await bench.meter(paired: wasProven ? .proven : .paired) { $0.isInReach = false }
        let pairing = Task { try await pair(within: .seconds(60)) }
        let patience: Duration = .seconds(wasProven ? 10 : 60)
        try await eventually("it is looked for") { bench.clock.sleeps.contains(patience) }
        bench.clock.advance(by: patience)
        let device = try await pairing.value
        #expect(device.isPaired && device.isProven == wasProven && device.wasPaired)
        #expect((device.whatToPress == nil) == wasProven)
    }

    @Test(
        "each way a pairing fails is its own error, and leaves the device unpaired",
        arguments: [
            PairingFailure.wrongPasskey, .rejectedByDevice, .rejectedHere, .timedOut, .disconnected, .forgottenHere,
        ])
    func failures(failure: PairingFailure) async throws {
        let meter = try await bench.meter(script: .fails(failure))
        await #expect(throws: RadioError.pairing(failure)) { try await pair() }
        #expect(bench.store.pairing(.device(1)) == .unpaired)
        #expect(!meter.behaviour.isPaired)
        // Nothing stands in the way of trying again.
        bench.radio.script(.justWorks, for: .device(1))
        #expect(try await pair().isProven)
    }

    @Test("a wrong passkey and a refusal are what the agent's answers come to")
    func answers() async throws {
        try await bench.meter(1, script: .passkey(1))
        try await bench.meter(2)
        await #expect(throws: RadioError.pairing(.wrongPasskey)) { try await pair(1) }
        await #expect(throws: RadioError.pairing(.rejectedHere)) {
            try await pair(2, agent: TestAgent(confirms: false))
        }
    }

    @Test("a device that is not heard is not paired")
    func notHeard() async throws {
        try await bench.meter { $0.isInReach = false }
        let pairing = Task { try await pair(within: .seconds(7)) }
        try await eventually("it is waited for") { bench.clock.sleeps == [.seconds(7)] }
        bench.clock.advance(by: .seconds(7))
        await #expect(throws: RadioError.notSeen(.device(1), within: .seconds(7))) { try await pairing.value }
        #expect(bench.store.pairing(.device(1)) == nil)
    }

    @Test("promise 8: a meter that forgot us is named, by the link or by a refusal", arguments: [true, false])
    func forgotten(byLink: Bool) async throws {
        let meter = try await bench.meter(paired: .proven)
        meter.change { behaviour in
            behaviour.knowsBond = false
            // Where the link is not encrypted, the device says so at the first thing it protects.
            if !byLink { behaviour.isPaired = false }
        }
        if byLink {
            await #expect(throws: RadioError.forgottenByDevice(.device(1))) { try await pair() }
            #expect(bench.store.pairing(.device(1)) == .paired, "the bond is here, and no longer proven")
        } else {
            await #expect(throws: RadioError.forgottenByDevice(.device(1))) { _ = try await BondProof(of: meter) }
        }
        #expect(RadioError.forgottenByDevice(.device(1)).hint?.contains("--repair") == true)
    }

    @Test("promise 8: repair pairs again, and the device's history stays")
    func repair() async throws {
        let meter = try await bench.meter(paired: .proven)
        try await bench.manager.read(.device(1)) { _ in }
        meter.change { $0.knowsBond = false }
        await #expect(throws: RadioError.forgottenByDevice(.device(1))) {
            try await bench.manager.read(.device(1)) { _ in }
        }
        #expect(bench.store.pairing(.device(1)) == .paired)
        let device = try await pair(repair: true)
        #expect(device.isPaired && device.isProven && !device.wasPaired)
        #expect(told.events.contains(.bondRemoved(.device(1))))
        meter.glucoseRecords { $0 += glucoseRecords(6...7) }
        meter.log.clear()
        try await bench.manager.read(.device(1)) { _ in }
        #expect(meter.log.requests.first == [1, 6], "it is read on, not anew")
        #expect(bench.store.readingCount == 7 && bench.store.epoch == 0)
    }

    @Test("promise 8: where pairing fails after a repair has removed the bond, the device is known and unpaired")
    func failedRepair() async throws {
        try await bench.meter(paired: .proven, script: .fails(.rejectedByDevice))
        await #expect(throws: RadioError.pairing(.rejectedByDevice)) { try await pair(repair: true) }
        #expect(bench.store.pairing(.device(1)) == .unpaired)
        #expect(try await bench.radio.bonds().isEmpty)
    }

    @Test("a repair keeps the bond where the device is not heard")
    func repairOfAbsent() async throws {
        try await bench.meter(paired: .proven) { $0.isInReach = false }
        let pairing = Task { try await pair(repair: true) }
        try await eventually("it is waited for") { bench.clock.sleeps == [.seconds(60)] }
        bench.clock.advance(by: .seconds(60))
        await #expect(throws: RadioError.self) { try await pairing.value }
        #expect(bench.store.pairing(.device(1)) == .proven)
        #expect(try await bench.radio.bonds().count == 1)
    }

    @Test("a device that shows a private address is known by its identity address once it is bonded")
    func identityAddress() async throws {
        try await bench.meter(1, identity: .device(0x99)) { $0.readable = [0x2A25: .success(Array("00001808".utf8))] }
        let device = try await pair(1)
        #expect(device.address == .device(0x99) && device.isProven)
        #expect(bench.store.pairing(.device(0x99)) == .proven)
        #expect(told.events.last == .proven(.device(0x99)))
        #expect(try await bench.manager.read(.device(0x99)) { _ in }.isComplete)
        #expect(bench.store.contacts.map(\.device.address) == [.device(0x99)])
    }

    @Test("a private address is not remembered as a device of its own")
    func privateAddress() async throws {
        let shown = DeviceAddress(bits: 0x40_0000_000001, kind: .random)
        try await bench.meter(1, identity: .device(0x99)) { $0.address = shown }
        let device = try await bench.manager.pair(shown, agent: TestAgent())
        #expect(device.address == .device(0x99) && device.isProven)
        #expect(try await bench.store.pairings().map(\.addresses) == [[.device(0x99)]])
    }

    @Test("an address is typed without its type, and the device is known by the one that it is heard with alone")
    func addressType() async throws {
        let meter = try await bench.meter()
        let typed = DeviceAddress(bits: DeviceAddress.device(1).bits, kind: .public)
        let device = try await bench.manager.pair(typed, agent: TestAgent())
        #expect(device.address == .device(1) && device.isProven)
        #expect(try await bench.store.pairings().map(\.addresses) == [[.device(1)]])
        #expect(try await bench.manager.unpair(typed))
        #expect(!meter.behaviour.isPaired && bench.store.pairing(.device(1)) == .unpaired)
    }

    @Test("a device paired anew under another address is joined to itself by its serial number")
    func joinedBySerial() async throws {
        try await bench.meter(1, paired: .unpaired) { $0.readable = [0x2A25: .success(Array("00001808".utf8))] }
        #expect(try await pair(1).isProven)
        #expect(bench.store.serial(of: .device(1)) == "00001808")
    }

    @Test("two devices whose makers left the toolkit's serial number in them are two, and both are read")
    func placeholderSerial() async throws {
        for number: UInt64 in 1...2 {
            try await bench.meter(number) { $0.readable = [0x2A25: .success(Array("Serial Number".utf8))] }
            #expect(try await pair(number).isProven)
        }
        #expect(try await bench.store.pairings().map(\.addresses) == [[.device(1)], [.device(2)]])
        for number: UInt64 in 1...2 {
            #expect(try await bench.manager.read(.device(number)) { _ in }.isComplete)
        }
        #expect(bench.store.contacts.map(\.device.address) == [.device(1), .device(2)])
        #expect(bench.store.readingCount == 10)
    }

    @Test("promise 8: a bond that was made as the program died is paired and unproven at the next start")
    func reconciled() async throws {
        // Known, because it is noted before it is paired; the note of the bond was lost.
        try await bench.meter(1, paired: .unpaired) { $0.isPaired = true }
        try await bench.store.notePairing(of: DeviceDescription(address: .device(1)), as: .unpaired)
        // Not known at all, and of the catalogue; not known, and none of ours; removed by other means.
        try await bench.meter(2, paired: .unpaired) { $0.isPaired = true }
        try await bench.meter(3, paired: .unpaired) {
            $0.isPaired = true
            $0.name = "Headphones"
        }
        try await bench.meter(4, paired: .proven) { $0.isPaired = false }
        try await bench.meter(5, paired: .proven)
        #expect(try await bench.manager.reconcilePairings() == [.device(1), .device(2), .device(5)])
        #expect(bench.store.pairing(.device(1)) == .paired)
        #expect(bench.store.pairing(.device(2)) == .paired)
        #expect(bench.store.pairing(.device(3)) == nil)
        #expect(bench.store.pairing(.device(4)) == .unpaired)
        #expect(bench.store.pairing(.device(5)) == .proven)
    }

    @Test("a bond that another adapter has is not taken for one that was removed")
    func bondedElsewhere() async throws {
        for number: UInt64 in 1...2 { try await bench.meter(number, paired: .proven) { $0.isPaired = false } }
        bench.radio.keepElsewhere([.device(1)])
        let log = LogLines()
        let manager = DevicesManager(
            radio: bench.radio, journal: bench.store, memory: bench.store, pairings: bench.store, clock: bench.clock,
            logger: log.logger(from: .debug))
        for _ in 0..<2 { #expect(try await manager.reconcilePairings().isEmpty) }
        #expect(bench.store.pairing(.device(1)) == .proven)
        #expect(bench.store.pairing(.device(2)) == .unpaired)
        // It is told, once, that nobody reads it.
        #expect(log.lines(from: .warning).count { $0.contains("another Bluetooth adapter") } == 1)
        bench.radio.keepElsewhere([])
        _ = try await manager.reconcilePairings()
        #expect(bench.store.pairing(.device(1)) == .unpaired)
    }

    @Test("a barred device is not read by the bond the system keeps, and is read again once it is paired")
    func barred() async throws {
        let meter = try await bench.meter(paired: .proven)
        try await bench.meter(2, paired: .proven)
        bench.store.bar(.device(1))
        #expect(meter.behaviour.isPaired)
        #expect(try await bench.manager.reconcilePairings() == [.device(2)])
        #expect(bench.store.pairing(.device(1)) == .unpaired)
        await #expect(throws: ContactFailure.barred(.device(1))) {
            try await bench.manager.read(.device(1)) { _ in }
        }
        #expect(meter.log.events.isEmpty && bench.store.contacts.isEmpty)
        #expect(try await pair(1).isProven)
        #expect(try await bench.manager.reconcilePairings() == [.device(1), .device(2)])
        #expect(try await bench.manager.read(.device(1)) { _ in }.isComplete)
        #expect(bench.store.readingCount == 5)
    }

    @Test("a device that is barred while it is being connected is left before its records are asked for")
    func barredMeanwhile() async throws {
        let meter = try await bench.meter(paired: .proven)
        let reader = MeterReader(journal: bench.store, memory: bench.store, pairings: bench.store)
        let peripheral = try await bench.radio.peripheral(.device(1), within: .seconds(60))
        bench.store.bar(.device(1))
        await #expect(throws: ContactFailure.barred(.device(1))) { try await reader.read(peripheral) }
        #expect(!meter.log.events.contains(.start(0x2A52)) && bench.store.readingCount == 0)
        #expect(bench.store.contacts.count == 1 && bench.store.pairing(.device(1)) == .unpaired)
    }

    @Test("unpairing removes the bond and keeps the readings; again, there is none")
    func unpair() async throws {
        let meter = try await bench.meter(paired: .proven)
        try await bench.manager.read(.device(1)) { _ in }
        #expect(try await bench.manager.unpair(.device(1)))
        #expect(!meter.behaviour.isPaired && bench.store.pairing(.device(1)) == .unpaired)
        #expect(bench.store.readingCount == 5)
        #expect(try await bench.manager.unpair(.device(1)) == false)
        await #expect(throws: RadioError.notBonded(.device(1))) { try await bench.manager.read(.device(1)) { _ in } }
    }

    @Test("two who pair the same device at the same time pair it once")
    func twice() async throws {
        let meter = try await bench.meter(script: .passkey(123_456))
        async let one = pair()
        async let other = pair()
        let both = try await [one, other]
        #expect(both.allSatisfy { $0.isProven } && both.count { $0.wasPaired } == 1)
        #expect(meter.behaviour.isPaired && bench.store.pairing(.device(1)) == .proven)
    }

    @Test("a device that is unpaired while somebody waits to read it is not read")
    func unpairedMeanwhile() async throws {
        let meter = try await bench.meter(paired: .proven) { $0.isHeld = true }
        let reading = Task { try await bench.manager.read(.device(1)) { _ in } }
        try await eventually("it is being read") { meter.log.events.contains(.start(0x2A52)) }
        let unpairing = Task { try await bench.manager.unpair(.device(1)) }
        try await settle()
        let second = Task { try await bench.manager.read(.device(1), allRecords: true) { _ in } }
        try await settle()
        meter.change {
            $0.isHeld = false
            $0.isPaired = false
        }
        #expect(try await reading.value.isComplete)
        _ = try await unpairing.value
        await #expect(throws: RadioError.notBonded(.device(1))) { try await second.value }
    }

    @Test("a transfer that goes on is waited for, and none is begun while a device is paired")
    func inTurn() async throws {
        let meter = try await bench.meter(paired: .proven) { $0.isHeld = true }
        let reading = Task { try await bench.manager.read(.device(1)) { _ in } }
        try await eventually("it is being read") { meter.log.events.contains(.start(0x2A52)) }
        let pairing = Task { try await pair() }
        try await settle()
        #expect(told.events.isEmpty)
        meter.change { $0.isHeld = false }
        #expect(try await reading.value.isComplete)
        #expect(try await pairing.value.isProven)
    }
}

extension EmulatedDevice {
    func glucoseRecords(_ change: @escaping @Sendable (inout [[UInt8]]) -> Void) {
        self.change { behaviour in
            guard var memory = behaviour.glucose else { return }
            change(&memory.records)
            behaviour.glucose = memory
        }
    }
}
