import ArgumentParser
import GatewayCommands

struct Monitor: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "monitor", abstract: "Show meters connecting and disconnecting, until interrupted.")
    @Argument(help: "Addresses (default: all paired meters).")
    var addresses: [String] = []
    @OptionGroup var global: GlobalOptions
    func run() async throws { try await OperationCommand.run(.device(.monitor(addresses: addresses)), global) }
}

struct Watch: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "watch", abstract: "Show readings as they arrive, until interrupted.")
    @Option(help: ArgumentHelp("Kinds, separated by commas: glucose, heart_rate, hrv.", valueName: "kinds"))
    var types: String?
    @Option(help: ArgumentHelp("The window of the heart-rate variability, 5 s to a day.", valueName: "duration"))
    var window = DurationArgument(seconds: 60)
    @OptionGroup var global: GlobalOptions

    func validate() throws {
        guard (5...86_400).contains(window.seconds) else {
            throw ValidationError("--window: expected 5 s to a day")
        }
    }

    func run() async throws {
        let kinds = types?.split(separator: ",").map(String.init) ?? []
        try await OperationCommand.run(.device(.watch(types: kinds, window: Int(window.seconds))), global)
    }
}
