import GATTClient
import HealthReadings

/// Takes out of a report what tells one device from another of its model.
package struct Disguise {
    private let address: [UInt8]
    private let serial: String?

    package init(address: DeviceAddress?, serial: String?) {
        self.address = address.map { address in (0..<6).map { UInt8(address.bits >> (40 - 8 * $0) & 0xFF) } } ?? []
        self.serial = serial.flatMap { $0.count >= 4 ? $0 : nil }
    }

    /// A name without address, serial number or other long numbers. What an Omron says of its type stays.
    package func text(_ text: String) -> String {
        var text = serial.map { text.replacing($0, with: Self.template($0)) } ?? text
        for octets in [address, address.reversed()] where !octets.isEmpty {
            let digits = octets.hexadecimal()
            for count in stride(from: 12, through: 4, by: -2) {
                for form in [String(digits.suffix(count)), String(digits.suffix(count)).uppercased()] {
                    text = text.replacing(form, with: String(repeating: "0", count: count))
                }
            }
        }
        let kept = text.lowercased().hasPrefix("blesmart_") ? 17 : 0
        return String(text.prefix(kept))
            + text.dropFirst(kept).replacing(/[0-9A-Fa-f]{6,}/) { String(repeating: "0", count: $0.0.count) }
    }

    /// Octets without the address, in either order, whole or its last three octets, and without the serial number.
    package func octets(_ octets: [UInt8]) -> [UInt8] {
        var found = octets
        let wanted = [
            address, Array(address.reversed()), Array(address.suffix(3)), Array(address.suffix(3).reversed()),
        ]
        for part in wanted + [serial.map { Array($0.utf8) } ?? []] where !part.isEmpty && part.count <= found.count {
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
