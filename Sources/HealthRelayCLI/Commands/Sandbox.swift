import ArgumentParser
import Foundation
import GatewaySettings
import Logging
import ServiceLifecycle
import UnixSignals
import VitalSandbox

struct Sandbox: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "sandbox", abstract: "Run a Vital-compatible server on this machine to test delivery.")
    @Option(help: ArgumentHelp("The port on 127.0.0.1; 0 is any free one.", valueName: "n"))
    var port = 8481
    @Option(
        help: ArgumentHelp("Where the sandbox keeps its data (default: it forgets them at the end).", valueName: "dir"))
    var data: String?
    @Option(
        help: ArgumentHelp(
            "Faults to inject, separated by commas: status=503, drop, drop=after, truncate, slow=2; and for which requests: rate=0.3, after=5, times=2, seed=1, retry-after=10.",
            valueName: "spec"),
        transform: Self.faultPlan)
    var fault: FaultPlan?
    @Option(help: ArgumentHelp("Post the API's events to this URL, signed as Svix signs.", valueName: "url"))
    var webhook: String?
    @Option(
        help: ArgumentHelp(
            "A file with the secret, whsec_ and base64 (default: \(SandboxWebhook.fixedSecret)).", valueName: "file"))
    var webhookSecretFile: String?
    @OptionGroup var global: GlobalOptions

    private var hook: SandboxWebhook? {
        get throws {
            guard let webhook else {
                guard webhookSecretFile == nil else {
                    throw ValidationError("--webhook-secret-file needs --webhook")
                }
                return nil
            }
            let secret: String
            if let path = webhookSecretFile {
                guard let data = OrdinaryFile.contents(path) else {
                    throw Problem("file_unreadable", .noInput, "cannot read \(path)")
                }
                secret = String(decoding: data, as: UTF8.self).trimmingCharacters(in: .whitespacesAndNewlines)
            } else {
                secret = SandboxWebhook.fixedSecret
            }
            do throws(SandboxWebhook.Failure) {
                return try SandboxWebhook(url: webhook, secret: secret)
            } catch {
                throw ValidationError("--webhook: \(error)")
            }
        }
    }

    func validate() throws {
        guard (0...65535).contains(port) else { throw ValidationError("--port: expected 0 to 65535, found \(port)") }
    }

    private static func faultPlan(_ specification: String) throws -> FaultPlan {
        do throws(FaultPlan.Failure) {
            return try FaultPlan(specification)
        } catch {
            throw ValidationError(error.description)
        }
    }

    func run() async throws {
        let settings = try global.settings()
        global.startLogging(settings)
        let logger = Logger(label: "healthrelay.sandbox")
        let storage: SandboxConfiguration.Storage = data.map { .directory($0) } ?? .inMemory
        do {
            var configuration = SandboxConfiguration(port: port, storage: storage)
            configuration.faults = fault
            configuration.webhook = try hook
            let server = try SandboxServer(configuration: configuration, logger: logger)
            let announcement = Task {
                let address = try await server.address()
                Terminal.error("sandbox at \(address.baseURL), key \(SandboxConfiguration.fixedKey)")
            }
            defer { announcement.cancel() }
            let group = ServiceGroup(
                services: [server], gracefulShutdownSignals: [.sigterm, .sigint], logger: Logger.silent)
            try await group.run()
        } catch let error as SandboxError {
            throw Problem(error)
        }
    }
}

extension Problem {
    init(_ error: SandboxError) {
        switch error {
        case .portInUse: self.init("port_in_use", .unavailable, error.description)
        case .cannotListen: self.init("cannot_listen", .unavailable, error.description)
        case .cannotOpenStorage, .cannotRecord: self.init("sandbox_cannot_create", .cannotCreate, error.description)
        case .stopped: self.init("interrupted", .tryAgain, error.description)
        }
    }
}

extension Logger {
    /// For libraries whose own progress is nobody's news here.
    static var silent: Logger { Logger(label: "silent") { _ in SwiftLogNoOpLogHandler() } }
}
