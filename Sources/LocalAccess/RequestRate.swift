import Synchronization

/// Counts requests in a sliding window, by whoever sends them.
///
/// It remembers so many callers at most: who floods it with names of callers makes it forget the quietest, not grow.
public final class RequestRate: Sendable {
    /// How many requests a window takes.
    public let limit: Int
    /// How long the window is.
    public let window: Duration
    private let capacity: Int
    private let callers = Mutex<[String: [ContinuousClock.Instant]]>([:])

    /// Makes a counter; 60 requests in 60 seconds where nothing else is said.
    public init(limit: Int = 60, window: Duration = .seconds(60), capacity: Int = 1024) {
        self.limit = limit
        self.window = window
        self.capacity = capacity
    }

    /// Counts a request.
    ///
    /// - Returns: nil where it may pass, else how long to wait until the next one may.
    public func admit(_ caller: String, now: ContinuousClock.Instant = .now) -> Duration? {
        callers.withLock { callers in
            var times = callers[caller, default: []]
            times.removeAll { now - $0 >= window }
            guard times.count < limit else {
                callers[caller] = times
                return times.first.map { window - (now - $0) } ?? window
            }
            times.append(now)
            if callers.count >= capacity, callers[caller] == nil { Self.forget(&callers, now: now, window: window) }
            callers[caller] = times
            return nil
        }
    }

    private static func forget(
        _ callers: inout [String: [ContinuousClock.Instant]], now: ContinuousClock.Instant, window: Duration
    ) {
        callers = callers.filter { _, times in times.last.map { now - $0 < window } ?? false }
        if let quietest = callers.min(by: { ($0.value.count, $0.key) < ($1.value.count, $1.key) })?.key {
            callers[quietest] = nil
        }
    }
}
