import HealthReadings
import ReadingStore

/// The times delivery goes by: one that can be read, one that never jumps, and waiting.
public struct SyncClock: Sendable {
    /// The gateway's clock, for what is written down.
    public var now: @Sendable () -> Instant
    /// Time since some moment; never set, so that a clock that is put right neither hurries nor delays anything.
    public var uptime: @Sendable () -> Duration
    /// Waits; ends early by throwing where the task is cancelled.
    public var sleep: @Sendable (Duration) async throws -> Void

    /// Goes by any clock of Swift's.
    public init<C: Clock<Duration>>(_ clock: C, now: @escaping @Sendable () -> Instant) {
        let start = clock.now
        self.now = now
        uptime = { start.duration(to: clock.now) }
        sleep = { try await clock.sleep(until: clock.now.advanced(by: $0), tolerance: nil) }
    }

    /// The system's clocks; time goes on while the machine sleeps.
    public static let system = SyncClock(ContinuousClock(), now: { .systemClock })
}

/// How long to wait after failures: exponential, with jitter so that many gateways do not come back together.
public struct Backoff: Sendable {
    /// The wait after the first failure.
    public var first: Duration
    /// The longest wait; also the first after a key was refused.
    public var longest: Duration
    /// The longest wait for a person, 6 h: a refused key may cost the server something, and tells its owner each time.
    public var longestPause: Duration = .seconds(6 * 3600)
    /// The waits after the first failures, if they follow a list; the last of them counts for all that follow.
    public var schedule: [Duration] = []
    /// The part of a wait that is not left to chance, 0 … 1. With 0, many gateways that lose a server at the same time
    /// come back evenly spread.
    public var fixedShare = 0.5
    /// A number from 0 to 1.
    public var jitter: @Sendable () -> Double

    /// 2 s, doubled at each failure, 15 min at most; half of it fixed, half of it random.
    public init(
        first: Duration = .seconds(2), longest: Duration = .seconds(900),
        jitter: @escaping @Sendable () -> Double = { .random(in: 0...1) }
    ) {
        self.first = first
        self.longest = longest
        self.jitter = jitter
    }

    /// Waits that follow a list, each up to a tenth longer; the last of them counts for all that follow.
    ///
    /// - Parameter schedule: the waits after the first failures.
    public init(schedule: [Duration]) {
        self.init()
        self.schedule = schedule
    }

    /// The wait after this many failures in a row, and no less than the server asks for.
    public func delay(failures: Int, retryAfter: Duration? = nil) -> Duration {
        let step = min(longest, first * (1 << min(max(failures - 1, 0), 30)))
        let random = min(max(jitter(), 0), 1)
        let listed = schedule.isEmpty ? nil : schedule[min(max(failures, 1), schedule.count) - 1]
        let delay = listed.map { $0 + $0 / 10 * random } ?? step * fixedShare + step * (1 - fixedShare) * random
        guard let retryAfter, retryAfter > delay else { return delay }
        // Later than asked by up to a tenth of a step, never earlier.
        return retryAfter + step / 10 * min(max(jitter(), 0), 1)
    }

    /// The same without its list, which is a receiver's: a disk that has room again must not be waited for through the night.
    var unlisted: Backoff {
        var backoff = self
        backoff.schedule = []
        return backoff
    }

    /// The wait after this many failures in a row that need a person: the longest wait, doubled each time.
    func pause(failures: Int) -> Duration {
        min(max(longest, longestPause), longest * (1 << min(max(failures - 1, 0), 30)))
    }
}
