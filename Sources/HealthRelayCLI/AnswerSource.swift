import Foundation
import GatewayCommands
import GatewaySettings
import HealthReadings

/// Who answers what a pairing asks.
enum AnswerSource: Sendable {
    /// The person in front of the terminal, where there is one.
    case terminal
    /// The passkey of the command line; the person for anything else.
    case passkey(Passkey)
    /// The file that holds the passkey, read when it is asked for; the person for anything else.
    case passkeyFile(String)

    /// How often a file that is still empty is looked at again.
    private static let interval: Duration = .milliseconds(100)

    func answer(_ question: Question) async throws -> Answer {
        switch (self, question) {
        case (.passkey(let passkey), .passkey): return .passkey(passkey)
        case (.passkeyFile(let path), .passkey): return .passkey(try await Self.passkey(in: path))
        default: return try await Self.ask(question)
        }
    }

    /// Waits for the file to hold something: whatever writes it may see the digits only when the device shows them.
    private static func passkey(in path: String) async throws -> Passkey {
        while true {
            let text: String
            do {
                text = try String(contentsOfFile: path, encoding: .utf8)
            } catch {
                throw Problem(
                    "passkey_unreadable", .noInput,
                    "cannot read the passkey in \(path): \(error.localizedDescription)")
            }
            if text.contains(where: { !$0.isWhitespace }) {
                guard let passkey = Passkey(text) else {
                    throw Problem(
                        "passkey_invalid", .badData, "\(path): expected six digits, found \(text.count) characters")
                }
                return passkey
            }
            try await Task.sleep(for: interval)
        }
    }

    private static func ask(_ question: Question) async throws -> Answer {
        guard TerminalInput.isThere else { throw question.unanswered }
        switch question {
        case .passkey(let device):
            while true {
                guard let line = try await TerminalInput.line("Type the six digits that \(device) shows: ") else {
                    throw Problem(
                        "pairing_rejected", .notPermitted, "no digits were typed, so \(device) was not paired")
                }
                if let passkey = Passkey(line) { return .passkey(passkey) }
                Terminal.error("Six digits are needed, as the device shows them.")
            }
        case .comparison(let digits, let device):
            return .confirmation(try await TerminalInput.yes("Does \(device) show \(digits.digits)? [y/N] "))
        case .unauthenticated(let device):
            return .confirmation(
                try await TerminalInput.yes(
                    "\(device) asks for no digits, so nothing proves which device it is. Pair it? [y/N] "))
        case .move(let words):
            for line in words { Terminal.error(PrintableText.escaped(line)) }
            return .confirmation(try await TerminalInput.yes("Move them? [y/N] "))
        case .unusualEntry(let doubts):
            for doubt in doubts { Terminal.error(PrintableText.escaped(doubt)) }
            return .confirmation(try await TerminalInput.yes("This is unusual. Is it right? [y/N] "))
        }
    }
}
