import GATTClient
import GATTProfiles
import HealthReadings

/// How many whole minutes ago a continuous sensor's session began, as the sensor counts them.
struct ContinuousGlucoseMinute: Sendable, Hashable {
    let minute: UInt16
    let readAt: Instant
}

/// What is needed to read a continuous sensor's values: what stands in its other characteristics, and when its session
/// began.
struct ContinuousGlucoseSession: Sendable, Hashable {
    static let service = ServiceProfile.continuousGlucose.service
    static let measurement = ContinuousGlucoseMeasurement.uuid

    /// How far two times of one session may be apart: a host that sets the sensor's time again moves its start.
    private static let tolerance: Int64 = 120

    /// Whether each value ends with a checksum.
    let hasChecksums: Bool
    /// What is sampled, and where; nil where the sensor does not tell.
    let typeAndLocation: UInt8?
    /// When the session began, on the sensor's wall; nil where its time was never set.
    private(set) var start: WallTime?
    /// Whether our clock says that it began behind the newest stored record, although its start is that record's, and it has
    /// come further since. A sensor whose time nobody sets may begin each session by the same time, and our clock may have
    /// been set: nothing is proven either way.
    private(set) var mayBeAnother = false

    init(feature: ContinuousGlucoseFeature?, start: WallTime?) {
        hasChecksums = feature?.hasChecksums ?? false
        typeAndLocation = feature?.typeAndLocation
        self.start = start
    }

    /// Compares the session with the newest stored record.
    ///
    /// A session that began behind that record is another. One that began before it is the record's own, also where the
    /// sensor's time was set since: its start stays the one it is known by, so that no record comes as a new one.
    ///
    /// Where its start is not the record's session's, the sensor's time was set, before or behind the beginning of another
    /// session. Then our own clock decides, by how long ago the sensor says that it began; where that cannot be told, the
    /// sensor's. Our clock also decides where the sensor no longer tells its start; where that cannot be told, the session
    /// is another.
    ///
    /// - Parameter now: what the sensor counts; nil where it does not tell.
    /// - Returns: whether it is another session.
    mutating func isAnother(than last: LastRecord, now: ContinuousGlucoseMinute?) -> Bool {
        guard let known = last.baseTime else { return start != nil }
        let own = known.advanced(byMinutes: -Int(last.sequence))
        let isBehind = now.flatMap { Self.began($0, behind: last) }
        guard let start else {
            guard isBehind == false else { return true }
            self.start = own
            return false
        }
        // Also in its first minutes, when its start and its newest record are as close as two sessions may be.
        let isOwn = abs(start.secondsSinceEpoch - own.secondsSinceEpoch) <= Self.tolerance
        let isLater = start.secondsSinceEpoch > known.secondsSinceEpoch
        guard isOwn || !(isBehind ?? isLater) else { return true }
        mayBeAnother = isBehind == true && now.map { $0.minute > last.sequence } ?? false
        self.start = own
        return false
    }

    /// Whether a session began behind a record, or with that record's session; nil where that cannot be told.
    ///
    /// Minutes are whole ones, both clocks may be two minutes wrong, and the sensor's loses or gains some within a session:
    /// of a record's first minutes nothing is said.
    private static func began(_ now: ContinuousGlucoseMinute, behind last: LastRecord) -> Bool? {
        // A sensor that does not count shows zero.
        guard let time = last.time, last.sequence >= 10, now.minute > 0 else { return nil }
        let length = Int64(last.sequence) * 60
        let begin = now.readAt.seconds - Int64(now.minute) * 60
        if abs(begin - (time.seconds - length)) <= min(length / 2, 15 * 60) { return false }
        return begin + tolerance >= time.seconds ? true : nil
    }

    /// What the sensor's clock shows, at a minute of its session.
    func wallTime(atMinute minute: UInt16) -> WallTime? { start?.advanced(byMinutes: Int(minute)) }

    /// What it shows now, in this minute: it counts whole ones, so the middle is the best that can be said.
    func clock(in now: ContinuousGlucoseMinute) -> ClockReading? {
        wallTime(atMinute: now.minute).map {
            ClockReading(deviceTime: WallTime(secondsSinceEpoch: $0.secondsSinceEpoch + 30), readAt: now.readAt)
        }
    }

    /// The values of a notification, each with what is needed to read it again. Octets that are no value are the last.
    func records(in notification: [UInt8]) -> [ContinuousGlucoseRecord] {
        ContinuousGlucoseMeasurement.parts(of: notification).map { value in
            ContinuousGlucoseRecord(
                hasChecksum: hasChecksums,
                typeAndLocation: typeAndLocation ?? ContinuousGlucoseRecord.unknownTypeAndLocation,
                sessionStart: start.map(DateTime.init) ?? .unknown, value: Array(value))
        }
    }
}
