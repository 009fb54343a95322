import ArgumentParser
import CloudSources
import GatewayCommands

struct Cloud: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "cloud", abstract: "Fetch what WHOOP and Garmin keep in their clouds.",
        discussion: """
            Off unless the settings name a wear service, or an app of WHOOP's own API, and somebody has connected an account.
            """,
        subcommands: [Connect.self, Status.self, Fetch.self, Disconnect.self])

    struct Connect: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "connect",
            abstract: "Connect an account, on the vendor's page.",
            discussion: """
                Prints the page's address and waits until the person has agreed there, or refused.

                The page sends the browser back to this machine, so the browser must run here. From another machine, \
                forward the port that the command names: ssh -L PORT:127.0.0.1:PORT THIS-MACHINE.
                """)
        @Argument(help: "whoop or garmin.") var vendor: CloudVendor
        @Option(help: ArgumentHelp("Whose account it is (default: the current user).", valueName: "id"))
        var person: String?
        @Option(help: ArgumentHelp("How many seconds to wait for the person, 1 to 86400.", valueName: "s"))
        var wait = 300
        @OptionGroup var global: GlobalOptions

        func validate() throws {
            guard (1...86_400).contains(wait) else {
                throw ValidationError("--wait: expected 1 to 86400 seconds, found \(wait)")
            }
        }

        func run() async throws {
            try await OperationCommand.run(
                .cloud(.connect(CloudConnection(vendor, person: person, wait: wait))), global)
        }
    }

    struct Status: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "status",
            abstract: "Show the accounts that are connected. No cloud is asked.")
        @OptionGroup var global: GlobalOptions

        func run() async throws { try await OperationCommand.run(.cloud(.status), global) }
    }

    struct Fetch: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "fetch",
            abstract: "Fetch what is new into the store: all of it, or an error.",
            discussion: "A fetch that was cut off goes on when it is run again; what is stored already changes nothing."
        )
        @Argument(help: "whoop or garmin (default: all that are connected).") var vendor: CloudVendor?
        @Option(
            help: ArgumentHelp(
                "The first instant or date (default: 15 days before the last fetch; 30 days ago without one).",
                valueName: "instant"))
        var from: String?
        @OptionGroup var global: GlobalOptions

        func run() async throws {
            try await OperationCommand.run(.cloud(.fetch(CloudRequest(vendor, from: from))), global)
        }
    }

    struct Disconnect: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "disconnect",
            abstract: "Forget an account. Works without a network; the service is told when it can be.",
            discussion: "What was fetched stays in the store.")
        @Argument(help: "whoop or garmin.") var vendor: CloudVendor
        @OptionGroup var global: GlobalOptions

        func run() async throws { try await OperationCommand.run(.cloud(.disconnect(vendor)), global) }
    }
}

extension CloudVendor: ExpressibleByArgument {}
