import ArgumentParser
import GatewayService

struct Doctor: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "doctor", abstract: "Look at everything a reading's way depends on, and say how to mend it.")
    @OptionGroup var global: GlobalOptions
    func run() async throws { try await OperationCommand.run(.doctor, global) }
}
