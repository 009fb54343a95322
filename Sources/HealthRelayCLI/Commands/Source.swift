import ArgumentParser
import GatewayService

struct Source: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "source", abstract: "The user's connected sources at the server.",
        subcommands: [List.self, Connect.self, Revoke.self])

    struct List: AsyncParsableCommand {
        static let configuration = CommandConfiguration(abstract: "Sources, their status, and what waits for them.")
        @OptionGroup var global: GlobalOptions
        func run() async throws { try await OperationCommand.run(.source(.list), global) }
    }

    struct Connect: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Connect a provider: accuchek_ble, omron_ble, manual, …")
        @Argument(help: "The provider's slug.") var provider: String
        @OptionGroup var global: GlobalOptions
        func run() async throws { try await OperationCommand.run(.source(.connect(provider)), global) }
    }

    struct Revoke: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Disconnect a provider: delivery for it stops at once, readings stay.")
        @Argument(help: "The provider's slug.") var provider: String
        @OptionGroup var global: GlobalOptions
        func run() async throws { try await OperationCommand.run(.source(.revoke(provider)), global) }
    }
}
