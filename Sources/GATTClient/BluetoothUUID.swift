import HealthReadings

/// A Bluetooth UUID: 128 bits, most often a 16-bit assigned number over the Bluetooth base UUID.
///
/// Bluetooth Core Specification, Vol 3, Part B, 2.5.1.
public struct BluetoothUUID: Sendable, Hashable {
    /// The first eight octets as they are written, big-endian.
    public let high: UInt64
    /// The last eight octets as they are written, big-endian.
    public let low: UInt64

    private static let base: (high: UInt64, low: UInt64) = (0x0000_0000_0000_1000, 0x8000_0080_5F9B_34FB)

    /// Makes a UUID of its two halves.
    public init(high: UInt64, low: UInt64) {
        self.high = high
        self.low = low
    }

    /// Makes the UUID of a 16-bit assigned number.
    public init(_ assigned: UInt16) {
        self.init(high: Self.base.high | UInt64(assigned) << 32, low: Self.base.low)
    }

    /// The 16-bit assigned number, where this is one.
    public var assignedNumber: UInt16? {
        guard low == Self.base.low, high & ~0x0000_FFFF_0000_0000 == Self.base.high else { return nil }
        return UInt16(truncatingIfNeeded: high >> 32)
    }

    /// Makes a UUID of 2, 4 or 16 octets as ATT and advertisements carry them, the least significant first; nil for
    /// another length.
    public init?(littleEndian octets: [UInt8]) {
        func word(_ part: some Collection<UInt8>) -> UInt64 { part.reversed().reduce(0) { $0 << 8 | UInt64($1) } }
        switch octets.count {
        case 2, 4: self.init(high: Self.base.high | word(octets) << 32, low: Self.base.low)
        case 16: self.init(high: word(octets.suffix(8)), low: word(octets.prefix(8)))
        default: return nil
        }
    }

    /// The 2 octets of an assigned number, else all 16, as ATT and advertisements carry them, the least significant first.
    public var littleEndian: [UInt8] {
        func octets(_ word: UInt64, _ count: Int) -> [UInt8] {
            (0..<count).map { UInt8(truncatingIfNeeded: word >> (8 * $0)) }
        }
        return assignedNumber.map { octets(UInt64($0), 2) } ?? octets(low, 8) + octets(high, 8)
    }

    /// Reads `2a18`, `0x2A18` or a full UUID in either case; nil for anything else.
    public init?(_ text: some StringProtocol) {
        let lower = text.lowercased()
        let short = lower.hasPrefix("0x") ? String(lower.dropFirst(2)) : lower
        if short.utf8.count == 4, short.allSatisfy(\.isHexDigit), let assigned = UInt16(short, radix: 16) {
            self.init(assigned)
            return
        }
        let groups = lower.split(separator: "-", omittingEmptySubsequences: false)
        let digits = groups.joined()
        guard groups.map(\.utf8.count) == [8, 4, 4, 4, 12], digits.allSatisfy(\.isHexDigit),
            let high = UInt64(digits.prefix(16), radix: 16), let low = UInt64(digits.suffix(16), radix: 16)
        else { return nil }
        self.init(high: high, low: low)
    }
}

extension BluetoothUUID: CustomStringConvertible {
    /// `2a18` for an assigned number, else the full UUID in lower case.
    public var description: String {
        func hex(_ value: UInt64, _ digits: Int) -> String {
            String(value.hexadecimal().suffix(digits))
        }
        if let assignedNumber { return hex(UInt64(assignedNumber), 4) }
        return [
            hex(high >> 32, 8), hex(high >> 16 & 0xFFFF, 4), hex(high & 0xFFFF, 4), hex(low >> 48, 4),
            hex(low & 0xFFFF_FFFF_FFFF, 12),
        ].joined(separator: "-")
    }
}

extension BluetoothUUID: ExpressibleByIntegerLiteral {
    /// Makes the UUID of a 16-bit assigned number: `0x2A18`.
    public init(integerLiteral assigned: UInt16) { self.init(assigned) }
}
