import ArgumentParser
import GatewayCommands

struct Source: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "source", abstract: "Manage the user's connected sources at the server.",
        subcommands: [List.self, Connect.self, Revoke.self, Link.self])

    struct List: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "list",
            abstract: "List sources, their status, and what waits for them.")
        @OptionGroup var global: GlobalOptions
        func run() async throws { try await OperationCommand.run(.source(.list), global) }
    }

    struct Connect: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "connect",
            abstract: "Connect a provider: accuchek_ble, omron_ble, manual, …")
        @Argument(help: "The provider's slug.") var provider: String
        @OptionGroup var global: GlobalOptions
        func run() async throws { try await OperationCommand.run(.source(.connect(provider)), global) }
    }

    struct Revoke: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "revoke",
            abstract: "Disconnect a provider. Its delivery stops at once; readings stay.")
        @Argument(help: "The provider's slug.") var provider: String
        @OptionGroup var global: GlobalOptions
        func run() async throws { try await OperationCommand.run(.source(.revoke(provider)), global) }
    }

    struct Link: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "link",
            abstract: "Connect a provider that needs the person's consent, on the server's page.",
            discussion: """
                Prints the page's address and waits until the person has connected the provider there, or refused.

                The page sends the browser back to this machine, so the browser must run here. From another machine, \
                forward the port that the command names: ssh -L PORT:127.0.0.1:PORT THIS-MACHINE. With --wait 0 the address is \
                printed and the command ends: the browser may then be anywhere, and `source list` shows the result.
                """)
        @Argument(help: "The provider's slug: oura, dexcom_v3, …") var provider: String
        @Option(help: ArgumentHelp("How many seconds to wait for the person, 0 to 86400.", valueName: "s"))
        var wait = 300
        @OptionGroup var global: GlobalOptions

        func validate() throws {
            guard (0...86_400).contains(wait) else {
                throw ValidationError("--wait: expected 0 to 86400 seconds, found \(wait)")
            }
        }

        func run() async throws {
            try await OperationCommand.run(.source(.link(provider, wait: wait)), global)
        }
    }
}
