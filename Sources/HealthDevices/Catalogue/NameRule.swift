/// How a device's name is recognised; always from its first character, and octet by octet.
public enum NameRule: Sendable, Hashable {
    /// The whole name.
    case exact(String)
    /// The name begins with this.
    case prefix(String)
    /// The name begins with this and a digit (0 … 9) follows.
    case prefixAndDigit(String)

    /// The text it is about.
    package var text: String {
        switch self {
        case .exact(let text), .prefix(let text), .prefixAndDigit(let text): text
        }
    }

    /// Whether the name obeys the rule.
    public func matches(_ name: String) -> Bool {
        guard name.utf8.starts(with: text.utf8) else { return false }
        switch self {
        case .exact: return name.utf8.count == text.utf8.count
        case .prefix: return true
        case .prefixAndDigit: return name.utf8.dropFirst(text.utf8.count).first.map(Self.isDigit) == true
        }
    }

    static func isDigit(_ octet: UInt8) -> Bool { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(octet) }
}

extension NameRule: CustomStringConvertible {
    /// As the list of devices shows it: `meter+…`, `BM` and a digit, `TNG`.
    public var description: String {
        switch self {
        case .exact(let text): "`\(text)`"
        case .prefix(let text): "`\(text)…`"
        case .prefixAndDigit(let text): "`\(text)` and a digit"
        }
    }
}
