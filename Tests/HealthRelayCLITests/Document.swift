import Foundation

/// JSON that keeps the text of its numbers, so that a test sees 127.0 and 127 apart.
indirect enum Document: Equatable {
    case text(String)
    case string(String)
    case array([Document])
    case object([String: Document])

    struct Malformed: Error { var position: Int }

    init(_ json: String) throws {
        var reader = Reader(octets: Array(json.utf8))
        self = try reader.value()
        reader.skipSpace()
        guard reader.position == reader.octets.count else { throw Malformed(position: reader.position) }
    }

    init(contentsOf path: String) throws { try self.init(String(contentsOfFile: path, encoding: .utf8)) }

    subscript(key: String) -> Document? {
        if case .object(let members) = self { members[key] } else { nil }
    }

    func elements(_ key: String) -> [Document] {
        if case .array(let elements)? = self[key] { elements } else { [] }
    }

    /// Of `sync status`: the one destination.
    var destination: Document? { elements("destinations").count == 1 ? elements("destinations").first : nil }

    func without(_ key: String) -> Document {
        guard case .object(var members) = self else { return self }
        members[key] = nil
        return .object(members)
    }

    /// The string itself, or the literal.
    var plain: String {
        switch self {
        case .text(let text), .string(let text): text
        default: text
        }
    }

    /// Compact JSON with sorted keys.
    var text: String {
        switch self {
        case .text(let text): text
        case .string(let text): "\"\(text)\""
        case .array(let elements): "[" + elements.map(\.text).joined(separator: ",") + "]"
        case .object(let members):
            "{" + members.sorted { $0.key < $1.key }.map { "\"\($0.key)\":\($0.value.text)" }.joined(separator: ",")
                + "}"
        }
    }

    private struct Reader {
        let octets: [UInt8]
        var position = 0

        mutating func skipSpace() {
            while position < octets.count, [0x20, 0x0A, 0x0D, 0x09].contains(octets[position]) { position += 1 }
        }

        mutating func take(_ character: Character) throws {
            skipSpace()
            guard position < octets.count, octets[position] == character.asciiValue else {
                throw Malformed(position: position)
            }
            position += 1
        }

        func peek() throws -> Character {
            guard position < octets.count else { throw Malformed(position: position) }
            return Character(UnicodeScalar(octets[position]))
        }

        mutating func list<Element>(_ end: Character, _ element: (inout Reader) throws -> Element) throws -> [Element] {
            position += 1
            var elements: [Element] = []
            skipSpace()
            while try peek() != end {
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
            case "{":
                let members = try list("}") { reader in
                    reader.skipSpace()
                    let key = try reader.string()
                    try reader.take(":")
                    return (key, try reader.value())
                }
                return .object(Dictionary(members) { $1 })
            case "[": return .array(try list("]") { try $0.value() })
            case "\"": return .string(try string())
            default:
                let start = position
                while position < octets.count, !",]} \n\r\t".utf8.contains(octets[position]) { position += 1 }
                return .text(String(decoding: octets[start..<position], as: UTF8.self))
            }
        }

        mutating func string() throws -> String {
            let start = position
            position += 1
            while try peek() != "\"" { position += try peek() == "\\" ? 2 : 1 }
            position += 1
            return try JSONDecoder().decode(String.self, from: Data(octets[start..<position]))
        }
    }
}
