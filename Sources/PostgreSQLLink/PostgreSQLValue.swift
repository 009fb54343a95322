/// A parameter of a statement, in PostgreSQL's text form.
package enum PostgreSQLValue: Sendable, Hashable {
    case null
    case text(String)
    /// An array of texts, of which the statement makes what it needs with a cast.
    case array([String?])

    /// As the server reads it; `nil` is SQL's NULL.
    var text: String? {
        switch self {
        case .null: nil
        case .text(let text): text
        case .array(let elements): Self.literal(elements)
        }
    }

    /// An array's literal: `{"a","b",NULL}`. Each text is quoted, so that `NULL` and `{` are texts like others.
    static func literal(_ elements: [String?]) -> String {
        var octets: [UInt8] = [UInt8(ascii: "{")]
        for (index, element) in elements.enumerated() {
            if index > 0 { octets.append(UInt8(ascii: ",")) }
            guard let element else {
                octets.append(contentsOf: "NULL".utf8)
                continue
            }
            octets.append(UInt8(ascii: "\""))
            for octet in element.utf8 {
                if octet == UInt8(ascii: "\"") || octet == UInt8(ascii: "\\") { octets.append(UInt8(ascii: "\\")) }
                octets.append(octet)
            }
            octets.append(UInt8(ascii: "\""))
        }
        octets.append(UInt8(ascii: "}"))
        return String(decoding: octets, as: UTF8.self)
    }
}

extension PostgreSQLValue {
    /// A text, or NULL.
    package static func optional(_ text: String?) -> PostgreSQLValue { text.map(PostgreSQLValue.text) ?? .null }
    /// A whole number.
    package static func integer(_ number: some BinaryInteger) -> PostgreSQLValue { .text(String(number)) }
}
