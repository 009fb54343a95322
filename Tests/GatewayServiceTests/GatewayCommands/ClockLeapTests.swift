import Foundation
import HealthDevices
import HealthReadings
import Synchronization
import Testing

@testable import GatewayCommands
@testable import GatewaySettings

/// Clocks that are wrong by years, and what of the gateway outlasts them.
@Suite struct ClockLeapTests {
    private static let year: Int64 = 365 * 86_400
    private static let day: Int64 = 86_400
    private let machine = GatewayClockTests.Machine()
    private let file: ClockFile

    init() throws {
        let directory = try GatewayBench.scratch()
        file = ClockFile(directory: directory.path)
    }

    private func future() { machine.state.withLock { $0.newest = $0.now + 10 * Self.year } }

    @Test("one contact begun under a future clock blocks reading for two days of a steady clock, not until that year")
    func steady() async {
        future()
        let clock = machine.clock(file: file)
        for _ in 0..<47 {
            machine.pass(3600)
            guard case .beforeStored? = await clock.doubt() else {
                Issue.record("trusted too early")
                return
            }
        }
        machine.pass(2 * 3600)
        #expect(await clock.doubt() == nil)
        let (aside, now) = machine.state.withLock { ($0.aside, $0.now) }
        #expect(aside == [now + 120], "what lies in the future is set aside, and nothing else")
    }

    @Test("steadiness is counted on over restarts of the gateway and of the machine, and begins anew after a jump")
    func persists() async {
        future()
        for _ in 0..<3 {
            let clock = machine.clock(file: file)
            _ = await clock.doubt()
            machine.pass(Self.day / 2)
            #expect(await clock.doubt() != nil)
            await clock.save()
        }
        machine.reboot(after: 7200)
        let after = machine.clock(file: file)
        #expect(await after.doubt() != nil)
        machine.pass(Self.day / 2 + 1)
        #expect(await after.doubt() == nil, "a day and a half before, half a day since")

        future()
        machine.reboot(after: 0, jumping: -Self.day)
        let back = machine.clock(file: file)
        _ = await back.doubt()
        machine.pass(Self.day)
        #expect(await back.doubt() != nil, "a machine that began with an earlier clock has proven nothing")
    }

    @Test("a clock behind this program is not believed however steady it is")
    func stopped() async {
        machine.state.withLock { $0.now = 0 }
        let clock = machine.clock(file: file)
        for _ in 0..<5 {
            machine.pass(Self.day)
            #expect(await clock.doubt() == .beforeBuild(Instant(seconds: 1_794_000_000)))
        }
    }

    @Test("synchronisation ends the doubt at once, and sets aside what lies in the future")
    func synchronized() async {
        future()
        let clock = machine.clock(file: file)
        #expect(await clock.doubt() != nil)
        machine.state.withLock { $0.isSynchronized = true }
        #expect(await clock.doubt() == nil)
        machine.state.withLock { $0.isSynchronized = false }
        #expect(await clock.doubt() == nil && machine.state.withLock { $0.aside.count } == 1)
    }

    @Test("a trusted clock that leaps by years is not believed after ten minutes; back where it was, at once")
    func leap() async {
        let clock = machine.clock(file: file)
        #expect(await clock.doubt() == nil)
        machine.pass(60, jumping: 10 * Self.year)
        #expect(await clock.doubt() == .jumped(10 * Self.year))
        machine.pass(Self.day)
        #expect(await machine.clock(file: file).doubt() == .jumped(10 * Self.year), "nor after a restart")
        machine.pass(60, jumping: -10 * Self.year)
        #expect(await clock.doubt() == nil)

        machine.reboot(after: 10 * Self.year)
        await clock.save()
        let after = machine.clock(file: file)
        guard case .jumped? = await after.doubt() else {
            Issue.record("years may have passed, or not")
            return
        }
        machine.pass(2 * Self.day)
        #expect(await after.doubt() == nil)
    }

