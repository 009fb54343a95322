import ArgumentParser
import Foundation
import GatewayCommands

struct Setup: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "setup", abstract: "Begin the set-up of a new gateway.", subcommands: [Token.self])

    struct Token: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "token",
            abstract: "Make a link that lets one browser claim a new gateway and set it up.",
            discussion: """
                The link works once, for an hour, and only until somebody has claimed the gateway; a newer one replaces it. \
                Afterwards `healthrelay page` makes links.
                """)
        @OptionGroup var global: GlobalOptions
        func run() async throws { try await OperationCommand.run(.setupToken, global) }
    }
}
