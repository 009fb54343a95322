/// A JSON document whose numbers are the very characters that were sent (RFC 8259).
///
/// A measured value has a precision (127.0 is not 127) which a binary or normalised decimal number loses, so numbers
/// stay text from the request to the database and back.
enum JSONValue: Sendable, Equatable {
    case null
    case bool(Bool)
    case number(String)
    /// `NaN`, `Infinity` or `-Infinity`: no JSON, but what some encoders write; kept so that the answer names the field.
    case nonFinite(String)
    case string(String)
    case array([JSONValue])
    case object([Member])

    /// A name and its value, in the order sent.
    struct Member: Sendable, Equatable {
        var name: String
        var value: JSONValue
    }

    /// The value of a member, nil when this is no object or has none of that name.
    subscript(name: String) -> JSONValue? {
        guard case .object(let members) = self else { return nil }
        return members.first { $0.name == name }?.value
    }

    /// The compact text of the document.
    var text: String {
        var out = ""
        write(to: &out)
        return out
    }

    private func write(to out: inout String) {
        switch self {
        case .null: out += "null"
        case .bool(let value): out += value ? "true" : "false"
        case .number(let token), .nonFinite(let token): out += token
        case .string(let value): Self.write(value, to: &out)
        case .array(let elements):
            out += "["
            for (index, element) in elements.enumerated() {
                if index > 0 { out += "," }
                element.write(to: &out)
            }
            out += "]"
        case .object(let members):
            out += "{"
            for (index, member) in members.enumerated() {
                if index > 0 { out += "," }
                Self.write(member.name, to: &out)
                out += ":"
                member.value.write(to: &out)
            }
            out += "}"
        }
    }

    private static func write(_ string: String, to out: inout String) {
        out += "\""
        for scalar in string.unicodeScalars {
            switch scalar {
            case "\"": out += "\\\""
            case "\\": out += "\\\\"
            case "\n": out += "\\n"
            case "\r": out += "\\r"
            case "\t": out += "\\t"
            case _ where scalar.value < 0x20:
                let digits = String(scalar.value, radix: 16)
                out += "\\u" + String(repeating: "0", count: 4 - digits.count) + digits
            default: out.unicodeScalars.append(scalar)
            }
        }
        out += "\""
    }
}

extension JSONValue: ExpressibleByStringLiteral, ExpressibleByBooleanLiteral, ExpressibleByIntegerLiteral,
    ExpressibleByArrayLiteral, ExpressibleByDictionaryLiteral
{
    init(stringLiteral value: String) { self = .string(value) }
    init(booleanLiteral value: Bool) { self = .bool(value) }
    init(integerLiteral value: Int) { self = .number(String(value)) }
    init(arrayLiteral elements: JSONValue...) { self = .array(elements) }
    init(dictionaryLiteral elements: (String, JSONValue)...) {
        self = .object(elements.map { Member(name: $0.0, value: $0.1) })
    }

    /// A whole number.
    static func integer(_ value: Int) -> JSONValue { .number(String(value)) }

    /// A text, or null.
    static func text(_ value: String?) -> JSONValue { value.map(JSONValue.string) ?? .null }
}
