import ArgumentParser
import GatewayCommands

struct Sync: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "sync", abstract: "Deliver now, or show what waits and why.",
        subcommands: [Now.self, Status.self, Retry.self, Enable.self, Disable.self], defaultSubcommand: Now.self)

    struct Now: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "now", abstract: "Deliver what waits.",
            discussion: "Instants are RFC 3339, or a date in the user's zone; both ends are included.")
        @Flag(help: "Print what happens to readings until interrupted.") var watch = false
        @Option(help: ArgumentHelp("Only what waits from this time on.", valueName: "instant"))
        var from: String?
        @Option(
            help: ArgumentHelp(
                "Only what waits up to this time; a date means the end of that day.", valueName: "instant"))
        var to: String?
        @Option(help: ArgumentHelp("Only what waits of this day of the user.", valueName: "date"))
        var date: String?
        @Option(help: ArgumentHelp("Only these kinds, with commas between.", valueName: "kind"))
        var types: String?
        @Option(help: ArgumentHelp("Only to this destination.", valueName: "name"))
        var destination: String?
        @OptionGroup var global: GlobalOptions

        func validate() throws {
            if let date {
                guard from == nil, to == nil else {
                    throw ValidationError("--date is a whole day: it cannot be used together with --from or --to")
                }
                guard date.utf8.count == 10 else {
                    throw ValidationError("--date: expected a date such as 2026-11-20, found '\(date)'")
                }
            }
            guard watch, from != nil || to != nil || date != nil || types != nil else { return }
            throw ValidationError(
                "--watch tells of everything: it cannot be used together with --from, --to, --date or --types")
        }

        func run() async throws {
            let kinds = try KindNames.of(types)
            try await OperationCommand.run(
                .sync(
                    watch
                        ? .watch(destination: destination)
                        : .now(from: from ?? date, to: to ?? date, types: kinds, destination: destination)),
                global)
        }
    }

    struct Status: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "status",
            abstract: "Show what waits, what was refused, and when delivery continues.")
        @OptionGroup var global: GlobalOptions
        func run() async throws { try await OperationCommand.run(.sync(.status), global) }
    }

    struct Retry: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "retry",
            abstract: "Offer refused readings to the server once more.",
            discussion:
                "Readings that the server refuses are set aside and block nothing. When the cause is fixed, try again.")
        @Argument(help: ArgumentHelp("Only these, by id (default: all).", valueName: "id")) var ids: [String] = []
        @Option(help: ArgumentHelp("Only those that this destination refused.", valueName: "name"))
        var destination: String?
        @OptionGroup var global: GlobalOptions
        func run() async throws {
            try await OperationCommand.run(.sync(.retry(ids, destination: destination)), global)
        }
    }

    struct Enable: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "enable",
            abstract: "Start delivering again.",
            discussion:
                "With --summaries or --events, enables the destinations that take whole days, or single readings.")
        @OptionGroup var sort: SortOptions
        @OptionGroup var global: GlobalOptions
        func run() async throws { try await OperationCommand.run(.sync(.enable(sort.sort)), global) }
    }

    struct Disable: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "disable",
            abstract: "Stop delivering; readings wait.",
            discussion:
                "With --summaries or --events, disables the destinations that take whole days, or single readings.")
        @OptionGroup var sort: SortOptions
        @OptionGroup var global: GlobalOptions
        func run() async throws { try await OperationCommand.run(.sync(.disable(sort.sort)), global) }
    }

    struct SortOptions: ParsableArguments {
        @Flag(help: "Only destinations that take a person's whole days (formats terra and rook_summary).")
        var summaries = false
        @Flag(help: "Only destinations that take single readings.")
        var events = false

        func validate() throws {
            if summaries, events { throw ValidationError("--summaries and --events cannot be used together") }
        }

        var sort: DeliverySort? { summaries ? .summaries : events ? .events : nil }
    }
}
