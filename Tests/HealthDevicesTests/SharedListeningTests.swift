import GATTClient
import HealthReadings
import Testing

@testable import HealthDevices

/// Devices that are waited for together.
@Suite struct SharedListeningTests {
    /// How the reading of a device ended.
    private struct End: Sendable, Hashable {
        var address: DeviceAddress
        /// How many records came, or what went wrong.
        var received: Int?
        var failure: String?
    }

    private let bench = RadioBench()
    private let told = Told<TransferEvent>()
    private let ends = Told<End>()

    /// Reads these devices, waiting for nine seconds.
    private func read(_ numbers: ClosedRange<UInt64>) async throws {
        let addresses = Set(numbers.map { DeviceAddress.device($0) })
        try await bench.manager.listening(for: addresses, within: .seconds(9)) { manager in
            await withDiscardingTaskGroup { group in
                for address in addresses {
                    group.addTask { [told, ends] in
                        do {
                            let summary = try await manager.read(address, within: .seconds(9)) { told.note($0) }
                            ends.note(End(address: address, received: summary.received))
                        } catch {
                            ends.note(End(address: address, failure: "\(error)"))
                        }
                    }
                }
            }
        }
    }

    private func end(_ number: UInt64) -> End? { ends.events.first { $0.address == .device(number) } }

    @Test("one watch serves all: each is read when it is heard, and those that are not heard in time are told as that")
    func many() async throws {
        for number in 1...28 as ClosedRange<UInt64> { try await bench.meter(number, paired: .proven) }
        let late = try await bench.meter(29, paired: .proven) { $0.isInReach = false }
        try await bench.meter(30, paired: .proven) { $0.isInReach = false }
        try await bench.meter(31)
        let reading = Task { try await read(1...31) }
        try await eventually("those in reach are read") { ends.events.count { $0.received == 5 } == 28 }
        #expect(bench.radio.watchesBegun == 1)
        #expect(bench.radio.watched == Set((1...30).map { DeviceAddress.device($0) }))
        #expect(end(31)?.failure == "\(RadioError.notBonded(.device(31)))")
        bench.clock.advance(by: .seconds(8))
        bench.radio.appear(late)
        try await eventually("the late one is read") { end(29)?.received == 5 }
        #expect(end(30) == nil)
        bench.clock.advance(by: .seconds(1))
        try await reading.value
        #expect(end(30)?.failure == "\(RadioError.notSeen(.device(30), within: .seconds(9)))")
        #expect(ends.events.count == 31)
        #expect(bench.radio.listens == 0 && bench.radio.watchesBegun == 1)
        try await eventually("nobody is watched for any more") { bench.radio.watched.isEmpty }
    }

    @Test("the watch ends when all were heard, though they are being read")
    func endsWhenHeard() async throws {
        let meter = try await bench.meter(1, paired: .proven) { $0.isHeld = true }
        try await bench.meter(2, paired: .proven)
        let reading = Task { try await read(1...2) }
        try await eventually("they are read") { meter.log.events.contains(.start(0x2A52)) && end(2) != nil }
        try await eventually("nobody is watched for any more") { bench.radio.watched.isEmpty }
        meter.change { $0.isHeld = false }
        try await reading.value
        #expect(end(1)?.received == 5)
    }

    @Test(
        "a device that is being read already is joined; where that is given up, it is read on",
        arguments: [false, true])
    func joins(isGivenUp: Bool) async throws {
        let meter = try await bench.meter(paired: .proven) { $0.isHeld = true }
        let first = Task { try await bench.manager.read(.device(1)) { _ in } }
        try await eventually("it is being read") { meter.log.events.contains(.start(0x2A52)) }
        let reading = Task { try await read(1...1) }
        try await eventually("it is followed") { !told.events.isEmpty }
        if isGivenUp {
            first.cancel()
            await #expect(throws: CancellationError.self) { try await first.value }
        }
        meter.change { $0.isHeld = false }
        try await reading.value
        #expect(end(1)?.received == 5)
        if !isGivenUp { #expect(meter.log.events.count { $0 == .connect } == 1) }
        #expect(bench.store.readingCount == 5)
    }

    @Test("a device that is heard and cannot be connected is waited for once more")
    func retries() async throws {
        let meter = try await bench.meter(paired: .proven) { $0.failsToConnect = true }
        let reading = Task { try await read(1...1) }
        try await eventually("it is tried") { bench.clock.sleeps.contains(.seconds(1)) }
        meter.change { $0.failsToConnect = false }
        bench.clock.advance(by: .seconds(1))
        try await reading.value
        #expect(end(1)?.received == 5 && bench.radio.listens == 1)
    }

    @Test("promise 10: a radio that goes is told for each device that was not heard, and so is one that is not there")
    func radioLost() async throws {
        try await bench.meter(1, paired: .proven)
        for number in 2...3 as ClosedRange<UInt64> {
            try await bench.meter(number, paired: .proven) { $0.isInReach = false }
        }
        let reading = Task { try await read(1...3) }
        try await eventually("the one in reach is read") { end(1)?.received == 5 }
        bench.radio.setAdapter(.unusable(.lost))
        try await reading.value
        #expect(end(2)?.failure == "\(RadioError.lost)" && end(3)?.failure == "\(RadioError.lost)")
        bench.radio.setAdapter(.unusable(.noService))
        try await read(1...3)
        #expect(ends.events.suffix(3).allSatisfy { $0.failure == "\(RadioError.noService)" })
        #expect(bench.radio.watchesBegun == 1)
    }

    @Test("whoever gives up waits for none of them any longer")
    func cancelled() async throws {
        for number in 1...3 as ClosedRange<UInt64> {
            try await bench.meter(number, paired: .proven) { $0.isInReach = false }
        }
        let reading = Task { try await read(1...3) }
        try await eventually("they are waited for") { bench.radio.watched.count == 3 && bench.clock.sleeps.count == 1 }
        reading.cancel()
        try await reading.value
        #expect(Set(ends.events.map(\.failure)) == ["\(CancellationError())"])
        #expect(ends.events.count == 3 && bench.clock.sleeps.isEmpty)
    }
}
