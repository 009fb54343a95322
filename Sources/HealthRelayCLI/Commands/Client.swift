import ArgumentParser
import GatewayCommands

struct Client: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "client", abstract: "Who may use the local API, for whom, and for what.",
        subcommands: [Invite.self, List.self, Revoke.self, Audit.self])

    struct Invite: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "invite",
            abstract: "Make a pairing code for a program or a browser.",
            discussion: """
                Shows a QR code for programs that read one, and the code itself for signing in on the page. The code works \
                once, for five minutes and for five tries. Without --person the client gets every person's readings. Without \
                --scope it may only read if it is for one person, and is an owner otherwise.
                """)
        @Option(help: ArgumentHelp("Only this person's readings.", valueName: "id")) var person: String?
        @Option(
            help: ArgumentHelp(
                "read; write: also scan for meters and pair them; owner: everything, for everybody.",
                valueName: InviteOperation.scopes.joined(separator: "|")))
        var scope: String?
        @Option(help: ArgumentHelp("What `client list` calls it, instead of what it calls itself.", valueName: "n"))
        var name: String?
        @OptionGroup var global: GlobalOptions

        func validate() throws {
            if let scope, !InviteOperation.scopes.contains(scope) {
                throw ValidationError("--scope: expected read, write or owner, found '\(scope)'")
            }
        }

        func run() async throws {
            try await OperationCommand.run(
                .client(.invite(InviteOperation(person: person, scope: scope, name: name))), global)
        }
    }

    struct List: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "list", abstract: "List the paired programs and browsers.")
        @OptionGroup var global: GlobalOptions
        func run() async throws { try await OperationCommand.run(.client(.list), global) }
    }

    struct Revoke: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "revoke", abstract: "Revoke a program's or a browser's access at once.")
        @Argument(help: "Its number in `client list`.") var number: Int64?
        @Flag(help: "Every client.") var all = false
        @OptionGroup var global: GlobalOptions

        func validate() throws {
            guard (number == nil) == all else { throw ValidationError("expected a client's number, or --all") }
        }

        func run() async throws { try await OperationCommand.run(.client(.revoke(number)), global) }
    }

    struct Audit: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "audit",
            abstract: "List what was done over the network in the last 90 days, newest first.")
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
