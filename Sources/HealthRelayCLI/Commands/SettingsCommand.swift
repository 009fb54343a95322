import ArgumentParser
import Foundation
import GatewayCommands
import GatewaySettings

struct SettingsCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "settings", abstract: "Show and change the gateway's settings.",
        discussion: """
            Changes go into settings.yaml in the state directory, which stands below the administrator's file, the environment \
            and flags. What is set there is shown as fixed and cannot be changed from here.
            """,
        subcommands: [Show.self, Set.self, Unset.self, Reload.self])

    struct Show: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "show",
            abstract: "Show each setting in force, where it is set, and whether it is fixed there.")
        @OptionGroup var global: GlobalOptions
        func run() async throws { try await OperationCommand.run(.settings(.show), global) }
    }

    struct Set: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "set",
            abstract: "Change settings: all that are given, or none.",
            discussion: """
                Write a list with commas (a,b) and a map as a=b,c=d. A secret is asked for at the terminal, or is a line of \
                standard input; it goes into a file of mode 0600 and is never shown. A PEM file is the rest of standard input.
                """)
        @Argument(help: "A setting and its value, and more of them.") var pairs: [String] = []
        @Option(
            name: .customLong("secret"),
            help: ArgumentHelp("A secret to ask for, such as destinations.clinic.api_key.", valueName: "key"))
        var secrets: [String] = []
        @OptionGroup var global: GlobalOptions

        func validate() throws {
            guard pairs.count.isMultiple(of: 2) else {
                throw ValidationError("expected KEY VALUE, found a key without a value")
            }
            guard !pairs.isEmpty || !secrets.isEmpty else {
                throw ValidationError("expected KEY VALUE, or --secret KEY")
            }
            let keys = stride(from: 0, to: pairs.count, by: 2).map { pairs[$0] } + secrets
            guard Swift.Set(keys).count == keys.count else { throw ValidationError("a key is given twice") }
        }

        func run() async throws {
            var change = SettingsChange()
            for place in stride(from: 0, to: pairs.count, by: 2) { change.set[pairs[place]] = .text(pairs[place + 1]) }
            if !secrets.isEmpty {
                change.secrets = try await Interruption.endingBySignal { [secrets] in
                    var typed: [String: String] = [:]
                    for key in secrets {
                        let line =
                            TerminalInput.isThere
                            ? try await TerminalInput.secret("\(key): ") : Self.nextOfStandardInput()
                        guard let text = line?.trimmingCharacters(in: .newlines), !text.isEmpty else {
                            throw Problem.usage("\(key): expected a secret, and nothing was typed")
                        }
                        typed[key] = text
                    }
                    return typed
                }
            }
            try await OperationCommand.run(.settings(.change(change)), global)
        }

        /// The next secret where standard input is no terminal: a line, or a PEM file, which goes on to the end.
        private static func nextOfStandardInput() -> String? {
            guard var text = readLine() else { return nil }
            guard text.hasPrefix("-----BEGIN ") else { return text }
            while let line = readLine() { text += "\n" + line }
            return text
        }
    }

    struct Unset: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "unset",
            abstract: "Have settings be as if nobody had set them here.")
        @Argument(help: "The settings; also destinations.NAME and users.ID.") var keys: [String]
        @OptionGroup var global: GlobalOptions

        func run() async throws {
            try await OperationCommand.run(.settings(.change(SettingsChange(unset: keys))), global)
        }
    }

    struct Reload: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "reload",
            abstract: "Take the files of settings in force as they are now, as SIGHUP does.")
        @OptionGroup var global: GlobalOptions
        func run() async throws { try await OperationCommand.run(.settings(.reload), global) }
    }
}
