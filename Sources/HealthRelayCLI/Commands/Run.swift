import ArgumentParser
import Foundation
import GatewayCommands
import GatewayService
import GatewaySettings
import Logging
import ServiceLifecycle
import UnixSignals
import VitalClient
import VitalSandbox

struct Run: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "run", abstract: "Run the gateway as a service until it is stopped.")

    @Option(
        name: .customLong("replay"), parsing: .upToNextOption,
        help: ArgumentHelp("Captures to replay as devices.", valueName: "file"))
    var captures: [String] = []
    @Flag(help: "Deliver to a sandbox server in this process.")
    var sandbox = false
    @Option(
        name: .customLong("destination"),
        help: ArgumentHelp("Deliver to this destination only; beside the sandbox.", valueName: "name"))
    var destinations: [String] = []
    @OptionGroup var global: GlobalOptions

    func run() async throws {
        try CaptureReplay.refuseReports(among: captures)
        let settings = try global.settings()
        global.startLogging(settings)
        let state = StateDirectory(flag: global.stateDir)
        try await StoreOwner.acting(at: state.path) { try await run(settings, in: state) }
        if !global.json { Terminal.error("Stopped; everything read is stored.") }
    }

    private func run(_ settings: Settings, in state: StateDirectory) async throws {
        let logger = Logger(label: "healthrelay")
        let json = global.json

        var services: [any Service] = []
        var connection: @Sendable () async throws -> VitalConnection? = { nil }
        if sandbox {
            let server = try Self.sandbox(in: state, logger)
            services.append(server)
            connection = {
                let address = try await server.address()
                if !json { Terminal.error("Sandbox server at \(address.baseURL)") }
                return VitalConnection(
                    server: try VitalServer(baseURL: address.baseURL), key: Secret(SandboxConfiguration.fixedKey))
            }
        }
        let reading = ReloadSignals(settings, logger: logger)
        services.append(reading)
        services.append(
            GatewayRunner(
                settings: settings, state: state, captures: captures,
                // A capture is replayed in front of a person; elsewhere what is printed may end up in a log.
                showsValues: !captures.isEmpty || Terminal.isInteractive, showsLink: Terminal.showsErrors,
                logger: logger, reloads: reading.settings, named: destinations.isEmpty ? nil : destinations,
                fallbackUser: sandbox ? "demo" : nil, connection: connection
            ) { [stateDir = global.stateDir] in Self.tell($0, json: json, stateDir: stateDir) })
        let group = ServiceGroup(
            configuration: .init(
                services: services.map { .init(service: $0) }, gracefulShutdownSignals: [.sigterm, .sigint],
                logger: .silent))
        do {
            try await group.run()
        } catch let error as SandboxError {
            throw Problem(error)
        }
    }

    private static func sandbox(in state: StateDirectory, _ logger: Logger) throws -> SandboxServer {
        var quiet = logger
        quiet.logLevel = .critical
        do {
            return try SandboxServer(
                configuration: SandboxConfiguration(port: 0, storage: .directory(state.path + "/sandbox")),
                logger: quiet)
        } catch {
            throw Problem(error)
        }
    }

    private static func linkCommand(_ stateDir: String?, _ words: [String] = ["page"]) -> String {
        ([CommandLine.arguments[0]] + words + (stateDir.map { ["--state-dir", $0] } ?? [])).joined(separator: " ")
    }

    private static func tell(_ announcement: GatewayRunner.Announcement, json: Bool, stateDir: String?) {
        func note(_ line: String) { TerminalOutput.note(line, asJSON: json) }
        switch announcement {
        case .page(let address, let needsLink):
            note("Page at \(address)  (stop with Ctrl-C)")
            if needsLink { note("For a link that opens it in a browser: \(linkCommand(stateDir))") }
        case .link(let link):
            note("Page at \(link.url)  (stop with Ctrl-C)")
            note("The link works once, until \(link.expiresAt). For another: \(linkCommand(stateDir))")
        case .unclaimed(let address):
            note("Page at \(address)  (stop with Ctrl-C)")
            note(
                "Nobody has claimed this gateway yet. For a link that begins its set-up: "
                    + linkCommand(stateDir, ["setup", "token"]))
        case .setup(let link):
            note("Set up this gateway at \(link.url)  (stop with Ctrl-C)")
            note(
                "The link works once, until \(link.expiresAt). For another: \(linkCommand(stateDir, ["setup", "token"]))"
            )
        case .notDelivering(let why): note("Not delivering: \(why)")
        case .bluetooth(let state): note(state.line)
        case .reader(let state): note(state.line)
        case .way(let line): if !json { Terminal.narrate(line) }
        case .settings(let settings): LogLevel.current = settings.logLevel
        case .replayed(let report):
            for warning in report.warnings { note("warning: \(warning)") }
            for line in report.incomplete { note("incomplete: \(line)") }
            if let damage = report.damage { note("damaged: \(damage)") }
            note("Read \(report.contacts) contacts from the captures; waiting for more devices.")
        }
    }
}
