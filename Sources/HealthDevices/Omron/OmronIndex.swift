import HealthReadings

/// Where a monitor writes next, for each of its users: words at the beginning of its settings.
///
/// Each user has a word, in their order. The third and the fourth word count what the maker's own app has not fetched. The fifth
/// is the running number of the first user's newest record in some models, and no position, although it may look like one.
/// Nothing is ever written there. Source: hass-omron, from what owners' phones and monitors have said (pull request 170), and
/// esphome-omron, from a monitor of its author's (HEM-7155T-MW3).
struct OmronIndex: Sendable, Hashable {
    /// Octets that are read of it.
    static let length = 16
    /// Says that a user has no records.
    static let none: UInt16 = 0x8000
    /// Bits that were set in no position that an owner has logged.
    static let unused: UInt16 = 0x3F00
    /// Says that a ring has come round.
    private static let wrapped: UInt16 = 0x4000

    /// What the index says of a user.
    enum Position: Sendable, Hashable {
        /// Nothing was recorded.
        case empty
        /// The slot of the newest record, and whether the ring has come round, so that every slot has a record.
        case newest(Int, hasWrapped: Bool)
        /// It makes no sense for the model: the slots alone decide.
        case unknown
    }

    private let words: OmronWords

    /// - Returns: `nil` for octets that are too few.
    init?(_ octets: [UInt8], order: OmronRecordLayout.Order) {
        guard octets.count >= 4 else { return nil }
        words = OmronWords(octets, order)
    }

    /// What it says of a user, counted from 0.
    ///
    /// - Parameter count: how many slots the user has.
    func position(of user: Int, count: Int) -> Position {
        guard user < words.count else { return .unknown }
        let word = words[user]
        guard word != Self.none else { return .empty }
        let next = Int(word & 0xFF)
        guard next <= count else { return .unknown }
        // The place to write next is behind the newest record; the first place is behind the last.
        return .newest((next + count - 1) % count, hasWrapped: word & Self.wrapped != 0)
    }
}
