import GATTProfiles
import HealthReadings

/// The variability of a heart's beat over the last seconds, kept up with each beat: a beat costs the same however long
/// the window is, and memory is taken once.
///
/// RMSSD is the root of the mean square of successive differences of the intervals between beats, SDNN their standard
/// deviation (n - 1): Task Force of the European Society of Cardiology, Circulation 93 (1996) 1043. Sums are kept in whole
/// numbers of the service's 1/1024 s, so that nothing creeps in with time.
public struct HeartRateVariability: Sendable {
    /// Intervals that a heart can have, in 1/1024 s: 200 to 3000 ms. What is beyond was not one beat, and its
    /// neighbours are then no successors.
    static let intervals: ClosedRange<UInt16> = 205...3072

    /// What the window says.
    public struct Result: Sendable, Hashable {
        /// Milliseconds, to a tenth.
        public var rmssd: ExactDecimal
        /// Milliseconds, to a tenth.
        public var sdnn: ExactDecimal
        /// How many intervals it rests on.
        public var count: Int
    }

    /// By how much measurements may seem to come before those that came before them.
    private static let jitter: Int64 = 1_000_000

    private struct Beat {
        var at: Int64 = 0
        var interval: Int64 = 0
        /// The difference to the interval before, where that came right before it.
        var difference: Int64?
    }

    /// The window in seconds.
    public let windowSeconds: Int
    private var beats: [Beat]
    private var (first, count) = (0, 0)
    private var (sum, squares): (Int64, Int64) = (0, 0)
    private var (differences, differenceSquares): (Int64, Int64) = (0, 0)
    private var last: (interval: Int64, at: Int64)?
    /// When the last measurement came.
    private var heard: Int64?
    /// When the newest beat of the window ended.
    private var newest: Int64 { count == 0 ? .min : beats[(first + count - 1) % beats.count].at }
    /// When the first beat came that no gap divides from the last.
    private var since: Int64?

    /// A window of so many seconds, 5 to 86,400.
    public init(windowSeconds: Int) {
        self.windowSeconds = min(max(windowSeconds, 5), 86_400)
        // Five beats a second are more than there can be.
        beats = Array(repeating: Beat(), count: self.windowSeconds * 5 + 16)
    }

    /// Whether the window has been filled without a gap.
    public var isFull: Bool {
        guard let since, let last else { return false }
        return last.at - since >= Int64(windowSeconds) * 1_000_000 - 2_000_000
    }

    /// For how many beats it has room: for all there can be, from the beginning.
    var capacity: Int { beats.capacity }

    /// Takes the intervals of one measurement.
    ///
    /// - Parameters:
    ///   - intervals: in 1/1024 s, oldest first.
    ///   - at: when the measurement came.
    ///   - hasContact: false where the strap says that it does not touch the skin: what it then sends is no beat.
    public mutating func add(_ intervals: [UInt16], at: Instant, hasContact: Bool? = nil) {
        let now = at.microseconds
        // The gateway's clock was set back: what the window holds lies in a time that is yet to come.
        if let heard, now < heard - Self.jitter { self = HeartRateVariability(windowSeconds: windowSeconds) }
        heard = now
        // A strap whose own clock is fast gets ahead of ours, beat by beat: the window ends where its beats do.
        evict(before: max(now, newest) - Int64(windowSeconds) * 1_000_000)
        guard hasContact != false else {
            last = nil
            since = nil
            return
        }
        // A strap that was silent for longer than a beat can last has missed some.
        if let last, now - last.at > 5_000_000 {
            self.last = nil
            since = nil
        }
        // What a strap has held back comes at once, and still one after the other.
        let total = intervals.reduce(0) { Self.intervals.contains($1) ? $0 + Self.microseconds(Int64($1)) : $0 }
        var end = max(now - total, newest)
        for raw in intervals {
            guard Self.intervals.contains(raw) else {
                last = nil
                continue
            }
            let interval = Int64(raw)
            end += Self.microseconds(interval)
            append(Beat(at: end, interval: interval, difference: last.map { interval - $0.interval }))
            last = (interval, now)
            since = since ?? end
        }
    }

    /// What the window says; nil before there are two successive intervals.
    public var result: Result? {
        guard count >= 2, differences >= 1 else { return nil }
        let n = Double(count)
        // Whole numbers up to the last step: n × Σx² - (Σx)² is exact.
        let spread = Int128(count) * Int128(squares) - Int128(sum) * Int128(sum)
        let sdnn = (Double(spread) / (n * (n - 1))).squareRoot()
        let rmssd = (Double(differenceSquares) / Double(differences)).squareRoot()
        return Result(rmssd: Self.milliseconds(rmssd), sdnn: Self.milliseconds(sdnn), count: count)
    }

    private mutating func append(_ beat: Beat) {
        if count == beats.count { removeFirst() }
        beats[(first + count) % beats.count] = beat
        count += 1
        sum += beat.interval
        squares += beat.interval * beat.interval
        if let difference = beat.difference {
            differences += 1
            differenceSquares += difference * difference
        }
    }

    private mutating func evict(before start: Int64) {
        while count > 0, beats[first].at <= start { removeFirst() }
    }

    private mutating func removeFirst() {
        let beat = beats[first]
        first = (first + 1) % beats.count
        count -= 1
        sum -= beat.interval
        squares -= beat.interval * beat.interval
        forget(beat.difference)
        // What came before the window is no part of it, a difference to it neither.
        if count > 0 {
            forget(beats[first].difference)
            beats[first].difference = nil
        }
    }

    private mutating func forget(_ difference: Int64?) {
        guard let difference else { return }
        differences -= 1
        differenceSquares -= difference * difference
    }

    private static func microseconds(_ interval: Int64) -> Int64 { interval * 1_000_000 / 1024 }

    private static func milliseconds(_ interval: Double) -> ExactDecimal {
        ExactDecimal(significand: Int64((interval * 10_000 / 1024).rounded(.toNearestOrEven)), exponent: -1)
    }
}
