import HealthReadings

/// Oxygen saturations of a recording: definitions of drops vary, and these are ours.
///
/// A drop of at least `x` points begins when the saturation is `x` points or more below the highest value of the two minutes before. It
/// ends when it is back within one point of that, or three points above its own lowest (Levy 2021), or after two minutes: somebody's
/// saturation may stay lower for the rest of the night. The next drop is measured from what follows. Drops are per hour of recorded time.
public struct SaturationFigures: Sendable {
    /// How many samples there are.
    public let count: Int
    /// The mean to a tenth of a per cent; `nil` if there are no samples.
    public let mean: ExactDecimal?
    /// The lowest value in per cent; `nil` if there are no samples.
    public let lowest: ExactDecimal?
    /// The share of recorded time below 90 %, in per cent to a tenth.
    public let belowNinety: ExactDecimal?
    /// Drops of 3 points or more in an hour, to a tenth.
    public let dropsOfThree: ExactDecimal?
    /// Drops of 4 points or more in an hour, to a tenth.
    public let dropsOfFour: ExactDecimal?
    /// The recorded seconds.
    public let seconds: Int64

    /// How long a sample stands for at most, in seconds: what is longer is a pause.
    private static let longest = 10.0

    /// Computes the figures.
    ///
    /// - Parameter samples: saturations in per cent with their times, oldest first.
    public init(_ samples: [(time: Instant, value: ExactDecimal)]) {
        count = samples.count
        mean = ExactDecimal.mean(of: samples.map(\.value), places: 1)
        lowest = samples.map(\.value).min { $0.isNumericallyLess(than: $1) }
        var (total, low): (Int64, Int64) = (0, 0)
        let ninety = ExactDecimal(significand: 90)
        for (sample, next) in zip(samples, samples.dropFirst()) {
            let stood = next.time.microseconds - sample.time.microseconds
            guard stood > 0, Double(stood) <= Self.longest * 1e6 else { continue }
            total += stood
            if sample.value.isNumericallyLess(than: ninety) { low += stood }
        }
        seconds = total / 1_000_000
        belowNinety = total == 0 ? nil : Ratio(Int128(low) * 100, Int128(total)).rounded(1)
        func perHour(_ points: Double) -> ExactDecimal? {
            guard total > 0 else { return nil }
            return Ratio(Int128(Self.drops(samples, points)) * 3_600_000_000, Int128(total)).rounded(1)
        }
        (dropsOfThree, dropsOfFour) = (perHour(3), perHour(4))
    }

    /// How long a drop goes on at most, and how far back it is measured from, in microseconds.
    private static let span: Int64 = 120_000_000

    private static func drops(_ samples: [(time: Instant, value: ExactDecimal)], _ points: Double) -> Int {
        var (count, window): (Int, [(time: Instant, value: Double)]) = (0, [])
        var drop: (begin: Instant, peak: Double, lowest: Double)?
        for sample in samples {
            let value = sample.value.approximation
            if let current = drop {
                let isOver =
                    value >= current.peak - 1 || value >= current.lowest + 3
                    || sample.time.microseconds - current.begin.microseconds >= span
                drop =
                    isOver ? nil : (begin: current.begin, peak: current.peak, lowest: min(current.lowest, value))
                if isOver { window = [(time: sample.time, value: value)] }
                continue
            }
            window.removeAll { sample.time.microseconds - $0.time.microseconds > span }
            if let highest = window.map(\.value).max(), highest - value >= points {
                count += 1
                drop = (begin: sample.time, peak: highest, lowest: value)
            }
            window.append((time: sample.time, value: value))
        }
        return count
    }
}

/// Heart rates of a day: the range and the median, as a chart of days shows them.
public struct HeartRateDay: Sendable, Hashable {
    /// How many values there are.
    public let count: Int
    /// The lowest in beats per minute.
    public let lowest: ExactDecimal
    /// The highest in beats per minute.
    public let highest: ExactDecimal
    /// The median in beats per minute, to a whole beat.
    public let median: ExactDecimal

    /// Computes the figures; `nil` for no values.
    ///
    /// - Parameter values: heart rates in beats per minute, of one kind of device.
    public init?(_ values: [ExactDecimal]) {
        let sorted = values.sorted { $0.isNumericallyLess(than: $1) }
        guard let first = sorted.first, let last = sorted.last else { return nil }
        (count, lowest, highest) = (sorted.count, first, last)
        let (low, high) = (sorted[(sorted.count - 1) / 2], sorted[sorted.count / 2])
        guard let middle = ExactDecimal.mean(of: [low, high], places: 0) else { return nil }
        median = middle
    }
}
