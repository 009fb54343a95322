import ArgumentParser
import GatewayService

struct Store: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "store", abstract: "The store itself.", subcommands: [Stats.self, Verify.self])

    struct Stats: AsyncParsableCommand {
        static let configuration = CommandConfiguration(abstract: "How much is kept, delivered and waiting.")
        @OptionGroup var global: GlobalOptions
        func run() async throws { try await OperationCommand.run(.store(.stats), global) }
    }

    struct Verify: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Check every row, and that every frame still decodes to the reading it became.")
        @OptionGroup var global: GlobalOptions
        func run() async throws { try await OperationCommand.run(.store(.verify), global) }
    }
}
