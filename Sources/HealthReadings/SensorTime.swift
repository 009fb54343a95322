/// The place in time of a sensor's minutes: its start, which is fixed at the first scan of its serial number.
public struct SensorTime: Sendable, Hashable {
    /// How far a scan may differ from the start before it is taken to prove it wrong: the age is cut to whole minutes,
    /// and so was the start.
    public static let toleranceSeconds: Int64 = 120

    /// The start, a whole minute.
    public var start: Instant

    /// Makes the time of a sensor that started then.
    public init(start: Instant) { self.start = start }

    /// The start as one scan shows it: the scan less the sensor's age, rounded down to the minute.
    public init(scannedAt: Instant, ageMinutes: UInt16) {
        let seconds = scannedAt.seconds - Int64(ageMinutes) * 60
        let intoMinute = (seconds % 60 + 60) % 60
        start = Instant(seconds: seconds - intoMinute)
    }

    /// Whether a scan proves this start more than two minutes wrong: the gateway's clock was, when it was fixed.
    public func isDisproved(by scan: SensorTime) -> Bool {
        abs(scan.start.seconds - start.seconds) > Self.toleranceSeconds
    }

    /// Whether a minute lies behind a scan, by more than what cutting to minutes explains.
    public func isAfter(_ scannedAt: Instant, minute: UInt16) -> Bool {
        start.advanced(bySeconds: Int64(minute) * 60) > scannedAt.advanced(bySeconds: Self.toleranceSeconds)
    }

    /// When the record of a minute was made, and never after the scan that brought it: the start was cut to the minute
    /// by another scan than this, so that the newest record can come out up to 59 s late.
    public func instant(minute: UInt16, scannedAt: Instant) -> Instant {
        min(start.advanced(bySeconds: Int64(minute) * 60), scannedAt.flooredToSecond)
    }

    /// The resolved time of a sensor's record.
    public func resolve(_ facts: SensorFacts, scannedAt: Instant) -> ResolvedTime {
        ResolvedTime(instant: instant(minute: facts.minute, scannedAt: scannedAt), basis: .sensorStart)
    }
}
