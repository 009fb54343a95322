import ArgumentParser
import Foundation
import GatewayCommands
import GatewaySettings
import HealthReadings
import Synchronization

extension User {
    struct Remove: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "remove",
            abstract: "Remove the user at the server and erase all their data here. This cannot be undone.",
            discussion: """
                Erases readings, raw frames, contacts, waiting readings and sources, and rewrites the store's files so that \
                no byte of them is left. Devices stay known but are no longer paired. If the server cannot be reached, \
                nothing is erased.
                """)
        @Flag(help: "Do not ask.") var yes = false
        @Flag(help: "Erase here only; leave the server as it is.") var local = false
        @OptionGroup var global: GlobalOptions

        func run() async throws {
            let settings = try global.settings()
            global.startLogging(settings)
            let confirmed = yes ? nil : try await confirmation(settings)
            try await OperationCommand.run(
                OperationRequest(.user(.remove(confirmed: confirmed, local: local)), json: global.json), global,
                settings, TerminalOutput(asJSON: global.json, answers: .terminal))
        }

        /// Asks the person at the terminal; returns whom they have confirmed.
        private func confirmation(_ settings: Settings) async throws -> String {
            try TerminalInput.require(because: "removing a user cannot be undone", hint: "confirm with --yes")
            let shown = Captured()
            try await OperationCommand.run(OperationRequest(.user(.show), json: true), global, settings, shown)
            let name = try shown.name
            let word = name.isEmpty ? "yes" : name
            Terminal.errorText(
                "This \(local ? "" : "removes \(name.isEmpty ? "the user" : name) at the server and ")erases "
                    + "everything of \(name.isEmpty ? "the user" : name) here: readings, frames, contacts, sources. "
                    + "It cannot be undone.\nType \(word) to continue:")
            guard readLine() == word else {
                throw Problem("not_confirmed", .usage, "not confirmed: nothing was removed")
            }
            return name
        }
    }
}

/// Keeps an operation's document instead of printing it.
private final class Captured: OperationOutput {
    private struct Shown: Decodable { var client_user_id: String? }

    private let lines = Mutex<[String]>([])

    /// The name of the user that was shown; empty for one without.
    var name: String {
        get throws {
            let text = lines.withLock { $0.joined() }
            return try JSONDecoder().decode(Shown.self, from: Data(text.utf8)).client_user_id ?? ""
        }
    }

    func data(_ line: String) { lines.withLock { $0.append(line) } }
    func note(_ line: String) {}
}
