extension UnsignedInteger where Self: FixedWidthInteger {
    /// All digits in base 16: `0a` for an octet, `1808` for 16 bits.
    package func hexadecimal(uppercase: Bool = false) -> String {
        let digits = String(self, radix: 16, uppercase: uppercase)
        return String(repeating: "0", count: Self.bitWidth / 4 - digits.count) + digits
    }
}

extension Sequence where Element == UInt8 {
    /// Two digits for each octet: `00ff`, or `00 ff` with a separator.
    package func hexadecimal(uppercase: Bool = false, separator: String = "") -> String {
        map { $0.hexadecimal(uppercase: uppercase) }.joined(separator: separator)
    }
}
