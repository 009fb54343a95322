import ArgumentParser
import GatewayCommands
import HealthReadings

struct Consent: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "consent",
        abstract: "Choose which of a person's readings may be delivered and served over the network.",
        discussion: """
            Readings without consent are stored, but neither delivered nor served. A decision is about everything, or about \
            one destination; a denial wins over a grant. Each decision stays on record with its time; without a decision, \
            `consent.default` applies.
            """,
        subcommands: [Show.self, Grant.self, Revoke.self])

    /// Whose consent, and to what.
    struct Subject: ParsableArguments {
        @Argument(help: "\(ReadingKind.list); none: every kind.") var kinds: [String] = []
        @Option(help: ArgumentHelp("The person (default: the current user).", valueName: "id"))
        var user: String?
        @Option(help: ArgumentHelp("Only delivery to this destination (default: everything).", valueName: "name"))
        var destination: String?

        func set(granted: Bool, _ global: GlobalOptions) async throws {
            try await OperationCommand.run(
                .consent(.set(kinds: kinds, granted: granted, user: user, destination: destination)), global)
        }
    }

    struct Show: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "show", abstract: "Show consent by kind, and since when.")
        @Option(help: ArgumentHelp("The person (default: the current user).", valueName: "id"))
        var user: String?
        @OptionGroup var global: GlobalOptions
        func run() async throws { try await OperationCommand.run(.consent(.show(user: user)), global) }
    }

    struct Grant: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "grant",
            abstract: "Grant consent. Readings that waited for it are delivered.")
        @OptionGroup var subject: Subject
        @OptionGroup var global: GlobalOptions
        func run() async throws { try await subject.set(granted: true, global) }
    }

    struct Revoke: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "revoke",
            abstract: "Withdraw consent. The server keeps what it has (`user remove` erases it there).")
        @OptionGroup var subject: Subject
        @OptionGroup var global: GlobalOptions
        func run() async throws { try await subject.set(granted: false, global) }
    }
}
