import HealthReadings

/// Something that went wrong, as a person or a script is told it: a published code, one clear line, what to do next,
/// and the exit status.
public struct Problem: Error, Sendable, Hashable, Codable {
    /// Exit statuses, after sysexits.h.
    public enum ExitStatus: Int32, Sendable, Hashable, Codable {
        case usage = 64
        case badData = 65
        case noInput = 66
        case unavailable = 69
        case ourFault = 70
        case cannotCreate = 73
        case inputOutput = 74
        case tryAgain = 75
        case protocolBroken = 76
        case notPermitted = 77
        case configuration = 78
    }

    /// The published snake_case code.
    public var code: String
    /// What was expected and what was found.
    public var message: String
    /// What to do next; nil where there is nothing to add.
    public var hint: String?
    /// The exit status.
    public var status: ExitStatus

    /// Makes a problem.
    public init(_ code: String, _ status: ExitStatus, _ message: String, hint: String? = nil) {
        self.code = code
        self.status = status
        self.message = message
        self.hint = hint
    }
}

extension Problem {
    /// Makes the problem of a command or request that nobody can carry out as it is written: `usage`, status 64.
    package static func usage(_ message: String, hint: String? = nil) -> Problem {
        Problem("usage", .usage, message, hint: hint)
    }

    /// Makes the problem of settings that cannot be used: `config_invalid`, status 78.
    package static func configInvalid(_ message: String, hint: String? = nil) -> Problem {
        Problem("config_invalid", .configuration, message, hint: hint)
    }

    /// Whether the same may succeed later without anyone doing anything: else a person has to change something first.
    public var isTemporary: Bool {
        switch status {
        case .tryAgain, .unavailable, .inputOutput, .protocolBroken: true
        case .usage, .badData, .noInput, .ourFault, .cannotCreate, .notPermitted, .configuration: false
        }
    }

    /// The error line of `--json`: `{"error":{"code","message","hint"}}`.
    public var document: JSONValue {
        .object([
            "error": .object(["code": .string(code), "message": .string(message), "hint": .optional(hint)])
        ])
    }
}
