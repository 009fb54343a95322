import EmulatedRadio
import HealthDevices
import HealthReadings
import Synchronization
import Testing

@testable import GatewayCommands
@testable import GatewaySettings

/// The gateway's own clock: what it is not trusted for.
@Suite struct GatewayClockTests {
    final class Machine: Sendable {
        struct State {
            var now: Int64 = 1_795_000_000
            var uptime: Int64 = 1000
            var isSynchronized = false
            var newest: Int64?
            var boot = "first"
            var aside: [Int64] = []
            /// What was to be judged again: the start of the machine, when it was, and when it seemed to be.
            var judged: [String] = []
            var canJudge = true
        }
        let state = Mutex(State())

        var judged: [String] { state.withLock(\.judged) }

        func clock(
            requiresSynchronization: Bool = false, file: ClockFile? = nil, memory known: GatewayClock.Memory? = nil
        ) -> GatewayClock {
            var machine = GatewayClock.Machine()
            machine.now = { Instant(seconds: self.state.withLock(\.now)) }
            machine.uptime = { self.state.withLock(\.uptime) }
            machine.boot = { self.state.withLock(\.boot) }
            machine.evidence = { self.state.withLock(\.isSynchronized) ? .kernel : nil }
            machine.built = Instant(seconds: 1_794_000_000)
            let memory = GatewayClock.Memory(
                newestContact: { self.state.withLock(\.newest).map { Instant(seconds: $0) } },
                setAside: { instant in
                    self.state.withLock { state in
                        state.aside.append(instant.seconds)
                        state.newest = nil
                        return 1
                    }
                },
                judgeTimes: { boot, began, formerly in
                    self.state.withLock { state in
                        if state.canJudge { state.judged.append("\(boot) \(began.seconds) \(formerly.seconds)") }
                        return state.canJudge
                    }
                })
            return GatewayClock(
                requiresSynchronization: requiresSynchronization, machine: machine, file: file, memory: known ?? memory)
        }

        func pass(_ seconds: Int64, jumping jump: Int64 = 0) {
            state.withLock { state in
                state.now += seconds + jump
                state.uptime += seconds
            }
        }

        /// The machine is off for as long, and begins anew with a clock that is wrong by `jump`.
        func reboot(after seconds: Int64, jumping jump: Int64 = 0) {
            state.withLock { state in
                state.now += seconds + jump
                state.uptime = 20
                state.boot += "'"
            }
        }
    }

    private let machine = Machine()

    @Test("promise 10: a clock behind the program's making, or the newest contact, is in doubt until it is put right")
    func behind() async {
        let clock = machine.clock()
        #expect(await clock.doubt() == nil)
        machine.state.withLock { $0.newest = 1_795_000_100 }
        #expect(await clock.doubt() == nil, "clocks are put right by seconds all the time")
        machine.state.withLock { $0.newest = 1_795_100_000 }
        #expect(await clock.doubt() == .beforeStored(Instant(seconds: 1_795_100_000)))
        let other = machine.clock()
        machine.state.withLock { $0.now = 0 }
        #expect(await other.doubt() == .beforeBuild(Instant(seconds: 1_794_000_000)))
        machine.state.withLock { $0.isSynchronized = true }
        #expect(await other.doubt() == nil)
    }

    @Test(
        "promise 10: a jump is in doubt for ten minutes, or until the kernel says that the clock is right",
        arguments: [-86_400, 3600] as [Int64])
    func jump(_ seconds: Int64) async {
        let clock = machine.clock()
        #expect(await clock.doubt() == nil)
        machine.pass(60, jumping: 60)
        #expect(await clock.doubt() == nil)
        machine.pass(60, jumping: seconds)
        #expect(await clock.doubt() == .jumped(seconds))
        machine.pass(300)
        #expect(await clock.doubt() == .jumped(seconds))
        machine.pass(300)
        #expect(await clock.doubt() == nil)
        machine.pass(60, jumping: seconds)
        machine.state.withLock { $0.isSynchronized = true }
        #expect(await clock.doubt() == nil)
        machine.state.withLock { $0.isSynchronized = false }
        #expect(await clock.doubt() == nil, "what was said to be right needs no waiting")
    }

