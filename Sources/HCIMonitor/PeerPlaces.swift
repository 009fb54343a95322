/// Whom a command or an event is about.
///
/// What this list does not know may be about anybody and is not kept where one peer's traffic is asked for. Places are
/// octets of the parameters. Source: Core Specification 5.4, Vol 4, Part E, 7.
enum PeerPlaces: Sendable, Hashable {
    /// The adapter alone.
    case nobody
    /// The connection whose handle stands there.
    case handle(Int)
    /// The device whose address stands there.
    case address(Int)
    /// Others, several, or unknown.
    case anybody

    /// Whom a command is about.
    static func command(_ opcode: UInt16) -> PeerPlaces {
        if let place = addresses[opcode] { return .address(place) }
        if aboutConnections.contains(opcode) { return .handle(0) }
        if aboutAdapter.contains(opcode) { return .nobody }
        return .anybody
    }

    /// Whom an event is about, other than those whose contents are looked into.
    static func event(_ code: UInt8) -> PeerPlaces { events[code] ?? .anybody }

    /// Whom an LE Meta event is about; places count from after its subevent code.
    static func lowEnergyEvent(_ code: UInt8) -> PeerPlaces { lowEnergyEvents[code] ?? .anybody }

    private static let addresses: [UInt16: Int] = [
        // Create Connection and its cancellation, accept, reject, link key and PIN replies, Remote Name Request
        0x0405: 0, 0x0408: 0, 0x0409: 0, 0x040A: 0, 0x040B: 0, 0x040C: 0, 0x040D: 0, 0x040E: 0, 0x0419: 0, 0x041A: 0,
        // the replies of Secure Simple Pairing
        0x042B: 0, 0x042C: 0, 0x042D: 0, 0x042E: 0, 0x042F: 0, 0x0430: 0, 0x0433: 0, 0x0434: 0, 0x0445: 0, 0x0460: 0,
        // LE advertising parameters (directed), accept list, resolving list, privacy mode
        0x2006: 6, 0x2036: 12, 0x2011: 1, 0x2012: 1, 0x2027: 1, 0x2028: 1, 0x202B: 1, 0x202C: 1, 0x204E: 1,
        // LE Create Connection and its extended versions
        0x200D: 6, 0x2043: 3, 0x2085: 5,
    ]

    private static let aboutConnections: Set<UInt16> = [
        // Disconnect, authentication, encryption, remote features and version, clock offset
        0x0406, 0x0411, 0x0413, 0x041B, 0x041C, 0x041D, 0x041F,
        // sniff mode and its end, link policy, sniff subrating
        0x0803, 0x0804, 0x080C, 0x080D, 0x0811,
        // flush, time-outs, transmit power
        0x0C08, 0x0C28, 0x0C29, 0x0C2D, 0x0C36, 0x0C37, 0x0C7B, 0x0C7C,
        // link quality, RSSI, encryption key size
        0x1401, 0x1402, 0x1403, 0x1405, 0x1408,
        // LE connection update, channel map, remote features, encryption, parameter request, data length, PHY, power
        0x2013, 0x2015, 0x2016, 0x2019, 0x201A, 0x201B, 0x2020, 0x2021, 0x2022, 0x2030, 0x2032, 0x206D, 0x2076, 0x2077,
        0x2078, 0x207E,
    ]

    private static let aboutAdapter: Set<UInt16> = [
        // inquiry and its end
        0x0401, 0x0402,
        // event masks, reset, name, scanning, class, time-outs, flow control
        0x0C01, 0x0C03, 0x0C13, 0x0C14, 0x0C15, 0x0C16, 0x0C17, 0x0C18, 0x0C19, 0x0C1A, 0x0C1B, 0x0C1C, 0x0C1D, 0x0C1E,
        0x0C23, 0x0C24, 0x0C25, 0x0C26, 0x0C31, 0x0C33, 0x0C38, 0x0C39, 0x0C42, 0x0C43, 0x0C44, 0x0C45, 0x0C46, 0x0C47,
        0x0C52, 0x0C55, 0x0C56, 0x0C57, 0x0C58, 0x0C63, 0x0C6C, 0x0C6D, 0x0C79, 0x0C7A, 0x0C7D, 0x0C80,
        // version, commands, features, buffers, address
        0x1001, 0x1002, 0x1003, 0x1004, 0x1005, 0x1009, 0x100A, 0x100B, 0x100C, 0x100D,
        // LE masks, buffers, features, own address and advertising, scanning, list sizes, keys of its own
        0x2001, 0x2002, 0x2003, 0x2005, 0x2007, 0x2008, 0x2009, 0x200A, 0x200B, 0x200C, 0x200E, 0x200F, 0x2010, 0x2014,
        0x2017, 0x2018, 0x201C, 0x2023, 0x2024, 0x2025, 0x2026, 0x2029, 0x202A, 0x202D, 0x202E, 0x202F, 0x2031, 0x2035,
        0x2037, 0x2038, 0x2039, 0x203A, 0x203B, 0x203C, 0x203D, 0x2041, 0x2042, 0x204A, 0x204B, 0x204C, 0x204D, 0x205E,
        0x2060, 0x2074, 0x207D,
    ]

    private static let events: [UInt8: PeerPlaces] = [
        0x01: .nobody,  // Inquiry Complete
        0x10: .nobody,  // Hardware Error
        0x1A: .nobody,  // Data Buffer Overflow
        0x04: .address(0),  // Connection Request
        0x12: .address(1),  // Role Change
        0x16: .address(0), 0x17: .address(0), 0x18: .address(0),  // PIN and link key requests, Link Key Notification
        0x31: .address(0), 0x32: .address(0), 0x33: .address(0), 0x34: .address(0), 0x35: .address(0),
        0x36: .address(1),  // Simple Pairing Complete
        0x3B: .address(0), 0x3C: .address(0), 0x3D: .address(0),
        0x07: .address(1),  // Remote Name Request Complete
        0x05: .handle(1),  // Disconnection Complete
        0x06: .handle(1), 0x08: .handle(1), 0x59: .handle(1),  // Authentication Complete, Encryption Change
        0x0B: .handle(1), 0x0C: .handle(1), 0x0D: .handle(1), 0x14: .handle(1), 0x1D: .handle(1), 0x23: .handle(1),
        0x2E: .handle(1), 0x30: .handle(1),
        0x11: .handle(0), 0x1B: .handle(0), 0x38: .handle(0), 0x39: .handle(0), 0x57: .handle(0),
    ]

    private static let lowEnergyEvents: [UInt8: PeerPlaces] = [
        0x03: .handle(1),  // Connection Update Complete
        0x04: .handle(1),  // Read Remote Features Complete
        0x05: .handle(0),  // Long Term Key Request
        0x06: .handle(0),  // Remote Connection Parameter Request
        0x07: .handle(0),  // Data Length Change
        0x08: .nobody, 0x09: .nobody,  // P-256 public key, DHKey
        0x0C: .handle(1),  // PHY Update Complete
        0x11: .nobody,  // Scan Timeout
        0x12: .handle(2),  // Advertising Set Terminated
        0x14: .handle(0),  // Channel Selection Algorithm
        0x1F: .handle(1),  // Request Peer SCA Complete
        0x20: .handle(1), 0x21: .handle(1),  // Path Loss Threshold, Transmit Power Reporting
        0x23: .handle(1),  // Subrate Change
    ]
}
