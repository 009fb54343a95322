import Foundation
import Synchronization

/// The rules of one time zone of the tz database: wall clock to UTC and back.
///
/// Built on the zone's name alone: the host's zone and locale never matter.
public final class ZoneRules: Sendable {
    /// What a wall time is in a zone.
    public enum Moment: Sendable, Hashable {
        /// The zone's clock showed it once.
        case once(Instant)
        /// The zone's clock showed it twice: it was set back.
        case twice(earlier: Instant, later: Instant)
        /// The zone's clock never showed it: it was set forward. The instant lies as far behind the change as the wall
        /// time lies behind it on a clock that was not changed.
        case never(movedForward: Instant)
    }

    /// The IANA name: `Europe/Berlin`.
    public let name: String

    private let zone: TimeZone
    /// For a span of days, the offset in force from two days before it to two days after; nil where it changes.
    private let spans = Mutex<[Int64: Int64?]>([:])

    /// Offsets lie within -16 … +16 hours, so a wall time's instant is never further from its reading as UTC than this.
    private static let margin: Int64 = 48 * 3600
    private static let spanSeconds: Int64 = 16 * 86_400
    private static let shared = Mutex<[String: ZoneRules]>([:])

    private init(name: String, zone: TimeZone) {
        self.name = name
        self.zone = zone
    }

    /// The rules of the zone with this IANA name; nil where the tz database has none.
    public static func named(_ name: String) -> ZoneRules? {
        shared.withLock { known in
            if let rules = known[name] { return rules }
            guard ZoneNames.contain(name), let zone = TimeZone(identifier: name) else { return nil }
            let rules = ZoneRules(name: name, zone: zone)
            known[name] = rules
            return rules
        }
    }

    /// Seconds east of UTC in force at an instant.
    public func offsetSeconds(at instant: Instant) -> Int64 { offset(atSecond: instant.seconds) }

    /// What the zone's clock shows at an instant, without its fraction of a second.
    public func wallTime(at instant: Instant) -> WallTime {
        WallTime(secondsSinceEpoch: instant.seconds + offset(atSecond: instant.seconds))
    }

    /// The instant or instants at which the zone's clock shows a wall time.
    public func moment(_ wall: WallTime) -> Moment {
        let seconds = wall.secondsSinceEpoch
        if let steady = steadyOffset(around: seconds) { return .once(Instant(seconds: seconds - steady)) }
        let (before, after) = (offset(atSecond: seconds - Self.margin), offset(atSecond: seconds + Self.margin))
        if before == after { return .once(Instant(seconds: seconds - before)) }
        let (first, second) = (seconds - before, seconds - after)
        switch (offset(atSecond: first) == before, offset(atSecond: second) == after) {
        case (true, true): return .twice(earlier: Instant(seconds: first), later: Instant(seconds: second))
        case (true, false): return .once(Instant(seconds: first))
        case (false, true): return .once(Instant(seconds: second))
        case (false, false): return .never(movedForward: Instant(seconds: first))
        }
    }

    /// Before the year 1 and after 9999 the rules of its first and last second hold.
    private func offset(atSecond second: Int64) -> Int64 {
        let second = min(max(second, Instant.calendar.lowerBound), Instant.calendar.upperBound)
        return Int64(zone.secondsFromGMT(for: Date(timeIntervalSince1970: TimeInterval(second))))
    }

    /// The offset where none changes near this second; the database is asked once for each span of days.
    private func steadyOffset(around second: Int64) -> Int64? {
        let span = second.flooredDivision(by: Self.spanSeconds)
        return spans.withLock { spans in
            if let known = spans[span] { return known }
            let start = span * Self.spanSeconds
            let first = offset(atSecond: start - Self.margin)
            var steady: Int64? = first
            for probe in stride(
                from: start - Self.margin, through: start + Self.spanSeconds + Self.margin, by: 12 * 3600)
            where offset(atSecond: probe) != first {
                steady = nil
                break
            }
            if spans.count > 4096 { spans.removeAll() }
            spans[span] = .some(steady)
            return steady
        }
    }
}
