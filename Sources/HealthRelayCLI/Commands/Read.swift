import ArgumentParser
import GatewayCommands

struct Read: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "read", abstract: "Fetch what is new on meters, and print each new reading.",
        discussion:
            "Waits for a meter that is out of range. Readings that arrived are kept, whatever happens afterwards.")

    @Argument(help: "Addresses (default: all paired meters).")
    var addresses: [String] = []
    @Flag(help: "Ask for every record that the meter has, including stored ones.")
    var allRecords = false
    @Option(help: ArgumentHelp("How long to wait until a meter is heard.", valueName: "duration"))
    var wait = DurationArgument(seconds: 60)
    @OptionGroup var global: GlobalOptions

    func run() async throws {
        let reading = ReadOperation(addresses: addresses, allRecords: allRecords, seconds: wait.seconds)
        try await OperationCommand.run(.device(.read(reading)), global)
    }
}
