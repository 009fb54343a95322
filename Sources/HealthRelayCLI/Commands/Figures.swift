import ArgumentParser
import GatewayCommands

struct Figures: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "figures", abstract: "Leave readings out of figures, or take them back in.",
        discussion: """
            A reading that is left out stays stored, shown and delivered. It counts in no mean, share or trend; reports and the \
            page list it with its reason.
            """,
        subcommands: [LeaveOut.self, Include.self])

    struct LeaveOut: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "leave-out", abstract: "Leave readings out of figures.",
            discussion: "Example: figures leave-out 9f1c0c8e00112233445566778899aabb --reason \"cuff slipped\"")

        @Argument(help: "The readings' ids, as query shows them.") var ids: [String]
        @Option(help: ArgumentHelp("Why, in your words: one line.", valueName: "text")) var reason: String?
        @OptionGroup var global: GlobalOptions

        func run() async throws {
            try await OperationCommand.run(.figures(.leaveOut(ids, reason: reason)), global)
        }
    }

    struct Include: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "include", abstract: "Have readings that were left out count again.")

        @Argument(help: "The readings' ids, as query shows them.") var ids: [String]
        @OptionGroup var global: GlobalOptions

        func run() async throws { try await OperationCommand.run(.figures(.include(ids)), global) }
    }
}
