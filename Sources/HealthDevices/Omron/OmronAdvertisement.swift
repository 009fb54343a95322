import GATTClient

/// What an Omron monitor says beside its name before anybody connects: above all, whether it has measured.
///
/// `format | status | a part for each user …`. In formats 1, 2 and 6 a user's part is the number of the newest measurement
/// (u16, low octet first) and how many are stored. Formats: hass-omron, and an advertisement of an HEM-7361T that its owner
/// has logged (ble_monitor issue 1003).
package struct OmronAdvertisement: Sendable, Hashable {
    /// Omron Healthcare's company identifier.
    package static let company: UInt16 = 0x020E

    /// What may be shown of the octets behind the company identifier: everything of a format whose parts are known, else the format
    /// and the status alone.
    package static func shown(_ octets: [UInt8]) -> [UInt8] {
        let kept = OmronAdvertisement(octets).map { !$0.users.isEmpty } ?? false ? octets.count : 2
        return octets.prefix(kept) + octets.dropFirst(kept).map { _ in 0 }
    }

    /// A user's part.
    struct User: Sendable, Hashable {
        /// The number of the newest measurement: it grows with each.
        var newest: UInt16
        /// How many are stored.
        var count: UInt8
    }

    /// Whether the monitor's clock was never set.
    let isClockUnset: Bool
    /// Whether it is in its pairing mode.
    let isPairing: Bool
    /// In the formats in which each user's part is known; else empty.
    let users: [User]
    /// What changes with each measurement, and with nothing else as far as is known.
    let news: [UInt8]

    /// - Returns: `nil` if the monitor says nothing of the kind, or in a length that its format does not have.
    init?(_ advertisement: Advertisement) {
        guard let octets = advertisement.manufacturerData[Self.company] else { return nil }
        self.init(octets)
    }

    /// - Parameter octets: those behind the company identifier.
    init?(_ octets: [UInt8]) {
        guard octets.count >= 3 else { return nil }
        let status = octets[1]
        // One less than the number of users.
        let field = Int(status & 0b11)
        (isClockUnset, isPairing) = (status & 0b100 != 0, status & 0b1000 != 0)
        switch octets[0] {
        case 0x01, 0x02, 0x06:
            guard octets.count == 2 + 3 * (field + 1) else { return nil }
            users = stride(from: 2, to: octets.count, by: 3).map { place in
                User(newest: UInt16(octets[place]) | UInt16(octets[place + 1]) << 8, count: octets[place + 2])
            }
            news = Array(octets.dropFirst(2))
        case 0x03:
            (users, news) = ([], [octets[2]])
        case 0x08 where field < 2 && octets.count == 10 + 3 * field, 0x09 where octets.count == 9 + 2 * field:
            (users, news) = ([], Array(octets.dropFirst(2)))
        default: return nil
        }
    }
}
