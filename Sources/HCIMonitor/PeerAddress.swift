/// A device address as packets carry it.
public struct PeerAddress: Sendable, Hashable {
    /// The 48 bits; the most significant octet is the one that is written first.
    public let bits: UInt64

    /// Makes an address of its 48 bits; higher bits are ignored.
    public init(bits: UInt64) { self.bits = bits & 0xFFFF_FFFF_FFFF }

    /// Reads `C0:00:00:00:18:08`, either case; nil for anything else.
    public init?(_ text: String) {
        let parts = text.split(separator: ":", omittingEmptySubsequences: false)
        guard parts.count == 6, parts.allSatisfy({ $0.utf8.count == 2 && $0.allSatisfy(\.isHexDigit) }),
            let bits = UInt64(parts.joined(), radix: 16)
        else { return nil }
        self.init(bits: bits)
    }

    /// The address at a place of a packet, the least significant octet first; the caller has checked that it is there.
    init(_ octets: [UInt8], at place: Int) {
        bits = (0..<6).reduce(0) { $0 | UInt64(octets[place + $1]) << (8 * UInt64($1)) }
    }

    /// No address: what a command says that names nobody.
    static let none = PeerAddress(bits: 0)

    /// Whether, as a random address, it is a resolvable private one (Core Specification, Vol 6, Part B, 1.3.2.2).
    var looksResolvable: Bool { bits >> 46 == 0b01 }
}
