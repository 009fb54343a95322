import Foundation

/// A range of IP addresses: one address, or a prefix such as `10.0.0.0/8`.
package struct AddressRange: Sendable, Hashable {
    private let octets: [UInt8]
    private let bits: Int

    /// Reads an address or a prefix (CIDR); `nil` for anything else.
    package init?(_ text: String) {
        let parts = text.split(separator: "/", omittingEmptySubsequences: false).map(String.init)
        guard (1...2).contains(parts.count), let octets = Self.octets(parts[0]) else { return nil }
        self.octets = octets
        guard parts.count == 2 else {
            bits = 128
            return
        }
        let isShort = !parts[0].contains(":")
        guard let number = Int(parts[1]), (0...(isShort ? 32 : 128)).contains(number) else { return nil }
        bits = number + (isShort ? 96 : 0)
    }

    /// Whether an address is in the range; an IPv4 address in IPv6 form counts as the IPv4 address.
    package func contains(_ address: String) -> Bool {
        guard let other = Self.octets(address) else { return false }
        return (0..<bits).allSatisfy { bit in (octets[bit / 8] ^ other[bit / 8]) & (0x80 >> UInt8(bit % 8)) == 0 }
    }

    /// The 16 octets of an address, IPv4 as `::ffff:a.b.c.d`; a zone (`%eth0`) is left out.
    package static func octets(_ text: String) -> [UInt8]? {
        let text = String(text.prefix { $0 != "%" })
        var (four, six) = (in_addr(), in6_addr())
        if inet_pton(AF_INET, text, &four) == 1 {
            return [UInt8](repeating: 0, count: 10) + [0xFF, 0xFF] + withUnsafeBytes(of: &four) { Array($0) }
        }
        return inet_pton(AF_INET6, text, &six) == 1 ? withUnsafeBytes(of: &six) { Array($0) } : nil
    }
}
