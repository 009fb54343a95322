import GATTProfiles
import HealthReadings
import Synchronization

/// A source of random numbers that may be any. Copies share it.
struct Chance: RandomNumberGenerator, Sendable {
    private final class Source: Sendable {
        let generator: Mutex<any RandomNumberGenerator & Sendable>
        init(_ generator: any RandomNumberGenerator & Sendable) { self.generator = Mutex(generator) }
    }

    private let source: Source

    init(_ generator: any RandomNumberGenerator & Sendable) { source = Source(generator) }

    mutating func next() -> UInt64 { source.generator.withLock { $0.next() } }
}

/// Times that are all moved by the same number of seconds, so that their order and what lies between them stay.
struct ShiftedTimes: Sendable {
    /// By how much, in seconds. Nobody knows it afterwards: it is in no report.
    let seconds: Int64

    /// A time before this is that of a clock that was never set, and says nothing of a person.
    private static let firstYear = 2010

    /// One to five years into the past.
    init(using generator: inout some RandomNumberGenerator) {
        let year: Int64 = 365 * 86_400
        seconds = -Int64.random(in: year...(5 * year), using: &generator)
    }

    func instant(_ instant: Instant) -> Instant { instant.advanced(bySeconds: seconds) }

    /// `nil` for a clock that was never set.
    func wallTime(_ time: WallTime) -> WallTime? {
        guard time.date.year >= Self.firstYear else { return nil }
        return WallTime(secondsSinceEpoch: time.secondsSinceEpoch + seconds)
    }

    /// Moves a date and time of seven octets. Unknown parts (0) stay unknown, and a month that cannot be stays; then the
    /// year is moved, and the day and the time of day are others.
    func dateTime(_ octets: [UInt8]) -> [UInt8] {
        let year = UInt16(octets[0]) | UInt16(octets[1]) << 8
        let parts = DateTime(
            year: year, month: octets[2], day: octets[3], hour: octets[4], minute: octets[5], second: octets[6])
        if let time = parts.wallTime { return wallTime(time).map { DateTime($0).encoded } ?? octets }
        guard year >= Self.firstYear else { return octets }
        // The first of that month, as far as it is known, tells by how many years to move.
        let month = (1...12).contains(Int(octets[2])) ? Int(octets[2]) : 1
        guard
            let time = WallTime(
                year: Int(year), month: month, day: min(max(Int(octets[3]), 1), 28), hour: min(Int(octets[4]), 23),
                minute: min(Int(octets[5]), 59), second: min(Int(octets[6]), 59)),
            let moved = wallTime(time)
        else { return octets }
        let made = DateTime(moved).encoded
        return octets.indices.map { place in
            let stays = place == 2 ? !(1...12).contains(octets[2]) : place == 3 && octets[3] == 0
            return stays ? octets[place] : made[place]
        }
    }

    /// The day of the week of a date of seven octets; 0 where it was unknown.
    func weekday(of date: [UInt8], was weekday: UInt8) -> UInt8 {
        let year = UInt16(date[0]) | UInt16(date[1]) << 8
        guard (1...7).contains(weekday),
            let time = WallTime(
                year: Int(year), month: Int(date[2]), day: Int(date[3]), hour: 0, minute: 0, second: 0)
        else { return 0 }
        // The first of January 1970 was a Thursday, the fourth day.
        let days = time.secondsSinceEpoch / 86_400
        return UInt8(((days + 3) % 7 + 7) % 7 + 1)
    }

    /// Moves a count of seconds from some moment of 1970; 0, of a clock that was never set, stays.
    func count(_ count: UInt32, from epoch: Int64) -> UInt32 {
        guard count != 0 else { return 0 }
        let time = WallTime(secondsSinceEpoch: Int64(count) + epoch)
        return wallTime(time).flatMap { UInt32(exactly: $0.secondsSinceEpoch - epoch) } ?? count
    }
}
