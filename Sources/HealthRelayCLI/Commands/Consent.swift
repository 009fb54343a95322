import ArgumentParser
import GatewayService
import HealthReadings

struct Consent: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "consent", abstract: "What of a person's readings may be delivered and shown over the network.",
        discussion: """
            What is not consented to is stored, and neither delivered nor served. What was said stays on record with its \
            time; where nothing was said, `consent.default` counts.
            """,
        subcommands: [Show.self, Grant.self, Revoke.self])

    /// Whose consent, and to what.
    struct Subject: ParsableArguments {
        @Argument(help: "\(ReadingKind.list); none: every kind.") var kinds: [String] = []
        @Option(help: ArgumentHelp("Whose; the current user's where nothing is said.", valueName: "id"))
        var user: String?
    }

    struct Show: AsyncParsableCommand {
        static let configuration = CommandConfiguration(abstract: "How it stands, and since when.")
        @Option(help: ArgumentHelp("Whose; the current user's where nothing is said.", valueName: "id"))
        var user: String?
        @OptionGroup var global: GlobalOptions
        func run() async throws { try await OperationCommand.run(.consent(.show(user: user)), global) }
    }

    struct Grant: AsyncParsableCommand {
        static let configuration = CommandConfiguration(abstract: "Allow it; what waited for it is delivered.")
        @OptionGroup var subject: Subject
        @OptionGroup var global: GlobalOptions
        func run() async throws {
            try await OperationCommand.run(
                .consent(.set(kinds: subject.kinds, granted: true, user: subject.user)), global)
        }
    }

    struct Revoke: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Allow it no longer; what the server has, it keeps (`user remove` has it forgotten).")
        @OptionGroup var subject: Subject
        @OptionGroup var global: GlobalOptions
        func run() async throws {
            try await OperationCommand.run(
                .consent(.set(kinds: subject.kinds, granted: false, user: subject.user)), global)
        }
    }
}
