import ArgumentParser
import Foundation
import GatewayCommands
import GatewaySettings

struct Store: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "store", abstract: "Inspect, maintain and move the store.",
        subcommands: [
            Stats.self, Verify.self, Prune.self, RotateKey.self, TrustClock.self, Forget.self, Export.self, Import.self,
        ])

    struct Stats: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "stats",
            abstract: "Show how many readings are stored, delivered and waiting.")
        @OptionGroup var global: GlobalOptions
        func run() async throws { try await OperationCommand.run(.store(.stats), global) }
    }

    struct Prune: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "prune",
            abstract: "Remove old readings that the server has. This cannot be undone.",
            discussion: """
                Readings that were not delivered stay: those that wait, were refused or are never delivered. Reading a meter \
                from the beginning does not bring removed readings back.
                """)
        @Option(
            help: ArgumentHelp("The minimum age: 12h, 90d, 26w or 2y.", valueName: "age"), transform: Self.age)
        var olderThan: ErasureAge
        @OptionGroup var global: GlobalOptions
        func run() async throws { try await OperationCommand.run(.store(.prune(olderThan: olderThan.seconds)), global) }

        private static func age(_ text: String) throws -> ErasureAge {
            guard let age = ErasureAge(text) else {
                throw ValidationError("expected 12h, 90d, 26w or 2y, found '\(text)'")
            }
            return age
        }
    }

    struct RotateKey: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "rotate-key",
            abstract: "Make a new key, seal every row with it, and destroy the old key.",
            discussion: """
                If the key is a systemd credential, add the new key there as its last line and restart the service: it \
                seals the rows with the new key while it runs.
                """)
        @OptionGroup var global: GlobalOptions
        func run() async throws { try await OperationCommand.run(.store(.rotateKey), global) }
    }

    struct TrustClock: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "trust-clock",
            abstract: "Confirm that this machine's clock is right, if `doctor` reports it as untrusted.",
            discussion: """
                Stored contacts with a later time then no longer prevent devices from being read. These contacts, their \
                readings and the readings' times stay as they are.
                """)
        @OptionGroup var global: GlobalOptions
        func run() async throws { try await OperationCommand.run(.store(.trustClock), global) }
    }

    struct Forget: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "forget",
            abstract: "Erase everybody, or one person, from the store. This cannot be undone.",
            discussion: """
                Erases readings, raw frames, contacts, waiting and pruned readings, and sources, and rewrites the store's \
                files. Devices stay known and are barred until they are paired again.
                """)
        @Option(help: ArgumentHelp("Only this person, by your own id for them.", valueName: "id")) var user: String?
        @Flag(help: "Remove them at the server first.") var server = false
        @Flag(help: "Do not ask.") var yes = false
        @OptionGroup var global: GlobalOptions

        func run() async throws {
            if !yes { try confirm() }
            try await OperationCommand.run(.store(.forget(ForgetOperation(user: user, atServer: server))), global)
        }

        private func confirm() throws {
            try TerminalInput.require(because: "forgetting cannot be undone", hint: "confirm with --yes")
            let word = user ?? "everybody"
            Terminal.errorText(
                "This \(server ? "removes \(word) at the server and " : "")erases all data of \(word) here: "
                    + "readings, frames, contacts, sources. This cannot be undone.\nType \(word) to continue:")
            guard readLine() == word else {
                throw Problem("not_confirmed", .usage, "not confirmed: nothing was erased")
            }
        }
    }

    struct Verify: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "verify",
            abstract: "Check every row, and that every frame still decodes to the reading it became.")
        @OptionGroup var global: GlobalOptions
        func run() async throws { try await OperationCommand.run(.store(.verify), global) }
    }
}
