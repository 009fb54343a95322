import GATTClient
import GATTProfiles
import HealthReadings
import Testing

@testable import HealthDevices

/// Promise 7: a device's clock is set when a person asks for it, and never else.
@Suite struct ClockSettingTests {
    private let bench = RadioBench()

    private func current(_ time: WallTime) -> [UInt8] { CurrentTime(dateTime: DateTime(time)).encoded }

    @Test("promise 7: Current Time is written, read before and after, and no record is asked for")
    func currentTime() async throws {
        let meter = try await bench.meter(paired: .proven) {
            $0.readable[0x2A2B] = .success(current(.spring))
            $0.writable[0x2A2B] = .some(nil)
        }
        let setting = try await bench.manager.setClock(of: .device(1)) { _ in .summer }
        #expect(setting.before?.deviceTime == .spring && setting.after?.deviceTime == .summer)
        #expect(setting.written == .summer)
        let written = CurrentTime(
            dateTime: DateTime(.summer), dayOfWeek: 4, adjustReason: .manualTimeUpdate
        ).encoded
        #expect(meter.log.requests == [written], "2026-05-28 is a Thursday")
        #expect(!meter.log.events.contains { if case .start = $0 { true } else { false } })
        #expect(bench.store.contacts.map(\.clock?.deviceTime) == [.spring])
        #expect(bench.store.clocks.map(\.deviceTime) == [.summer])
        #expect(meter.log.events.last == .disconnect)
        // Whether all was read before stays as it was: the next contact still reads from the beginning.
        #expect(try await bench.manager.read(.device(1)) { _ in }.received == 5)
    }

    @Test("Date Time is written where there is no Current Time, or it is refused", arguments: [false, true])
    func dateTime(isRefused: Bool) async throws {
        let cuff = try await bench.cuff(paired: .proven) {
            $0.readable[0x2A08] = .success(DateTime(.spring).encoded)
            $0.writable[0x2A08] = .some(nil)
            if isRefused {
                $0.readable[0x2A2B] = .success(current(.spring))
                $0.writable[0x2A2B] = .attribute(0x80)
            }
        }
        let setting = try await bench.manager.setClock(of: .device(1)) { _ in .summer }
        #expect(setting.after?.deviceTime == .summer)
        #expect(cuff.log.requests.last == DateTime(.summer).encoded && cuff.cuffRecords.count == 2)
    }

    @Test("a device that ignores a field of Current Time, and takes date and time, has its clock set")
    func fieldIgnored() async throws {
        try await bench.meter(paired: .proven) {
            $0.readable[0x2A2B] = .success(current(.spring))
            $0.writable[0x2A2B] = .attribute(0x80)
            $0.takesWhatItRefuses = true
        }
        let setting = try await bench.manager.setClock(of: .device(1)) { _ in .summer }
        #expect(setting.before?.deviceTime == .spring && setting.after?.deviceTime == .summer)
        #expect(bench.store.clocks.map(\.deviceTime) == [.summer])
    }

    @Test("a clock that cannot be set, or may not be, is a named failure", arguments: [false, true])
    func refused(hasClock: Bool) async throws {
        try await bench.meter(paired: .proven) {
            if hasClock {
                $0.readable[0x2A2B] = .success(current(.spring))
                $0.writable[0x2A2B] = .attribute(0x80)
            }
        }
        let failure = try await #require(throws: ContactFailure.self) {
            try await bench.manager.setClock(of: .device(1)) { _ in .summer }
        }
        #expect(failure.code == (hasClock ? "clock_refused" : "clock_cannot_be_set") && failure.hint != nil)
        #expect(bench.store.summaries.first??.error == failure.code)
    }

    @Test("a device that is not paired, or is barred, is left alone")
    func notOurs() async throws {
        let meter = try await bench.meter()
        await #expect(throws: RadioError.notBonded(.device(1))) {
            try await bench.manager.setClock(of: .device(1)) { _ in .summer }
        }
        let other = try await bench.meter(2, paired: .proven)
        bench.store.bar(.device(2))
        await #expect(throws: ContactFailure.barred(.device(2))) {
            try await bench.manager.setClock(of: .device(2)) { _ in .summer }
        }
        #expect(meter.log.events.isEmpty && other.log.events.isEmpty)
    }

    @Test("a OneTouch meter's clock is set by its own protocol")
    func oneTouch() async throws {
        let (log, store) = (EventLog(), bench.store)
        let meter = EmulatedOneTouch(EmulatedOneTouch.Behaviour(), log: log)
        let setting = try await MeterReader(journal: store, memory: store).setClock(of: meter) { _ in .summer }
        #expect(setting.before?.deviceTime == WallTime(secondsSinceEpoch: 848_000_000 + 946_684_799))
        #expect(setting.after?.deviceTime == .summer && meter.asked.isEmpty)
        #expect(store.clocks.map(\.deviceTime) == [setting.before?.deviceTime, .summer])
    }

    @Test("a OneTouch meter whose clock says that this machine's is wrong keeps its own")
    func oneTouchRefused() async throws {
        let store = bench.store
        store.refuseClocks()
        let meter = EmulatedOneTouch(EmulatedOneTouch.Behaviour(), log: EventLog())
        let failure = await #expect(throws: ContactFailure.self) {
            try await MeterReader(journal: store, memory: store).setClock(of: meter) { _ in .summer }
        }
        #expect(failure?.code == "clock_not_trusted" && meter.behaviour.clock == 848_000_000)
        #expect(store.summaries.first??.error == "clock_not_trusted")
    }

    @Test("days of the week follow from the date")
    func days() throws {
        let first = try #require(WallTime("2026-11-23T00:00:00"))
        for day in 0..<14 { #expect(first.advanced(byMinutes: day * 1440 + 700).dayOfWeek == UInt8(day % 7) + 1) }
        #expect(try #require(WallTime("1969-12-31T23:59:59")).dayOfWeek == 3)
    }
}
