import HealthReadings

/// What is read of text without making strings of it.
enum TextValue {
    /// A decimal number in plain or scientific notation: `72`, `-0.5`, `6.2e-05`.
    ///
    /// What goes beyond 18 digits is rounded: a binary number's last digits are no measurement.
    ///
    /// - Parameter comma: whether a comma stands for the point.
    static func decimal(_ text: some Collection<UInt8>, comma: Bool = false) -> ExactDecimal? {
        var iterator = text.makeIterator()
        var next = iterator.next()
        let isNegative = next == UInt8(ascii: "-")
        if isNegative || next == UInt8(ascii: "+") { next = iterator.next() }
        var (significand, exponent): (Int64, Int) = (0, 0)
        var (digits, count, isFraction) = (0, 0, false)
        var isRoundedUp = false
        while let octet = next {
            if octet == UInt8(ascii: ".") || (comma && octet == UInt8(ascii: ",")) {
                guard !isFraction, count > 0 else { return nil }
                isFraction = true
            } else if octet &- 48 < 10 {
                count += 1
                if digits < 18 {
                    significand = significand * 10 + Int64(octet - 48)
                    if significand > 0 { digits += 1 }
                    if isFraction { exponent -= 1 }
                } else {
                    if digits == 18 { isRoundedUp = octet >= 53 }
                    digits += 1
                    if !isFraction { exponent += 1 }
                }
            } else {
                break
            }
            next = iterator.next()
        }
        guard count > 0, count <= 400 else { return nil }
        if next == UInt8(ascii: "e") || next == UInt8(ascii: "E") {
            next = iterator.next()
            let isDown = next == UInt8(ascii: "-")
            if isDown || next == UInt8(ascii: "+") { next = iterator.next() }
            var (power, places) = (0, 0)
            while let octet = next, octet &- 48 < 10 {
                power = power * 10 + Int(octet - 48)
                places += 1
                guard places <= 3 else { return nil }
                next = iterator.next()
            }
            guard places > 0 else { return nil }
            exponent += isDown ? -power : power
        }
        guard next == nil else { return nil }
        if isRoundedUp { significand += 1 }
        guard let exponent = Int16(exactly: exponent), (-40...18).contains(exponent) else {
            return significand == 0 ? ExactDecimal(significand: 0) : nil
        }
        return plain(isNegative ? -significand : significand, exponent)
    }

    /// The number with no more than 18 digits and no positive exponent, as it is written in plain notation.
    private static func plain(_ significand: Int64, _ exponent: Int16) -> ExactDecimal? {
        var (significand, exponent) = (significand, exponent)
        while exponent > 0 {
            let (product, overflow) = significand.multipliedReportingOverflow(by: 10)
            guard !overflow, product.magnitude < 1_000_000_000_000_000_000 else { return nil }
            (significand, exponent) = (product, exponent - 1)
        }
        // Plain notation of that many places would have more digits than can be read again.
        while exponent < -17 {
            significand /= 10
            exponent += 1
        }
        if significand.magnitude >= 1_000_000_000_000_000_000 {
            guard exponent < 0 else { return nil }
            (significand, exponent) = (significand / 10, exponent + 1)
        }
        return ExactDecimal(significand: significand, exponent: exponent)
    }

    /// A run of digits as a number, of this many digits.
    static func number(_ text: UnsafeBufferPointer<UInt8>, _ start: Int, _ count: Int) -> Int? {
        guard start + count <= text.count else { return nil }
        var number = 0
        for place in start..<start + count {
            let digit = text[place] &- 48
            guard digit < 10 else { return nil }
            number = number * 10 + Int(digit)
        }
        return number
    }

    /// `2026-11-20 07:30:00 +0100`, as Apple Health writes it; also with `T`, and with an offset as RFC 3339 has it.
    static func time(_ text: UnsafeBufferPointer<UInt8>) -> ImportedTime? {
        guard text.count >= 20, text[4] == UInt8(ascii: "-"), text[7] == UInt8(ascii: "-"),
            text[10] == UInt8(ascii: " ") || text[10] == UInt8(ascii: "T"), text[13] == UInt8(ascii: ":"),
            text[16] == UInt8(ascii: ":"),
            let year = number(text, 0, 4), let month = number(text, 5, 2), let day = number(text, 8, 2),
            let hour = number(text, 11, 2), let minute = number(text, 14, 2), let second = number(text, 17, 2),
            let wall = WallTime(year: year, month: month, day: day, hour: hour, minute: minute, second: second)
        else { return nil }
        var place = 19
        if text[place] == UInt8(ascii: ".") {
            place += 1
            while place < text.count, text[place] &- 48 < 10 { place += 1 }
        }
        while place < text.count, text[place] == UInt8(ascii: " ") { place += 1 }
        guard place < text.count, let offset = offset(text, place) else { return nil }
        let seconds = wall.secondsSinceEpoch - Int64(offset) * 60
        guard Instant.calendar.contains(seconds) else { return nil }
        return ImportedTime(Instant(seconds: seconds), utcOffsetMinutes: offset)
    }

    /// `Z`, `+0100` or `+01:00` up to the end, in minutes.
    private static func offset(_ text: UnsafeBufferPointer<UInt8>, _ start: Int) -> Int? {
        if text[start] == UInt8(ascii: "Z") { return start + 1 == text.count ? 0 : nil }
        let sign = text[start] == UInt8(ascii: "+") ? 1 : text[start] == UInt8(ascii: "-") ? -1 : 0
        let hasColon = start + 3 < text.count && text[start + 3] == UInt8(ascii: ":")
        guard sign != 0, text.count == start + (hasColon ? 6 : 5), let hours = number(text, start + 1, 2),
            let minutes = number(text, start + (hasColon ? 4 : 3), 2), hours < 24, minutes < 60
        else { return nil }
        return sign * (hours * 60 + minutes)
    }
}
