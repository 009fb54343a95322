/// When a sensor was started in one of its lives, for each of its minutes.
///
/// The start is fixed at the first scan. A later scan that proves it wrong begins another start, which counts from the first
/// minute that is not known yet: what is known may be used or delivered already, under its time.
///
/// A sensor that was reset counts its minutes from 0 once more. That is another life, of which all of this begins anew.
package struct SensorLife: Sendable, Hashable {
    /// A start, and from which minute on it counts.
    package struct Span: Sendable, Hashable {
        /// The first minute that it counts for.
        package var fromMinute: Int
        /// The start.
        package var time: SensorTime
        /// When the scan was made that showed it.
        package var scannedAt: Instant

        package init(fromMinute: Int, time: SensorTime, scannedAt: Instant) {
            self.fromMinute = fromMinute
            self.time = time
            self.scannedAt = scannedAt
        }
    }

    /// The starts, in the order of their minutes.
    package private(set) var spans: [Span]

    package init(_ spans: [Span] = []) { self.spans = spans }

    /// The start that the newest scan found; `nil` if none has found one.
    package var start: Instant? { spans.last?.time.start }

    /// Takes notice of what a scan shows. A scan that is older than one already noted, by a clock that was set back or
    /// being read again, proves nothing; nor does a sensor whose age stands still.
    ///
    /// - Parameter newestMinute: the newest minute of which a record is known; asked only where it matters.
    /// - Returns: the start that this scan has begun; `nil` if it has begun none.
    @discardableResult
    package mutating func note(
        _ scan: SensorScan, scannedAt: Instant, newestMinute: () throws -> Int?
    ) rethrows -> Span? {
        guard scan.isRunning else { return nil }
        var span = Span(
            fromMinute: 0, time: SensorTime(scannedAt: scannedAt, ageMinutes: scan.ageMinutes), scannedAt: scannedAt)
        if let last = spans.last {
            guard scannedAt > last.scannedAt, last.time.isDisproved(by: span.time) else { return nil }
            span.fromMinute = max(try newestMinute().map { $0 + 1 } ?? 0, last.fromMinute)
            if span.fromMinute == last.fromMinute { spans.removeLast() }
        }
        spans.append(span)
        return span
    }

    /// Whether a scan that was made now shows that the sensor was started anew: it is younger than a record of it that is
    /// known, and was started at another time.
    ///
    /// A life that was shorter than the age that the scan shows can't be told from a clock that was put right.
    ///
    /// - Parameter newestMinute: the newest minute of which a record is known; asked only where it matters.
    package func isRestarted(
        by scan: SensorScan, scannedAt: Instant, newestMinute: () throws -> Int?
    ) rethrows -> Bool {
        guard scan.isRunning, let last = spans.last,
            last.time.isDisproved(by: SensorTime(scannedAt: scannedAt, ageMinutes: scan.ageMinutes))
        else { return false }
        return try newestMinute().map { $0 > Int(scan.ageMinutes) } ?? false
    }

    /// When a record was made; unknown while no scan has found a start.
    package func resolve(_ facts: SensorFacts, scannedAt: Instant) -> ResolvedTime {
        guard var span = spans.last(where: { $0.fromMinute <= Int(facts.minute) }), let newest = spans.last else {
            return ResolvedTime(instant: nil, basis: .unknown)
        }
        // No record is younger than the scan that brings it: the start that says so was fixed under a wrong clock.
        if span.time.isAfter(scannedAt, minute: facts.minute) { span = newest }
        return span.time.resolve(facts, scannedAt: scannedAt)
    }
}
