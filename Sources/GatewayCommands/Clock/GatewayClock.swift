import Foundation
import GatewaySettings
import HealthReadings
import Logging
import ReadingStore

/// Watches the gateway's clock. A machine without a battery for it begins with a wrong one; times found by that would be
/// wrong for ever.
///
/// While the clock is untrusted no device is read: what it holds is safe there, whatever it does with what it has sent.
/// Where somebody says that the clock is synchronised (``ClockWitness``) it is trusted. Otherwise it is compared with the
/// time since the machine began and with what is stored. What is stored is evidence and no proof: it may have been
/// written under a wrong clock. A clock that has run steadily for ``steadyPeriod`` is believed against it.
package actor GatewayClock {
    /// Clocks are put right by less than this all the time.
    private static let tolerance: Int64 = 120
    /// How long a jump is remembered.
    private static let jumpMemory: Int64 = 600
    /// How far a trusted clock may leap, or a machine may have been off, until more than ten minutes are needed to
    /// believe it.
    static let leapLimit: Int64 = 180 * 86_400
    /// How long a clock must run steadily to be believed against the store, and after a leap.
    static let steadyPeriod: Int64 = 2 * 86_400
    /// How often the record is written while nothing happens, in seconds.
    private static let recordEvery: Int64 = 3600
    /// How long ``recentDoubt()`` counts on the last look, in seconds.
    private static let lookMemory: Int64 = 5

    /// What is asked of the machine.
    struct Machine: Sendable {
        /// The clock.
        var now: @Sendable () -> Instant = { .systemClock }
        /// Seconds since the machine began, sleep included (CLOCK_BOOTTIME).
        var uptime: @Sendable () -> Int64 = { SystemClock.boot / 1_000_000 }
        /// What tells this start of the machine from others.
        var boot: @Sendable () -> String = {
            let text = try? String(contentsOfFile: "/proc/sys/kernel/random/boot_id", encoding: .utf8)
            return text?.trimmingCharacters(in: .whitespacesAndNewlines) ?? Self.unknownBoot
        }
        /// A start of the machine that the kernel does not name: others may be called the same.
        static let unknownBoot = "unknown"
        /// Who says that the clock is synchronised; nil: nobody.
        var evidence: @Sendable () async -> ClockEvidence? = { await ClockWitness().evidence() }
        /// When this program was made.
        var built: Instant? = Doctor.programTime
    }

    /// What is asked of the store.
    struct Memory: Sendable {
        /// When the newest contact that counts began.
        var newestContact: @Sendable () async -> Instant?
        /// Sets aside the contacts that began after an instant; returns how many those are.
        var setAside: @Sendable (_ after: Instant) async -> Int = { _ in 0 }
        /// Judges again the times of what was received in a start of the machine: when that was, and when it seemed to be.
        /// Returns whether that is done.
        var judgeTimes: @Sendable (_ boot: String, _ began: Instant, _ formerly: Instant) async -> Bool = { _, _, _ in
            true
        }
    }

    private let machine: Machine
    private let requiresSynchronization: Bool
    private let memory: Memory
    /// Where the record is kept; nil: only looked at, and not written.
    private let file: ClockFile?
    /// This start of the machine.
    private let boot: String
    private var record: ClockRecord?
    private var written: ClockRecord?
    private var lastLook: (doubt: ClockDoubt?, uptime: Int64)?
    /// Lets one caller at a time look at the clock, or confirm it. A look that waited for an answer would otherwise overwrite what
    /// another caller has noted meanwhile.
    private let turns = OneAtATime()

    /// - Parameters:
    ///   - file: where the record of earlier looks is.
    ///   - keepsRecord: whether it is written, too.
    init(
        requiresSynchronization: Bool, machine: Machine = Machine(), file: ClockFile? = nil, keepsRecord: Bool = true,
        memory: Memory
    ) {
        self.machine = machine
        self.requiresSynchronization = requiresSynchronization
        self.memory = memory
        self.file = keepsRecord ? file : nil
        boot = machine.boot()
        record = file?.read()
        written = record
    }

    /// Why the clock is not to be trusted now; nil where nothing speaks against it.
    package func doubt() async -> ClockDoubt? { await turns.inTurn { await lookedAt() } }

    /// What the last look has found, where that is some seconds old at most: whoever asks often has no other program asked each
    /// time. Otherwise as ``doubt()``.
    package func recentDoubt() async -> ClockDoubt? {
        if let lastLook, machine.uptime() - lastLook.uptime < Self.lookMemory { return lastLook.doubt }
        return await doubt()
    }

    /// Looks at the clock in the caller's turn.
    private func lookedAt() async -> ClockDoubt? {
        let now = machine.now()
        var record = look(now)
        var doubt = await self.doubt(of: record, at: now)
        // Asking may start another program, so it is asked only where it matters.
        if doubt != nil, await machine.evidence() != nil {
            if case .beforeStored? = doubt { await setAside(now) }
            doubt = nil
        }
        if doubt == nil { noteTrust(in: &record) }
        keep(record, becameTrusted: lastLook?.doubt != nil && doubt == nil)
        lastLook = (doubt, record.uptime)
        if doubt == nil { await judgeTimes() }
        return doubt
    }

    /// Notes that the clock is trusted as it is.
    private func noteTrust(in record: inout ClockRecord) {
        record.jump = nil
        // A clock that was right, and has lost time since, was not behind before: a virtual machine stood still.
        if let anchor = record.anchor, anchor.boot == boot, record.offset - anchor.offset > Self.tolerance,
            !isRight(record, at: anchor.offset)
        {
            record.behind = min(record.behind ?? anchor.offset, anchor.offset)
        }
        record.anchor = ClockRecord.Anchor(boot: record.boot, offset: record.offset, wall: record.wall)
    }

    private func isRight(_ record: ClockRecord, at offset: Int64) -> Bool {
        record.right.map { abs($0 - offset) <= Self.tolerance } ?? false
    }

    /// Notes that the clock is right as it is, where somebody says that it is synchronised: what is received under it is
    /// judged for good, and no later jump says anything of it.
    func noteWhetherRight() async {
        await turns.inTurn {
            guard await lookedAt() == nil, let record, !isRight(record, at: record.offset),
                await machine.evidence() != nil
            else { return }
            noteRight()
        }
    }

    private func noteRight() {
        guard var record else { return }
        record.right = record.offset
        keep(record)
    }

    /// Has the times of what was received before the clock was put forward judged again, once somebody says that it is right as
    /// it is now.
    ///
    /// It is not enough that it runs steadily. A virtual machine whose clock nobody synchronises looks the same behind a pause, and
    /// was right before it.
    private func judgeTimes() async {
        guard var judged = record, let behind = judged.behind, boot != Machine.unknownBoot, await isSaidToBeRight(),
            await memory.judgeTimes(boot, Instant(seconds: judged.offset), Instant(seconds: behind))
        else { return }
        judged.behind = nil
        keep(judged)
    }

    /// What speaks against the clock where nobody says that it is synchronised.
    private func doubt(of record: ClockRecord, at now: Instant) async -> ClockDoubt? {
        if let built = machine.built, now < built { return .beforeBuild(built) }
        if let jump = record.jump, record.steady < jump.needed { return .jumped(jump.seconds) }
        if let newest = await memory.newestContact(), now.advanced(bySeconds: Self.tolerance) < newest {
            guard record.steady >= Self.steadyPeriod else { return .beforeStored(newest) }
            await setAside(now)
        }
        return requiresSynchronization ? .notSynchronized : nil
    }

    @discardableResult
    private func setAside(_ now: Instant) async -> Int {
        await memory.setAside(now.advanced(bySeconds: Self.tolerance))
    }

    /// The record as it is now: what has happened to the clock since the last look.
    private func look(_ now: Instant) -> ClockRecord {
        let uptime = machine.uptime()
        let offset = now.seconds - uptime
        guard var record else { return ClockRecord(boot: boot, uptime: uptime, offset: offset, steady: 0) }
        let sameBoot = record.boot == boot && uptime >= record.uptime
        // Across a start of the machine nothing tells how much time has passed: only what cannot be is seen.
        let shift = sameBoot ? offset - record.offset : now.seconds - record.wall
        let wasTrusted = record.anchor.map { $0.boot == record.boot && $0.offset == record.offset } ?? false
        let most = sameBoot ? Self.tolerance : Self.leapLimit
        if (-Self.tolerance...most).contains(shift) {
            if sameBoot { record.steady += uptime - record.uptime }
        } else {
            (record.steady, record.confirmed) = (0, nil)
            if let anchor = record.anchor, anchor.boot == boot, abs(offset - anchor.offset) <= Self.tolerance {
                // Back where it was trusted.
                record.jump = nil
            } else if sameBoot || shift > 0 {
                let isLeap = wasTrusted && abs(shift) > Self.leapLimit
                record.jump = ClockRecord.Jump(seconds: shift, needed: isLeap ? Self.steadyPeriod : Self.jumpMemory)
            }
        }
        if !sameBoot { (record.behind, record.right) = (nil, nil) }
        (record.boot, record.uptime, record.offset) = (boot, uptime, offset)
        return record
    }

    private func keep(_ new: ClockRecord, becameTrusted: Bool = false) {
        record = new
        guard let file else { return }
        let isNews =
            written.map {
                $0.boot != new.boot || $0.jump != new.jump || $0.behind != new.behind || $0.right != new.right
                    || abs($0.offset - new.offset) > Self.tolerance
                    || new.uptime - $0.uptime >= Self.recordEvery || new.steady < $0.steady
            } ?? true
        guard isNews || becameTrusted else { return }
        file.write(new)
        written = new
    }

    /// Writes what was seen since it was last written.
    func save() {
        guard let file, let record, record != written else { return }
        file.write(record)
        written = record
    }

    /// Whether something speaks for the clock: it is synchronised, or has run steadily for days, and nothing speaks
    /// against it. Only then may what cannot be undone depend on it.
    package func isProven() async -> Bool {
        guard await doubt() == nil else { return false }
        if await machine.evidence() != nil { return true }
        return (record?.steady ?? 0) >= Self.steadyPeriod
    }

    /// Whether something speaks for the clock as it has run since the machine began: it is synchronised, has run steadily for
    /// days since then, or a person has said that it is right.
    ///
    /// A machine without a battery for its clock begins with the time at which it was turned off. Nothing else tells how long
    /// that was ago, however steadily the clock ran before.
    package func isProvenSinceBoot() async -> Bool {
        guard await doubt() == nil else { return false }
        if await isSaidToBeRight() { return true }
        guard let record else { return false }
        return min(record.steady, record.uptime) >= Self.steadyPeriod
    }

    /// Whether the clock is synchronised, or a person has said that it is right.
    private func isSaidToBeRight() async -> Bool {
        if await machine.evidence() != nil { return true }
        return record?.confirmed == boot
    }

    /// Who says that the clock is synchronised; nil: nobody.
    func evidence() async -> ClockEvidence? { await machine.evidence() }

    /// The time by which things end to be good: the clock, or while it is untrusted the time it would show had it gone
    /// on from when it was last trusted.
    ///
    /// A clock that stands in the future ends nothing early, and one that stands in the past lets nothing live again.
    package func judgingTime() async -> Instant {
        let uptime = machine.uptime()
        guard await recentDoubt() != nil, let anchor = record?.anchor else { return machine.now() }
        guard anchor.boot == boot else { return Instant(seconds: anchor.wall) }
        return Instant(seconds: anchor.offset + uptime)
    }

    /// The time since the machine began, by which what is received now is placed should the clock turn out to be behind; `nil`
    /// where nothing tells this start of the machine from others.
    nonisolated func bootTime() -> BootTime? {
        guard boot != Machine.unknownBoot else { return nil }
        return BootTime(boot: boot, microseconds: machine.uptime() * 1_000_000)
    }

    /// Frames that were just received, without the jump that this machine's clock had made by then, and with the time since the
    /// machine began.
    ///
    /// A contact that goes on while the clock jumps keeps what it receives, at the time it would be without the jump. What came just
    /// before a jump by which the clock was put right is kept at the right time.
    func placed(_ frames: [Frame]) async -> [Frame] {
        let (now, uptime) = (machine.now().seconds, machine.uptime())
        let offset = now - uptime
        var (former, trusted) = (offset, offset)
        if let anchor = record?.anchor, anchor.boot == boot, abs(offset - anchor.offset) > Self.tolerance {
            former = anchor.offset
            if await doubt() != nil { trusted = former }
        }
        return frames.map { received in
            var frame = received
            let seconds = received.receivedAt.seconds
            let isAfter = abs(now - seconds) < abs(former + uptime - seconds)
            frame.receivedAt = received.receivedAt.advanced(bySeconds: trusted - (isAfter ? offset : former))
            if boot != Machine.unknownBoot {
                frame.bootTime = BootTime(
                    boot: boot, microseconds: frame.receivedAt.advanced(bySeconds: -trusted).microseconds)
            }
            return frame
        }
    }

    /// Takes a person's word that the clock is right now: a jump is forgotten, and contacts that began later are set
    /// aside.
    ///
    /// - Returns: how many contacts were set aside.
    /// - Throws: `Problem` where the clock cannot be right.
    func trust() async throws -> Int {
        try await turns.inTurn {
            let now = machine.now()
            if let built = machine.built, now < built { throw Problem(ClockDoubt.beforeBuild(built).failure) }
            var record = look(now)
            record.jump = nil
            record.steady = max(record.steady, Self.steadyPeriod)
            record.confirmed = boot
            let count = await setAside(now)
            keep(record, becameTrusted: true)
            lastLook = nil
            if let doubt = await lookedAt() { throw Problem(doubt.failure) }
            noteRight()
            return count
        }
    }
}