    @Test("a machine that begins in 1970 is trusted ten minutes after its clock was put right")
    func boot() async {
        let first = machine.clock(file: file)
        #expect(await first.doubt() == nil)
        await first.save()
        let right = machine.state.withLock { $0.now }
        machine.reboot(after: 0, jumping: -right)
        let clock = machine.clock(file: file)
        #expect(await clock.doubt() == .beforeBuild(Instant(seconds: 1_794_000_000)))
        machine.pass(30, jumping: right)
        #expect(await clock.doubt() == .jumped(right))
        machine.pass(600)
        #expect(await clock.doubt() == nil)
    }

    @Test("tokens are judged by the time it would be, while the clock is wrong: none ends early, none lives again")
    func judging() async {
        let clock = machine.clock(file: file)
        #expect(await clock.doubt() == nil)
        let begin = machine.state.withLock { $0.now }
        for jump in [10 * Self.year, -20 * Self.year] {
            machine.pass(60, jumping: jump)
            #expect(await clock.doubt() != nil)
        }
        #expect(await clock.judgingTime() == Instant(seconds: begin + 120))
        await clock.save()
        machine.reboot(after: 100)
        #expect(await machine.clock(file: file).judgingTime().seconds == begin, "never earlier than it was trusted")
    }

    @Test("what a contact receives while the clock jumps is kept at the time it was received")
    func duringContact() async throws {
        let clock = machine.clock(file: file)
        #expect(await clock.doubt() == nil)
        let begin = machine.state.withLock { $0.now }
        let kept = KeptFrames()
        let journal = TrustedJournal(journal: kept, clock: clock)
        let contact = Contact(id: 1, device: DeviceDescription(address: nil), startedAt: Instant(seconds: begin))
        func receive(at second: Int64) async throws {
            let frame = Frame(
                format: FrameFormat(characteristic: 0x2A37), payload: [0, 60], receivedAt: Instant(seconds: second),
                ordinal: 0)
            _ = try await journal.append([frame], of: contact)
        }
        machine.pass(10)
        try await receive(at: begin + 10)
        machine.pass(10, jumping: 10 * Self.year)
        try await receive(at: begin + 20 + 10 * Self.year)
        try await receive(at: begin + 19)
        machine.state.withLock { $0.isSynchronized = true }
        try await receive(at: begin + 20 + 10 * Self.year)
        let seconds = kept.frames.withLock { $0.map { $0.receivedAt.seconds - begin } }
        #expect(seconds == [10, 20, 19, 20 + 10 * Self.year], "the last by a clock that is synchronised")
        let uptimes = kept.frames.withLock { $0.compactMap(\.bootTime).map { $0.microseconds / 1_000_000 } }
        #expect(uptimes == [1010, 1020, 1019, 1020], "by the time since the machine began they are in order")

        machine.state.withLock { $0.isSynchronized = false }
        let trusted = TrustedMemory(memory: CountingMemory(), clock: clock)
        machine.pass(10, jumping: -3 * Self.year)
        let reading = ClockReading(deviceTime: WallTime(secondsSinceEpoch: 0), readAt: Instant(seconds: begin))
        let failure = await #expect(throws: ContactFailure.self) { try await trusted.noteClock(reading, in: contact) }
        #expect(failure?.code == "clock_not_trusted", "no device is compared with it")
    }

    @Test("what cannot be undone waits for a clock that is synchronised or has been steady for days")
    func proven() async {
        let clock = machine.clock(file: file)
        #expect(await clock.doubt() == nil)
        #expect(await !clock.isProven())
        machine.state.withLock { $0.isSynchronized = true }
        #expect(await clock.isProven())
        machine.state.withLock { $0.isSynchronized = false }
        machine.pass(2 * Self.day)
        #expect(await clock.isProven())
        machine.pass(60, jumping: 3600)
        #expect(await !clock.isProven())
    }

