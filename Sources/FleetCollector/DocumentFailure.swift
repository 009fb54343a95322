import FleetDocuments
import FleetStore

/// Why a document from a gateway wasn't taken.
package enum DocumentFailure: Error, Sendable, Hashable {
    /// It isn't what it should be, or names another gateway.
    case document(FleetDocumentError)
    /// The store refused a value in it; the words name no value.
    case badValue(String)
    /// The store can't take anything just now. The document itself may be right.
    case store(CentralStoreError)

    /// The codes of documents that aren't taken.
    static let codes = [
        "bad_document", "bad_key", "bad_value", "document_too_large", "newer_schema", "other_gateway", "other_key",
        "seal_broken",
    ]

    /// The published code.
    package var code: String {
        switch self {
        case .document(let error): error.code
        case .badValue: "bad_value"
        case .store(let error): error.code
        }
    }

    /// One line for people, without any value of a reading.
    package var words: String {
        switch self {
        case .document(let error): error.description
        case .badValue(let words): "the store refused a value: \(words)"
        case .store(let error): error.description
        }
    }

    /// What the store refused of this document although it takes others; `nil`: it is away, or the failure isn't the store's.
    var refusal: String? {
        if case .store(.refused(let words)) = self { words } else { nil }
    }

    /// Whether the document itself is at fault, so that sending it again changes nothing.
    package var isForGood: Bool { if case .store = self { false } else { true } }
}
