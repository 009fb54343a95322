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

/// What the times of a report become. Copies share what they know.
///
/// Clocks are moved by the same number of seconds as the contact, whose time the report's file tells. Records are moved on
/// their own: their order stays, and what lies between two of them if it is an hour at most. To know it, all values are gone
/// through twice: the first time notes the times of the records, see ``settle(around:)``.
struct ReplacedTimes: Sendable {
    /// What a time is the time of.
    enum Subject {
        case clock
        case record
    }

    private struct Records {
        var noted: Set<Int64> = []
        var moved: [Int64: Int64] = [:]
    }

    private final class Course: Sendable {
        let records = Mutex(Records())
    }

    /// A time before this is that of a clock that was never set, or of one that counts its years otherwise.
    private static let firstYear = 2010
    /// Stands for the years before: one that has no 29 February.
    private static let otherYear = 2013
    private static let (hour, day): (Int64, Int64) = (3600, 86_400)

    private let course = Course()
    private let chance: Chance
    /// By how much the contact and the clocks are moved: one to five years into the past.
    private let seconds: Int64
    /// By how much times before the first year are moved within their year.
    private let within: Int64

    init(using chance: Chance) {
        var generator = chance
        self.chance = chance
        seconds = -Int64.random(in: (365 * Self.day)...(5 * 365 * Self.day), using: &generator)
        within = Int64.random(in: Self.hour...(300 * Self.day), using: &generator)
    }

    /// Chooses other times for those that were noted of records, around the time of a contact.
    func settle(around start: Instant) {
        var generator = chance
        let (now, moved) = (start.seconds, start.seconds + seconds)
        course.records.withLock { records in
            // A wall clock may be half a day ahead of this; one further ahead stays ahead.
            let all = records.noted.sorted()
            let (past, future) = (all.filter { $0 <= now + Self.day }, all.filter { $0 > now + Self.day })
            // A memory of many records stays within six years.
            let longest = max(
                Self.hour + 1, min(36 * Self.hour, 6 * 365 * Self.day / Int64(max(all.count, 1))))
            func gap(_ one: Int64, _ other: Int64) -> Int64 {
                let seconds = abs(one - other)
                return seconds <= Self.hour
                    ? seconds : Int64.random(in: (Self.hour + 1)...(Self.hour + longest), using: &generator)
            }
            for (times, sign) in [(past.reversed(), Int64(-1)), (future, 1)] {
                var time = moved + sign * Int64.random(in: (14 * Self.hour)...(10 * Self.day), using: &generator)
                if sign > 0 { time += 2 * Self.day }
                for (place, each) in times.enumerated() {
                    if place > 0 { time += sign * gap(each, times[place - 1]) }
                    records.moved[each] = time
                }
            }
        }
    }

    func instant(_ instant: Instant) -> Instant { instant.advanced(bySeconds: seconds) }

    /// A time, from ``firstYear`` on.
    private func moved(_ time: WallTime, of subject: Subject) -> WallTime {
        let former = time.secondsSinceEpoch
        switch subject {
        case .clock: return WallTime(secondsSinceEpoch: former + seconds)
        case .record:
            return course.records.withLock { records in
                records.noted.insert(former)
                return WallTime(secondsSinceEpoch: records.moved[former] ?? 0)
            }
        }
    }

    /// The time of a record; one before the first year stays in its year.
    func record(_ time: WallTime) -> WallTime {
        let year = time.date.year
        guard year < Self.firstYear else { return moved(time, of: .record) }
        let made = dateTime(DateTime(time).encoded, of: .record).map(Int.init)
        return WallTime(year: year, month: made[2], day: made[3], hour: made[4], minute: made[5], second: made[6])
            ?? WallTime(secondsSinceEpoch: 0)
    }

    /// Another date and time of seven octets. Unknown parts (0) stay unknown, a month that cannot be stays, and so does a year
    /// before the first one: a clock that was never set shows it, or the device counts its years otherwise.
    func dateTime(_ octets: [UInt8], of subject: Subject) -> [UInt8] {
        guard octets.contains(where: { $0 != 0 }) else { return octets }
        let year = Int(octets[0]) | Int(octets[1]) << 8
        let isOther = year < Self.firstYear
        let hasMonth = (1...12).contains(octets[2])
        let parts = octets.map(Int.init)
        // The time itself, or one near a time that cannot be.
        func time(_ day: Int, _ hour: Int, _ minute: Int, _ second: Int) -> WallTime? {
            WallTime(
                year: isOther ? Self.otherYear : year, month: hasMonth ? parts[2] : 1, day: day, hour: hour,
                minute: minute, second: second)
        }
        guard
            let former = time(parts[3], parts[4], parts[5], parts[6])
                ?? time(min(max(parts[3], 1), 28), min(parts[4], 23), min(parts[5], 59), min(parts[6], 59))
        else { return octets.map { _ in 0 } }
        let other =
            isOther ? WallTime(secondsSinceEpoch: former.secondsSinceEpoch + within) : moved(former, of: subject)
        var made = DateTime(other).encoded
        if isOther { (made[0], made[1]) = (octets[0], octets[1]) }
        if !hasMonth { made[2] = octets[2] }
        if octets[3] == 0 { made[3] = 0 }
        return made
    }

    /// The day of the week of a date of seven octets; 0 where it was unknown.
    func weekday(of date: [UInt8], was weekday: UInt8) -> UInt8 {
        let year = UInt16(date[0]) | UInt16(date[1]) << 8
        guard (1...7).contains(weekday),
            let time = WallTime(
                year: Int(year), month: Int(date[2]), day: Int(date[3]), hour: 0, minute: 0, second: 0)
        else { return 0 }
        // The first of January 1970 was a Thursday, the fourth day.
        let days = time.secondsSinceEpoch / Self.day
        return UInt8(((days + 3) % 7 + 7) % 7 + 1)
    }

    /// Another count of seconds from some moment of 1970 on; 0, of a clock that was never set, stays.
    func count(_ count: UInt32, from epoch: Int64, of subject: Subject) -> UInt32 {
        guard count != 0 else { return 0 }
        let time = WallTime(secondsSinceEpoch: Int64(count) + epoch)
        if time.date.year >= Self.firstYear {
            return UInt32(clamping: moved(time, of: subject).secondsSinceEpoch - epoch)
        }
        let later = WallTime(secondsSinceEpoch: time.secondsSinceEpoch + within)
        return later.date.year < Self.firstYear
            ? UInt32(clamping: later.secondsSinceEpoch - epoch) : UInt32(clamping: Int64(count) - within)
    }
}
