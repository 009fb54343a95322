/// Why a statement or a connection failed, by what the caller can do about it.
///
/// The words are the server's first line. Its detail lines may hold values of a row, so they are left out.
package enum PostgreSQLError: Error, Sendable, Hashable {
    /// The server can't be reached, is starting or stopping, or has no room. The same may succeed later.
    case unavailable(String)
    /// Another transaction was in the way; the same transaction may succeed at once.
    case conflict(String)
    /// The server refused a value.
    case badValue(String)
    /// The server committed, but the standby that it was told to wait for hasn't confirmed.
    case notReplicated(String)
    /// A person has to change something: a permission, a table that is missing.
    case refused(state: String, String)

    /// - Parameters:
    ///   - state: the five characters of SQLSTATE; `nil`: the connection broke before the server could say.
    ///   - words: what the server or the library says.
    init(state: String?, words: String) {
        let words = words.split(whereSeparator: \.isNewline).first.map(String.init) ?? "the connection was lost"
        guard let state, state.utf8.count == 5 else {
            self = .unavailable(words)
            return
        }
        switch state.prefix(2) {
        // Connection exceptions, no room, an operator's intervention, an error of the system.
        case "08", "53", "57", "58": self = .unavailable(words)
        case "40": self = .conflict(words)
        // Data exceptions and constraints; a value that JSON's binary form can't hold counts as one too.
        case "22", "23", "54": self = .badValue(words)
        // A standby or a server in recovery refuses to write: another one may take over.
        case "25": self = state == "25006" ? .unavailable(words) : .refused(state: state, words)
        default: self = .refused(state: state, words)
        }
    }

    /// Whether the same may succeed later although nobody does anything.
    package var isTemporary: Bool {
        switch self {
        case .unavailable, .conflict, .notReplicated: true
        case .badValue, .refused: false
        }
    }
}

extension PostgreSQLError: CustomStringConvertible {
    /// One line for people.
    package var description: String {
        switch self {
        case .unavailable(let words), .conflict(let words), .badValue(let words), .notReplicated(let words): words
        case .refused(let state, let words): "\(words) (SQLSTATE \(state))"
        }
    }
}
