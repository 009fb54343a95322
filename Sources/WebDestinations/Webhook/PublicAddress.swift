import Foundation

/// Which addresses of a network anybody may be sent to: a URL that somebody gives may point at this machine, at the network
/// behind it, or at what tells virtual machines their credentials.
enum PublicAddress {
    /// Whether an address is one of the public internet.
    ///
    /// - Parameter text: an address of IPv4 (`192.0.2.1`) or IPv6 (`2001:db8::1`), with a zone or without.
    /// - Returns: `false` for what is no address.
    static func contains(_ text: String) -> Bool {
        var four = in_addr()
        if inet_pton(AF_INET, text, &four) == 1 { return isPublic(UInt32(bigEndian: four.s_addr)) }
        // A zone is of a link.
        var six = in6_addr()
        guard !text.contains("%"), inet_pton(AF_INET6, text, &six) == 1 else { return false }
        return isPublic(withUnsafeBytes(of: six) { Array($0) })
    }

    /// Networks of IPv4 that are no public internet (IANA, IPv4 Special-Purpose Address Registry), and one address of it that
    /// is none either.
    private static let closed: [(UInt32, bits: UInt32)] = [
        // This network; private; shared with customers of a carrier; loopback.
        (0, 8), (0x0A00_0000, 8), (0x6440_0000, 10), (0x7F00_0000, 8),
        // Link-local, with the metadata of clouds (169.254.169.254); private.
        (0xA9FE_0000, 16), (0xAC10_0000, 12),
        // Protocols; documentation; 6to4 relays; private; benchmarks; documentation.
        (0xC000_0000, 24), (0xC000_0200, 24), (0xC058_6300, 24), (0xC0A8_0000, 16), (0xC612_0000, 15),
        (0xC633_6400, 24), (0xCB00_7100, 24),
        // Multicast; reserved; broadcast.
        (0xE000_0000, 4), (0xF000_0000, 4),
        // What Azure tells its virtual machines.
        (0xA83F_8110, 32),
    ]

    private static func isPublic(_ address: UInt32) -> Bool {
        !closed.contains { network, bits in address >> (32 - bits) == network >> (32 - bits) }
    }

    private static func isPublic(_ octets: [UInt8]) -> Bool {
        func begins(_ prefix: [UInt8]) -> Bool { octets.starts(with: prefix) }
        let last = octets[12...].reduce(0 as UInt32) { $0 << 8 | UInt32($1) }
        // IPv4 in IPv6: mapped (::ffff:0:0/96), and translated for networks of IPv6 alone (64:ff9b::/96).
        if begins([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF]) || begins([0, 0x64, 0xFF, 0x9B, 0, 0, 0, 0, 0, 0, 0, 0]) {
            return isPublic(last)
        }
        // Only 2000::/3 is the public internet. Of it protocols, Teredo and ORCHID (2001::/23), documentation (2001:db8::/32,
        // 3fff::/20) and 6to4 (2002::/16), which carries an address of IPv4, are not.
        guard octets[0] & 0xE0 == 0x20 else { return false }
        let isProtocol = begins([0x20, 0x01]) && octets[2] & 0xFE == 0
        let isDocumentation = begins([0x20, 0x01, 0x0D, 0xB8]) || begins([0x3F, 0xFF]) && octets[2] & 0xF0 == 0
        return !isProtocol && !isDocumentation && !begins([0x20, 0x02])
    }
}

/// Names of hosts and their addresses.
enum HostNames {
    /// Why a name has no address.
    struct Unknown: Error {
        var words: String
    }

    /// Every address of a host, in the order in which they are to be tried. Asks once; nothing is kept here.
    @Sendable static func addresses(of host: String) async throws -> [String] {
        try await withCheckedThrowingContinuation { continuation in
            // The system's resolver blocks its thread, for seconds if no name server answers.
            Thread.detachNewThread { continuation.resume(with: Result { try resolve(host) }) }
        }
    }

    private static func resolve(_ host: String) throws -> [String] {
        var hints = addrinfo()
        hints.ai_socktype = Int32(SOCK_STREAM.rawValue)
        var list: UnsafeMutablePointer<addrinfo>?
        let status = getaddrinfo(host, nil, &hints, &list)
        guard status == 0 else { throw Unknown(words: String(cString: gai_strerror(status))) }
        defer { freeaddrinfo(list) }
        var addresses: [String] = []
        var next = list
        while let entry = next {
            var name = [CChar](repeating: 0, count: Int(NI_MAXHOST))
            if getnameinfo(
                entry.pointee.ai_addr, entry.pointee.ai_addrlen, &name, socklen_t(name.count), nil, 0, NI_NUMERICHOST)
                == 0
            {
                let octets = name.prefix { $0 != 0 }.map { UInt8(truncatingIfNeeded: $0) }
                let text = String(decoding: octets, as: UTF8.self)
                if !addresses.contains(text) { addresses.append(text) }
            }
            next = entry.pointee.ai_next
        }
        return addresses
    }
}