    @Test("how steadily a clock ran before the machine was off proves nothing; days since then do, or a person's word")
    func provenSinceBoot() async throws {
        let first = machine.clock(file: file)
        #expect(await first.doubt() == nil)
        #expect(await !first.isProvenSinceBoot())
        machine.pass(3 * Self.day)
        #expect(await first.isProvenSinceBoot())
        await first.save()
        // The clock has stood still while the machine was off for five hours.
        machine.reboot(after: 5 * 3600, jumping: 60 - 5 * 3600)
        let second = machine.clock(file: file)
        #expect(await second.isProven())
        #expect(await !second.isProvenSinceBoot())
        machine.state.withLock { $0.isSynchronized = true }
        #expect(await second.isProvenSinceBoot())
        machine.state.withLock { $0.isSynchronized = false }
        #expect(await !second.isProvenSinceBoot())
        #expect(try await second.trust() == 1)
        let third = machine.clock(file: file)
        #expect(await third.isProvenSinceBoot())
        machine.pass(60, jumping: 7200)
        #expect(await third.doubt() == .jumped(7200))
        machine.pass(900)
        #expect(await third.doubt() == nil)
        #expect(await !third.isProvenSinceBoot(), "it has jumped since")
        machine.pass(2 * Self.day)
        #expect(await third.isProvenSinceBoot())
    }

    @Test("what came just before the clock was put right, and is kept just after, has the right time")
    func receivedBeforeStep() async throws {
        let clock = machine.clock(file: file)
        #expect(await clock.doubt() == nil)
        let begin = machine.state.withLock { $0.now }
        let kept = KeptFrames()
        let journal = TrustedJournal(journal: kept, clock: clock)
        machine.pass(10, jumping: 3 * Self.day)
        machine.state.withLock { $0.isSynchronized = true }
        let frames = (0..<2).map { number in
            Frame(
                format: FrameFormat(characteristic: 0x2A37), payload: [0, 60],
                receivedAt: Instant(seconds: begin + 8 + Int64(number)), ordinal: number)
        }
        _ = try await journal.append(
            frames, of: Contact(id: 1, device: DeviceDescription(address: nil), startedAt: Instant(seconds: begin)))
        let stored = kept.frames.withLock { $0 }
        #expect(stored.map { $0.receivedAt.seconds - begin } == [8 + 3 * Self.day, 9 + 3 * Self.day])
        #expect(stored.compactMap(\.bootTime).map { $0.microseconds / 1_000_000 } == [1008, 1009])
    }