    @Test("a machine that never says that it is synchronised is trusted, unless the settings ask for it")
    func synchronization() async {
        #expect(await machine.clock().doubt() == nil)
        let strict = machine.clock(requiresSynchronization: true)
        #expect(await strict.doubt() == .notSynchronized)
        machine.state.withLock { $0.isSynchronized = true }
        #expect(await strict.doubt() == nil)
    }

    @Test("promise 10: while the clock is in doubt no meter is read, and nothing is asked of one")
    func notRead() async throws {
        let meter = try await ReadTests.paired()
        let bench = try await GatewayBench(
            .inProcess, [meter], settings: ["clock.require_sync": "true"], machine: .unsynchronized)
        let problem = try await bench.problem(ReadTests.read)
        #expect(problem.code == "clock_not_trusted" && problem.status == .configuration)
        #expect(!meter.events.contains(.connected))
        try await bench.stop()
    }

    @Test("promise 10: `watch` without a gateway reads no meter while the clock is in doubt")
    func notWatched() async throws {
        let meter = try await ReadTests.paired()
        let bench = try await GatewayBench(
            .inProcess, [meter], settings: ["clock.require_sync": "true"], machine: .unsynchronized)
        let problem = try await bench.problem(.device(.watch(types: ["glucose"])))
        #expect(problem.code == "clock_not_trusted" && problem.status == .configuration)
        #expect(!meter.events.contains(.connected))
        try await bench.stop()
    }

    @Test("promise 10: no contact begins by a clock that has jumped since it was looked at; others go on as they were")
    func jumpBetweenLooks() async throws {
        let (clock, memory) = (machine.clock(), CountingMemory())
        let trusted = TrustedMemory(memory: memory, clock: clock)
        func begin() async throws -> Contact {
            try await trusted.beginContact(
                with: DeviceDescription(address: nil), at: Instant(seconds: 1), clock: nil, batteryPercent: nil)
        }
        let contact = try await begin()
        machine.pass(1, jumping: -7200)
        let failure = await #expect(throws: ContactFailure.self) { try await begin() }
        #expect(failure?.code == "clock_not_trusted" && memory.begun.withLock { $0 } == 1)
        #expect(failure.map { Problem($0).status } == .configuration)
        try await trusted.endContact(contact, ContactSummary(isComplete: true, received: 0))
        machine.state.withLock { $0.isSynchronized = true }
        _ = try await begin()
        #expect(memory.begun.withLock { $0 } == 2)
    }

    @Test("whoever waits for the clock is told of each doubt once, and of its end")
    func waiting() async throws {
        let clock = machine.clock(requiresSynchronization: true)
        let told = Mutex<[ClockDoubt?]>([])
        let waiting = Task {
            try await clock.waitUntilTrusted { doubt in
                told.withLock { $0.append(doubt) }
                machine.state.withLock { $0.isSynchronized = true }
            }
        }
        try await waiting.value
        #expect(told.withLock { $0 } == [.notSynchronized, nil])
    }
}

/// Counts the contacts that begin.
final class CountingMemory: DeviceMemory {
    let begun = Mutex(0)

    func beginContact(
        with device: DeviceDescription, at start: Instant, clock: ClockReading?, batteryPercent: UInt8?
    ) async throws -> Contact {
        begun.withLock { $0 += 1 }
        return Contact(id: 1, device: device, startedAt: start)
    }

    func noteClock(_ clock: ClockReading, in contact: Contact) async throws -> Contact { contact }
    func lastRecord(of contact: Contact) async throws -> LastRecord? { nil }
    func beginSequenceEpoch(in contact: Contact) async throws -> Contact { contact }
    func endContact(_ contact: Contact, _ summary: ContactSummary) async throws {}
}
