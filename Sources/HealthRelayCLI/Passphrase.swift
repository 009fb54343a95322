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

    /// How long a file of a passphrase may be: a device has no end.
    private static let most = 1 << 20

    /// Reads to the end: a FIFO, as a shell makes one of `<(…)`, and standard input tell no size.
    private static func read(_ path: String) throws(Problem) -> String {
        func unreadable(_ reason: String) -> Problem {
            Problem("passphrase_unreadable", .noInput, "cannot read the passphrase in \(path): \(reason)")
        }
        let descriptor = open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { throw unreadable(String(cString: strerror(errno))) }
        defer { close(descriptor) }
        var octets: [UInt8] = []
        var piece = [UInt8](repeating: 0, count: 4096)
        while octets.count <= most {
            let count = Glibc.read(descriptor, &piece, piece.count)
            if count < 0, errno == EINTR { continue }
            guard count >= 0 else { throw unreadable(String(cString: strerror(errno))) }
            guard count > 0 else { break }
            octets += piece[..<count]
        }
        guard octets.count <= most else { throw unreadable("it is longer than \(most >> 10) KiB") }
        // As Foundation reads text, without the mark that some editors put first.
        if octets.starts(with: [0xEF, 0xBB, 0xBF]) { octets.removeFirst(3) }
        guard let text = String(validating: octets, as: UTF8.self) else { throw unreadable("it is not UTF-8") }
        return text
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
