import ArgumentParser
import Foundation
import GatewaySettings

/// Where the passphrase of an export comes from.
struct PassphraseOptions: ParsableArguments {
    @Option(help: ArgumentHelp("The file whose first line is the passphrase.", valueName: "file"))
    var passphraseFile: String?

    /// The passphrase: of the file, else of the person at the terminal.
    ///
    /// - Parameter isNew: whether it is being chosen, and so asked for twice.
    func passphrase(isNew: Bool) async throws -> Passphrase {
        if let passphraseFile { return Passphrase(in: try Self.read(passphraseFile)) }
        guard TerminalInput.isThere else {
            throw Problem(
                "passphrase_needed", .usage,
                "an export needs a passphrase, and there is no terminal to type it at",
                hint: "name a file that contains it: --passphrase-file")
        }
        // A terminal that hides what is typed is to show it again, whatever ends the question.
        return try await Interruption.endingBySignal {
            let passphrase = try await Self.ask("Passphrase of the export: ")
            if isNew, try await Self.ask("Repeat the passphrase: ") != passphrase {
                throw Problem("passphrase_differs", .usage, "the passphrases differ; nothing was exported")
            }
            return Passphrase(text: passphrase)
        }
    }

    private static func ask(_ prompt: String) async throws -> String {
        let line = try await TerminalInput.secret(prompt) ?? ""
        return line.hasSuffix("\n") ? String(line.dropLast()) : line
    }

    private static func read(_ path: String) throws -> String {
        do {
            return try String(contentsOfFile: path, encoding: .utf8)
        } catch {
            throw Problem(
                "passphrase_unreadable", .noInput,
                "cannot read the passphrase in \(path): \(error.localizedDescription)")
        }
    }
}

/// The passphrase of an export.
struct Passphrase: Sendable {
    let text: String
    /// What version 0.1.0 took for it; `nil` if that is the same.
    var former: String?
}

extension Passphrase {
    /// The first line of a file's text.
    ///
    /// To Swift, a carriage return and a line feed are one character, and that is no line feed: with lines that end as on
    /// Windows, all of them were the passphrase.
    init(in contents: String) {
        let line = contents.unicodeScalars.prefix { $0 != "\n" }
        text = String(line.last == "\r" ? line.dropLast() : line)
        let former = contents.split(separator: "\n", maxSplits: 1, omittingEmptySubsequences: false).first ?? ""
        if former != text { self.former = String(former) }
    }
}
