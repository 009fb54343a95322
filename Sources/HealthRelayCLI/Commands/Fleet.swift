import ArgumentParser
import Foundation
import GatewayCommands
import GatewaySettings
import HealthReadings

struct Fleet: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "fleet",
        abstract: "Join a fleet of gateways.", subcommands: [Enrol.self, Status.self])

    struct Enrol: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "enrol",
            abstract: "Get this gateway's certificate with a token of the fleet's operator.",
            discussion: """
                The key is made here and never leaves this machine. The destination of the kind fleet then needs no \
                certificate_file, private_key_file and ca_file of its own. The service renews the certificate by itself.
                """)
        @Option(help: ArgumentHelp("The token's file.", valueName: "file"))
        var tokenFile: String
        @Option(help: ArgumentHelp("The authority's address (default: the one in the file).", valueName: "url"))
        var url: String?
        @Option(help: ArgumentHelp("The destination (default: the only one of the kind fleet).", valueName: "name"))
        var destination: String?
        @OptionGroup var global: GlobalOptions

        func run() async throws {
            guard let octets = PrivateFile.read(tokenFile, upTo: 65_536) else {
                throw Problem(
                    "token_file_unreadable", .noInput,
                    "cannot read \(tokenFile): \(String(cString: strerror(errno)))")
            }
            let ticket = String(decoding: octets, as: UTF8.self)
            if isOpenToOthers(fileAt: tokenFile) {
                TerminalOutput(asJSON: global.json, answers: .terminal).note(
                    "others may use \(tokenFile): whoever reads it first can enrol as this gateway")
            }
            try await OperationCommand.run(
                .fleet(.enrol(ticket: ticket, url: url, destination: destination)), global)
        }
    }

    struct Status: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "status",
            abstract: "Show the gateway's id in its fleet, and how long its certificate is good.")
        @OptionGroup var global: GlobalOptions
        func run() async throws { try await OperationCommand.run(.fleet(.status), global) }
    }
}
