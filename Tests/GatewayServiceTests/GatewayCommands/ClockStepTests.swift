import Foundation
import HealthDevices
import HealthReadings
import Logging
import ReadingStore
import Synchronization
import Testing

@testable import GatewayCommands

/// A machine without a clock battery that begins three days behind, and a meter whose clock can't be read.
@Suite struct ClockStepTests {
    private static let day: Int64 = 86_400
    /// 2026-11-18T11:06:40Z by its clock.
    private let machine = GatewayClockTests.Machine()

    /// A Glucose Measurement of 2026-11, at half past twelve.
    private func frame(_ number: UInt8, day: UInt8) -> Frame {
        Frame(
            format: FrameFormat(characteristic: 0x2A18),
            payload: [0x02, number, 0x00, 0xEA, 0x07, 0x0B, day, 0x0C, 0x1E, 0x00, 0xC3, 0xA7, 0x11],
            receivedAt: Instant(seconds: machine.state.withLock(\.now)), ordinal: Int(number))
    }

    /// A store, and the gateway's clock that remembers in it, by the machine's time.
    private func open(_ directory: URL) async throws -> (ReadingStore, GatewayClock) {
        let store = try await ReadingStore.open(
            directory: directory.path, decoder: Gateway.decoder, clientUserID: "white_bear", timeZone: "UTC",
            now: { [machine] in Instant(seconds: machine.state.withLock(\.now)) })
        return (store, machine.clock(memory: GatewayClock.Memory.of(store, logger: Logger(label: "test"))))
    }

    /// What is stored of the two records of a meter once the machine's clock was put forward so often, and what was before.
    private func readings(
        _ isSynchronizedBefore: Bool, steps: Int
    ) async throws -> (before: [Reading], after: [Reading]) {
        let directory = try GatewayBench.scratch()
        defer { try? FileManager.default.removeItem(at: directory) }
        let (store, clock) = try await open(directory)
        let memory = TrustedMemory(memory: store, clock: clock)
        let journal = TrustedJournal(journal: store, clock: clock)
        func read() async throws -> [FrameOutcome] {
            let contact = try await memory.beginContact(
                with: DeviceDescription(address: DeviceAddress("C0:00:00:00:18:08")),
                at: Instant(seconds: machine.state.withLock(\.now)), clock: nil, batteryPercent: nil)
            let outcomes = try await journal.append([frame(1, day: 20), frame(2, day: 23)], of: contact)
            try await memory.endContact(contact, ContactSummary(isComplete: true, received: 2))
            return outcomes
        }
        machine.state.withLock { $0.isSynchronized = isSynchronizedBefore }
        let before = try await read().compactMap(\.changedReading)
        for _ in 0..<steps {
            machine.pass(60, jumping: 3 * Self.day)
            machine.state.withLock { $0.isSynchronized = true }
            #expect(await clock.doubt() == nil)
        }
        let again = try await read().compactMap(\.changedReading)
        #expect(again.isEmpty, "nothing is stored twice")
        let after = try await store.query(ReadingQuery(limit: 10)).readings
            .sorted { ($0.record.sequence ?? 0) < ($1.record.sequence ?? 0) }
        #expect(try await store.verify().isEmpty)
        try store.close()
        return (before, after)
    }

    @Test("promise 10: a record that was not of the future counts once the clock is put right, under its id and time")
    func putForward() async throws {
        let (before, after) = try await readings(false, steps: 1)
        #expect(before.map(\.excluded) == [.implausibleTime, .implausibleTime])
        #expect(after.map(\.excluded) == [nil, .implausibleTime], "the meter dates the second two days ahead")
        #expect(after.map(\.id) == before.map(\.id) && after.map(\.time) == before.map(\.time))
        #expect(after.first?.deliveries.isEmpty == false)
    }

    @Test("promise 10: a look at the clock for somebody who has given up trusts no clock that is behind what is stored")
    func givenUp() async throws {
        let bench = try await GatewayBench(machine: .unsynchronized)
        _ = try await bench.gateway.store.beginContact(
            with: DeviceDescription(address: DeviceAddress("C0:00:00:00:18:08")),
            at: Instant.systemClock.advanced(bySeconds: Self.day), clock: nil, batteryPercent: nil)
        let clock = bench.gateway.clock
        let look = Task { () async -> ClockDoubt? in
            while !Task.isCancelled { await Task.yield() }
            return await clock.doubt()
        }
        look.cancel()
        let (doubt, later) = (await look.value, await clock.doubt())
        #expect(doubt != nil && doubt == later)
        try await bench.stop()
    }

    @Test("what was imported under a clock that is right is judged for good, whatever the clock does later")
    func imported() async throws {
        var machine = GatewayClock.Machine.unsynchronized
        machine.evidence = { .kernel }
        let bench = try await GatewayBench(settings: ["user.client_user_id": "white_bear"], machine: machine)
        func add(days: Int64) async throws {
            let kilograms = Quantity(ExactDecimal(significand: 70), .kilograms)
            let sample = ImportedSample(
                person: "white_bear", provider: "apple_health_kit",
                value: .vital(VitalValue(kind: .weight, [.init(.weight, kilograms)])),
                time: ImportedTime(Instant.systemClock.advanced(bySeconds: days * Self.day), utcOffsetMinutes: 0))
            try await bench.run(.importing(.samples([Data(sample.octets)])))
        }
        let file = ClockFile(directory: bench.gateway.store.directory)
        try await add(days: -2)
        #expect(file.read()?.right == nil)
        try await add(days: 2)
        #expect(file.read()?.right != nil)
        try await bench.stop()
    }

    @Test(
        "a new meter's clock stays compared if this machine's was right; if that is only known later, it may have been behind",
        arguments: [true, false])
    func firstComparison(_ isSynchronized: Bool) async throws {
        let directory = try GatewayBench.scratch()
        defer { try? FileManager.default.removeItem(at: directory) }
        let (store, clock) = try await open(directory)
        let memory = TrustedMemory(memory: store, clock: clock) { [store] in try await store.newLead($0, of: $1) }
        let meter = DeviceDescription(address: DeviceAddress("C0:00:00:00:18:08"))
        func shown() -> ClockReading {
            let now = machine.state.withLock(\.now)
            return ClockReading(deviceTime: WallTime(secondsSinceEpoch: now), readAt: Instant(seconds: now))
        }
        machine.state.withLock { $0.isSynchronized = isSynchronized }
        let contact = try await memory.beginContact(
            with: meter, at: shown().readAt, clock: shown(), batteryPercent: nil)
        try await memory.endContact(contact, ContactSummary(isComplete: true, received: 0))
        #expect(try await store.newLead(shown(), of: meter) == 0)
        // A virtual machine stands still for an hour, or a clock that was behind is put right: only the former was right before.
        machine.pass(60, jumping: 3600)
        machine.state.withLock { $0.isSynchronized = true }
        #expect(await clock.doubt() == nil)
        let lead = try await store.newLead(shown(), of: meter)
        #expect(lead == (isSynchronized ? 0 : nil))
        try store.close()
    }

    @Test(
        "under a clock that was right a record of the future is one, however often the clock is put forward later",
        arguments: [1, 2])
    func wasRight(_ steps: Int) async throws {
        let (_, after) = try await readings(true, steps: steps)
        #expect(after.map(\.excluded) == [.implausibleTime, .implausibleTime])
    }
}
