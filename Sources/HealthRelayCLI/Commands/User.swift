import ArgumentParser
import GatewayService

struct User: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "user", abstract: "Whose readings they are at the server.",
        subcommands: [Create.self, Set.self, Show.self, Clear.self, Remove.self])

    struct Create: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Create the user at the server, or adopt the one it knows, and deliver for them.")
        @Argument(help: "Your own id of the user.") var id: String
        @OptionGroup var global: GlobalOptions
        func run() async throws { try await OperationCommand.run(.user(.create(id)), global) }
    }

    struct Set: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Deliver for a user the server knows; readings stored before stay with whom they belong to.")
        @Argument(help: "Your own id of the user.") var id: String
        @OptionGroup var global: GlobalOptions
        func run() async throws { try await OperationCommand.run(.user(.set(id)), global) }
    }

    struct Show: AsyncParsableCommand {
        static let configuration = CommandConfiguration(abstract: "The user readings are delivered for.")
        @OptionGroup var global: GlobalOptions
        func run() async throws { try await OperationCommand.run(.user(.show), global) }
    }

    struct Clear: AsyncParsableCommand {
        static let configuration = CommandConfiguration(abstract: "Stop delivering; readings stay.")
        @OptionGroup var global: GlobalOptions
        func run() async throws { try await OperationCommand.run(.user(.clear), global) }
    }
}
