import ArgumentParser
import Foundation
import GatewayCommands
import GatewaySettings

struct Connect: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "connect",
        abstract: "Sign a person in at a Vital-compatible server, with a single-use token.",
        discussion: """
            The token is exchanged for a session, which the gateway keeps in its state directory and renews by itself. A token on the \
            command line can be seen by other programs of this machine: `--token -` reads it from standard input.
            """)

    @Option(help: ArgumentHelp("The token, or - for standard input.", valueName: "token"))
    var token: String
    @Option(help: ArgumentHelp("The server's name in the settings (default: vital).", valueName: "name"))
    var destination: String?
    @OptionGroup var global: GlobalOptions

    func run() async throws {
        var text = token
        if text == "-" {
            let data = try FileHandle.standardInput.read(upToCount: 1 << 16) ?? Data()
            text = String(decoding: data, as: UTF8.self)
        }
        try await OperationCommand.run(
            .connect(
                ConnectOperation(
                    token: text.trimmingCharacters(in: .whitespacesAndNewlines), destination: destination)), global)
    }
}
