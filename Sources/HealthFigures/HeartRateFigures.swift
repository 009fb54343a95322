import HealthReadings

/// What one device's kept heart rate comes to, by intervals and windows of the caller's choice.
///
/// Intervals and windows begin at whole multiples of their length since 1970 (a window of five minutes at :00, :05, …), so that
/// the same recording gives the same figures whatever part of it is asked for, and no change of clocks moves them.
///
/// ```swift
/// var figures = HeartRateFigures(intervalSeconds: 60, windowSeconds: 300)
/// for reading in readings { figures.add(reading) }
/// print(figures.rates().count, figures.variability().count)
/// ```
public struct HeartRateFigures: Sendable {
    /// The heart rate in one interval of time.
    public struct Rate: Sendable, Hashable {
        /// When the interval begins.
        public var begin: Instant
        /// The mean of its samples in beats per minute, to a tenth.
        public var mean: ExactDecimal
        /// The lowest sample in beats per minute.
        public var lowest: ExactDecimal
        /// The highest sample in beats per minute.
        public var highest: ExactDecimal
        /// How many samples there are.
        public var samples: Int
    }

    /// The variability in one window of time.
    public struct Window: Sendable, Hashable {
        /// When the window begins.
        public var begin: Instant
        /// What it comes to.
        public var figures: BeatVariability
    }

    /// The length of an interval in seconds, 1 to 86,400.
    public let intervalSeconds: Int
    /// The length of a window in seconds, 10 to 86,400.
    public let windowSeconds: Int
    private var intervals: [Int64: Tally] = [:]
    private var beats = HeartBeats()
    private var lastSample: Int64?

    private struct Tally: Sendable {
        var values: [ExactDecimal] = []
    }

    /// No readings yet.
    ///
    /// - Parameters:
    ///   - intervalSeconds: the length of an interval, 1 to 86,400.
    ///   - windowSeconds: the length of a window, 10 to 86,400.
    public init(intervalSeconds: Int, windowSeconds: Int) {
        self.intervalSeconds = min(max(intervalSeconds, 1), 86_400)
        self.windowSeconds = min(max(windowSeconds, 10), 86_400)
    }

    /// Adds a kept heart rate. Readings of one device are added in the order of their times; those without samples, those that
    /// are excluded or left out of figures and those of other kinds have nothing to add.
    public mutating func add(_ reading: Reading) {
        guard case .vital(let value) = reading.record.value, value.kind == .heartRate, let series = value.series,
            reading.excluded == nil || reading.excluded == .noValue, reading.leftOut == nil,
            let begin = reading.seriesBegin
        else { return }
        for sample in series {
            let at = begin.microseconds + Int64(sample.milliseconds) * 1000
            // Two recordings that overlap in time, as after a clock was set back, are no one time line.
            if let lastSample, at < lastSample - 1_000_000 { beats.addGap() }
            lastSample = at
            if let number = sample.value {
                let seconds = at.flooredDivision(by: 1_000_000)
                intervals[seconds.flooredDivision(by: Int64(intervalSeconds)), default: Tally()].values.append(number)
            }
            beats.add(sample.intervals, at: Instant(microseconds: at), hasContact: sample.hasContact)
        }
    }

    /// The intervals that have samples, oldest first. An interval without any is missing: nothing is interpolated.
    ///
    /// - Parameter range: only intervals that begin in it; `nil`: all.
    public func rates(in range: ClosedRange<Instant>? = nil) -> [Rate] {
        intervals.sorted { $0.key < $1.key }.compactMap { number, tally in
            let begin = Instant(seconds: number * Int64(intervalSeconds))
            guard range?.contains(begin) ?? true, let mean = ExactDecimal.mean(of: tally.values, places: 1),
                let lowest = tally.values.min(by: { $0.isNumericallyLess(than: $1) }),
                let highest = tally.values.max(by: { $0.isNumericallyLess(than: $1) })
            else { return nil }
            return Rate(begin: begin, mean: mean, lowest: lowest, highest: highest, samples: tally.values.count)
        }
    }

    /// The windows in which intervals between beats ended, oldest first; of each it is said whether it is covered well enough.
    ///
    /// - Parameter range: only windows that begin in it; `nil`: all.
    public func variability(in range: ClosedRange<Instant>? = nil) -> [Window] {
        let length = Int64(windowSeconds) * 1_000_000
        let windows = Dictionary(grouping: beats.beats) { $0.end.flooredDivision(by: length) }
        return windows.sorted { $0.key < $1.key }.compactMap { number, beats in
            let begin = Instant(microseconds: number * length)
            guard range?.contains(begin) ?? true else { return nil }
            return Window(
                begin: begin, figures: BeatVariability(HeartBeats.runs(beats), windowSeconds: windowSeconds))
        }
    }
}

extension Reading {
    /// When a kept recording's samples begin: its time, with the fraction of a second that its first sample was received at.
    public var seriesBegin: Instant? {
        guard let instant = time.instant else { return nil }
        return receivedAt.flooredToSecond == instant ? receivedAt : instant
    }
}
