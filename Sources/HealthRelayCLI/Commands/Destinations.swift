import ArgumentParser
import GatewayCommands
import GatewaySettings

struct Destinations: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "destination", abstract: "Where readings go.",
        subcommands: [List.self, Test.self, Enable.self, Disable.self, Accept.self, Redeliver.self])

    struct List: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "list", abstract: "The destinations that the settings name.")
        @OptionGroup var global: GlobalOptions
        func run() async throws { try await OperationCommand.run(.destination(.list), global) }
    }

    struct Test: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "test",
            abstract: "Check address, certificate, credentials and permission.",
            discussion: "The check leaves no reading behind, and names what it cannot prove.")
        @Argument(help: "The destination.") var name: String
        @OptionGroup var global: GlobalOptions
        func run() async throws { try await OperationCommand.run(.destination(.test(name)), global) }
    }

    struct Enable: AsyncParsableCommand {
        static let configuration = CommandConfiguration(commandName: "enable", abstract: "Deliver to it again.")
        @Argument(help: "The destination.") var name: String
        @OptionGroup var global: GlobalOptions
        func run() async throws { try await OperationCommand.run(.destination(.enable(name)), global) }
    }

    struct Disable: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "disable", abstract: "Stop delivering to it; readings wait.")
        @Argument(help: "The destination.") var name: String
        @OptionGroup var global: GlobalOptions
        func run() async throws { try await OperationCommand.run(.destination(.disable(name)), global) }
    }

    struct Accept: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "accept",
            abstract: "Deliver what waits to its new address.",
            discussion: """
                When the address of a destination changes, its readings wait until somebody says that the new address is \
                meant. `destination redeliver` sends what the former address had as well.
                """)
        @Argument(help: "The destination.") var name: String
        @OptionGroup var global: GlobalOptions
        func run() async throws { try await OperationCommand.run(.destination(.accept(name)), global) }
    }

    struct Redeliver: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "redeliver",
            abstract: "Queue again what was delivered.",
            discussion: """
                Each reading is sent with the timestamp it had, so it replaces what the destination has. Instants are \
                RFC 3339, or a date in the user's zone; both ends are included. Pruned readings are gone.
                """)
        @Argument(help: "The destination.") var name: String
        @Option(help: ArgumentHelp("Only what was measured from this time on.", valueName: "instant"))
        var from: String?
        @Option(
            help: ArgumentHelp(
                "Only what was measured up to this time; a date means the end of that day.", valueName: "instant"))
        var to: String?
        @Option(help: ArgumentHelp("Only these kinds, with commas between.", valueName: "kind"))
        var types: String?
        @OptionGroup var global: GlobalOptions
        func run() async throws {
            let kinds = try KindNames.of(types)
            try await OperationCommand.run(
                .destination(.redeliver(name, from: from, to: to, types: kinds)), global)
        }
    }
}
