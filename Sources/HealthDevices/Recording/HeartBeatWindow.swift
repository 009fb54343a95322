import HealthFigures
import HealthReadings

/// Fills windows of time with the beats of a recording, one after the other.
///
/// Windows begin at whole multiples of their length since 1970.
struct HeartBeatWindow: Sendable {
    private let seconds: Int64
    private var beats = HeartBeats()
    /// The number of the window that is being filled.
    private var number: Int64?
    private var last: Instant?

    init(seconds: Int = 300) { self.seconds = Int64(seconds) }

    /// Adds what a measurement brought.
    ///
    /// - Parameter lateness: for how many seconds after its end a window waits for its last beats.
    /// - Returns: the windows that are over and covered well enough, each with its beginning.
    mutating func add(
        _ intervals: [UInt16], at instant: Instant, hasContact: Bool?, lateBy lateness: Int64
    ) -> [(begin: Instant, window: RecordedWindow)] {
        // The clock was set back: what was collected lies in a time that is yet to come.
        if let last, instant.microseconds < last.microseconds - 1_000_000 { (beats, number) = (HeartBeats(), nil) }
        last = instant
        var whole: [(begin: Instant, window: RecordedWindow)] = []
        while let current = number {
            let end = Instant(seconds: (current + 1) * seconds)
            guard instant >= end.advanced(bySeconds: lateness) else { break }
            if let window = take(before: end) { whole.append((Instant(seconds: current * seconds), window)) }
            number = beats.beats.isEmpty ? nil : current + 1
        }
        beats.add(intervals, at: instant, hasContact: hasContact)
        if number == nil, let first = beats.beats.first {
            number = Instant(microseconds: first.end).seconds.flooredDivision(by: seconds)
        }
        return whole
    }

    /// The window that is being filled, where it is covered well enough already.
    mutating func takeIfSufficient() -> (begin: Instant, window: RecordedWindow)? {
        guard let current = number else { return nil }
        let end = Instant(seconds: (current + 1) * seconds)
        let own = beats.beats.prefix { $0.end < end.microseconds }
        let window = RecordedWindow(seconds: Int(seconds), runs: HeartBeats.runs(own))
        guard BeatVariability(window.runs, windowSeconds: window.seconds).isSufficient else { return nil }
        _ = beats.take(before: end)
        number = beats.beats.isEmpty ? nil : current + 1
        return (Instant(seconds: current * seconds), window)
    }

    private mutating func take(before end: Instant) -> RecordedWindow? {
        let window = RecordedWindow(seconds: Int(seconds), runs: HeartBeats.runs(beats.take(before: end)))
        return BeatVariability(window.runs, windowSeconds: window.seconds).isSufficient ? window : nil
    }
}
