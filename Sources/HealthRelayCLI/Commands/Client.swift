import ArgumentParser
import GatewayService

struct Client: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "client", abstract: "Who may use the gateway over the network.",
        subcommands: [Invite.self, List.self, Revoke.self, Audit.self])

    struct Invite: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Make a pairing code for a program or a browser.",
            discussion: """
                Shows a QR code for programs that read one, and the code itself for the page's sign-in. It is good once, \
                for five minutes and for five tries.
                """)
        @OptionGroup var global: GlobalOptions
        func run() async throws { try await OperationCommand.run(.client(.invite), global) }
    }

    struct List: AsyncParsableCommand {
        static let configuration = CommandConfiguration(abstract: "Programs and browsers that were let in.")
        @OptionGroup var global: GlobalOptions
        func run() async throws { try await OperationCommand.run(.client(.list), global) }
    }

    struct Revoke: AsyncParsableCommand {
        static let configuration = CommandConfiguration(abstract: "Put a program or a browser out at once.")
        @Argument(help: "Its number in `client list`.") var number: Int64?
        @Flag(help: "Everybody.") var all = false
        @OptionGroup var global: GlobalOptions

        func validate() throws {
            guard (number == nil) == all else { throw ValidationError("expected a client's number, or --all") }
        }

        func run() async throws { try await OperationCommand.run(.client(.revoke(number)), global) }
    }

    struct Audit: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "What was done over the network in the last 90 days, the newest first.")
        @Option(help: ArgumentHelp("How many entries, 1 to 10000.", valueName: "n")) var limit = 1000
        @OptionGroup var global: GlobalOptions

        func validate() throws {
            guard (1...10_000).contains(limit) else {
                throw ValidationError("--limit: expected 1 to 10000, found \(limit)")
            }
        }

        func run() async throws { try await OperationCommand.run(.client(.audit(limit: limit)), global) }
    }
}
