import HealthReadings

/// The intervals between beats that straps have sent, on the time line of the gateway's clock.
///
/// A strap sends the intervals that ended since its last measurement, and no time: the last of them ended when the
/// measurement came, the ones before it earlier by their own lengths. Whether one follows another is known as long as the
/// intervals account for the time that passes.
public struct HeartBeats: Sendable, Hashable {
    /// An interval that ended with a beat.
    public struct Beat: Sendable, Hashable {
        /// When it ended, in microseconds since 1970.
        public var end: Int64
        /// In 1/1024 s, as it was sent.
        public var interval: UInt16
        /// Whether it began with the beat before it in the list.
        public var follows: Bool
    }

    /// The longest time that may be unaccounted for: the longest interval that a heart has, which may not have ended yet.
    public static let longestPending: Int64 = 3_000_000
    /// By how much a strap's own clock may get ahead of ours, in microseconds, until its beats are placed anew.
    private static let lead: Int64 = 1_000_000

    /// The beats, oldest first.
    public private(set) var beats: [Beat] = []
    /// When the last beat ended that was added; `nil` after a gap.
    private var last: Int64?

    /// No beats yet.
    public init() {}

    /// Adds what one measurement brought.
    ///
    /// - Parameters:
    ///   - intervals: in 1/1024 s, oldest first; also those that no heart can have.
    ///   - instant: when the measurement came, by the gateway's clock.
    ///   - hasContact: false where the strap says that it does not touch the skin: what it then sends is no beat.
    public mutating func add(_ intervals: some Collection<UInt16>, at instant: Instant, hasContact: Bool? = nil) {
        let now = instant.microseconds
        guard hasContact != false else { return addGap() }
        var (placed, isOpen) = (last ?? .min, last != nil)
        let total = intervals.reduce(0) { $0 + Self.microseconds($1) }
        // The clock was set back, or the strap's runs ahead.
        if isOpen, placed + total > now + Self.lead { placed = now - total }
        // More time has passed than a beat that has not ended yet can last: some were not sent, or were lost.
        if isOpen, now - (placed + total) > Self.longestPending { isOpen = false }
        if !isOpen { placed = now - total }
        for interval in intervals {
            placed += Self.microseconds(interval)
            beats.append(Beat(end: placed, interval: interval, follows: isOpen))
            isOpen = true
        }
        // Without an interval the time line goes on, for as long as a beat may last.
        if !intervals.isEmpty {
            last = placed
        } else if !isOpen {
            last = nil
        }
    }

    /// What comes next does not follow what came: the strap was away, or did not touch the skin.
    public mutating func addGap() { last = nil }

    /// Takes the beats out that ended before an instant. What comes next still follows the last of them.
    public mutating func take(before instant: Instant) -> [Beat] {
        let end = beats.firstIndex { $0.end >= instant.microseconds } ?? beats.endIndex
        defer { beats.removeSubrange(..<end) }
        return Array(beats[..<end])
    }

    static func microseconds(_ interval: UInt16) -> Int64 { Int64(interval) * 1_000_000 / 1024 }
}

extension HeartBeats {
    /// The beats in runs: in each, every interval begins where the one before it ended.
    public static func runs(_ beats: some Sequence<Beat>) -> [[UInt16]] {
        var runs: [[UInt16]] = []
        for beat in beats {
            if beat.follows, !runs.isEmpty {
                runs[runs.count - 1].append(beat.interval)
            } else {
                runs.append([beat.interval])
            }
        }
        return runs
    }
}

