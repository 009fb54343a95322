import Foundation

/// What a browser brings back when a link has ended: `state=success&provider=P`, or `state=error` with `error_type` and
/// `error` (docs.junction.com, "Link Errors"). Parameters of other names, `isMobile` among them, are nobody's here.
struct LinkRedirect: Sendable, Hashable {
    /// How a link ended.
    enum Outcome: Sendable, Hashable {
        case success
        /// Why it failed: the server's name of it, its words, or both.
        case failure(String)
    }

    /// Why a query is no end of a link.
    struct Malformed: Error, Sendable, Hashable, CustomStringConvertible {
        /// The `state` that was found; nil where there was none.
        var found: String?

        var description: String {
            "expected state=success or state=error, found " + (found.map { "state=\($0)" } ?? "no state")
        }
    }

    /// How the link ended.
    var outcome: Outcome
    /// The provider's slug, where it was named.
    var provider: String?

    /// Reads a query; of a name that stands twice, the first counts.
    init(query: String) throws(Malformed) {
        let fields = Self.fields(query)
        provider = fields["provider"]
        switch fields["state"] {
        case "success": outcome = .success
        case "error":
            let words = [fields["error_type"], fields["error"]].compactMap(\.self)
            outcome = .failure(words.isEmpty ? "no reason was given" : words.joined(separator: ": "))
        case let state: throw Malformed(found: state)
        }
    }

    /// The parameters with a value; more than a browser brings are not read.
    private static func fields(_ query: String) -> [String: String] {
        let pairs = query.split(separator: "&", maxSplits: 64).compactMap { pair -> (String, String)? in
            let parts = pair.split(separator: "=", maxSplits: 1)
            guard parts.count == 2 else { return nil }
            let value = text(parts[1])
            return value.isEmpty ? nil : (text(parts[0]), value)
        }
        return Dictionary(pairs) { first, _ in first }
    }

    /// Decoded, and made fit for a terminal: one line without control characters, 300 characters at most.
    private static func text(_ encoded: Substring) -> String {
        let spaced = encoded.replacing("+", with: " ")
        let decoded = spaced.removingPercentEncoding ?? String(spaced)
        let printable = decoded.unicodeScalars.map { scalar -> Character in
            switch scalar.properties.generalCategory {
            case .control, .format, .lineSeparator, .paragraphSeparator: " "
            default: Character(scalar)
            }
        }
        return String(String(printable).split(separator: " ").joined(separator: " ").prefix(300))
    }
}
