import HealthReadings

/// A part of a document with its place, so that errors can name it: `readings[3].id`.
struct DocumentPart {
    /// `nil` if it is absent.
    let node: JSONNode?
    let place: String

    /// Reads a document's outermost object and checks its size and schema.
    ///
    /// - Parameters:
    ///   - octets: all of the document.
    ///   - limit: how many bytes are read at most.
    ///   - hasSchema: whether it has to name its schema.
    static func document(
        _ octets: [UInt8], limit: Int, hasSchema: Bool = true
    ) throws(FleetDocumentError) -> DocumentPart {
        guard octets.count <= limit else { throw .tooLarge(bytes: octets.count, limit: limit) }
        let node: JSONNode
        do {
            node = try JSONReader.read(octets)
        } catch {
            let found =
                error.offset < octets.count ? "the octet \(octets[error.offset])" : "the end of the document"
            throw .unexpected(at: "octet \(error.offset)", expected: error.expected, found: found)
        }
        let part = DocumentPart(node: node, place: "")
        guard node.members != nil else { throw part.unexpected("an object") }
        if hasSchema { try part.checkSchema() }
        return part
    }

    private func checkSchema() throws(FleetDocumentError) {
        let schema = Int(try self["schema"].whole(1...FleetSchema.highest))
        guard schema <= FleetSchema.current else { throw .newerSchema(schema, known: FleetSchema.current) }
    }

    /// A member of an object; one that is absent or null reads as null.
    subscript(key: String) -> DocumentPart {
        DocumentPart(node: node?[key], place: place.isEmpty ? key : "\(place).\(key)")
    }

    var isNull: Bool { if case .null = node?.value ?? .null { true } else { false } }
    var members: [(key: String, node: JSONNode)]? { node?.members }
    var string: String? { node?.text }

    func unexpected(_ expected: String) -> FleetDocumentError {
        .unexpected(at: place.isEmpty ? "the document" : place, expected: expected, found: found)
    }

    /// What stands there, without its value.
    private var found: String {
        switch node?.value {
        case nil, .null: "nothing"
        case .bool: "a truth value"
        case .number: "another number"
        case .string(let text): "a text of \(text.utf8.count) bytes"
        case .array(let elements): "an array of \(elements.count)"
        case .object(let members): "an object of \(members.count)"
        }
    }

    /// A whole number in a range.
    func whole(_ range: ClosedRange<Int64>) throws(FleetDocumentError) -> Int64 {
        guard let number = node?.integer, range.contains(Int64(number)) else {
            throw unexpected("a whole number from \(range.lowerBound) to \(range.upperBound)")
        }
        return Int64(number)
    }

    /// A text of some bytes.
    func text(_ range: ClosedRange<Int> = 1...256) throws(FleetDocumentError) -> String {
        guard let text = string, range.contains(text.utf8.count) else {
            throw unexpected("a text of \(range.lowerBound) to \(range.upperBound) bytes")
        }
        return text
    }

    func instant() throws(FleetDocumentError) -> Instant {
        guard let instant = string.flatMap({ Instant(rfc3339: $0) }) else {
            throw unexpected("a time as in 2026-11-20T12:30:00Z")
        }
        return instant
    }

    func flag() throws(FleetDocumentError) -> Bool {
        guard let flag = node?.flag else { throw unexpected("true or false") }
        return flag
    }

    func readingID() throws(FleetDocumentError) -> ReadingID {
        guard let text = string, let id = ReadingID(text), id.description == text else {
            throw unexpected("32 hexadecimal digits in lower case")
        }
        return id
    }

    func gateway() throws(FleetDocumentError) -> GatewayID {
        guard let text = string else { throw unexpected("a gateway's id") }
        return try GatewayID(text)
    }

    /// The gateway, which has to be the expected one.
    func gateway(_ expected: GatewayID?) throws(FleetDocumentError) -> GatewayID {
        let found = try gateway()
        if let expected, expected != found { throw .otherGateway(expected: expected, found: found) }
        return found
    }

    /// The elements of an array; none if it is absent.
    func elements(atMost limit: Int) throws(FleetDocumentError) -> [DocumentPart] {
        if isNull { return [] }
        guard let elements = node?.elements, elements.count <= limit else {
            throw unexpected("an array of at most \(limit)")
        }
        return elements.enumerated().map { DocumentPart(node: $1, place: "\(place)[\($0)]") }
    }

    /// The value, or `nil` if it is absent or null.
    func optional<Value>(
        _ read: (DocumentPart) throws(FleetDocumentError) -> Value
    ) throws(FleetDocumentError) -> Value? { isNull ? nil : try read(self) }
}

/// The schema of all documents of a fleet.
public enum FleetSchema {
    /// The schema that this program writes, and the newest that it reads.
    ///
    /// A member that older programs may ignore does not change it. They ignore members that they do not know.
    public static let current = 1
    static let highest: Int64 = 1_000_000
    /// The largest whole number that every reader of JSON keeps exactly: 2⁵³ - 1.
    public static let largestNumber: Int64 = 9_007_199_254_740_991
    /// Numbers of batches and revisions.
    static let numbers: ClosedRange<Int64> = 1...largestNumber
}

extension JSONValue {
    static func optional(_ instant: Instant?) -> JSONValue { .optional(instant?.description) }
    static func schema(_ members: [Member]) -> JSONValue {
        .object([.init("schema", .integer(Int64(FleetSchema.current)))] + members)
    }
}
