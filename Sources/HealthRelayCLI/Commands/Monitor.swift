import ArgumentParser
import GatewayService

struct Monitor: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "monitor", abstract: "Meters connecting and disconnecting, until it is interrupted.")
    @Argument(help: "Addresses; all paired meters where none is given.")
    var addresses: [String] = []
    @OptionGroup var global: GlobalOptions
    func run() async throws { try await OperationCommand.run(.device(.monitor(addresses: addresses)), global) }
}

struct Watch: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "watch", abstract: "Readings as they come in, until it is interrupted.")
    @Option(help: ArgumentHelp("Kinds, with commas between: glucose, heart_rate, hrv.", valueName: "kinds"))
    var types: String?
    @Option(help: ArgumentHelp("What a heart-rate variability covers, 5 s to a day.", valueName: "duration"))
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
