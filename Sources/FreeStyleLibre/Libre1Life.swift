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
/// start counts for the minutes that no scan has shown yet. A scan that is younger than a record of before, and shows another start,
/// begins a new life. A life that was shorter than the age at the first scan after the reset can't be told from a clock that
/// was put right: its readings then stay in one life with the new ones, and may share ids with them.
///
/// It is `Codable`: an object with `serial`, `sequence_epoch`, `newest_minute` and `starts`, whose times are in seconds and
/// microseconds since 1970. Give scans in the order in which they were made.
public struct Libre1Life: Sendable, Hashable {
    /// The serial number, as printed on the sensor.
    public let serial: String
    /// How often the sensor was seen to have been reset: 0 in its first life. It is a part of the ids of the readings, as in a store.
    public private(set) var sequenceEpoch: Int
    private var life: SensorLife
    /// The newest minute of which a scan has shown a record in this life.
    private var newestMinute: Int?

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

    /// Takes notice of what a scan shows.
    package mutating func note(_ scan: SensorScan, scannedAt: Instant) {
        let former = newestMinute
        if life.isRestarted(by: scan, scannedAt: scannedAt, newestMinute: { former }) {
            self = Libre1Life(serial: serial, sequenceEpoch: sequenceEpoch + 1, SensorLife())
        }
        let known = newestMinute
        life.note(scan, scannedAt: scannedAt, newestMinute: { known })
        newestMinute = ([known] + scan.records.map { $0.sensor.map { Int($0.minute) } }).compactMap(\.self).max()
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
        var newestMinute: Int?
        var starts: [Start]

        enum CodingKeys: String, CodingKey {
            case serial, starts
            case sequenceEpoch = "sequence_epoch"
            case newestMinute = "newest_minute"
        }

        /// Whether a life can be so: starts count one after the other, the first from the sensor's first minute on.
        var isPossible: Bool {
            (0...0xFFFF).contains(sequenceEpoch) && (0...0xFFFF).contains(newestMinute ?? 0)
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
        newestMinute = form.newestMinute
    }

    /// Writes it whole.
    public func encode(to encoder: any Encoder) throws {
        let starts = life.spans.map { span in
            Form.Start(
                fromMinute: span.fromMinute, startedAt: span.time.start.seconds, scannedAt: span.scannedAt.microseconds)
        }
        try Form(serial: serial, sequenceEpoch: sequenceEpoch, newestMinute: newestMinute, starts: starts)
            .encode(to: encoder)
    }
}
