import ArgumentParser
import Foundation
import GatewaySettings
import Logging

/// The flags every command takes, before or after its name; the later one wins.
struct GlobalOptions: ParsableArguments {
    @Option(help: ArgumentHelp("The settings file.", valueName: "file"))
    var config: String?

    @Option(help: ArgumentHelp("Where the store and the control socket live.", valueName: "dir"))
    var stateDir: String?

    @Flag(help: "Print data as JSON; logs and the error become JSON lines on standard error.")
    var json = false

    @Option(help: ArgumentHelp("trace, debug, info, notice, warning, error or critical.", valueName: "level"))
    var logLevel: String?

    func validate() throws {
        // What `"$UNSET"` becomes: the root directory is not meant.
        if stateDir?.isEmpty == true { throw ValidationError("--state-dir: expected a directory, found nothing") }
        if config?.isEmpty == true { throw ValidationError("--config: expected a file, found nothing") }
    }

    /// The effective settings with these flags over them.
    func settings(_ flags: [String: String] = [:]) throws -> Settings {
        var all = flags
        all["log.level"] = logLevel
        return try Settings(
            file: config, flags: all,
            managed: ManagedSettings(stateDirectory: StateDirectory(flag: stateDir).path))
    }

    /// Starts logging to standard error, as text or as JSON lines; call it once, before anything logs.
    func startLogging(_ settings: Settings) {
        LogLevel.current = settings.logLevel
        let asJSON = json
        LoggingSystem.bootstrap { label in StandardErrorLog(label: label, asJSON: asJSON) }
    }

    /// Arguments with global flags that stand before the command's name moved behind it, where the commands take them.
    static func hoisted(_ arguments: [String]) -> [String] {
        var flags: [String] = []
        var rest = arguments[...]
        while let first = rest.first {
            if first == "--json" || ["--config=", "--state-dir=", "--log-level="].contains(where: first.hasPrefix) {
                flags.append(rest.removeFirst())
            } else if ["--config", "--state-dir", "--log-level"].contains(first), rest.count > 1 {
                flags += rest.prefix(2)
                rest = rest.dropFirst(2)
            } else {
                break
            }
        }
        guard !flags.isEmpty else { return arguments }
        // Behind the words that name the command, before its own flags, so that a later flag of the same name wins.
        let name = rest.prefix { !$0.hasPrefix("-") }
        let depth = commandDepth(Array(name))
        guard depth > 0 else { return Array(rest) }
        return rest.prefix(depth) + flags + rest.dropFirst(depth)
    }

    private static func commandDepth(_ words: [String]) -> Int {
        var command: any ParsableCommand.Type = Healthrelay.self
        var depth = 0
        for word in words {
            guard let next = command.configuration.subcommands.first(where: { $0._commandName == word }) else { break }
            command = next
            depth += 1
        }
        return depth
    }
}
