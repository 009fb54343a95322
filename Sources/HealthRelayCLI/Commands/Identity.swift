import ArgumentParser
import Foundation
import GatewayCommands
import GatewaySettings
import HealthReadings

struct Identity: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "id", abstract: "Show which gateway this is, or make it the one that another machine was.",
        discussion: """
            Receivers know a gateway by its id: documents, topics and people's ids at them are made of it. `store export` has it, too; \
            `id export` and `id import` move it alone, to a machine that begins with an empty store.
            """,
        subcommands: [Show.self, Export.self, Import.self], defaultSubcommand: Show.self)

    struct Show: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "show", abstract: "Show the gateway's id and the current user.")
        @OptionGroup var global: GlobalOptions
        func run() async throws { try await OperationCommand.run(.identity(.show), global) }
    }

    struct Export: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "export",
            abstract: "Print the identity as JSON, for `id import`.",
            discussion: "It has no key and no reading. `healthrelay id export > identity.json` keeps it.")
        @OptionGroup var global: GlobalOptions

        func run() async throws {
            try await OperationCommand.run(
                OperationRequest(.identity(.show), json: true), global, global.settings(),
                TerminalOutput(asJSON: global.json, answers: .terminal))
        }
    }

    struct Import: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "import",
            abstract: "Take the id of a gateway that this one replaces.",
            discussion: """
                Two gateways with one id at a time would each take the other's readings for their own at some receivers: stop the former \
                one first.
                """)
        @Argument(help: ArgumentHelp("What `id export` wrote, or - for standard input.", valueName: "file"))
        var file: String
        @Flag(help: "Even if this gateway has delivered readings under its own id.")
        var replace = false
        @OptionGroup var global: GlobalOptions

        func run() async throws {
            let data: Data
            if file == "-" {
                data = try FileHandle.standardInput.read(upToCount: 1 << 17) ?? Data()
            } else {
                guard let contents = OrdinaryFile.contents(file) else {
                    throw Problem("no_such_file", .noInput, "cannot read \(file)")
                }
                data = contents
            }
            let id = try GatewayIdentity.gatewayID(in: data)
            try await OperationCommand.run(.identity(.adopt(id: id, replaces: replace)), global)
        }
    }
}

struct Auth: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "auth",
        abstract: "Ask receivers whether they accept the gateway's credentials.", subcommands: [Check.self],
        defaultSubcommand: Check.self)

    struct Check: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "check",
            abstract: "Answer yes or no, with a reason.",
            discussion: """
                Nothing is delivered. The status is 0 for yes, 77 for no (78 if the settings have no credentials), and 69 if a receiver cannot be asked now. Webhooks and other \
                receivers whose credentials only a delivery proves are unknown, which is no failure.
                """)
        @Option(help: ArgumentHelp("Only this destination.", valueName: "name"))
        var destination: String?
        @OptionGroup var global: GlobalOptions
        func run() async throws { try await OperationCommand.run(.auth(destination: destination), global) }
    }
}
