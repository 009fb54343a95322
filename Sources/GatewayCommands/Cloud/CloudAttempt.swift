import HealthReadings

/// The last attempt to fetch from an account, as far as it decides when the next one is due.
package struct CloudAttempt: Sendable, Hashable {
    /// The wait after a first failure that may pass by itself; each further one in a row doubles it.
    static let firstWait = Duration.seconds(300)

    /// When it was made.
    package var at: Instant
    /// How many attempts in a row, this one included, have failed in a way that may pass by itself.
    package var failures = 0

    /// The last one that counts.
    ///
    /// - Parameters:
    ///   - attempt: the last one of this process.
    ///   - connected: when the account was connected; `nil`: none is.
    ///   - fetched: when everything was fetched last, by whatever process.
    ///   - now: the time. What is later was noted under a clock that was ahead, and says nothing.
    static func last(
        _ attempt: CloudAttempt?, connected: Instant?, fetched: Instant?, at now: Instant
    ) -> CloudAttempt? {
        // An account that was connected since is no old attempt's; and a restart is no reason to ask again.
        let own = attempt.flatMap { attempt in connected.map { attempt.at >= $0 } ?? true ? attempt : nil }
        let all = [own, fetched.map { CloudAttempt(at: $0) }].compactMap(\.self)
        return all.filter { $0.at <= now }.max { $0.at < $1.at }
    }

    /// Whether the next one is due.
    ///
    /// - Parameters:
    ///   - now: the time.
    ///   - last: the last one; `nil`: there was none.
    ///   - interval: how often to fetch, and the longest wait after a failure.
    ///   - notBefore: when the service allows requests again, if it has said so.
    static func isDue(
        at now: Instant, after last: CloudAttempt?, every interval: Duration, notBefore: Instant? = nil
    ) -> Bool {
        // Nobody is asked to wait longer than a day: the clock was ahead then.
        if let notBefore, now < notBefore, notBefore <= now.advanced(bySeconds: 86_400) { return false }
        guard let last, last.at <= now else { return true }
        return now >= last.at.advanced(by: last.wait(interval))
    }

    private func wait(_ interval: Duration) -> Duration {
        guard failures > 0 else { return interval }
        // 2¹⁵ times the first wait are longer than any interval.
        let factor = 1 << min(failures - 1, 15)
        return min(interval, Self.firstWait * factor)
    }
}
