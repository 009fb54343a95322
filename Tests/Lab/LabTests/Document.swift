import Foundation

/// JSON whose numbers keep their text, so that a test sees 127.0 and 127 apart; written as it was read.
indirect enum Document: Equatable, Sendable {
    /// A number, true, false or null, as written.
    case literal(String)
    case string(String)
    case array([Document])
    case object([String: Document])

    struct Malformed: Error { var text: String }

    init(_ json: String) throws {
        var reader = Reader(octets: Array(json.utf8))
        self = try reader.value()
        reader.skipSpace()
        guard reader.position == reader.octets.count else { throw Malformed(text: json) }
    }

    /// One document a line; lines that are none are left out.
    static func lines(_ text: String) -> [Document] {
        text.split(separator: "\n").compactMap { try? Document(String($0)) }
    }

    subscript(key: String) -> Document? {
        if case .object(let members) = self { members[key] } else { nil }
    }

    var elements: [Document] { if case .array(let elements) = self { elements } else { [] } }
    var members: [String: Document] { if case .object(let members) = self { members } else { [:] } }
    /// The string; nil for any other value.
    var text: String? { if case .string(let text) = self { text } else { nil } }
    var integer: Int? { if case .literal(let text) = self { Int(text) } else { nil } }
    var number: Double? { if case .literal(let text) = self { Double(text) } else { nil } }
    var isTrue: Bool { self == .literal("true") }
    var isNull: Bool { self == .literal("null") }

    /// Compact JSON with sorted keys.
    var json: String {
        switch self {
        case .literal(let text): text
        case .string(let text):
            // A string alone is always encodable.
            (try? JSONEncoder().encode(text)).map { String(decoding: $0, as: UTF8.self) } ?? "\"\""
        case .array(let elements): "[" + elements.map(\.json).joined(separator: ",") + "]"
        case .object(let members):
            "{"
                + members.sorted { $0.key < $1.key }.map { Document.string($0.key).json + ":" + $0.value.json }
                .joined(separator: ",") + "}"
        }
    }

    private struct Reader {
        let octets: [UInt8]
        var position = 0

        mutating func skipSpace() {
            while position < octets.count, [0x20, 0x0A, 0x0D, 0x09].contains(octets[position]) { position += 1 }
        }

        func peek() throws -> UInt8 {
            guard position < octets.count else { throw malformed }
            return octets[position]
        }

        var malformed: Malformed { Malformed(text: String(decoding: octets, as: UTF8.self)) }

        mutating func take(_ character: Unicode.Scalar) throws {
            skipSpace()
            guard try peek() == UInt8(ascii: character) else { throw malformed }
            position += 1
        }

        mutating func list<Element>(
            _ end: Unicode.Scalar, _ element: (inout Reader) throws -> Element
        ) throws -> [Element] {
            position += 1
            var elements: [Element] = []
            skipSpace()
            while try peek() != UInt8(ascii: end) {
                if !elements.isEmpty { try take(",") }
                elements.append(try element(&self))
                skipSpace()
            }
            position += 1
            return elements
        }

        mutating func value() throws -> Document {
            skipSpace()
            switch try peek() {
            case UInt8(ascii: "{"):
                let members = try list("}") { reader in
                    reader.skipSpace()
                    let key = try reader.string()
                    try reader.take(":")
                    return (key, try reader.value())
                }
                return .object(Dictionary(members) { $1 })
            case UInt8(ascii: "["): return .array(try list("]") { try $0.value() })
            case UInt8(ascii: "\""): return .string(try string())
            default:
                let start = position
                while position < octets.count, !",]} \n\r\t".utf8.contains(octets[position]) { position += 1 }
                guard position > start else { throw malformed }
                let text = String(decoding: octets[start..<position], as: UTF8.self)
                guard ["true", "false", "null"].contains(text) || Double(text) != nil else { throw malformed }
                return .literal(text)
            }
        }

        mutating func string() throws -> String {
            let start = position
            try take("\"")
            while try peek() != UInt8(ascii: "\"") { position += try peek() == UInt8(ascii: "\\") ? 2 : 1 }
            position += 1
            return try JSONDecoder().decode(String.self, from: Data(octets[start..<position]))
        }
    }
}

extension Document: ExpressibleByStringLiteral, ExpressibleByIntegerLiteral, ExpressibleByBooleanLiteral,
    ExpressibleByNilLiteral, ExpressibleByArrayLiteral, ExpressibleByDictionaryLiteral, ExpressibleByFloatLiteral
{
    init(stringLiteral value: String) { self = .string(value) }
    init(integerLiteral value: Int) { self = .literal(String(value)) }
    init(floatLiteral value: Double) { self = .literal(String(value)) }
    init(booleanLiteral value: Bool) { self = .literal(value ? "true" : "false") }
    init(nilLiteral: ()) { self = .literal("null") }
    init(arrayLiteral elements: Document...) { self = .array(elements) }
    init(dictionaryLiteral elements: (String, Document)...) { self = .object(Dictionary(elements) { $1 }) }

    static func number(_ value: some CustomStringConvertible) -> Document { .literal(value.description) }
}
