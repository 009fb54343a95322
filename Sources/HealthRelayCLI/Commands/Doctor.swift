import ArgumentParser
import GatewayCommands

struct Doctor: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "doctor", abstract: "Check everything that readings depend on, and say how to fix it.")
    @OptionGroup var global: GlobalOptions
    func run() async throws { try await OperationCommand.run(.doctor, global) }
}
