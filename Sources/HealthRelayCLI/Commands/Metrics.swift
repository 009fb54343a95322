import ArgumentParser
import GatewayCommands

struct Metrics: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "metrics", abstract: "Print what a person's devices have measured last, in one document.",
        discussion: """
            The document follows version 1 of Synheart's schema of metrics. It has the newest value of each metric that is not older than \
            --max-age; what was not measured lately is left out. If nothing was, the command ends with no_wearable_data.
            """)

    @Option(help: ArgumentHelp("How old a value may be.", valueName: "duration"))
    var maxAge = AgeArgument(seconds: MetricsOperation.usualAge)
    @Option(help: ArgumentHelp("Whose, by the client's id; by default the current user's.", valueName: "id"))
    var person: String?
    @OptionGroup var global: GlobalOptions

    func run() async throws {
        try await OperationCommand.run(.metrics(MetricsOperation(maxAge: maxAge.seconds, person: person)), global)
    }
}
