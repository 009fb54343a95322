import GATTClient
import GATTProfiles
import HealthReadings
import Testing

@testable import HealthDevices

/// Each quirk of a conversation, with a device that has it.
@Suite struct QuirkTransferTests {
    /// A record of a meter that numbers by age: the newest is 0, whatever was measured since.
    private func aged(_ minutes: Int, of total: Int) -> [UInt8] {
        var octets = glucoseRecord(UInt16(total - 1 - minutes))
        let time = DateTime(WallTime.spring.advanced(byMinutes: minutes))
        octets.replaceSubrange(3..<10, with: time.encoded)
        octets[12] = UInt8(80 + minutes)
        return octets
    }

    @Test("promise 2: a meter that numbers by age, newest first, gives each record once, however often it is read")
    func numbersByAge() async throws {
        let bench = Bench(records: (0..<5).map { aged($0, of: 5) }) { $0.isDescending = true }
        bench.device.change { $0.name = "TNG VOICE" }
        #expect(try await bench.read() == ContactSummary(isComplete: true, announced: 5, received: 5))
        #expect(try await bench.read().isComplete)
        #expect(bench.store.readingCount == 5 && bench.store.epoch == 0)
        // Two more measurements move every number.
        bench.glucose { $0.records = (0..<7).map { self.aged($0, of: 7) } }
        #expect(try await bench.read() == ContactSummary(isComplete: true, announced: 7, received: 7))
        #expect(bench.store.readingCount == 7 && bench.reported.new == 7 && bench.store.epoch == 0)
        #expect(bench.log.requests == [[4, 1], [1, 1]], "records from a number on are never asked for")
    }

    @Test("a meter whose numbers are out of order, with an empty record behind each, is read whole each time")
    func outOfOrderWithPartners() async throws {
        @Sendable func records(_ numbers: [UInt16]) -> [[UInt8]] {
            numbers.flatMap { [glucoseRecord($0), Array(glucoseRecord(.max).prefix(10)).withFlags(0)] }
        }
        let bench = Bench(records: records([2, 0, 1]))
        bench.device.change { $0.name = "MyGlucose 1" }
        #expect(try await bench.read() == ContactSummary(isComplete: true, announced: 6, received: 3))
        bench.glucose { $0.records = records([2, 0, 1, 3]) }
        #expect(try await bench.read() == ContactSummary(isComplete: true, announced: 8, received: 4))
        #expect(bench.store.readingCount == 4 && bench.store.epoch == 0)
        #expect(bench.log.requests == [[4, 1], [1, 1]])
    }

    @Test("an Aviva Connect is told from its siblings by its clock inside the glucose service, which is read")
    func clockInGlucoseService() async throws {
        let bench = Bench(records: glucoseRecords(1...2))
        bench.device.change {
            $0.readable[0x2A08] = .success(DateTime(.spring).encoded)
            $0.more = [(0x2A08, 0x1808)]
        }
        #expect(try await bench.read().isComplete)
        #expect(bench.store.contacts.first?.device.model == "accuchek_aviva_connect")
        #expect(bench.store.contacts.first?.clock?.deviceTime == .spring)
    }

    @Test("a meter that sends everything twice is one that sends it once")
    func twice() async throws {
        let bench = Bench(records: glucoseRecords(1...4)) { $0.copies = 2 }
        bench.device.change { $0.name = "CareSens 0012" }
        #expect(try await bench.read() == ContactSummary(isComplete: true, announced: 4, received: 4))
        #expect(bench.store.readingCount == 4)
    }

    @Test("a cuff that loses early subscriptions is given its 100 ms; others are not made to wait")
    func pause() async throws {
        for (name, received) in [("BM85", 2), ("BM57", 0)] {
            let bench = Bench(cuff: [pressureRecord(1), pressureRecord(2)])
            bench.device.change {
                $0.name = name
                $0.needsPause = .milliseconds(100)
            }
            #expect(try await bench.read().received == received)
        }
    }

