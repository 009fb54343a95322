import EncodedSensor
import FreeStyleLibre
import HealthReadings

/// A sensor that lives minute by minute as its memory shows it: the age counts on, and some time later in the same minute
/// the trend record is written. A scan may come between the two.
struct LivingSensor {
    /// A place in the sensor's life.
    struct Place: Hashable {
        let source: SensorFacts.Source
        let minute: Int
    }

    private var octets = EncodedSensor(age: 0) { _, _ in nil }.memory
    private(set) var age = 0
    /// Every record the sensor has written, by its minute.
    private(set) var written: [Place: RawRecord] = [:]
    private(set) var newestTrend: Int?
    private(set) var newestHistory: Int?

    /// The age counts on to the next minute.
    mutating func countAge() {
        age += 1
        octets[316] = UInt8(age & 0xFF)
        octets[317] = UInt8(age >> 8)
    }

    /// Writes the trend record of this minute.
    mutating func writeTrend(_ record: RawRecord) {
        write(record, start: 28, slots: 16, index: 26)
        newestTrend = age
        written[Place(source: .trend, minute: age)] = record
    }

    /// Writes the history record of a minute, which is 3 minutes old, or 2 where the ring goes on early.
    mutating func writeHistory(_ record: RawRecord, minute: Int) {
        write(record, start: 124, slots: 32, index: 27)
        newestHistory = minute
        written[Place(source: .history, minute: minute)] = record
    }

    private mutating func write(_ record: RawRecord, start: Int, slots: UInt8, index: Int) {
        let place = start + 6 * Int(octets[index])
        for octet in 0..<6 { octets[place + octet] = UInt8(truncatingIfNeeded: record.bits >> UInt64(8 * octet)) }
        octets[index] = (octets[index] + 1) % slots
    }

    /// The memory as a scan reads it now.
    var memory: LibreMemory {
        get throws {
            var octets = octets
            EncodedSensor.seal(&octets)
            return try LibreMemory(octets)
        }
    }

    /// The places of the records that the rings hold now: empty slots are none.
    var places: Set<Place> {
        var places: Set<Place> = []
        for (newest, source, step, slots) in [
            (newestTrend, SensorFacts.Source.trend, 1, 16), (newestHistory, .history, 15, 32),
        ] {
            guard let newest else { continue }
            for back in 0..<slots {
                let place = Place(source: source, minute: newest - step * back)
                if written[place]?.isEmpty == false { places.insert(place) }
            }
        }
        return places
    }
}

extension RawRecord {
    /// The 48 bits of the record.
    var bits: UInt64 {
        var bits = UInt64(glucose)
        bits |= UInt64(quality) << 14
        bits |= UInt64(flags) << 23
        bits |= UInt64(temperature >> 2) << 26
        bits |= UInt64(abs(adjustment) >> 2) << 38
        if hasError { bits |= 1 << 25 }
        if adjustment < 0 { bits |= 1 << 47 }
        return bits
    }
}
