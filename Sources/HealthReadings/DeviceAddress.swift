/// A Bluetooth device address with its type: the identity of a device, never its D-Bus path.
///
/// Bluetooth Core Specification, Vol 6, Part B, 1.3.
public struct DeviceAddress: Sendable, Hashable {
    /// Whether the address is the manufacturer's or made by the device.
    public enum Kind: String, Sendable, Hashable, CaseIterable {
        /// Public device address (IEEE-assigned).
        case `public`
        /// Random device address: static, or private (resolvable or not).
        case random
    }

    /// The 48 bits of the address, the most significant octet first as it is written.
    public let bits: UInt64
    /// The type of the address.
    public let kind: Kind

    /// Makes an address of its 48 bits; higher bits are ignored.
    public init(bits: UInt64, kind: Kind) {
        self.bits = bits & 0xFFFF_FFFF_FFFF
        self.kind = kind
    }

    /// Reads `C0:00:00:00:18:08` (either case, also with `-` or without separators); nil for anything else.
    public init?(_ text: some StringProtocol, kind: Kind = .random) {
        let digits = String(text.filter { $0 != ":" && $0 != "-" })
        guard digits.utf8.count == 12, text.utf8.count == 12 || text.utf8.count == 17,
            digits.allSatisfy(\.isHexDigit), let bits = UInt64(digits, radix: 16)
        else { return nil }
        self.init(bits: bits, kind: kind)
    }

    /// Whether this is a resolvable private address: it changes, and an identity stands behind it.
    public var isResolvablePrivate: Bool { kind == .random && bits >> 46 == 0b01 }
}

extension DeviceAddress: CustomStringConvertible {
    /// `C0:00:00:00:18:08`.
    public var description: String {
        String(unsafeUninitializedCapacity: 17) { octets in
            for place in 0..<17 {
                let (octet, digit) = place.quotientAndRemainder(dividingBy: 3)
                guard digit < 2 else {
                    octets[place] = UInt8(ascii: ":")
                    continue
                }
                let shift = UInt64(44 - 8 * octet - 4 * digit)
                let nibble = UInt8(truncatingIfNeeded: bits >> shift) & 15
                octets[place] = nibble < 10 ? UInt8(ascii: "0") + nibble : UInt8(ascii: "A") + (nibble - 10)
            }
            return 17
        }
    }
}
