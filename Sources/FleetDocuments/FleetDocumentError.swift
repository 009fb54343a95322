/// Why a document of a fleet is not taken.
///
/// The words name places and types, never a value of a reading.
public enum FleetDocumentError: Error, Sendable, Hashable, CustomStringConvertible {
    /// The document has more bytes than its kind may have. It was not parsed.
    case tooLarge(bytes: Int, limit: Int)
    /// The document is of a newer schema than this program knows: the program has to be updated.
    case newerSchema(Int, known: Int)
    /// Something else stands in the document than belongs there.
    case unexpected(at: String, expected: String, found: String)
    /// The document is about another gateway than the one that its topic or its sealed envelope names.
    case otherGateway(expected: GatewayID, found: GatewayID)
    /// The batch is sealed to another key than the one given.
    case otherKey(expected: String, found: String)
    /// The seal does not open: the batch was changed, or its gateway or number was.
    case sealBroken
    /// A text is no key that batches can be sealed to or opened with.
    case badKey(expected: String, found: String)

    /// The published name.
    public var code: String {
        switch self {
        case .tooLarge: "document_too_large"
        case .newerSchema: "newer_schema"
        case .unexpected: "bad_document"
        case .otherGateway: "other_gateway"
        case .otherKey: "other_key"
        case .sealBroken: "seal_broken"
        case .badKey: "bad_key"
        }
    }

    /// One line for people and logs.
    public var description: String {
        switch self {
        case .tooLarge(let bytes, let limit): "the document has \(bytes) bytes; at most \(limit) are read"
        case .newerSchema(let found, let known):
            "the document has schema \(found); this program knows schemas up to \(known). Update it."
        case .unexpected(let place, let expected, let found): "\(place): expected \(expected), found \(found)"
        case .otherGateway(let expected, let found):
            "the document names the gateway \(found); expected \(expected), which it came from"
        case .otherKey(let expected, let found):
            "the batch is sealed to the key \(found); the key given is \(expected)"
        case .sealBroken: "the batch's seal does not open: its content, gateway or number was changed"
        case .badKey(let expected, let found): "expected \(expected), found \(found)"
        }
    }
}
