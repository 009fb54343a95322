import ArgumentParser
import GatewayService

struct Sync: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "sync", abstract: "Deliver now, or say what waits and why.",
        subcommands: [Now.self, Status.self, Enable.self, Disable.self], defaultSubcommand: Now.self)

    struct Now: AsyncParsableCommand {
        static let configuration = CommandConfiguration(commandName: "now", abstract: "Deliver what waits.")
        @Flag(help: "Print what happens to readings, until interrupted.") var watch = false
        @OptionGroup var global: GlobalOptions
        func run() async throws { try await OperationCommand.run(.sync(watch ? .watch : .now), global) }
    }

    struct Status: AsyncParsableCommand {
        static let configuration = CommandConfiguration(abstract: "What waits, what was refused, when it goes on.")
        @OptionGroup var global: GlobalOptions
        func run() async throws { try await OperationCommand.run(.sync(.status), global) }
    }

    struct Enable: AsyncParsableCommand {
        static let configuration = CommandConfiguration(abstract: "Deliver again.")
        @OptionGroup var global: GlobalOptions
        func run() async throws { try await OperationCommand.run(.sync(.enable), global) }
    }

    struct Disable: AsyncParsableCommand {
        static let configuration = CommandConfiguration(abstract: "Stop delivering; readings wait.")
        @OptionGroup var global: GlobalOptions
        func run() async throws { try await OperationCommand.run(.sync(.disable), global) }
    }
}