extension GatewayClock {
    /// How often the clock is looked at while it is untrusted.
    private static let doubtEvery: Duration = .seconds(5)

    /// Waits until the clock can be trusted.
    ///
    /// - Parameter tell: told of each kind of doubt there is, and with nil when there is none any more.
    package nonisolated func waitUntilTrusted(_ tell: (ClockDoubt?) -> Void) async throws {
        var told: ClockDoubt?
        while let doubt = await doubt() {
            if told?.isLike(doubt) != true { tell(doubt) }
            told = doubt
            try await Task.sleep(for: Self.doubtEvery)
        }
        if told != nil { tell(nil) }
        try Task.checkCancellation()
    }
}

extension GatewayClock {
    /// By how many seconds a device may contradict a clock that nothing speaks for. Less is no time that the machine was off
    /// for, but a clock that was a little wrong before.
    private static let largestContradiction: Int64 = 15 * 60

    /// Whether a device is to be believed that says that this clock has lost time.
    ///
    /// - Parameter seconds: by how many seconds the clock is behind what the device lets expect.
    func isContradicted(by seconds: Int64) async -> Bool {
        guard seconds > Self.largestContradiction else { return false }
        return await !isProvenSinceBoot()
    }
}

extension GatewayClock {
    /// The problem that the clock is untrusted; nil where it is not.
    package func problem() async -> Problem? { await doubt().map { Problem($0.failure) } }
}

extension GatewayClock.Memory {
    /// A store's.
    static func of(_ store: ReadingStore?, logger: Logger) -> Self {
        Self(
            // For somebody who has given up the store reads nothing, which would speak for any clock.
            newestContact: { await shieldedFromCancellation { try? await store?.newestContact() } },
            setAside: { instant in
                guard let count = try? await store?.setContactsAside(after: instant) else { return 0 }
                logger.warning(
                    "contacts that began in the future are set aside: the clock was wrong then",
                    metadata: ["contacts": "\(count)", "later_than": "\(instant.flooredToSecond)"])
                return count
            },
            judgeTimes: { boot, began, formerly in
                // What fails, as while the key is missing, is done at a later look.
                (try? await store?.judgeTimes(boot: boot, began: began, formerly: formerly)) != nil
            })
    }
}
