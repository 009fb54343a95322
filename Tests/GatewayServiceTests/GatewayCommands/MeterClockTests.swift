import EmulatedRadio
import GATTClient
import GatewaySettings
import HealthDevices
import HealthReadings
import Synchronization
import Testing

@testable import GatewayCommands

/// A meter whose clock says that this machine has lost time while it was off.
@Suite struct MeterClockTests {
    private let machine = GatewayClockTests.Machine()
    private let counting = CountingMemory()
    private let device = DeviceDescription(address: nil)
    private let reading = ClockReading(
        deviceTime: WallTime(secondsSinceEpoch: 1_795_000_000), readAt: Instant(seconds: 1_795_000_000))

    /// What is remembered of a meter that is ahead by so many seconds more than when its clock was last read.
    private func memory(_ clock: GatewayClock, lead: Int64?) -> TrustedMemory {
        TrustedMemory(memory: counting, clock: clock) { _, _ in lead }
    }

    @discardableResult
    private func begin(_ memory: TrustedMemory, _ clock: ClockReading?) async throws -> Contact {
        try await memory.beginContact(with: device, at: reading.readAt, clock: clock, batteryPercent: nil)
    }

    @Test(
        "promise 10: by a clock that nothing speaks for, a meter that is suddenly more than 15 minutes ahead is not read",
        arguments: [901, 21_600] as [Int64])
    func ahead(lead: Int64) async throws {
        let trusted = memory(machine.clock(), lead: lead)
        let failure = await #expect(throws: ContactFailure.self) { try await begin(trusted, reading) }
        #expect(failure?.code == "clock_not_trusted" && failure?.description.contains("\(lead) s") == true)
        #expect(failure?.hint?.contains("healthrelay store trust-clock") == true)
        #expect(failure.map { Problem($0).status } == .configuration)
        #expect(counting.begun.withLock { $0 } == 0)
        // Its clock can be read only once the contact has begun.
        let contact = try await begin(trusted, nil)
        await #expect(throws: ContactFailure.self) { try await trusted.noteClock(reading, in: contact) }
        try await trusted.endContact(contact, ContactSummary(isComplete: false, error: failure?.code, received: 0))
    }

    @Test(
        "one that agrees, is behind, was ahead by as much before, or was never read before, is read as ever",
        arguments: [nil, -21_600, 0, 900] as [Int64?])
    func asEver(lead: Int64?) async throws {
        let trusted = memory(machine.clock(), lead: lead)
        let contact = try await begin(trusted, reading)
        #expect(try await trusted.noteClock(reading, in: contact).id == contact.id)
    }

    @Test("a clock that is synchronised, or steady for two days since the machine began, or confirmed, is believed")
    func proven() async throws {
        let clock = machine.clock()
        let trusted = memory(clock, lead: 21_600)
        await #expect(throws: ContactFailure.self) { try await begin(trusted, reading) }
        machine.state.withLock { $0.isSynchronized = true }
        try await begin(trusted, reading)
        machine.state.withLock { $0.isSynchronized = false }
        await #expect(throws: ContactFailure.self) { try await begin(trusted, reading) }
        machine.pass(2 * 86_400)
        try await begin(trusted, reading)

        machine.reboot(after: 0)
        let later = machine.clock()
        await #expect(throws: ContactFailure.self) { try await begin(memory(later, lead: 21_600), reading) }
        _ = try await later.trust()
        try await begin(memory(later, lead: 21_600), reading)
    }

    @Test("promise 10: a meter that was right and is six hours ahead is neither read nor set, until a person says so")
    func meter() async throws {
        let zone = try #require(ZoneRules.named("Europe/Berlin"))
        let meter = try await ReadTests.paired()
        func show(ahead seconds: Int64) {
            let now = zone.wallTime(at: .systemClock)
            meter.giveClock(WallTime(secondsSinceEpoch: now.secondsSinceEpoch + seconds))
        }
        show(ahead: 0)
        let bench = try await GatewayBench(.inProcess, [meter], machine: .unsynchronized)
        #expect(try await bench.lines(ReadTests.read).count == 5)

        meter.measure(6...7)
        show(ahead: 6 * 3600)
        let written = meter.written
        let problem = try await bench.problem(ReadTests.read)
        #expect(problem.code == "clock_not_trusted" && problem.status == .configuration)
        #expect(problem.message.contains("when it was last read"), "\(problem.message)")
        let order = GatewayCommands.Operation.device(
            .setClock(SetClockOperation(address: "C0:00:00:00:18:08", seconds: 60)))
        #expect(try await bench.problem(order).code == "clock_not_trusted")
        #expect(meter.written == written, "nothing is asked for, and its clock is not set")

        // The machine's clock is put right: the meter has kept its records.
        show(ahead: 0)
        #expect(try await bench.lines(ReadTests.read).count == 2)
        // A person has set the meter ahead, and says that the machine is right.
        meter.measure(8...8)
        show(ahead: 6 * 3600)
        #expect(try await bench.problem(ReadTests.read).code == "clock_not_trusted")
        try await bench.run(.store(.trustClock))
        #expect(try await bench.lines(ReadTests.read).count == 1)
        try await bench.stop()
    }
}
