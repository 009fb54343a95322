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
/// their own: they stay before or behind the device's clock, their order stays, and what lies between two of them if it is an hour
/// at most. To know it, all values are gone through twice: the first time notes clocks and records, see ``settle(around:)``.
struct ReplacedTimes: Sendable {
    /// What a time is the time of.
    enum Subject {
        case clock
        /// The start of a sensor's session, which is moved like a clock.
        case session
        case record
    }

    /// Times on one side of ``firstYear``.
    private struct Times {
        var records: Set<Int64> = []
        /// Those of them that were sent as month 13, which is read as January of the year beside it.
        var januaries: Set<Int64> = []
        /// The first clock that was read: what a gateway corrects records by.
        var clock: Int64?
        var moved: [Int64: Int64] = [:]
        /// By how much clocks are moved.
        var shift: Int64
    }

    private struct State {
        var usual: Times
        /// Those before the first year.
        var early: Times
    }

    private final class Course: Sendable {
        let state: Mutex<State>
        init(_ state: State) { self.state = Mutex(state) }
    }

    /// A time before this is that of a clock that was never set, or of one that counts its years otherwise.
    private static let firstYear = 2010
    /// The first time of the year 2010, and the second day of 2000, in front of which counts of some devices don't reach.
    private static let (firstTime, earliest): (Int64, Int64) = (1_262_304_000, 946_771_200)
    /// Stands for a year of which no time is made: a leap year.
    private static let otherYear = 2004
    private static let (hour, day): (Int64, Int64) = (3600, 86_400)
    /// Seconds after which each date comes again, and those from the first of a January to its last.
    private static let (fourYears, january): (Int64, Int64) = (1461 * 86_400, 31 * 86_400 - 1)

    private let course: Course
    private let chance: Chance
    /// By how much the contact is moved: one to five years into the past.
    private let seconds: Int64

    init(using chance: Chance) {
        var generator = chance
        self.chance = chance
        seconds = -Int64.random(in: (365 * Self.day)...(5 * 365 * Self.day), using: &generator)
        let early = Int64.random(in: Self.hour...(300 * Self.day), using: &generator)
        course = Course(State(usual: Times(shift: seconds), early: Times(shift: early)))
    }

    /// Chooses other times for those that were noted of records, around the time of a contact.
    func settle(around start: Instant) {
        course.state.withLock { state in
            settle(&state.usual, around: state.usual.clock ?? start.seconds)
            let newest = state.early.clock ?? state.early.records.max() ?? 0
            // No time of an unset clock becomes one of a clock that is set.
            if newest + state.early.shift > Self.firstTime - 30 * Self.day { state.early.shift.negate() }
            settle(&state.early, around: newest)
            let lacking = Self.earliest - (state.early.moved.values.min() ?? Self.earliest)
            guard lacking > 0 else { return }
            // Whole four years later a January is one again.
            let added =
                state.early.januaries.isEmpty
                ? lacking : (lacking + Self.fourYears - 1) / Self.fourYears * Self.fourYears
            state.early.shift += added
            state.early.moved = state.early.moved.mapValues { $0 + added }
        }
    }

    private func settle(_ times: inout Times, around now: Int64) {
        var generator = chance
        // What is ahead of the clock by more than a day stays ahead.
        let all = times.records.sorted()
        let (past, future) = (all.filter { $0 <= now + Self.day }, all.filter { $0 > now + Self.day })
        // A memory of many records stays within six years.
        let longest = max(Self.hour + 1, min(36 * Self.hour, 6 * 365 * Self.day / Int64(max(all.count, 1))))
        for (side, sign) in [(Array(past.reversed()), Int64(-1)), (future, 1)] {
            var time = now + times.shift
            time += sign * Int64.random(in: (14 * Self.hour)...(10 * Self.day), using: &generator)
            if sign > 0 { time += 2 * Self.day }
            let (gaps, spans) = otherGaps(side, times.januaries, longest: longest)
            for (place, each) in side.enumerated() {
                time += sign * gaps[place]
                if place == 0 || gaps[place] > Self.hour {
                    // A longer gap may grow, until records of month 13 are in January. Those within an hour come along.
                    var (next, way): (Int, Int64) = (place, 0)
                    while spans[next] == nil, next + 1 < side.count, gaps[next + 1] <= Self.hour {
                        next += 1
                        way += gaps[next]
                    }
                    if let span = spans[next] {
                        time = inJanuary(time + sign * way, span: span, sign) - sign * way
                    }
                }
                times.moved[each] = time
            }
        }
    }