    private func cuff(_ adjust: @escaping @Sendable (inout EmulatedDevice.Behaviour) -> Void = { _ in }) -> Bench {
        var behaviour = EmulatedDevice.Behaviour()
        behaviour.name = "A&D_UA-651BLE_A1B2C3"
        behaviour.cuffRecords = [pressureRecord(1), pressureRecord(2)]
        behaviour.more = [(AndCommand.characteristic, AndCommand.service)]
        behaviour.readable[0x2A08] = .success(DateTime(.spring).encoded)
        behaviour.writable = [AndCommand.characteristic: nil, 0x2A08: nil]
        adjust(&behaviour)
        return Bench(behaviour)
    }

    @Test("an A&D sends what it has not sent; all of it again where that is wanted")
    func commandForAll() async throws {
        let bench = cuff()
        #expect(try await bench.read().received == 2)
        #expect(try await bench.read().received == 0)
        #expect(bench.log.requests.isEmpty)
        try await bench.reader.read(bench.device, allRecords: true) { bench.reported.note($0) }
        #expect(bench.log.requests == [[0x02, 0x00, 0xE1]])
        #expect(bench.reported.new == 2 && bench.store.frames.count == 4, "they came again, and are known")
    }

    @Test("an A&D that refuses the command gives what it has not sent yet")
    func refusedCommand() async throws {
        let bench = cuff { $0.writable[AndCommand.characteristic] = .attribute(0x80) }
        let summary = try await bench.reader.read(bench.device, allRecords: true)
        #expect(summary == ContactSummary(isComplete: true, received: 2))
    }

    @Test(
        "promise 7: the date is written into a cuff that wants it only where its owner wants it",
        arguments: [false, true])
    func dateTime(isOrdered: Bool) async throws {
        let bench = cuff()
        let reader = MeterReader(
            journal: bench.store, memory: bench.store,
            clockToWrite: { $0.model == "and_ua651ble" && isOrdered ? .summer : nil })
        #expect(try await reader.read(bench.device).received == 2)
        #expect(bench.log.requests == (isOrdered ? [DateTime(.summer).encoded] : []))
        // What came was recorded by the clock as it was.
        #expect(bench.store.contacts.first?.clock?.deviceTime == .spring)
        // The clock is written when the store knows of the contact, and before the records are enabled.
        if isOrdered {
            let events = bench.log.events
            let written = try #require(events.firstIndex(of: .write(DateTime(.summer).encoded)))
            #expect(events.firstIndex(of: .began) ?? .max < written)
            #expect(written < events.firstIndex(of: .start(0x2A35)) ?? .min)
        }
    }

    @Test("promise 7: no other device's clock is written, whatever is ordered")
    func noOther() async throws {
        for name in ["BLESmart_1", "BM57", "A&D"] {
            let bench = cuff { $0.name = name }
            let reader = MeterReader(journal: bench.store, memory: bench.store, clockToWrite: { _ in .summer })
            try await reader.read(bench.device)
            #expect(bench.log.requests.isEmpty)
        }
    }

    @Test("an A&D is left after bonding, and its bond proves itself at the next measurement")
    func leavesAfterBonding() async throws {
        let bench = RadioBench()
        let cuff = try await bench.cuff(1) {
            $0.name = "A&D_UA-651BLE_A1B2C3"
            $0.sleepsAfterBonding = true
            $0.readable[0x2A49] = .success([0, 0])
        }
        let pairing = Task { try await bench.manager.pair(.device(1), within: .seconds(30), agent: TestAgent()) }
        try await eventually("it was disconnected") { cuff.log.events.contains(.disconnect) && !cuff.isConnected }
        try await eventually("it is waited for") { bench.clock.sleeps.contains(.seconds(30)) }
        bench.clock.advance(by: .seconds(30))
        let device = try await pairing.value
        #expect(device.isPaired && !device.isProven && device.model?.id == "and_ua651ble")
        #expect(device.whatToPress?.contains("take a measurement") == true)
        bench.radio.appear(cuff)
        #expect(try await bench.manager.read(.device(1)) { _ in }.received == 2)
        #expect(bench.store.pairing(.device(1)) == .proven)
    }
}

extension [UInt8] {
    /// The same with other flags.
    fileprivate func withFlags(_ flags: UInt8) -> [UInt8] { [flags] + dropFirst() }
}
