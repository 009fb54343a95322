import HealthReadings

/// The number that an ISO 15693 tag is known by: 64 bits of which the highest octet is E0 (ISO/IEC 15693-3, 4.1).
public struct SensorUID: Sendable, Hashable {
    /// The number.
    public let bits: UInt64

    /// Takes eight octets in the order they are sent in: the lowest first.
    /// - Throws: `MalformedFrame` for another count, or where the highest is not E0.
    public init(onAir octets: some Collection<UInt8>) throws(MalformedFrame) {
        guard octets.count == 8 else { throw Self.error("8 octets", at: 0, found: "\(octets.count)") }
        let bits = octets.reversed().reduce(UInt64(0)) { $0 << 8 | UInt64($1) }
        guard bits >> 56 == 0xE0 else {
            throw Self.error(
                "E0, the highest octet of every ISO 15693 UID,", at: 7,
                found: UInt8(bits >> 56).hexadecimal(uppercase: true))
        }
        self.bits = bits
    }

    /// Takes eight octets in the order they are printed in: `E0 07 A0 …`.
    /// - Throws: `MalformedFrame` for another count, or where the first is not E0.
    public init(printed octets: some Collection<UInt8>) throws(MalformedFrame) {
        guard octets.count == 8 else { throw Self.error("8 octets", at: 0, found: "\(octets.count)") }
        let bits = octets.reduce(UInt64(0)) { $0 << 8 | UInt64($1) }
        guard bits >> 56 == 0xE0 else {
            let isReversed = bits & 0xFF == 0xE0
            throw Self.error(
                "E0, which every ISO 15693 UID is printed with first,", at: 0,
                found: UInt8(bits >> 56).hexadecimal(uppercase: true)
                    + (isReversed ? ": these octets are in the order of the air" : ""))
        }
        self.bits = bits
    }

    /// The eight octets in the order they are sent in: the lowest first.
    public var octetsOnAir: [UInt8] { (0..<8).map { UInt8(truncatingIfNeeded: bits >> UInt64(8 * $0)) } }

    /// The serial number as it is printed on the sensor: a digit for the family, then ten symbols for the low 48 bits.
    ///
    /// The 48 bits are followed by two zeros and cut into fives (LibreMonitor, DiaBLE).
    /// - Parameter family: the digit, 0 for a FreeStyle Libre 1; see ``PatchInformation/family``.
    public func serialNumber(family: UInt8) -> String {
        let padded = (bits & 0xFFFF_FFFF_FFFF) << 2
        var text = String(family)
        for place in 0..<10 {
            let symbol = UInt8(truncatingIfNeeded: padded >> UInt64(45 - 5 * place)) & 31
            text.unicodeScalars.append(Self.symbol(symbol))
        }
        return text
    }

    /// Digits and capital letters without B, I, O and S, which are read as 8, 1, 0 and 5.
    private static func symbol(_ value: UInt8) -> Unicode.Scalar {
        switch value {
        case 0..<10: Unicode.Scalar(UInt8(ascii: "0") + value)
        case 10: "A"
        case 11...16: Unicode.Scalar(UInt8(ascii: "C") + value - 11)
        case 17...21: Unicode.Scalar(UInt8(ascii: "J") + value - 17)
        case 22...24: Unicode.Scalar(UInt8(ascii: "P") + value - 22)
        default: Unicode.Scalar(UInt8(ascii: "T") + value - 25)
        }
    }

    private static func error(_ expected: String, at octet: Int, found: String) -> MalformedFrame {
        MalformedFrame(subject: "UID", expected: expected, octet: octet, found: found)
    }
}

extension SensorUID: CustomStringConvertible {
    /// 16 hexadecimal digits as they are printed: `E007A00009352FBD`.
    public var description: String {
        bits.hexadecimal(uppercase: true)
    }
}
