import ArgumentParser
import GatewayService

struct Devices: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "devices", abstract: "The meters known: paired, read, or replayed.",
        subcommands: [List.self, SetClock.self], defaultSubcommand: List.self)

    struct List: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Each meter with its bond, battery, clock and readings.")
        @OptionGroup var global: GlobalOptions
        func run() async throws { try await OperationCommand.run(.device(.list), global) }
    }

    struct SetClock: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "set-clock",
            abstract: "Sets a paired device's clock to the user's time. No clock is ever set unasked.",
            discussion: "Records that were made by the old clock are still placed by the old clock.")
        @Argument(help: "The device's address.")
        var address: String
        @Option(help: ArgumentHelp("How long the device may take to be heard.", valueName: "duration"))
        var wait = DurationArgument(seconds: 60)
        @OptionGroup var global: GlobalOptions

        func run() async throws {
            let operation = SetClockOperation(address: address, seconds: wait.seconds)
            try await OperationCommand.run(.device(.setClock(operation)), global)
        }
    }
}
