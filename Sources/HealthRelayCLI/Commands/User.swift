import ArgumentParser
import GatewayCommands

struct User: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "user", abstract: "Manage the user that readings belong to at the server.",
        subcommands: [Create.self, Set.self, Show.self, Clear.self, Remove.self])

    struct Create: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "create",
            abstract: "Create the user at the server, or adopt an existing one, and deliver for them.")
        @Argument(help: "Your own id for the user.") var id: String
        @Flag(name: .customLong("no-set"), help: "Only create the user: go on delivering for the one that is set.")
        var staysUnset = false
        @OptionGroup var global: GlobalOptions
        func run() async throws {
            try await OperationCommand.run(.user(.create(id, isSet: !staysUnset)), global)
        }
    }

    struct Set: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "set",
            abstract: "Deliver for a user that the server knows. Stored readings stay with their owner.")
        @Argument(help: "Your own id for the user, or the server's UUID.") var id: String?
        @Option(help: "The server's UUID of the user; with ID, the two must belong together.") var userID: String?
        @OptionGroup var global: GlobalOptions

        func validate() throws {
            guard id != nil || userID != nil else { throw ValidationError("name the user: ID, or --user-id UUID") }
        }

        func run() async throws { try await OperationCommand.run(.user(.set(id, userID: userID)), global) }
    }

    struct Show: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "show", abstract: "Show the user that readings are delivered for.")
        @OptionGroup var global: GlobalOptions
        func run() async throws { try await OperationCommand.run(.user(.show), global) }
    }

    struct Clear: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "clear", abstract: "Stop delivering; readings stay.")
        @OptionGroup var global: GlobalOptions
        func run() async throws { try await OperationCommand.run(.user(.clear), global) }
    }
}
