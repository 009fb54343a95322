import ArgumentParser
import GatewayCommands

struct Summary: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "summary",
        abstract: "Print what was measured on a day.", subcommands: [Body.self])

    struct Body: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "body",
            abstract:
                "Print averages, extremes and values of blood pressure, glucose, heart rate, oxygen, temperature and weight.",
            discussion: """
                Days are the person's own, from midnight to midnight in the person's time zone: 23 or 25 hours when clocks change. \
                With --from and --to, a document is printed for each day.

                terra is Terra's body event of the day, and rook ROOK's body_summary.
                """)

        @Option(help: ArgumentHelp("The day; by default today.", valueName: "date"))
        var date: String?
        @Option(help: ArgumentHelp("The first of several days.", valueName: "date"))
        var from: String?
        @Option(help: ArgumentHelp("The last of several days.", valueName: "date"))
        var to: String?
        @Option(help: ArgumentHelp("Whose, by the client's id; by default the current user's.", valueName: "id"))
        var person: String?
        @Flag(inversion: .prefixedNo, help: "List the values that the figures are made of.")
        var samples = true
        @Option(help: ArgumentHelp("json, terra or rook; wins over --json.", valueName: "format"))
        var format: Format?
        @OptionGroup var global: GlobalOptions

        enum Format: String, ExpressibleByArgument, CaseIterable {
            case json, terra, rook
        }

        func validate() throws {
            guard (from == nil) == (to == nil) else {
                throw ValidationError("--from and --to belong together; --date prints one day")
            }
            if date != nil, from != nil { throw ValidationError("--date cannot be used together with --from and --to") }
        }

        func run() async throws {
            var operation = SummaryOperation()
            (operation.from, operation.to) = (from ?? date, to)
            (operation.person, operation.showsSamples) = (person, samples)
            operation.format =
                switch format {
                case .json: .json
                case .terra: .terra
                case .rook: .rook
                case nil: global.json ? .json : .text
                }
            try await OperationCommand.run(.summary(operation), global)
        }
    }
}
