import ArgumentParser
import GatewayService

struct Store: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "store", abstract: "The store itself.", subcommands: [Stats.self, Verify.self, Prune.self])

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

    struct Verify: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Check every row, and that every frame still decodes to the reading it became.")
        @OptionGroup var global: GlobalOptions
        func run() async throws { try await OperationCommand.run(.store(.verify), global) }
    }
}
