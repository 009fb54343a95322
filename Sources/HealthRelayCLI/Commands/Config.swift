import ArgumentParser
import Foundation
import GatewaySettings
import HealthReadings

struct Config: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "config", abstract: "Show the effective settings.", subcommands: [Show.self, Path.self])

    struct Show: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "show",
            abstract: """
                Print the settings that a program started now has: flag over environment over the administrator's file over \
                settings.yaml in the state directory. Secrets are masked.
                """)
        @OptionGroup var global: GlobalOptions

        func run() async throws {
            let settings = try global.settings()
            guard !global.json else { return Terminal.data(settings.document.text) }
            guard case .object(let members) = settings.document else { return }
            for member in members {
                let value = if case .string(let text) = member.value { text } else { member.value.text }
                let origin =
                    switch settings.origin(of: member.key) {
                    case .standard: ""
                    case .file(let path, let line): "   (\(path):\(line))"
                    case .environment(let variable): "   (\(variable))"
                    case .flag: "   (flag)"
                    }
                Terminal.data("\(member.key): \(value)\(origin)")
            }
        }
    }

    struct Path: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "path",
            abstract: "Print the settings file in use, or the places where the gateway looks for one.")
        @OptionGroup var global: GlobalOptions

        func run() async throws {
            let settings = try global.settings()
            let usual = Settings.usualPaths(ProcessInfo.processInfo.environment)
            if global.json {
                Terminal.data(
                    JSONValue.object([
                        "path": .optional(settings.file), "searched": .array(usual.map(JSONValue.string)),
                    ])
                    .text)
            } else if let file = settings.file {
                Terminal.data(file)
            } else {
                Terminal.error("no settings file; looked in " + usual.joined(separator: ", then "))
            }
        }
    }
}
