import ArgumentParser
import GatewayService

struct Devices: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "devices", abstract: "The meters known: paired, read, or replayed.",
        subcommands: [List.self], defaultSubcommand: List.self)

    struct List: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Each meter with its bond, battery, clock and readings.")
        @OptionGroup var global: GlobalOptions
        func run() async throws { try await OperationCommand.run(.device(.list), global) }
    }
}
