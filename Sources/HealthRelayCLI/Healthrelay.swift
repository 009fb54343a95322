import ArgumentParser
import Foundation
import GatewayCommands
import GatewaySettings

/// `healthrelay`: the gateway on the command line.
struct Healthrelay: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "healthrelay",
        abstract: "A personal health gateway: reads meters, stores their readings and delivers them.",
        version: Version.current,
        subcommands: [
            Run.self, Catalog.self, Scan.self, Pair.self, Unpair.self, Devices.self, Read.self, Measure.self,
            Monitor.self, Recording.self, HeartRate.self, HealthSync.self, Cloud.self, Import.self, Watch.self,
            Subscribers.self,
            Libre.self, NFC.self, Decode.self, Replay.self, Capture.self,
            Query.self,
            Metrics.self, Summary.self, Report.self, Add.self, Correct.self, Withdraw.self, Move.self, Figures.self,
            Identity.self,
            Auth.self,
            Connect.self, User.self, Source.self, Consent.self,
            Client.self,
            Links.self, Page.self, Setup.self, Sync.self, Destinations.self, Fleet.self, Sandbox.self, Store.self,
            Backup.self,
            Doctor.self,
            Config.self, SettingsCommand.self,
        ])

    /// Does what the command line says; ends the program where that fails.
    static func perform() async {
        let arguments = Add.keepingNegativeNumbers(GlobalOptions.hoisted(Array(CommandLine.arguments.dropFirst())))
        do {
            try requireUTF8()
            var command = try parseAsRoot(arguments)
            if var asynchronous = command as? any AsyncParsableCommand {
                try await asynchronous.run()
            } else {
                try command.run()
            }
            // What was asked for is done; whoever reads the output must not take a part of it for all.
            try Terminal.requireWritten()
        } catch {
            Failure.exit(with: error, arguments: CommandLine.arguments)
        }
    }

    /// Refuses an argument that is not UTF-8: with its octets replaced it would name another file, or another person.
    private static func requireUTF8() throws(Problem) {
        for (number, argument) in CommandLine.arguments.enumerated().dropFirst() {
            let octets = CommandLine.unsafeArgv[number]
            guard let octets, String(validatingCString: octets) == nil else { continue }
            throw Problem.usage(
                "argument \(number) is not UTF-8: '\(argument.prefix(80))'",
                hint: "a file whose name isn't UTF-8 can be renamed, or named by a link")
        }
    }
}
