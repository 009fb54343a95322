import GatewaySettings

/// What an operation asks of the person who ordered it, in the middle of it.
public enum Question: Codable, Sendable, Hashable {
    /// The six digits that the device shows.
    case passkey(device: String)
    /// Whether the device shows the same six digits.
    case comparison(Passkey, device: String)
    /// Whether a device may be paired that can neither show nor ask anything, where its maker says it can.
    case unauthenticated(device: String)
    /// Whether what a person entered is right, though it is unusual: what was expected and what was found.
    case unusualEntry(doubts: [String])
    /// Whether readings are another person's, and what follows.
    case move(words: [String])
}

/// What the person said, or why there was nobody to say it.
public enum Answer: Codable, Sendable, Hashable {
    /// The digits that were asked for.
    case passkey(Passkey)
    /// Yes or no.
    case confirmation(Bool)
}

extension Question {
    /// The problem that nobody is there to answer.
    public var unanswered: Problem {
        switch self {
        case .passkey(let device):
            Problem(
                "passkey_needed", .usage, "\(device) shows six digits, and there is no terminal to type them at",
                hint: "pass them with --passkey or --passkey-file, or pair at a terminal")
        case .comparison(_, let device):
            Problem(
                "confirmation_needed", .usage,
                "\(device) shows six digits to compare, and there is no terminal to confirm them at",
                hint: "pair at a terminal")
        case .unauthenticated(let device):
            Problem(
                "confirmation_needed", .usage,
                "\(device) pairs without digits, and there is no terminal to confirm that at",
                hint: "pair at a terminal")
        case .unusualEntry(let doubts):
            Problem(
                "unusual_entry", .badData,
                "this entry is unusual, and nobody has confirmed it: \(doubts.joined(separator: "; "))",
                hint: "check it; if it is right, confirm it with --yes")
        case .move(let words):
            Problem(
                "confirmation_needed", .usage,
                "nobody has confirmed this: \(words.joined(separator: "; "))",
                hint: "check it; if it is right, confirm it with --yes")
        }
    }
}
