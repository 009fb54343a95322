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

    /// Whether a scan that was made now shows that the sensor was started anew: it shows another start, and is younger than a
    /// record that is known, or has not the records that are known of its minutes.
    ///
    /// A sensor writes the record of a minute once. A clock that was put right also shows another start, but then the scan has
    /// the known records. One record that is another proves nothing by itself, nor do minutes of which none is known: a new
    /// life then has to have begun after the known minutes of the one before.
    ///
    /// - Parameters:
    ///   - newestMinute: the newest minute of which a record is known; asked only where it matters.
    ///   - isKnown: whether a record is known with the raw numbers it has here: `false` if only others of its minute and ring
    ///     are, `nil` if none is. Asked only where it matters.
    package func isRestarted(
        by scan: SensorScan, scannedAt: Instant, newestMinute: () throws -> Int?, isKnown: (Record) throws -> Bool?
    ) rethrows -> Bool {
        guard scan.isRunning, let last = spans.last else { return false }
        let shown = SensorTime(scannedAt: scannedAt, ageMinutes: scan.ageMinutes)
        guard last.time.isDisproved(by: shown), let newest = try newestMinute() else { return false }
        // No clock, however wrong, makes a sensor younger.
        if newest > Int(scan.ageMinutes) { return true }
        var (known, others, unknown) = (0, 0, 0)
        for record in scan.records {
            guard let facts = record.sensor, Int(facts.minute) <= newest else { continue }
            switch try isKnown(record) {
            case true?: known += 1
            case false?: others += 1
            case nil: unknown += 1
            }
        }
        if others > known + 1 { return true }
        let end = last.time.start.advanced(bySeconds: Int64(newest) * 60 - SensorTime.toleranceSeconds)
        return known == 0 && others + unknown > 0 && shown.start >= end
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
