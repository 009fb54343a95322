import HealthReadings

/// How an Omron model keeps its records, and how it is asked for them: a row of data.
///
/// Addresses, counts and orders: omblepy, hass-omron.
public struct OmronMemory: Sendable, Hashable {
    /// How a session is begun, and over what.
    enum Stack: Sendable, Hashable {
        /// Four channels, and a key that is stored in the monitor as it is paired.
        case key
        /// One channel; the bond is enough.
        case bond
        /// One channel; the monitor wants to be asked for an echo before a session.
        case bondAndEcho

        /// How many channels there are each way.
        var channels: Int { self == .key ? 4 : 1 }

        /// A few words for people.
        var explanation: String {
            switch self {
            case .key: "four channels, a key"
            case .bond: "one channel, a bond"
            case .bondAndEcho: "one channel, a bond and an echo"
            }
        }
    }

    /// How sure it is that the row is right.
    public enum Certainty: String, Sendable, Hashable, CaseIterable {
        /// Octets that owners have logged from such a monitor agree with it.
        case verified
        /// Public code that owners use reads such a monitor so.
        case fromCode = "from_code"
        /// It was taken from documents, and no octet of such a monitor has been seen.
        case fromDocuments = "from_documents"

        /// Half a line for people.
        var explanation: String {
            switch self {
            case .verified: "agrees with octets that owners have logged"
            case .fromCode: "is taken from public code that owners use; no octet was seen"
            case .fromDocuments: "is taken from documents; no octet was seen, and nobody has reported that it works"
            }
        }
    }

    let stack: Stack
    let layout: OmronRecordLayout
    /// Where the records of each user begin.
    let users: [UInt16]
    /// How many slots each user has.
    let count: Int
    /// Where the settings begin: the index, then other settings, then the clock. They are read, and never written.
    let settings: UInt16
    /// Where the clock stands, counted from the settings.
    let clock: Range<UInt16>
    /// The most octets that one request asks for.
    let longestRead: Int
    /// Whether it is worn at the wrist, so that a record's position says how the arm was held.
    let isAtWrist: Bool
    /// How sure it is that this row is right.
    public let certainty: Certainty

    init(
        _ stack: Stack, _ order: OmronRecordLayout.Order?, octets: Int, users: [UInt16], count: Int, settings: UInt16,
        clock: Range<UInt16>, longestRead: Int = OmronFrame.mostData, isAtWrist: Bool = false, _ certainty: Certainty
    ) {
        self.stack = stack
        layout = OmronRecordLayout(length: octets, order: order)
        self.users = users
        self.count = count
        self.settings = settings
        self.clock = clock
        self.longestRead = longestRead
        self.isAtWrist = isAtWrist
        self.certainty = certainty
    }

    /// How many records one request asks for at most.
    var slotsARead: Int { longestRead / layout.length }

    /// The address of a slot.
    func address(_ slot: Int, of user: Int) -> UInt16 { users[user] + UInt16(slot * layout.length) }

    /// Whose slot an address is, from 0; `nil` for an address at which no record begins.
    func user(at address: UInt16) -> Int? {
        users.indices.first { user in
            guard address >= users[user] else { return false }
            let place = Int(address - users[user])
            return place % layout.length == 0 && place / layout.length < count
        }
    }

    /// What the index says of a user.
    func position(of user: Int, in octets: [UInt8]) -> OmronIndex.Position {
        guard let order = layout.order, users.indices.contains(user), let index = OmronIndex(octets, order: order)
        else { return .unknown }
        return index.position(of: user, count: count)
    }

    /// What the monitor's clock shows, of the octets at ``clock``; `nil` for one that was never set, or octets that are
    /// no clock.
    func wallTime(_ octets: [UInt8]) -> WallTime? {
        for order in layout.orders {
            if let time = try? OmronWords(octets, order).clock() { return time }
        }
        return nil
    }

    // MARK: Frames

    /// Decodes a frame of `FrameFormat.omronRecord`.
    func decode(_ payload: [UInt8]) -> DecodedFrame {
        do throws(MalformedFrame) {
            guard payload.count >= 2 else {
                throw MalformedFrame(
                    subject: "Omron record", expected: "its address (2 octets)", octet: 0,
                    found: "the end after \(payload.count) octets")
            }
            let address = UInt16(payload[0]) << 8 | UInt16(payload[1])
            guard let user = user(at: address) else {
                throw MalformedFrame(
                    subject: "Omron record", expected: "the address of a slot of this model", octet: 0,
                    found: "0x" + payload.prefix(2).hexadecimal(uppercase: true))
            }
            guard let record = try layout.record(Array(payload.dropFirst(2))) else { return .nothing }
            return .record(record.record(of: UInt8(user + 1), isAtWrist: isAtWrist))
        } catch {
            return .malformed(error)
        }
    }

    /// What a record's frame is where the device's model is none whose memory is known.
    static var unknownModel: MalformedFrame {
        MalformedFrame(
            subject: "Omron record", expected: "a model whose memory is known", octet: 0,
            found: "another; say which it is when you pair it")
    }
}
