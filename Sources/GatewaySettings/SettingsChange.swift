/// A change of the settings that the gateway itself writes; all of it counts, or nothing.
public struct SettingsChange: Codable, Sendable, Hashable {
    /// What a setting is given.
    public enum Value: Codable, Sendable, Hashable {
        /// A text; of a list with commas (`a,b`), of a map as `a=b,c=d`.
        case text(String)
        case list([String])
        case map([String: String])
    }

    /// Values by their settings' keys, such as `sync.mode`, `destinations.clinic.url` or `users.anna.time_zone`.
    public var set: [String: Value]
    /// Secrets by their settings' keys without `_file`, such as `destinations.clinic.api_key`. Each is written into a
    /// file of its own and never shown.
    public var secrets: [String: String]
    /// The keys of settings that are to be as if nobody had set them here; also `destinations.clinic` or `users.anna`.
    public var unset: [String]
    /// The digest of the settings that the change was made for; `nil`: whichever they are.
    public var digest: String?

    /// Makes a change.
    public init(
        set: [String: Value] = [:], secrets: [String: String] = [:], unset: [String] = [], digest: String? = nil
    ) {
        self.set = set
        self.secrets = secrets
        self.unset = unset
        self.digest = digest
    }

    /// The keys that it names, sorted.
    public var keys: [String] { (Array(set.keys) + Array(secrets.keys) + unset).sorted() }
}

extension SettingsChange.Value {
    /// The entries of a list.
    var entries: [String]? {
        switch self {
        case .text(let text): text.split(separator: ",").map { $0.trimming(" ") }
        case .list(let entries): entries
        case .map: nil
        }
    }

    /// The keys and texts of a map.
    var pairs: [String: String]? {
        switch self {
        case .map(let pairs): return pairs
        case .list: return nil
        case .text(let text):
            var pairs: [String: String] = [:]
            for part in text.split(separator: ",") {
                let halves = part.split(separator: "=", maxSplits: 1)
                guard halves.count == 2 else { return nil }
                pairs[halves[0].trimming(" ")] = halves[1].trimming(" ")
            }
            return pairs
        }
    }
}

extension Substring {
    /// The text without this character at its beginning and end.
    func trimming(_ character: Character) -> String {
        var rest = self
        while rest.first == character { rest.removeFirst() }
        while rest.last == character { rest.removeLast() }
        return String(rest)
    }
}
