/// A date and time of day as a clock on the wall shows it: no zone, no daylight saving, proleptic Gregorian calendar.
///
/// A device's time stays one of these for ever. The arithmetic is plain: no calendar library, no host time zone.
public struct WallTime: Sendable, Hashable, Comparable {
    /// Seconds between 1970-01-01T00:00:00 on the same wall and this time.
    public let secondsSinceEpoch: Int64

    /// The furthest from 1970 that a wall time gets, in seconds: 73 thousand million years. Sums and differences of a few of
    /// them fit 64 bits.
    static let limit = Int64.max / 4

    /// The wall time that many seconds after 1970-01-01T00:00:00; at the limit where it is beyond what any calendar reaches.
    public init(secondsSinceEpoch: Int64) {
        self.secondsSinceEpoch = min(max(secondsSinceEpoch, -Self.limit), Self.limit)
    }

    /// Makes a wall time of its parts; nil where no calendar has such a date or no clock such a time.
    ///
    /// Ranges: year 1 … 9999, month 1 … 12, day 1 … the month's last, hour 0 … 23, minute and second 0 … 59.
    public init?(year: Int, month: Int, day: Int, hour: Int, minute: Int, second: Int) {
        guard (1...9999).contains(year), (1...12).contains(month),
            (1...Self.days(inMonth: month, of: year)).contains(day),
            (0...23).contains(hour), (0...59).contains(minute), (0...59).contains(second)
        else { return nil }
        let days = Self.daysSinceEpoch(year: year, month: month, day: day)
        secondsSinceEpoch = Int64(((days * 24 + hour) * 60 + minute) * 60 + second)
    }

    /// This time moved by a number of minutes.
    public func advanced(byMinutes minutes: Int) -> WallTime {
        let bounded = min(max(Int64(minutes), -Self.limit / 60), Self.limit / 60)
        return WallTime(secondsSinceEpoch: secondsSinceEpoch + bounded * 60)
    }

    /// Orders by time on the same wall.
    public static func < (lhs: WallTime, rhs: WallTime) -> Bool { lhs.secondsSinceEpoch < rhs.secondsSinceEpoch }

    /// Year, month and day of the month.
    public var date: (year: Int, month: Int, day: Int) {
        // Howard Hinnant's civil-from-days: eras of 400 years beginning on March 1st.
        let z = Int(secondsSinceEpoch.flooredDivision(by: 86_400)) + 719_468
        let era = (z >= 0 ? z : z - 146_096) / 146_097
        let dayOfEra = z - era * 146_097
        let yearOfEra = (dayOfEra - dayOfEra / 1460 + dayOfEra / 36_524 - dayOfEra / 146_096) / 365
        let dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
        let shiftedMonth = (5 * dayOfYear + 2) / 153
        let month = shiftedMonth < 10 ? shiftedMonth + 3 : shiftedMonth - 9
        return (
            yearOfEra + era * 400 + (month <= 2 ? 1 : 0), month, dayOfYear - (153 * shiftedMonth + 2) / 5 + 1
        )
    }

    /// Hour, minute and second of the day.
    public var timeOfDay: (hour: Int, minute: Int, second: Int) {
        let remainder = Int(secondsSinceEpoch % 86_400)
        let seconds = remainder < 0 ? remainder + 86_400 : remainder
        return (seconds / 3600, seconds / 60 % 60, seconds % 60)
    }

    private static func daysSinceEpoch(year: Int, month: Int, day: Int) -> Int {
        let y = month <= 2 ? year - 1 : year
        let era = (y >= 0 ? y : y - 399) / 400
        let yearOfEra = y - era * 400
        let dayOfYear = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1
        return era * 146_097 + yearOfEra * 365 + yearOfEra / 4 - yearOfEra / 100 + dayOfYear - 719_468
    }

    private static func days(inMonth month: Int, of year: Int) -> Int {
        switch month {
        case 2: year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) ? 29 : 28
        case 4, 6, 9, 11: 30
        default: 31
        }
    }
}

extension WallTime: CustomStringConvertible {
    /// `2026-11-20T13:30:00`, without a zone.
    public var description: String {
        let text = String(unsafeUninitializedCapacity: Self.length) { octets in
            write(to: octets)
            return Self.length
        }
        let year = date.year
        guard !(0...9999).contains(year) else { return text }
        // Beyond the calendar of years with four digits; nothing that is read gets here.
        return (year < 0 ? "-" : "") + (abs(year) > 9999 ? String(abs(year) / 10_000) : "") + text
    }

    /// How many octets ``write(to:)`` fills.
    static let length = 19

    /// Whether the year has four digits, so that ``write(to:)`` writes all of them.
    var hasUsualYear: Bool { (-62_167_219_200...253_402_300_799).contains(secondsSinceEpoch) }

    /// Writes the date and the time of day; of the year its last four digits.
    func write(to octets: UnsafeMutableBufferPointer<UInt8>) {
        let (year, month, day) = date
        let (hour, minute, second) = timeOfDay
        func put(_ value: Int, at place: Int) {
            octets[place] = UInt8(ascii: "0") + UInt8(value / 10)
            octets[place + 1] = UInt8(ascii: "0") + UInt8(value % 10)
        }
        let lastDigits = abs(year) % 10_000
        put(lastDigits / 100, at: 0)
        put(lastDigits % 100, at: 2)
        put(month, at: 5)
        put(day, at: 8)
        put(hour, at: 11)
        put(minute, at: 14)
        put(second, at: 17)
        octets[4] = UInt8(ascii: "-")
        octets[7] = UInt8(ascii: "-")
        octets[10] = UInt8(ascii: "T")
        octets[13] = UInt8(ascii: ":")
        octets[16] = UInt8(ascii: ":")
    }

    /// Reads `2026-11-20T13:30:00` (also with a space or `t`); nil for anything else, impossible dates included.
    public init?(_ text: some StringProtocol) {
        let octets = Array(text.utf8)
        guard octets.count == 19, octets[4] == UInt8(ascii: "-"), octets[7] == UInt8(ascii: "-"),
            [UInt8(ascii: "T"), UInt8(ascii: "t"), UInt8(ascii: " ")].contains(octets[10]),
            octets[13] == UInt8(ascii: ":"), octets[16] == UInt8(ascii: ":")
        else { return nil }
        func number(_ range: Range<Int>) -> Int {
            octets[range].reduce(0) { sum, octet in
                (48...57).contains(octet) && sum >= 0 ? sum * 10 + Int(octet - 48) : -1
            }
        }
        self.init(
            year: number(0..<4), month: number(5..<7), day: number(8..<10),
            hour: number(11..<13), minute: number(14..<16), second: number(17..<19))
    }
}

extension Int64 {
    /// The quotient, rounded down.
    package func flooredDivision(by divisor: Int64) -> Int64 {
        let (quotient, remainder) = quotientAndRemainder(dividingBy: divisor)
        return remainder < 0 ? quotient - 1 : quotient
    }
}
