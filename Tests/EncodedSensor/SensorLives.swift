import FreeStyleLibre
import HealthReadings

/// A sensor that is reset now and then, after a few minutes or a day, and scanned now and then in each of its lives.
public struct SensorLives: Sendable {
    /// A record that the sensor has written, in one of its lives.
    public struct Place: Sendable, Hashable {
        /// The life, from 0.
        public var life: Int
        /// The ring.
        public var source: SensorFacts.Source
        /// Minutes from the start of that life.
        public var minute: Int
    }

    /// A scan of the sensor.
    public struct Scan: Sendable {
        /// Its memory.
        public var sensor: EncodedSensor
        /// When it was made.
        public var at: Instant
    }

    /// When each life began, to the microsecond.
    public private(set) var starts: [Instant] = []
    /// The scans, in the order in which they were made.
    public private(set) var scans: [Scan] = []
    /// What the scans have shown.
    public private(set) var shown: Set<Place> = []

    /// One to four lives. Each lasts longer than what cutting to minutes explains, and is not scanned in its first minutes.
    public init(using generator: inout some RandomNumberGenerator) {
        let seed = UInt64.random(in: .min ... .max, using: &generator)
        var start = Instant(seconds: 1_795_000_000).advanced(
            bySeconds: Int64.random(in: 0...100_000, using: &generator))
        for life in 0..<Int.random(in: 1...4, using: &generator) {
            starts.append(start)
            let longest = [10, 40, 700, 1600].randomElement(using: &generator) ?? 10
            let length = Int.random(in: 4...longest, using: &generator)
            let moments = (0..<Int.random(in: 0...4, using: &generator)).map { _ in
                Int64.random(in: 3 * Self.minute..<Int64(length + 1) * Self.minute, using: &generator)
            }
            for moment in moments.sorted() {
                var sensor = EncodedSensor(age: UInt16(moment / Self.minute)) { source, minute in
                    Self.record(Place(life: life, source: source, minute: minute), seed)
                }
                // It counts its age first, and writes its records later in the minute.
                sensor.hasAdvancedEarly = moment % Self.minute >= 40_000_000
                sensor.trendLag = sensor.hasAdvancedEarly ? 0 : 1
                scans.append(Scan(sensor: sensor, at: Instant(microseconds: start.microseconds + moment)))
                for source in SensorFacts.Source.allCases {
                    for minute in sensor.minutes(of: source) where sensor.rule(source, minute) != nil {
                        shown.insert(Place(life: life, source: source, minute: minute))
                    }
                }
            }
            let pause: Int64 = Bool.random(using: &generator) ? 60 : 100_000
            start = start.advanced(
                bySeconds: Int64(length + 1) * 60 + Int64.random(in: 0...pause, using: &generator))
        }
    }

    /// In microseconds.
    private static let minute: Int64 = 60_000_000

    /// When a record was made.
    public func instant(of place: Place) -> Instant {
        starts[place.life].advanced(bySeconds: Int64(place.minute) * 60)
    }

    /// Where a record stands: each shows its life in the bits without a public meaning.
    public func place(of facts: SensorFacts) -> Place {
        Place(life: Int(facts.flags), source: facts.source, minute: Int(facts.minute))
    }

    /// Numbers that no two lives have in common; now and then a slot of the history stays empty.
    private static func record(_ place: Place, _ seed: UInt64) -> RawRecord? {
        var bits = seed &+ UInt64(place.minute) &* 0x9E37_79B9_7F4A_7C15
        bits &+= UInt64(place.source.rawValue) << 32 | UInt64(place.life) << 40
        bits = (bits ^ bits >> 30) &* 0xBF58_476D_1CE4_E5B9
        bits = (bits ^ bits >> 27) &* 0x94D0_49BB_1331_11EB
        bits ^= bits >> 31
        guard place.source == .trend || bits >> 59 != 0 else { return nil }
        return RawRecord(
            glucose: UInt16(700 + bits % 1500), quality: UInt16(bits >> 12 & 0x1FF), flags: UInt8(place.life),
            temperature: UInt16(6400 + (bits >> 24 & 0xFF) * 4), adjustment: Int16(bits >> 36 & 0xF) * 4 - 32)
    }
}
