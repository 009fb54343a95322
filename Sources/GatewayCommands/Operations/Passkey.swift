import HealthReadings

/// Six digits that prove two devices to be near each other (Core Specification, Vol 3, Part H, 2.3.5).
///
/// It hides itself from whatever prints values: no log, error or dump shows one.
public struct Passkey: Sendable, Hashable, Codable {
    /// 0 … 999,999.
    public let number: UInt32

    /// A passkey of its number; nil above 999,999.
    public init?(_ number: UInt32) {
        guard number <= 999_999 else { return nil }
        self.number = number
    }

    /// Reads six digits; spaces and a dash between them, and around them, do not matter. Nil for anything else.
    public init?(_ text: some StringProtocol) {
        let digits = String(text.filter { !$0.isWhitespace && $0 != "-" })
        guard digits.utf8.count == 6, digits.utf8.allSatisfy({ (0x30...0x39).contains($0) }),
            let number = UInt32(digits)
        else { return nil }
        self.init(number)
    }

    /// The six digits, for the person in front of the terminal only.
    public var digits: String { String(number, digits: 6) }

    /// Decodes a number; one above 999,999 is an error.
    public init(from decoder: any Decoder) throws {
        let container = try decoder.singleValueContainer()
        guard let passkey = Passkey(try container.decode(UInt32.self)) else {
            throw DecodingError.dataCorruptedError(in: container, debugDescription: "a passkey has six digits")
        }
        self = passkey
    }

    /// Encodes the number.
    public func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        try container.encode(number)
    }
}

extension Passkey: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    /// Dots.
    public var description: String { "••••••" }
    /// Dots.
    public var debugDescription: String { description }
    /// Nothing.
    public var customMirror: Mirror { Mirror(self, children: []) }
}
