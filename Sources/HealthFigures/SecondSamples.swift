import HealthReadings

/// A sample of a recording at a whole second.
public struct SecondSample: Sendable, Hashable {
    /// The second.
    public var time: Instant
    /// The value.
    public var value: ExactDecimal

    /// Makes it.
    public init(time: Instant, value: ExactDecimal) {
        self.time = time
        self.value = value
    }
}

extension Reading {
    /// The samples of a kept recording that have a value, each at its time.
    ///
    /// - Parameter timestamp: the second that the reading was sent with; `nil`: its own.
    public func samples(at timestamp: Instant? = nil) -> [(time: Instant, value: ExactDecimal)] {
        guard case .vital(let value) = record.value, let series = value.series, let begin = seriesBegin,
            let own = time.instant
        else { return [] }
        let moved = (timestamp?.seconds ?? own.seconds) - own.seconds
        return series.compactMap { sample in
            sample.value.map {
                (Instant(microseconds: begin.microseconds + Int64(sample.milliseconds) * 1000 + moved * 1_000_000), $0)
            }
        }
    }

    /// When the last sample of a kept recording came; `nil` for other readings.
    public var seriesEnd: Instant? {
        guard case .vital(let value) = record.value, let series = value.series, let begin = seriesBegin else {
            return nil
        }
        var last = 0
        for sample in series { last = sample.milliseconds }
        return Instant(microseconds: begin.microseconds + Int64(last) * 1000)
    }

    /// The same for a receiver that tells samples apart by their second.
    ///
    /// Devices send about once a second, so that two samples may fall into one second and none into the next. A sample has its
    /// own second, or the next one where its own is taken; one for which both are taken is left out. No second lies behind the
    /// last one.
    ///
    /// - Parameter timestamp: the second that the reading was sent with; `nil`: its own.
    public func secondSamples(at timestamp: Instant? = nil) -> [SecondSample] {
        let all = samples(at: timestamp)
        guard let end = all.last?.time.seconds else { return [] }
        var chosen: [SecondSample] = []
        chosen.reserveCapacity(all.count)
        var next = Int64.min
        for (time, value) in all {
            let second = max(time.seconds, next)
            guard second <= min(time.seconds + 1, end) else { continue }
            chosen.append(SecondSample(time: Instant(seconds: second), value: value))
            next = second + 1
        }
        return chosen
    }
}
