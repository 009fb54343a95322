/// A JSON document that keeps the order of its keys and the digits of its numbers.
///
/// Foundation's encoder writes 127.0 as 127 and orders keys as it likes; a reading's document keeps both, because
/// precision is information and the same reading must give the same octets.
public enum JSONValue: Sendable, Hashable {
    case null
    case bool(Bool)
    case integer(Int64)
    case number(ExactDecimal)
    case string(String)
    case array([JSONValue])
    case object([Member])
    /// JSON that was written already, and is copied as it is: of thousands of like values no tree is built.
    case written([UInt8])

    /// One key with its value.
    public struct Member: Sendable, Hashable {
        /// The key.
        public var key: String
        /// The value.
        public var value: JSONValue

        /// Makes a member.
        public init(_ key: String, _ value: JSONValue) {
            self.key = key
            self.value = value
        }
    }

    /// An object of keys and values in this order.
    public static func object(_ members: KeyValuePairs<String, JSONValue>) -> JSONValue {
        .object(members.map { Member($0.key, $0.value) })
    }

    /// A string, or null.
    public static func optional(_ text: String?) -> JSONValue { text.map(JSONValue.string) ?? .null }

    /// An integer, or null.
    public static func optional(_ value: (some BinaryInteger)?) -> JSONValue {
        value.map { .integer(Int64(truncatingIfNeeded: $0)) } ?? .null
    }

    /// The value of a key of an object; nil for another value, or where the key is absent.
    public subscript(key: String) -> JSONValue? {
        guard case .object(let members) = self else { return nil }
        return members.first { $0.key == key }?.value
    }

    /// Compact JSON on one line.
    public var text: String {
        var octets: [UInt8] = []
        write(into: &octets)
        return String(decoding: octets, as: UTF8.self)
    }

    /// Appends compact JSON.
    public func write(into octets: inout [UInt8]) {
        switch self {
        case .null: octets.append(contentsOf: "null".utf8)
        case .bool(let value): octets.append(contentsOf: (value ? "true" : "false").utf8)
        case .integer(let value): octets.append(digits: value)
        case .number(let value): octets.append(value)
        case .string(let value): Self.write(value, into: &octets)
        case .array(let values):
            octets.append(UInt8(ascii: "["))
            for (index, value) in values.enumerated() {
                if index > 0 { octets.append(UInt8(ascii: ",")) }
                value.write(into: &octets)
            }
            octets.append(UInt8(ascii: "]"))
        case .object(let members):
            octets.append(UInt8(ascii: "{"))
            for (index, member) in members.enumerated() {
                if index > 0 { octets.append(UInt8(ascii: ",")) }
                Self.write(member.key, into: &octets)
                octets.append(UInt8(ascii: ":"))
                member.value.write(into: &octets)
            }
            octets.append(UInt8(ascii: "}"))
        case .written(let json): octets.append(contentsOf: json)
        }
    }

    /// Appends a string with its quotes and escapes.
    static func write(_ text: String, into octets: inout [UInt8]) {
        octets.append(UInt8(ascii: "\""))
        var text = text
        text.withUTF8 { utf8 in
            // What needs no escape, nearly always all of it, is copied at once.
            var plain = 0
            for (place, octet) in utf8.enumerated() where octet < 0x20 || octet == 0x22 || octet == 0x5C {
                octets.append(contentsOf: UnsafeBufferPointer(rebasing: utf8[plain..<place]))
                escape(octet, into: &octets)
                plain = place + 1
            }
            octets.append(contentsOf: UnsafeBufferPointer(rebasing: utf8[plain...]))
        }
        octets.append(UInt8(ascii: "\""))
    }

    private static func escape(_ octet: UInt8, into octets: inout [UInt8]) {
        switch octet {
        case 0x0A: octets.append(contentsOf: "\\n".utf8)
        case 0x0D: octets.append(contentsOf: "\\r".utf8)
        case 0x09: octets.append(contentsOf: "\\t".utf8)
        case 0..<0x20:
            octets.append(contentsOf: "\\u00".utf8)
            octets.append(48 + (octet >> 4))
            octets.append(octet & 15 < 10 ? 48 + (octet & 15) : 87 + (octet & 15))
        default:
            octets.append(UInt8(ascii: "\\"))
            octets.append(octet)
        }
    }
}

extension JSONValue: ExpressibleByStringLiteral, ExpressibleByNilLiteral, ExpressibleByBooleanLiteral,
    ExpressibleByIntegerLiteral
{
    /// A JSON string.
    public init(stringLiteral value: String) { self = .string(value) }
    /// JSON's null.
    public init(nilLiteral: ()) { self = .null }
    /// A JSON boolean.
    public init(booleanLiteral value: Bool) { self = .bool(value) }
    /// A JSON number without a fraction.
    public init(integerLiteral value: Int64) { self = .integer(value) }
}
