import HealthReadings

/// The checksum by which a continuous glucose sensor proves its values from end to end (E2E-CRC): CRC-CCITT over all
/// octets before it, polynomial D^16 + D^12 + D^5 + 1, beginning with FFFF, the lowest bit of an octet first; sent low
/// octet first. Continuous Glucose Monitoring Service 1.0.2, 3.11.
public enum ContinuousGlucoseChecksum {
    /// The checksum of these octets.
    public static func of(_ octets: some Sequence<UInt8>) -> UInt16 {
        octets.reduce(0xFFFF) { checksum, octet in
            (0..<8).reduce(checksum ^ UInt16(octet)) { value, _ in value & 1 == 0 ? value >> 1 : value >> 1 ^ 0x8408 }
        }
    }

    /// The octets with their checksum.
    public static func appended(to octets: [UInt8]) -> [UInt8] {
        var octets = octets
        octets.append(word: of(octets))
        return octets
    }

    /// Takes the checksum off the end of a value.
    ///
    /// - Throws: `MalformedFrame` where it is missing or another.
    public static func checked(_ octets: [UInt8], _ subject: String) throws(MalformedFrame) -> [UInt8] {
        guard octets.count > 2 else {
            throw MalformedFrame(
                subject: subject, expected: "a value and its checksum (2 octets)", octet: 0,
                found: "\(octets.count) octets")
        }
        let value = Array(octets.dropLast(2))
        let (found, expected) = (Array(octets.suffix(2)), appended(to: value).suffix(2))
        guard found == Array(expected) else {
            throw MalformedFrame(
                subject: subject, expected: "the checksum " + expected.map(hexadecimal).joined(separator: " "),
                octet: value.count, found: found.map(hexadecimal).joined(separator: " "))
        }
        return value
    }
}
