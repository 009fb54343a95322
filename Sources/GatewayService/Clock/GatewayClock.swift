import Foundation
import HealthReadings
import ReadingStore

/// Why the gateway's own clock is not to be trusted now.
public enum ClockDoubt: Sendable, Hashable {
    /// It shows a time before the newest contact in the store began.
    case beforeStored(Instant)
    /// It shows a time before this program was built.
    case beforeBuild(Instant)
    /// It has jumped by so many seconds, not long ago.
    case jumped(Int64)
    /// The kernel does not say that it is synchronised, and the settings ask for that.
    case notSynchronized
}

extension ClockDoubt: CustomStringConvertible {
    /// Whether it is the same doubt, whatever its numbers.
    func isLike(_ other: ClockDoubt) -> Bool {
        switch (self, other) {
        case (.beforeStored, .beforeStored), (.beforeBuild, .beforeBuild), (.jumped, .jumped),
            (.notSynchronized, .notSynchronized):
            true
        default: false
        }
    }

    /// Half a line for people: "this machine's clock …".
    public var description: String {
        switch self {
        case .beforeStored(let instant): "is behind the newest contact in the store, \(instant.flooredToSecond)"
        case .beforeBuild(let instant): "is behind the making of this program, \(instant.flooredToSecond)"
        case .jumped(let seconds): "has jumped by \(seconds) s"
        case .notSynchronized: "is not synchronised, and `clock.require_sync` asks for that"
        }
    }
}

/// Watches the gateway's clock. A machine without a battery for it begins with a wrong one; times found by that would be
/// wrong for ever.
///
/// While it is in doubt no device is read: what it holds is safe there, whatever it does with what it has sent. Where
/// the kernel says that the clock is synchronised there is no doubt.
actor GatewayClock {
    /// Clocks are put right by less than this all the time.
    private static let tolerance: Int64 = 120
    /// How long a jump is remembered where nothing says that the clock is right now.
    private static let jumpMemory: Int64 = 600

    /// What is asked of the machine.
    struct Machine: Sendable {
        /// The clock.
        var now: @Sendable () -> Instant = { .systemClock }
        /// Seconds since the machine began, sleep included (CLOCK_BOOTTIME).
        var uptime: @Sendable () -> Int64 = {
            var time = timespec()
            clock_gettime(CLOCK_BOOTTIME, &time)
            return Int64(time.tv_sec)
        }
        /// Whether the kernel says that the clock is synchronised.
        var isSynchronized: @Sendable () -> Bool = { KernelClock.isSynchronized }
        /// When this program was made.
        var built: Instant? = Doctor.programTime
    }

    private let machine: Machine
    private let requiresSynchronization: Bool
    private let newestContact: @Sendable () async -> Instant?
    /// The clock less the time since the machine began, when it was last looked at.
    private var offset: Int64?
    private var jump: (seconds: Int64, at: Int64)?

    init(
        requiresSynchronization: Bool, machine: Machine = Machine(),
        newestContact: @escaping @Sendable () async -> Instant?
    ) {
        self.machine = machine
        self.requiresSynchronization = requiresSynchronization
        self.newestContact = newestContact
    }

    /// Why the clock is not to be trusted now; nil where nothing speaks against it.
    func doubt() async -> ClockDoubt? {
        let (now, uptime) = (machine.now(), machine.uptime())
        let offset = now.seconds - uptime
        if let before = self.offset, abs(offset - before) > Self.tolerance { jump = (offset - before, uptime) }
        self.offset = offset
        guard !machine.isSynchronized() else {
            jump = nil
            return nil
        }
        if let built = machine.built, now < built { return .beforeBuild(built) }
        if let newest = await newestContact(), now.advanced(bySeconds: Self.tolerance) < newest {
            return .beforeStored(newest)
        }
        if let jump {
            guard uptime - jump.at >= Self.jumpMemory else { return .jumped(jump.seconds) }
            self.jump = nil
        }
        return requiresSynchronization ? .notSynchronized : nil
    }
}

extension GatewayClock {
    /// How often the clock is looked at while it is in doubt.
    private static let doubtEvery: Duration = .seconds(5)

    /// Waits until the clock can be trusted.
    ///
    /// - Parameter tell: told of each kind of doubt there is, and with nil when there is none any more.
    nonisolated func waitUntilTrusted(_ tell: (ClockDoubt?) -> Void) async throws {
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

extension Gateway {
    /// The problem that the gateway's clock is in doubt; nil where it is not.
    func clockProblem() async -> Problem? { await clock.doubt().map { Problem($0.failure) } }
}