    /// The gaps in front of the records of a side, and their spans to the last record of the same January.
    ///
    /// A gap of up to an hour stays; a longer one becomes another. What lies between the first and the last record of a
    /// January that were sent as month 13 stays within one; other records have no span.
    private func otherGaps(
        _ side: [Int64], _ januaries: Set<Int64>, longest: Int64
    ) -> (gaps: [Int64], spans: [Int64?]) {
        var generator = chance
        var gaps: [Int64] = side.indices.map { $0 == 0 ? 0 : abs(side[$0] - side[$0 - 1]) }
        var limits = [Int64](repeating: longest, count: side.count)
        var spans = [Int64?](repeating: nil, count: side.count)
        var groups: [Int: ClosedRange<Int>] = [:]
        for (place, each) in side.enumerated() where januaries.contains(each) {
            let year = WallTime(secondsSinceEpoch: each).date.year
            groups[year] = (groups[year]?.lowerBound ?? place)...place
        }
        for group in groups.values {
            // They did fit into a January, so there is room for more than an hour in place of each longer gap.
            let inner = gaps[(group.lowerBound + 1)..<(group.upperBound + 1)]
            let far = Int64(inner.filter { $0 > Self.hour }.count)
            let room = Self.january - inner.filter { $0 <= Self.hour }.reduce(0, +)
            for place in inner.indices where far > 0 { limits[place] = min(longest, room / far - Self.hour) }
        }
        for place in gaps.indices where gaps[place] > Self.hour {
            gaps[place] = Int64.random(in: (Self.hour + 1)...(Self.hour + limits[place]), using: &generator)
        }
        for group in groups.values {
            var span: Int64 = 0
            for place in group.reversed() {
                spans[place] = span
                span += gaps[place]
            }
        }
        return (gaps, spans)
    }

    /// The time itself if it lies in a January with a span behind it in this direction; else one in the next January.
    private func inJanuary(_ time: Int64, span: Int64, _ sign: Int64) -> Int64 {
        var generator = chance
        let now = WallTime(secondsSinceEpoch: time).date.year
        for year in [now, now + Int(sign)] {
            guard let start = WallTime(year: year, month: 1, day: 1, hour: 0, minute: 0, second: 0) else { break }
            let (first, last) = (start.secondsSinceEpoch, start.secondsSinceEpoch + Self.january)
            let room = sign < 0 ? (first + span)...last : first...(last - span)
            if room.contains(time) { return time }
            let isAhead = sign < 0 ? time > room.upperBound : time < room.lowerBound
            if isAhead { return Int64.random(in: room, using: &generator) }
        }
        return time
    }

    func instant(_ instant: Instant) -> Instant { instant.advanced(bySeconds: seconds) }

    /// Another time, in seconds since 1970 of the same wall.
    private func moved(_ former: Int64, of subject: Subject, isMonth13: Bool = false) -> Int64 {
        course.state.withLock { state in
            func moved(_ times: inout Times) -> Int64 {
                switch subject {
                case .record:
                    times.records.insert(former)
                    if isMonth13 { times.januaries.insert(former) }
                    return times.moved[former] ?? Self.earliest
                case .clock:
                    if times.clock == nil { times.clock = former }
                    return former + times.shift
                case .session: return former + times.shift
                }
            }
            return former < Self.firstTime ? moved(&state.early) : moved(&state.usual)
        }
    }

    /// The time of a record.
    func record(_ time: WallTime) -> WallTime {
        WallTime(secondsSinceEpoch: moved(time.secondsSinceEpoch, of: .record))
    }

    /// Another date and time of seven octets. Unknown parts (0) stay unknown, what cannot be stays so, and a time before the first year
    /// stays before it: a clock that was never set shows it, or the device counts its years otherwise.
    func dateTime(_ octets: [UInt8], of subject: Subject) -> [UInt8] {
        guard octets.contains(where: { $0 != 0 }) else { return octets }
        let parts = octets.map(Int.init)
        let year = parts[0] | parts[1] << 8
        // Of a year in which devices aren't set, or that isn't one of this calendar, the month, the day and the time become others.
        let keepsYear = !(1970...9999).contains(year)
        let hasMonth = (1...12).contains(parts[2])
        guard
            let former = WallTime(
                year: keepsYear ? Self.otherYear : year, month: hasMonth ? parts[2] : 1, day: max(parts[3], 1),
                hour: parts[4], minute: parts[5], second: parts[6])
        else { return Self.impossible(parts) }
        let other = moved(former.secondsSinceEpoch, of: subject, isMonth13: parts[2] == 13)
        var made = DateTime(WallTime(secondsSinceEpoch: other)).encoded
        if keepsYear { (made[0], made[1]) = (octets[0], octets[1]) }
        if !hasMonth { made[2] = octets[2] }
        if octets[3] == 0 { made[3] = 0 }
        return made
    }

    /// A date and time of which the same parts cannot be.
    private static func impossible(_ parts: [Int]) -> [UInt8] {
        func part(_ place: Int, _ possible: ClosedRange<Int>, _ beyond: UInt8) -> UInt8 {
            possible.contains(parts[place]) ? UInt8(possible.lowerBound) : parts[place] == 0 ? 0 : beyond
        }
        let year = parts[0] | parts[1] << 8
        // Some meters send month 13 for January: no other month becomes it.
        let others = [
            part(2, 1...12, parts[2] == 13 ? 13 : 14), part(3, 1...31, 32), part(4, 0...23, 24), part(5, 0...59, 60),
            part(6, 0...59, 60),
        ]
        // 2020, or a year that isn't one, or what a clock shows that was never set.
        let shown = year > 9999 ? [0xFF, 0xFF] : year >= firstYear ? [0xE4, 0x07] : parts[0..<2].map { UInt8($0) }
        return shown + (others == [1, 1, 0, 0, 0] ? [2, 30, 0, 0, 0] : others)
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
        return UInt32(clamping: max(1, moved(Int64(count) + epoch, of: subject) - epoch))
    }
}
