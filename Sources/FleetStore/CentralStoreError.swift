/// Why the centre's store can't do what it was asked.
package enum CentralStoreError: Error, Sendable, Hashable {
    /// It can't be reached or written just now. The same may succeed later.
    case unavailable(String)
    /// It refused a value of a document; other documents aren't touched by this.
    case badValue(String)
    /// A later program made its tables.
    case newerSchema(found: Int, known: Int)
    /// A file or tables that belong to another program.
    case foreign(String)
    /// A person has to change something: a permission, a missing table, a damaged file.
    case refused(String)

    /// The published code.
    package var code: String {
        switch self {
        case .unavailable: "store_unavailable"
        case .badValue: "bad_value"
        case .newerSchema: "store_newer"
        case .foreign: "store_foreign"
        case .refused: "store_refused"
        }
    }

    /// Whether the same may succeed later although nobody does anything.
    package var isTemporary: Bool { if case .unavailable = self { true } else { false } }
}

extension CentralStoreError: CustomStringConvertible {
    /// One line for people.
    package var description: String {
        switch self {
        case .unavailable(let words): "the store can't be used now: \(words)"
        case .badValue(let words): "the store refused a value: \(words)"
        case .newerSchema(let found, let known):
            "the store has schema \(found), and this program knows schemas up to \(known). Install the newer program"
        case .foreign(let words): "the store belongs to another program: \(words)"
        case .refused(let words): "the store refused: \(words)"
        }
    }
}
