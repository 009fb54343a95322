import Foundation

/// The fields of a form or query (`application/x-www-form-urlencoded`; WHATWG URL, section 5): the first of each name.
struct FormFields: Sendable, Equatable {
    private var fields: [String: String] = [:]

    /// Reads any text; what is no valid percent-encoding stays as it is.
    init(_ text: String) {
        for pair in text.split(separator: "&", maxSplits: 64) {
            let parts = pair.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            let name = Self.decoded(parts[0])
            if fields[name] == nil { fields[name] = parts.count == 2 ? Self.decoded(parts[1]) : "" }
        }
    }

    subscript(name: String) -> String? { fields[name] }

    private static func decoded(_ text: Substring) -> String {
        let spaced = text.replacing("+", with: " ")
        return spaced.removingPercentEncoding ?? String(spaced)
    }
}
