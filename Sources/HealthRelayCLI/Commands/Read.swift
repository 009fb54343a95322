import ArgumentParser
import GatewayService

struct Read: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "read", abstract: "Fetch what is new on meters, and print each new reading.",
        discussion: "A meter that is away is waited for. What came in is kept, whatever happens then.")

    @Argument(help: "Addresses; all paired meters where none is given.")
    var addresses: [String] = []
    @Flag(help: "Ask for every record the meter has, also those that are stored.")
    var allRecords = false
    @Option(help: ArgumentHelp("How long a meter may take to be heard.", valueName: "duration"))
    var wait = DurationArgument(seconds: 60)
    @OptionGroup var global: GlobalOptions

    func run() async throws {
        let reading = ReadOperation(addresses: addresses, allRecords: allRecords, seconds: wait.seconds)
        try await OperationCommand.run(.device(.read(reading)), global)
    }
}
