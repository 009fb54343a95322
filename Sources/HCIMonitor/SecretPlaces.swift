/// Where keys, and what keys are made of, may stand in commands and events.
///
/// What this list does not know is taken for secret as a whole: vendors' packets, and whatever a later version of the
/// specification adds. Source: Core Specification, Vol 4, Part E, 7; the version read is 5.4.
enum SecretPlaces: Sendable, Hashable {
    /// Nowhere.
    case none
    /// In these octets of the parameters.
    case octets(Range<Int>)
    /// From an octet of the parameters to their end.
    case from(Int)

    /// In the parameters of a command.
    static func command(_ opcode: UInt16) -> SecretPlaces {
        if let places = commands[opcode] { return places }
        return isKnown(opcode) ? .none : .from(0)
    }

    /// In the return parameters of a Command Complete event, which begin with the status.
    static func answer(to opcode: UInt16) -> SecretPlaces {
        if let places = answers[opcode] { return places }
        return isKnown(opcode) ? .none : .from(0)
    }

    /// In the parameters of an event other than Command Complete and LE Meta.
    static func event(_ code: UInt8) -> SecretPlaces {
        if let places = events[code] { return places }
        return (0x01...0x59).contains(code) ? .none : .from(0)
    }

    /// In what follows the subevent code of an LE Meta event.
    static func lowEnergyEvent(_ code: UInt8) -> SecretPlaces {
        if let places = lowEnergyEvents[code] { return places }
        return (0x01...0x29).contains(code) ? .none : .from(0)
    }

    /// The last command of each group in version 5.4; group 0x3F is the vendor's.
    private static let lastCommands: [UInt16: UInt16] = [
        1: 0x65, 2: 0x11, 3: 0x84, 4: 0x10, 5: 0x0C, 6: 0x0A, 8: 0x86,
    ]

    private static func isKnown(_ opcode: UInt16) -> Bool {
        // 0 stands in a Command Complete that answers nothing and only gives credit.
        opcode == 0 || lastCommands[opcode >> 10].map { opcode & 0x3FF <= $0 } ?? false
    }

    private static let commands: [UInt16: SecretPlaces] = [
        0x040B: .octets(6..<22),  // Link Key Request Reply: link key
        0x040D: .octets(6..<23),  // PIN Code Request Reply: length and PIN
        0x042E: .octets(6..<10),  // User Passkey Request Reply: passkey
        0x0430: .octets(6..<38),  // Remote OOB Data Request Reply: C, R
        0x0435: .from(1),  // Create Physical Link: AMP key
        0x0436: .from(1),  // Accept Physical Link: AMP key
        0x0445: .octets(6..<70),  // Remote OOB Extended Data Request Reply: C-192, R-192, C-256, R-256
        0x0460: .octets(6..<7),  // Send Keypress Notification
        0x0C11: .from(1),  // Write Stored Link Key: addresses and link keys in turn
        0x2017: .octets(0..<32),  // LE Encrypt: key, plain text
        0x2019: .octets(2..<28),  // LE Enable Encryption: Rand, EDIV, LTK
        0x201A: .octets(2..<18),  // LE Long Term Key Request Reply: LTK
        0x2026: .octets(0..<64),  // LE Generate DHKey: the peer's public key
        0x2027: .octets(7..<39),  // LE Add Device To Resolving List: the peer's IRK, the local IRK
        0x205E: .octets(0..<64),  // LE Generate DHKey, version 2
        0x2068: .octets(15..<31),  // LE Create BIG: broadcast code
        0x2069: .octets(20..<36),  // LE Create BIG Test: broadcast code
        0x206B: .octets(4..<20),  // LE BIG Create Sync: broadcast code
    ]

    private static let answers: [UInt16: SecretPlaces] = [
        0x0C57: .octets(1..<33),  // Read Local OOB Data: C, R
        0x0C7D: .octets(1..<65),  // Read Local OOB Extended Data
        0x2017: .octets(1..<17),  // LE Encrypt: the encrypted data (in pairing, a confirm value)
        0x2018: .octets(1..<9),  // LE Rand: keys are drawn with it
    ]

    private static let events: [UInt8: SecretPlaces] = [
        0x15: .from(1),  // Return Link Keys: addresses and link keys in turn
        0x18: .octets(6..<22),  // Link Key Notification
        0x19: .from(0),  // Loopback Command: any command
        0x33: .octets(6..<10),  // User Confirmation Request: the six digits
        0x3B: .octets(6..<10),  // User Passkey Notification: passkey
        0x3C: .octets(6..<7),  // Keypress Notification
    ]

    private static let lowEnergyEvents: [UInt8: SecretPlaces] = [
        0x05: .octets(2..<12),  // LE Long Term Key Request: Rand, EDIV
        0x08: .octets(1..<65),  // LE Read Local P-256 Public Key Complete
        0x09: .octets(1..<33),  // LE Generate DHKey Complete
    ]
}
