import ArgumentParser
import GatewayCommands

struct Devices: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "devices", abstract: "List the known meters: paired, read or replayed.",
        subcommands: [List.self, SetClock.self, Probe.self, Report.self], defaultSubcommand: List.self)

    struct List: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "list",
            abstract: "List each meter with its bond, battery, clock and readings.")
        @OptionGroup var global: GlobalOptions
        func run() async throws { try await OperationCommand.run(.device(.list), global) }
    }

    struct SetClock: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "set-clock",
            abstract:
                "Set a paired device's clock to its person's time. The gateway never sets a clock unless you ask.",
            discussion: "Records made under the old clock are still dated by the old clock.")
        @Argument(help: "The device's address.")
        var address: String
        @Option(help: ArgumentHelp("How long to wait until the device is heard.", valueName: "duration"))
        var wait = DurationArgument(seconds: 60)
        @OptionGroup var global: GlobalOptions

        func run() async throws {
            let operation = SetClockOperation(address: address, seconds: wait.seconds)
            try await OperationCommand.run(.device(.setClock(operation)), global)
        }
    }

    struct Probe: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "probe",
            abstract: "Read of a device what may safely be read, and print a report that its model can be made of.",
            discussion: """
                Nothing of the device changes. Addresses, serial numbers, times and measured values are left out or \
                replaced; look at the report before you give it away.
                """)
        @Argument(help: "The device's address.")
        var address: String
        @Option(help: ArgumentHelp("How long to wait until the device is heard.", valueName: "duration"))
        var wait = DurationArgument(seconds: 60)
        @OptionGroup var global: GlobalOptions

        func run() async throws {
            let operation = ProbeOperation(address: address, seconds: wait.seconds)
            try await OperationCommand.run(.device(.probe(operation)), global)
        }
    }
}
