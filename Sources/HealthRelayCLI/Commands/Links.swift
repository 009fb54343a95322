import ArgumentParser
import GatewayCommands

struct Links: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "link",
        abstract: "Read-only links to one person's figures, for a relative, a doctor or a wall display.",
        discussion: """
            A link shows the page's figures and charts of one person, and that person's newest values; nothing else, and nobody \
            else's. It ends by itself, and at once when you revoke it.
            """, subcommands: [Create.self, List.self, Revoke.self])

    struct Create: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "create",
            abstract: "Make a read-only link.",
            discussion: """
                Example: link create --person white_bear --period 30d --until 2026-12-31 --name "Dr. Sommer"

                The link is shown once: the gateway keeps only a hash of its secret.
                """)
        @Option(help: ArgumentHelp("Whose figures.", valueName: "id")) var person: String
        @Option(help: ArgumentHelp("How many days up to today it shows.", valueName: "days"))
        var period = FigureLinkCreation.usualPeriod
        @Option(help: ArgumentHelp("When it ends: an instant, or the end of a date.", valueName: "instant"))
        var until: String
        @Option(help: ArgumentHelp("What `link list` calls it.", valueName: "n")) var name: String?
        @OptionGroup var global: GlobalOptions

        func run() async throws {
            try await OperationCommand.run(
                .figureLink(
                    .create(FigureLinkCreation(person: person, period: period, until: until, name: name))), global)
        }
    }

    struct List: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "list", abstract: "List the links, those that have ended included.")
        @OptionGroup var global: GlobalOptions
        func run() async throws { try await OperationCommand.run(.figureLink(.list), global) }
    }

    struct Revoke: AsyncParsableCommand {
        static let configuration = CommandConfiguration(commandName: "revoke", abstract: "End a link at once.")
        @Argument(help: "Its number in `link list`.") var number: Int64
        @OptionGroup var global: GlobalOptions
        func run() async throws { try await OperationCommand.run(.figureLink(.revoke(number)), global) }
    }
}
