extension UnsignedInteger where Self: FixedWidthInteger {
    /// All digits in base 16: `0a` for an octet, `1808` for 16 bits.
    package func hexadecimal(uppercase: Bool = false) -> String {
        String(unsafeUninitializedCapacity: Self.bitWidth / 4) { digits in
            for place in digits.indices {
                digits[place] = digit(UInt8(truncatingIfNeeded: self >> (Self.bitWidth - 4 - 4 * place)), uppercase)
            }
            return digits.count
        }
    }
}

extension Sequence where Element == UInt8 {
    /// Two digits for each octet: `00ff`, or `00 ff` with a separator.
    package func hexadecimal(uppercase: Bool = false, separator: String = "") -> String {
        var text: [UInt8] = []
        text.reserveCapacity(underestimatedCount * (2 + separator.utf8.count))
        for octet in self {
            if !text.isEmpty { text.append(contentsOf: separator.utf8) }
            text.append(digit(octet >> 4, uppercase))
            text.append(digit(octet, uppercase))
        }
        return String(decoding: text, as: UTF8.self)
    }
}

extension UInt8 {
    /// Whether it is a hexadecimal digit in ASCII, in lower case.
    package var isLowercaseHexadecimal: Bool {
        switch self {
        case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "a")...UInt8(ascii: "f"): true
        default: false
        }
    }
}

extension [UInt8] {
    /// Reads two hexadecimal digits for each octet, with nothing between them; nil where a character is none.
    package init?(hexadecimal text: String) {
        let digits = text.utf8.map { Character(UnicodeScalar($0)).hexDigitValue }
        guard digits.count.isMultiple(of: 2) else { return nil }
        self = []
        reserveCapacity(digits.count / 2)
        for place in stride(from: 0, to: digits.count, by: 2) {
            guard let high = digits[place], let low = digits[place + 1] else { return nil }
            append(UInt8(high << 4 | low))
        }
    }
}

/// The digit of the lowest four bits.
private func digit(_ value: UInt8, _ isUppercase: Bool) -> UInt8 {
    let value = value & 15
    return value < 10 ? UInt8(ascii: "0") + value : UInt8(ascii: isUppercase ? "A" : "a") - 10 + value
}
