/// When the event loop lets signals gather: where they stream in, to wake for each costs more than to take it.
///
/// A signal that comes alone is taken at once. Behind others that came just before, it waits for ``gathering`` at most
/// and is handed over together with what came meanwhile.
struct SignalPace {
    /// For how long what streams in gathers: less than a connection interval of Bluetooth LE (7.5 ms and more).
    static let gathering: Duration = .milliseconds(4)

    private var lastCame: SuspendingClock.Instant?
    /// Whether signals came shortly after others.
    private(set) var isStreaming = false

    /// A wake-up has brought signals that somebody wanted, or has not.
    mutating func woke(forSignals came: Bool, at now: SuspendingClock.Instant = .now) {
        guard came else { return isStreaming = false }
        isStreaming = lastCame.map { $0.duration(to: now) < Self.gathering * 2 } ?? false
        lastCame = now
    }

    /// For how many more milliseconds the socket may be left alone; nil where it may not.
    func rest(at now: SuspendingClock.Instant = .now) -> Int32? {
        guard isStreaming, let lastCame else { return nil }
        let left = now.duration(to: lastCame.advanced(by: Self.gathering))
        return left > .zero ? Int32(clamping: left.components.attoseconds / 1_000_000_000_000_000 + 1) : nil
    }
}
