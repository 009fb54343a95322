import ArgumentParser
import Foundation
import GatewayService

struct Store: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "store", abstract: "The store itself.",
        subcommands: [
            Stats.self, Verify.self, Prune.self, RotateKey.self, TrustClock.self, Forget.self, Export.self, Import.self,
        ])

    struct Stats: AsyncParsableCommand {
        static let configuration = CommandConfiguration(abstract: "How much is kept, delivered and waiting.")
        @OptionGroup var global: GlobalOptions
        func run() async throws { try await OperationCommand.run(.store(.stats), global) }
    }

    struct Prune: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Remove old readings that the server has. It cannot be undone.",
            discussion: """
                What was not delivered stays: readings that wait, that were refused, and that are never delivered. A \
                meter that is read from its beginning does not bring back what was removed.
                """)
        @Option(help: ArgumentHelp("How long ago they were measured at least: 90d, 12h.", valueName: "duration"))
        var olderThan: AgeArgument
        @OptionGroup var global: GlobalOptions
        func run() async throws { try await OperationCommand.run(.store(.prune(olderThan: olderThan.seconds)), global) }
    }

    struct RotateKey: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Make a new key, seal every row anew under it, and destroy the one before.",
            discussion: """
                Where the key is a systemd credential, add a new one there as its last line and restart the service: \
                the rows go over to it while it runs.
                """)
        @OptionGroup var global: GlobalOptions
        func run() async throws { try await OperationCommand.run(.store(.rotateKey), global) }
    }

    struct TrustClock: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "trust-clock",
            abstract: "Say that this machine's clock is right now, where `doctor` names it as untrusted.",
            discussion: """
                Contacts that are stored with a later time then no longer keep devices from being read. They, their \
                readings and the times of those stay as they are.
                """)
        @OptionGroup var global: GlobalOptions
        func run() async throws { try await OperationCommand.run(.store(.trustClock), global) }
    }

    struct Forget: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Erase everybody, or one person, from the store. It cannot be undone.",
            discussion: """
                Erased are readings, frames as they came, contacts, what waits and what was pruned, and sources; the \
                store's files are written anew. Devices stay known and are barred until they are paired again.
                """)
        @Option(help: ArgumentHelp("Only this person, by the client's id.", valueName: "id")) var user: String?
        @Flag(help: "Remove them at the server first.") var server = false
        @Flag(help: "Do not ask.") var yes = false
        @OptionGroup var global: GlobalOptions

        func run() async throws {
            if !yes { try confirm() }
            try await OperationCommand.run(.store(.forget(ForgetOperation(user: user, atServer: server))), global)
        }

        private func confirm() throws {
            guard isatty(0) == 1 else {
                throw Problem(
                    "not_confirmed", .usage, "forgetting cannot be undone, and there is no terminal to ask at",
                    hint: "say it with --yes")
            }
            let word = user ?? "everybody"
            Terminal.errorText(
                "This \(server ? "removes \(word) at the server and " : "")erases everything of \(word) here: "
                    + "readings, frames, contacts, sources. It cannot be undone.\nType \(word) to go on:")
            guard readLine() == word else {
                throw Problem("not_confirmed", .usage, "not confirmed: nothing was erased")
            }
        }
    }

    struct Verify: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Check every row, and that every frame still decodes to the reading it became.")
        @OptionGroup var global: GlobalOptions
        func run() async throws { try await OperationCommand.run(.store(.verify), global) }
    }
}
