import Glibc
import HealthReadings
import LocalAccess

/// The other side of a connection, as limits count it.
///
/// One IPv6 host chooses among the 2^64 addresses of its network, so connections and requests are counted by the /64.
package struct PeerAddress: Sendable, Hashable {
    /// The address without its port; empty for a Unix socket.
    package let address: String
    /// What limits count by: an IPv4 address, or the /64 network of an IPv6 address.
    package let network: String
    /// Whether the peer is on this machine.
    package let isLoopback: Bool

    /// - Parameter text: an address as `inet_ntop` writes it, with or without a zone; `nil` for a Unix socket.
    package init(_ text: String?) {
        let bare = String((text ?? "").prefix { $0 != "%" })
        address = bare
        var words = in6_addr()
        guard bare.contains(":"), inet_pton(AF_INET6, bare, &words) == 1 else {
            network = bare
            isLoopback = bare.isEmpty || bare.hasPrefix("127.")
            return
        }
        let octets = withUnsafeBytes(of: &words) { Array($0) }
        if octets.prefix(12) == [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF] {
            // An IPv4 peer of a socket that listens on `::`.
            network = octets[12...].map(String.init).joined(separator: ".")
            isLoopback = octets[12] == 127
        } else {
            network = octets.prefix(8).hexadecimal() + "/64"
            isLoopback = octets == Array(repeating: 0, count: 15) + [1]
        }
    }
}
