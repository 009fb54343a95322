import ArgumentParser
import GatewayCommands

struct Backup: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "backup",
        abstract: "Make, list and check the backups of the settings' backup section.",
        discussion: """
            A backup is an export of the whole store, sealed under the passphrase of backup.passphrase_file. `run` makes one \
            whenever the newest is older than backup.every. `store import` makes a store of it on another machine.
            """,
        subcommands: [Now.self, List.self, Verify.self])

    struct Now: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "now", abstract: "Make a backup now, and read it back.")
        @OptionGroup var global: GlobalOptions
        func run() async throws { try await OperationCommand.run(.backup(.now), global) }
    }

    struct List: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "list", abstract: "List the backups, the newest first.")
        @OptionGroup var global: GlobalOptions
        func run() async throws { try await OperationCommand.run(.backup(.list), global) }
    }

    struct Verify: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "verify",
            abstract: "Read a backup whole, and say whether a store can be made of it.")
        @Argument(help: ArgumentHelp("The backup's name, as list shows it (default: the newest).", valueName: "name"))
        var name: String?
        @OptionGroup var global: GlobalOptions
        func run() async throws { try await OperationCommand.run(.backup(.verify(name)), global) }
    }
}
