import ArgumentParser
import FleetAuthority
import FleetCollector
import FleetDocuments
import FleetStore
import Foundation
import GatewaySettings
import HealthReadings
import HelperProcesses
import Logging

/// `healthrelay-collector`: the central end of a fleet of gateways.
@main
struct Collector: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "healthrelay-collector",
        abstract: "Receives the readings of many gateways and keeps them in one database.",
        subcommands: [
            Run.self, Token.self, Gateways.self, Configure.self, Aside.self, AuthorityCommand.self, Demo.self,
        ],
        defaultSubcommand: Run.self)

    static func main() async {
        let arguments = Array(CommandLine.arguments.dropFirst())
        do {
            var command = try parseAsRoot(arguments)
            if var asynchronous = command as? any AsyncParsableCommand {
                try await asynchronous.run()
            } else {
                try command.run()
            }
        } catch {
            fail(error, asJSON: arguments.contains("--json"))
        }
        ProcessEnd.now(0)
    }

    private static func fail(_ error: any Error, asJSON: Bool) -> Never {
        let problem: Problem
        switch error {
        case let error as Problem: problem = error
        case let error as CentralStoreError:
            problem = Problem(
                error.code, error.isTemporary ? .unavailable : .configuration, error.description)
        case let error as AuthorityError: problem = Problem(error)
        default:
            let status = exitCode(for: error)
            guard status != .failure else {
                problem = Problem("unexpected", .ourFault, "\(error)")
                break
            }
            guard status != .success else {
                Output.text(fullMessage(for: error))
                ProcessEnd.now(0)
            }
            problem = Problem.usage(message(for: error), hint: "see `healthrelay-collector --help`")
        }
        if asJSON {
            Output.error(problem.document.text)
        } else {
            Output.error("healthrelay-collector: " + problem.message)
            if let hint = problem.hint { Output.error("  → " + hint) }
        }
        ProcessEnd.now(problem.status.rawValue)
    }
}

extension Problem {
    /// What a person is told of the authority.
    fileprivate init(_ error: AuthorityError) {
        let (status, hint): (ExitStatus, String?) =
            switch error {
            case .absent: (.noInput, "make one with `healthrelay-collector ca init`")
            case .present: (.cannotCreate, nil)
            case .revoked: (.notPermitted, "`ca token --readmit` lets it come back")
            case .revokedCertificateGood:
                (
                    .notPermitted,
                    "choose another id, or wait until then; --old-certificates-are-harmless if nobody else has the "
                        + "gateway's keys, or the brokers read the revocation list"
                )
            case .noSuchGateway: (.noInput, "see `healthrelay-collector ca list`")
            case .nameTaken: (.usage, "choose another id")
            case .broker: (.unavailable, nil)
            case .store: (.inputOutput, nil)
            case .unusableFile: (.configuration, nil)
            // The service is started again until the clock is set.
            case .authorityNotValid: (.unavailable, "set this machine's clock")
            case .unknownToken, .tokenExpired, .tokenUsed, .otherGateway, .unknownCertificate, .badRequest,
                .keyUnsupported, .notProven, .keyUsed, .tooManyCertificates:
                (.badData, nil)
            }
        self.init(error.code, status, error.description, hint: hint)
    }
}

/// The flags that every command takes.
struct CommonOptions: ParsableArguments {
    @Option(help: ArgumentHelp("The settings file.", valueName: "file"))
    var settings: String?

    @Option(help: ArgumentHelp("Where the SQLite store and the certificate live.", valueName: "dir"))
    var stateDir: String?

    @Flag(help: "Print data as JSON, and logs as JSON lines on standard error.")
    var json = false

    /// The settings that count.
    func read() throws -> CollectorSettings {
        guard let settings else { return CollectorSettings() }
        return try CollectorSettings(file: settings)
    }

    var directory: String { CollectorSettings.stateDirectory(flag: stateDir) }

    /// The store, ready to be used.
    func store(_ settings: CollectorSettings) async throws -> any CentralStore {
        let store = try settings.store(directory: directory)
        try await store.prepare()
        return store
    }

    func startLogging(_ settings: CollectorSettings) {
        let (level, asJSON) = (Logger.Level(rawValue: settings.logLevel) ?? .info, json)
        LoggingSystem.bootstrap { _ in LineLog(logLevel: level, asJSON: asJSON) }
    }
}

/// Lines on the two streams.
enum Output {
    static func data(_ line: String) { write(line, .standardOutput) }
    static func error(_ line: String) { write(line, .standardError) }
    /// A text of several lines of our own.
    static func text(_ lines: String) { write(lines, .standardOutput, keepsLines: true) }

    private static func write(_ line: String, _ file: FileHandle, keepsLines: Bool = false) {
        try? file.write(contentsOf: Data((PrintableText.escaped(line, keepsLines: keepsLines) + "\n").utf8))
    }
}

/// Logs to standard error, a line each.
struct LineLog: LogHandler {
    var logLevel: Logger.Level
    let asJSON: Bool
    var metadata: Logger.Metadata = [:]

    init(logLevel: Logger.Level, asJSON: Bool) {
        self.logLevel = logLevel
        self.asJSON = asJSON
    }

    subscript(metadataKey key: String) -> Logger.Metadata.Value? {
        get { metadata[key] }
        set { metadata[key] = newValue }
    }

    func log(event: LogEvent) {
        Output.error(
            LogLine.text(
                level: event.level.rawValue, message: event.message.description,
                details: metadata.merging(event.metadata ?? [:]) { $1 }.mapValues(\.description), asJSON: asJSON))
    }
}
