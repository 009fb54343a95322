import GatewaySettings

/// Octets written by people.
public enum Hexadecimal {
    /// The octets; spaces, colons, dashes and `0x` between them are ignored.
    /// - Throws: `Problem` with status 64 that says which character is no digit.
    public static func octets(_ text: String) throws(Problem) -> [UInt8] {
        var digits: [UInt8] = []
        var rest = Array(text.lowercased())[...]
        var position = 1
        while let character = rest.first {
            if character == "0", rest.dropFirst().first == "x", digits.count.isMultiple(of: 2) {
                rest = rest.dropFirst(2)
                position += 2
                continue
            }
            rest = rest.dropFirst()
            defer { position += 1 }
            if character.isWhitespace || character == ":" || character == "-" || character == "," { continue }
            guard let digit = character.hexDigitValue, character.isASCII else {
                throw Problem.usage("expected hexadecimal digits, found '\(character)' at character \(position)")
            }
            digits.append(UInt8(digit))
        }
        guard !digits.isEmpty, digits.count.isMultiple(of: 2) else {
            throw Problem.usage("expected two hexadecimal digits for each octet, found \(digits.count) digits")
        }
        return stride(from: 0, to: digits.count, by: 2).map { digits[$0] << 4 | digits[$0 + 1] }
    }
}
