import ArgumentParser
import GatewayCommands
import GatewaySettings
import HealthDevices

struct Scan: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "scan", abstract: "List meters near this machine: a line when one is new or has changed.")

    @Option(
        name: .customLong("for"),
        help: ArgumentHelp("How long: 5, 30s, 2m (default: until interrupted).", valueName: "duration"))
    var duration: DurationArgument?
    @Option(help: ArgumentHelp("Only this brand.", valueName: "brand"))
    var brand: String?
    @Option(help: ArgumentHelp("Only this model, by its id in the catalogue.", valueName: "id"))
    var model: String?
    @Flag(help: "Also devices that are not in the catalogue.")
    var all = false
    @OptionGroup var global: GlobalOptions

    func validate() throws {
        guard !all || (brand == nil && model == nil) else {
            throw ValidationError("--all shows everything, so it cannot be used with --brand or --model")
        }
    }

    func run() async throws {
        if let model, Catalogue()[model] == nil { throw Problem.unknownModel(model) }
        let scan = ScanOperation(seconds: duration?.seconds, brand: brand, model: model, all: all)
        try await OperationCommand.run(.device(.scan(scan)), global)
    }
}
