import Foundation

/// An instant of the proleptic Gregorian calendar in microseconds, read from and written as ISO 8601 text.
struct Timestamp: Sendable, Equatable, Comparable {
    /// Microseconds since 1970-01-01T00:00:00Z, years 1 to 9999.
    var microseconds: Int64

    init(microseconds: Int64) { self.microseconds = microseconds }

    init(_ date: Date) { microseconds = Int64((date.timeIntervalSince1970 * 1e6).rounded(.down)) }

    static func < (left: Timestamp, right: Timestamp) -> Bool { left.microseconds < right.microseconds }

    /// Now, by the host's clock, to the second.
    static var now: Timestamp { Timestamp(microseconds: Int64(Date().timeIntervalSince1970) * 1_000_000) }

    /// Why a text is no instant.
    enum Failure: Error, Equatable {
        /// Not of the form YYYY-MM-DDThh:mm:ss[.ffffff](Z|±hh:mm), or no such day or time.
        case malformed
        /// A wall-clock time without a zone.
        case withoutZone
    }

    /// Reads a date with time and zone.
    static func parse(_ text: String) throws(Failure) -> Timestamp {
        var scanner = DigitScanner(text)
        guard let day = scanner.day(), scanner.take("T") || scanner.take("t") || scanner.take(" "),
            let hour = scanner.number(2, 0...23), scanner.take(":"), let minute = scanner.number(2, 0...59),
            scanner.take(":"), let second = scanner.number(2, 0...59)
        else { throw .malformed }
        var fraction: Int64 = 0
        if scanner.take(".") {
            guard let value = scanner.fraction() else { throw .malformed }
            fraction = value
        }
        var offset: Int64 = 0
        if scanner.atEnd { throw .withoutZone }
        if !scanner.take("Z") && !scanner.take("z") {
            let east: Int64
            if scanner.take("+") { east = 1 } else if scanner.take("-") { east = -1 } else { throw .malformed }
            guard let hours = scanner.number(2, 0...23), scanner.take(":"), let minutes = scanner.number(2, 0...59)
            else { throw .malformed }
            offset = east * (hours * 3600 + minutes * 60)
        }
        guard scanner.atEnd else { throw .malformed }
        let seconds = day * 86_400 + hour * 3600 + minute * 60 + second - offset
        return Timestamp(microseconds: seconds * 1_000_000 + fraction)
    }

    /// Reads a bare date as days since 1970-01-01, nil when the text is none.
    static func parseDay(_ text: String) -> Int64? {
        var scanner = DigitScanner(text)
        guard let day = scanner.day(), scanner.atEnd else { return nil }
        return day
    }

    /// ISO 8601 in UTC; a fraction only when there is one.
    var text: String {
        let seconds = microseconds.floorDivided(by: 1_000_000)
        let fraction = microseconds - seconds * 1_000_000
        let days = seconds.floorDivided(by: 86_400)
        let inDay = seconds - days * 86_400
        let (year, month, day) = Self.civil(days)
        var out = "\(pad(year, 4))-\(pad(month, 2))-\(pad(day, 2))"
        out += "T\(pad(inDay / 3600, 2)):\(pad(inDay / 60 % 60, 2)):\(pad(inDay % 60, 2))"
        if fraction != 0 { out += "." + pad(fraction, 6) }
        return out + "Z"
    }

    private func pad(_ value: Int64, _ width: Int) -> String {
        let digits = String(value)
        return String(repeating: "0", count: max(0, width - digits.count)) + digits
    }

    /// Days since 1970-01-01 of a civil date, nil when there is no such day.
    static func days(year: Int64, month: Int64, day: Int64) -> Int64? {
        let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
        let lengths: [Int64] = [31, leap ? 29 : 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]
        guard (1...9999).contains(year), (1...12).contains(month), (1...lengths[Int(month) - 1]).contains(day) else {
            return nil
        }
        let shifted = month <= 2 ? year - 1 : year
        let era = shifted / 400
        let yearOfEra = shifted - era * 400
        let dayOfYear = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1
        let dayOfEra = yearOfEra * 365 + yearOfEra / 4 - yearOfEra / 100 + dayOfYear
        return era * 146_097 + dayOfEra - 719_468
    }

    private static func civil(_ days: Int64) -> (Int64, Int64, Int64) {
        let shifted = days + 719_468
        let era = shifted.floorDivided(by: 146_097)
        let dayOfEra = shifted - era * 146_097
        let yearOfEra = (dayOfEra - dayOfEra / 1460 + dayOfEra / 36_524 - dayOfEra / 146_096) / 365
        let dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
        let shiftedMonth = (5 * dayOfYear + 2) / 153
        let day = dayOfYear - (153 * shiftedMonth + 2) / 5 + 1
        let month = shiftedMonth + (shiftedMonth < 10 ? 3 : -9)
        return (yearOfEra + era * 400 + (month <= 2 ? 1 : 0), month, day)
    }
}

extension Int64 {
    fileprivate func floorDivided(by divisor: Int64) -> Int64 {
        let (quotient, remainder) = quotientAndRemainder(dividingBy: divisor)
        return remainder < 0 ? quotient - 1 : quotient
    }
}

private struct DigitScanner {
    private let octets: [UInt8]
    private var position = 0

    init(_ text: String) { octets = Array(text.utf8) }

    var atEnd: Bool { position == octets.count }

    mutating func take(_ character: Character) -> Bool {
        guard position < octets.count, octets[position] == character.asciiValue else { return false }
        position += 1
        return true
    }

    mutating func number(_ width: Int, _ range: ClosedRange<Int64>) -> Int64? {
        guard octets.count - position >= width else { return nil }
        var value: Int64 = 0
        for octet in octets[position..<position + width] {
            guard octet >= 0x30, octet <= 0x39 else { return nil }
            value = value * 10 + Int64(octet - 0x30)
        }
        position += width
        return range.contains(value) ? value : nil
    }

    /// One to six digits after the point, in microseconds.
    mutating func fraction() -> Int64? {
        var value: Int64 = 0
        var digits = 0
        while position < octets.count, octets[position] >= 0x30, octets[position] <= 0x39, digits < 6 {
            value = value * 10 + Int64(octets[position] - 0x30)
            position += 1
            digits += 1
        }
        guard digits > 0 else { return nil }
        for _ in digits..<6 { value *= 10 }
        return value
    }

    mutating func day() -> Int64? {
        guard let year = number(4, 1...9999), take("-"), let month = number(2, 1...12), take("-"),
            let day = number(2, 1...31)
        else { return nil }
        return Timestamp.days(year: year, month: month, day: day)
    }
}
