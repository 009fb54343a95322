import GATTClient
import HealthReadings

/// Takes out of a report what tells one device from another of its model.
package struct Disguise {
    private let address: [UInt8]
    private let serials: [String]
    /// Forms in which a text may have the address, and the serial numbers.
    private let forms: (address: [Regex<Substring>], serials: [Regex<Substring>])

    package init(address: DeviceAddress?, serials: [String]) {
        let octets = address.map { address in (0..<6).map { UInt8(address.bits >> (40 - 8 * $0) & 0xFF) } } ?? []
        // The number itself, and each part of it.
        let parts = serials.flatMap { serial in
            [serial] + serial.split { !$0.isLetter && !$0.isNumber }.map(String.init)
        }
        self.address = octets
        self.serials = Set(parts.filter { $0.count >= 4 }).sorted { ($0.count, $0) > ($1.count, $1) }
        // The address, or its end, in either order, may have marks between its octets.
        let digits =
            octets.isEmpty
            ? []
            : (0...4).flatMap { count in
                let part = octets.dropFirst(count).map { $0.hexadecimal() }
                return [part, part.reversed()]
            }
        func regex(_ pattern: String) -> Regex<Substring>? {
            try? Regex(pattern, as: Substring.self).ignoresCase().matchingSemantics(.unicodeScalar)
        }
        forms = (
            digits.compactMap { regex($0.joined(separator: "[^0-9A-Za-z]?")) },
            self.serials.compactMap { regex(Self.escaped(Self.withoutMarks($0))) }
        )
    }

    /// A text with a question mark for each combining mark and format character. Swift takes such a character and the letter beside
    /// it for one, which is then neither a digit nor part of a serial number.
    private static func withoutMarks(_ text: String) -> String {
        let scalars = text.unicodeScalars.map { scalar -> Unicode.Scalar in
            switch scalar.properties.generalCategory {
            case .nonspacingMark, .spacingMark, .enclosingMark, .format: "?"
            default: scalar
            }
        }
        return String(String.UnicodeScalarView(scalars))
    }

    private static func escaped(_ text: String) -> String {
        text.map { $0.isASCII && !$0.isLetter && !$0.isNumber ? "\\\($0)" : String($0) }.joined()
    }

    /// A name without address, serial number or other long numbers. What an Omron says of its type stays.
    package func text(_ text: String) -> String {
        // What no text of a device has may be one in another encoding.
        guard !text.unicodeScalars.contains(where: { $0.properties.generalCategory == .control }) else {
            return String(repeating: "0", count: text.utf8.count)
        }
        var text = Self.withoutMarks(text)
        for form in forms.serials { text = text.replacing(form) { Self.template(String($0.output)) } }
        for form in forms.address {
            text = text.replacing(form) { match in
                String(match.output.map { $0.isASCII && ($0.isLetter || $0.isNumber) ? "0" : $0 })
            }
        }
        let kept = text.lowercased().hasPrefix("blesmart_") ? 17 : 0
        let longNumber = /[0-9A-Fa-f]{6,}/.matchingSemantics(.unicodeScalar)
        let rest = text.dropFirst(kept).replacing(longNumber) { String(repeating: "0", count: $0.0.count) }
        return String(text.prefix(kept)) + rest
    }

    /// A text as ``text(_:)`` gives it, without the words that have four characters in a row of a serial number.
    package func strictText(_ text: String) -> String {
        let parts = Set(
            serials.flatMap { serial in
                let letters = Array(Self.withoutMarks(serial).lowercased())
                return (0...(letters.count - 4)).map { String(letters[$0..<($0 + 4)]) }
            }
        ).filter { $0 != "0000" }
        return self.text(text).replacing(/[\p{L}\p{N}]{4,}/.matchingSemantics(.unicodeScalar)) { match in
            let word = match.output.lowercased()
            return parts.contains(where: word.contains) ? Self.template(String(match.output)) : String(match.output)
        }
    }

    /// Octets without the address, in either order, whole or its last three octets, and without the serial number.
    package func octets(_ octets: [UInt8]) -> [UInt8] {
        var found = octets
        let wanted = [
            address, Array(address.reversed()), Array(address.suffix(3)), Array(address.suffix(3).reversed()),
        ]
        for part in wanted + serials.map({ Array($0.utf8) }) where !part.isEmpty && part.count <= found.count {
            for start in 0...(found.count - part.count) where found[start..<(start + part.count)].elementsEqual(part) {
                for place in start..<(start + part.count) { found[place] = 0 }
            }
        }
        return found
    }

    /// How a text is made: `0` for each digit, `X` or `x` for each letter.
    package static func template(_ text: String) -> String {
        String(
            text.map { character in
                if character.isASCII, character.isNumber { return "0" }
                if character.isLetter { return character.isLowercase ? "x" : "X" }
                return character.isASCII && !character.isNewline ? character : "?"
            })
    }
}
