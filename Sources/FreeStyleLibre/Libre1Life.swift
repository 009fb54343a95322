import HealthReadings

/// What the scans of one FreeStyle Libre 1 have shown of its life: when it was started, and whether it was reset since.
///
/// Keep it as long as the sensor may be scanned, and give it to each scan. A reading then has the same time at every scan, and the
/// readings of a sensor that was reset (LibreTools, OpenLibreNFC) share no id with those of its former life, although it counts its
/// minutes from 0 again under the same serial number.
///
/// ```swift
/// var life: Libre1Life?
/// let read = Libre1Read(scan, at: .systemClock, life: life)
/// life = read.life
/// print(read.life.sequenceEpoch, read.life.start?.description ?? "-")
/// ```
///
/// The start is fixed at the first scan. If a later one proves it more than two minutes wrong, because the machine's clock was, the new
/// start counts for the minutes that no scan has shown yet. A scan that shows another start begins a new life if it is younger than a
/// record of before, or has other records of the minutes that the scans before it have shown.
///
/// It is `Codable`: an object with `serial`, `sequence_epoch`, `starts`, whose times are in seconds and microseconds since 1970, and
/// `trend` and `history`: the raw numbers of the newest records by their minutes. Give scans in the order in which they were made.
public struct Libre1Life: Sendable, Hashable {
    /// The serial number, as printed on the sensor.
    public let serial: String
    /// How often the sensor was seen to have been reset: 0 in its first life. It is a part of the ids of the readings, as in a store.
    public private(set) var sequenceEpoch: Int
    private var life: SensorLife
    /// The raw numbers of the newest records that scans have shown in this life, by their minutes: those that may be shown again.
    private var trend: [Int: UInt64] = [:]
    private var history: [Int: UInt64] = [:]

    /// A sensor of which nothing is known yet.
    ///
    /// - Parameter serial: the serial number, as printed on the sensor (`LibreScan.serial`).
    public init(serial: String) { self.init(serial: serial, sequenceEpoch: 0, SensorLife()) }

    private init(serial: String, sequenceEpoch: Int, _ life: SensorLife) {
        self.serial = serial
        self.sequenceEpoch = sequenceEpoch
        self.life = life
    }

    /// When this life began, a whole minute; `nil` while no scan has found the sensor measuring.
    public var start: Instant? { life.start }

    /// The newest minute of which a scan has shown a record in this life.
    private var newestMinute: Int? { [trend.keys.max(), history.keys.max()].compactMap(\.self).max() }

    /// Takes notice of what a scan shows.
    package mutating func note(_ scan: SensorScan, scannedAt: Instant) {
        let former = self
        if life.isRestarted(
            by: scan, scannedAt: scannedAt, newestMinute: { former.newestMinute }, isKnown: { former.isKnown($0) })
        {
            self = Libre1Life(serial: serial, sequenceEpoch: sequenceEpoch + 1, SensorLife())
        }
        let known = newestMinute
        life.note(scan, scannedAt: scannedAt, newestMinute: { known })
        for case let facts? in scan.records.map(\.sensor) {
            switch facts.source {
            case .trend: trend[Int(facts.minute)] = facts.raw
            case .history: history[Int(facts.minute)] = facts.raw
            }
        }
        // No later scan of this life shows what is older: the newest history record is up to 17 minutes old.
        let newest = newestMinute ?? 0
        trend = trend.filter { newest - $0.key <= LibreMemory.trendSlots }
        history = history.filter { newest - $0.key <= 15 * (LibreMemory.historySlots - 1) + 17 }
    }

    /// Whether a scan has shown this record in this life; `nil` if none has shown one of its minute.
    private func isKnown(_ record: Record) -> Bool? {
        guard let facts = record.sensor else { return nil }
        return (facts.source == .trend ? trend : history)[Int(facts.minute)].map { $0 == facts.raw }
    }

    /// When a record of a scan was made; unknown while no scan has found a start.
    package func resolve(_ facts: SensorFacts, scannedAt: Instant) -> ResolvedTime {
        life.resolve(facts, scannedAt: scannedAt)
    }
}

extension Libre1Life: Codable {
    /// What is written of it.
    private struct Form: Codable {
        struct Start: Codable {
            var fromMinute: Int
            /// Seconds since 1970.
            var startedAt: Int64
            /// Microseconds since 1970.
            var scannedAt: Int64

            enum CodingKeys: String, CodingKey {
                case fromMinute = "from_minute"
                case startedAt = "started_at"
                case scannedAt = "scanned_at"
            }
        }

        var serial: String
        var sequenceEpoch: Int
        var starts: [Start]
        var trend: [Int: UInt64]
        var history: [Int: UInt64]

        enum CodingKeys: String, CodingKey {
            case serial, starts, trend, history
            case sequenceEpoch = "sequence_epoch"
        }

        /// Whether a life can be so: starts count one after the other, the first from the sensor's first minute on.
        var isPossible: Bool {
            let minutes = Array(trend.keys) + history.keys
            return (0...0xFFFF).contains(sequenceEpoch) && minutes.allSatisfy { (0...0xFFFF).contains($0) }
                && starts.first?.fromMinute ?? 0 == 0 && starts.allSatisfy { (0...0x1_0000).contains($0.fromMinute) }
                && zip(starts, starts.dropFirst()).allSatisfy { $0.fromMinute < $1.fromMinute }
        }
    }

    /// Reads what ``encode(to:)`` has written.
    ///
    /// - Throws: `DecodingError` for anything else.
    public init(from decoder: any Decoder) throws {
        let form = try Form(from: decoder)
        guard form.isPossible else {
            throw DecodingError.dataCorrupted(
                DecodingError.Context(
                    codingPath: decoder.codingPath,
                    debugDescription: "expected the life of a sensor, found an impossible one"))
        }
        let spans = form.starts.map { start in
            SensorLife.Span(
                fromMinute: start.fromMinute, time: SensorTime(start: Instant(seconds: start.startedAt)),
                scannedAt: Instant(microseconds: start.scannedAt))
        }
        self.init(serial: form.serial, sequenceEpoch: form.sequenceEpoch, SensorLife(spans))
        (trend, history) = (form.trend, form.history)
    }

    /// Writes it whole.
    public func encode(to encoder: any Encoder) throws {
        let starts = life.spans.map { span in
            Form.Start(
                fromMinute: span.fromMinute, startedAt: span.time.start.seconds, scannedAt: span.scannedAt.microseconds)
        }
        try Form(serial: serial, sequenceEpoch: sequenceEpoch, starts: starts, trend: trend, history: history)
            .encode(to: encoder)
    }
}