/// The variability of a heart's beat in a window of time.
///
/// RMSSD is the root of the mean square of the differences between intervals that follow each other, SDNN the sample standard
/// deviation (n - 1) of the intervals: Task Force of the European Society of Cardiology, Circulation 93 (1996) 1043. Both are
/// of intervals between normal beats. Left out, and counted, is what was not one:
///
/// - an interval that no heart has, shorter than 200 ms or longer than 3 s: a beat was missed, or seen twice;
/// - an interval that differs by more than a fifth from the median of its neighbours, up to two on each side in its run: an
///   extra beat, or the pause behind it. A fifth is the limit that Holter software has used since the 1980s.
///
/// No difference is taken across what was left out, nor across a gap. Nothing is interpolated.
public struct BeatVariability: Sendable, Hashable {
    /// Milliseconds, to a tenth; `nil` where no two intervals that count follow each other.
    public var rmssd: ExactDecimal?
    /// Milliseconds, to a tenth; `nil` for fewer than two intervals that count.
    public var sdnn: ExactDecimal?
    /// How many intervals count.
    public var counted: Int
    /// How many were left out.
    public var leftOut: Int
    /// How much of the window the intervals that count last, in per cent, 0 … 100.
    public var coverage: Int

    /// The share of a window, in per cent, that has to be covered for its figures to stand for it.
    public static let sufficientCoverage = 80

    /// Whether the figures stand for the whole window.
    public var isSufficient: Bool { coverage >= Self.sufficientCoverage && rmssd != nil && sdnn != nil }

    /// Intervals that a heart can have, in 1/1024 s: 200 ms to 3 s.
    public static let plausible: ClosedRange<UInt16> = 205...3072

    /// Computes the figures of the intervals that ended in a window.
    ///
    /// - Parameters:
    ///   - runs: the intervals in 1/1024 s; within a run each begins where the one before it ended.
    ///   - seconds: how long the window is.
    public init(_ runs: [[UInt16]], windowSeconds seconds: Int) {
        var (count, total): (Int64, Int) = (0, 0)
        var (sum, squares): (Int64, Int64) = (0, 0)
        var (differences, differenceSquares): (Int64, Int64) = (0, 0)
        for run in runs {
            total += run.count
            var previous: Int64?
            for (place, raw) in run.enumerated() {
                guard Self.isNormal(place, in: run) else {
                    previous = nil
                    continue
                }
                let interval = Int64(raw)
                count += 1
                sum += interval
                squares += interval * interval
                if let previous {
                    differences += 1
                    differenceSquares += (interval - previous) * (interval - previous)
                }
                previous = interval
            }
        }
        counted = Int(count)
        leftOut = total - counted
        coverage = seconds > 0 ? min(100, Int(sum * 100 / (Int64(seconds) * 1024))) : 0
        if differences > 0 {
            rmssd = Self.milliseconds((Double(differenceSquares) / Double(differences)).squareRoot())
        }
        if count > 1 {
            // Whole numbers up to the last step: n × Σx² - (Σx)² is exact.
            let spread = Int128(count) * Int128(squares) - Int128(sum) * Int128(sum)
            sdnn = Self.milliseconds((Double(spread) / (Double(count) * Double(count - 1))).squareRoot())
        }
    }

    /// Whether an interval is one between normal beats, as far as it and its neighbours tell.
    private static func isNormal(_ place: Int, in run: [UInt16]) -> Bool {
        guard plausible.contains(run[place]) else { return false }
        var neighbours: [Int64] = []
        for other in [place - 2, place - 1, place + 1, place + 2]
        where run.indices.contains(other) && plausible.contains(run[other]) {
            neighbours.append(Int64(run[other]))
        }
        guard neighbours.count >= 2 else { return true }
        neighbours.sort()
        // Twice the median, so that it stays whole.
        let middle = neighbours.count / 2
        let median = neighbours.count % 2 == 1 ? 2 * neighbours[middle] : neighbours[middle - 1] + neighbours[middle]
        return 5 * abs(2 * Int64(run[place]) - median) <= median
    }

    private static func milliseconds(_ interval: Double) -> ExactDecimal {
        ExactDecimal(significand: Int64((interval * 10_000 / 1024).rounded(.toNearestOrEven)), exponent: -1)
    }
}