    @Test("what came before a clock was put forward is judged again, once, as soon as somebody says that it is right")
    func judgesTimes() async {
        let clock = machine.clock(file: file)
        #expect(await clock.doubt() == nil)
        let began = machine.state.withLock { $0.now - $0.uptime }
        machine.pass(3600)
        #expect(await clock.doubt() == nil)
        machine.pass(60, jumping: 3 * Self.day)
        #expect(await clock.doubt() == .jumped(3 * Self.day))
        machine.pass(600)
        #expect(await clock.doubt() == nil)
        machine.pass(3 * Self.day)
        #expect(await clock.doubt() == nil)
        #expect(machine.judged.isEmpty, "a pause of a virtual machine looks the same, and nobody vouches for the clock")
        // The store can't be written, and then the gateway is started again.
        machine.state.withLock { ($0.isSynchronized, $0.canJudge) = (true, false) }
        #expect(await clock.doubt() == nil)
        machine.state.withLock { $0.canJudge = true }
        let next = machine.clock(file: file)
        for _ in 0..<2 { #expect(await next.doubt() == nil) }
        #expect(await machine.clock(file: file).doubt() == nil)
        #expect(machine.judged == ["first \(began + 3 * Self.day) \(began)"])
    }

    @Test("a person's word speaks for a clock that was put forward, in this start of the machine and in no other")
    func judgesTimesOfThisStart() async throws {
        let clock = machine.clock(file: file)
        #expect(await clock.doubt() == nil)
        let began = machine.state.withLock { $0.now - $0.uptime }
        machine.pass(60, jumping: Self.day)
        #expect(await clock.doubt() == .jumped(Self.day))
        #expect(try await clock.trust() == 1)
        #expect(machine.judged == ["first \(began + Self.day) \(began)"])

        machine.reboot(after: 60)
        let second = machine.clock(file: file)
        #expect(await second.doubt() == nil)
        machine.pass(60, jumping: Self.day)
        #expect(await second.doubt() == .jumped(Self.day))
        machine.pass(600)
        #expect(await second.doubt() == nil)
        machine.reboot(after: 60)
        machine.state.withLock { $0.isSynchronized = true }
        #expect(await machine.clock(file: file).doubt() == nil)
        #expect(machine.judged.count == 1)
    }

    @Test("a clock that was right, and has lost time since, was not behind when something came")
    func wasRight() async {
        let clock = machine.clock(file: file)
        machine.state.withLock { $0.isSynchronized = true }
        await clock.noteWhetherRight()
        // A virtual machine stands still for three days.
        machine.pass(60, jumping: 3 * Self.day)
        #expect(await machine.clock(file: file).doubt() == nil)
        #expect(machine.judged.isEmpty)
    }

    @Test("a person's word ends the doubt, but not against the making of the program")
    func trust() async throws {
        future()
        let clock = machine.clock(file: file)
        #expect(await clock.doubt() != nil)
        #expect(try await clock.trust() == 1)
        #expect(await clock.doubt() == nil)
        #expect(await clock.isProven())
        machine.pass(60, jumping: 10 * Self.year)
        #expect(await clock.doubt() != nil)
        #expect(try await clock.trust() == 1)
        #expect(await clock.doubt() == nil)
        machine.state.withLock { $0.now = 0 }
        let problem = await #expect(throws: Problem.self) { try await clock.trust() }
        #expect(problem?.code == "clock_not_trusted")
    }

    @Test("a look at the clock that waits for an answer does not take back a person's word that comes meanwhile")
    func trustDuringLook() async throws {
        let (asked, ask) = AsyncStream<Void>.makeStream()
        let (answered, answer) = AsyncStream<Void>.makeStream()
        let isFirst = Mutex(true)
        let memory = GatewayClock.Memory(newestContact: {
            let waits = isFirst.withLock { first in
                defer { first = false }
                return first
            }
            guard waits else { return nil }
            ask.finish()
            for await _ in answered {}
            return nil
        })
        let clock = machine.clock(file: file, memory: memory)
        let look = Task { await clock.doubt() }
        for await _ in asked {}
        let word = Task { try await clock.trust() }
        // The person's word is given, and noted if it need not wait for the look.
        try await Task.sleep(for: .milliseconds(100))
        answer.finish()
        let (doubt, count) = (await look.value, try await word.value)
        #expect(doubt == nil && count == 0)
        #expect(await clock.isProvenSinceBoot())
        #expect(await machine.clock(file: file).isProvenSinceBoot())
    }

    @Test("a damaged record is no record", arguments: ["", "{", "[]", #"{"boot":"x"}"#])
    func damaged(_ text: String) async throws {
        try text.write(toFile: file.path, atomically: true, encoding: .utf8)
        let clock = machine.clock(file: file)
        #expect(await clock.doubt() == nil)
        #expect(file.read() != nil)
        #expect(try FileManager.default.attributesOfItem(atPath: file.path)[.posixPermissions] as? Int == 0o600)
    }

    @Test("each kind of evidence of synchronisation counts, and the kernel's no outweighs a file that stayed")
    func evidence() async throws {
        let present = try GatewayBench.scratch().appendingPathComponent("synchronized").path
        #expect(FileManager.default.createFile(atPath: present, contents: nil))
        let rows: [(ClockWitness.Kernel, file: Bool, timedated: Bool?, ClockEvidence?)] = [
            (.synchronized, false, nil, .kernel), (.unsynchronized, true, true, nil), (.refused, true, nil, .timesyncd),
            (.refused, false, nil, nil), (.refused, false, true, .timedated), (.refused, true, false, nil),
        ]
        for row in rows {
            var witness = ClockWitness()
            witness.kernel = { row.0 }
            witness.timesyncFile = row.file ? present : present + ".none"
            witness.timedated = { row.timedated }
            #expect(await witness.evidence() == row.3, "\(row)")
        }
    }
}

/// Keeps what is appended.
private final class KeptFrames: FrameJournal {
    let frames = Mutex<[Frame]>([])

    func append(_ frames: [Frame], of contact: Contact) async throws -> [FrameOutcome] {
        self.frames.withLock { $0 += frames }
        return frames.map { _ in .nothing }
    }
}
