/// A gateway's name in its fleet: 1 to 23 characters of `[A-Za-z0-9_-]`.
///
/// It is a level of every topic, the client id at the broker and the common name of the gateway's certificate, and it stands
/// in logs. So it never names a person or a place. 23 characters are what each broker of MQTT 3.1.1 has to accept as a client
/// id. A dot would split the routing key of RabbitMQ, and NATS closes the connection on a space.
public struct GatewayID: Sendable, Hashable, Comparable, CustomStringConvertible {
    /// The longest id.
    public static let longest = 23

    /// The id.
    public let description: String

    /// Reads an id.
    ///
    /// - Throws: ``FleetDocumentError/unexpected(at:expected:found:)``
    public init(_ text: some StringProtocol) throws(FleetDocumentError) {
        guard let id = Self(ifValid: text) else {
            throw .unexpected(
                at: "gateway", expected: "1 to \(Self.longest) characters of A-Z, a-z, 0-9, _ and -",
                found: text.isEmpty ? "an empty text" : Self.shown(String(text)))
        }
        self = id
    }

    /// Reads an id; `nil` for anything else.
    public init?(ifValid text: some StringProtocol) {
        guard (1...Self.longest).contains(text.utf8.count), text.utf8.allSatisfy(Self.isAllowed) else { return nil }
        description = String(text)
    }

    /// Orders as the text does.
    public static func < (lhs: GatewayID, rhs: GatewayID) -> Bool { lhs.description < rhs.description }

    private static func isAllowed(_ octet: UInt8) -> Bool {
        switch octet {
        case UInt8(ascii: "A")...UInt8(ascii: "Z"), UInt8(ascii: "a")...UInt8(ascii: "z"),
            UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "_"), UInt8(ascii: "-"):
            true
        default: false
        }
    }

    /// What was found in place of an id, for an error: a name that is too long, or the first character that is not allowed.
    private static func shown(_ text: String) -> String {
        let count = text.utf8.count
        guard let place = text.utf8.firstIndex(where: { !isAllowed($0) }) else { return "\(count) characters" }
        let octet = text.utf8[place]
        let name = octet > 0x20 && octet < 0x7F ? "'\(Character(Unicode.Scalar(octet)))'" : "another character"
        return "\(name) at \(text.utf8.distance(from: text.utf8.startIndex, to: place))"
    }
}
