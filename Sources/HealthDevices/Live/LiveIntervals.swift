import HealthReadings

/// Which of a device's live values are told when one in each interval is wanted: the first that comes in it.
///
/// Intervals begin at whole multiples of their length since 1970, as those of kept heart rates do, so that devices are told of at
/// the same time and a clock that is set back is no special case. Each kind of reading has intervals of its own. A value that is
/// none (`Record.exclusion`) takes no value's turn: it is told if nothing of its kind was told in the interval.
struct LiveIntervals: Sendable {
    /// Microseconds; 0: every value is told.
    private let length: Int64
    /// The last interval in which something of a kind was told, and whether that was a value.
    private var told: [ReadingKind: (interval: Int64, isValue: Bool)] = [:]

    /// - Parameter length: how long an interval is; nothing, or less, for every value.
    init(of length: Duration) { self.length = max(Instant(microseconds: 0).advanced(by: length).microseconds, 0) }

    /// Whether a record that came at this instant is to be told.
    mutating func admit(_ record: Record, at instant: Instant) -> Bool {
        guard length > 0 else { return true }
        let (kind, isValue) = (record.value.kind, record.exclusion == nil)
        let interval = instant.microseconds.flooredDivision(by: length)
        if let last = told[kind], last.interval == interval, last.isValue || !isValue { return false }
        told[kind] = (interval, isValue)
        return true
    }
}
