import ArgumentParser
import Crypto
import FleetAuthority
import FleetCollector
import FleetDocuments
import Foundation
import GatewaySettings
import HealthReadings
import Logging
import X509

/// `healthrelay-collector ca`: the fleet's certificate authority.
struct AuthorityCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "ca", abstract: "Give gateways certificates, and take them back.",
        discussion: """
            Run it as a user of its own: whoever reads its state directory can make himself any gateway of the fleet. \
            Collectors and brokers need only its certificate, ca.pem.
            """,
        subcommands: [Initialise.self, Serve.self, Ticket.self, List.self, Revoke.self, Server.self])

    struct Initialise: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "init", abstract: "Make the authority's key and certificate.")
        @OptionGroup var common: AuthorityOptions

        func run() async throws {
            let directory = common.directory
            do {
                try FileManager.default.createDirectory(
                    atPath: directory, withIntermediateDirectories: true, attributes: [.posixPermissions: 0o755])
            } catch {
                throw Problem(
                    "cannot_create", .cannotCreate, "cannot make \(directory): \(error.localizedDescription)")
            }
            let authority = try Authority.make(in: directory, at: .systemClock)
            // Brokers and gateways are given the certificate: anybody may read it.
            chmod(directory + "/" + Authority.certificateFile, 0o644)
            let file = directory + "/" + Authority.certificateFile
            let until = authority.validUntil.description
            if common.json {
                Output.data(
                    JSONValue.object([
                        "certificate_file": .string(file), "sha256": .string(authority.fingerprint),
                        "not_after": .string(until),
                    ]).text)
            } else {
                Output.data("certificate  \(file)")
                Output.data("sha256       \(authority.fingerprint)")
                Output.data("good until   \(until)")
            }
        }
    }

    struct Serve: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "run", abstract: "Serve enrolment and renewal until stopped.")
        @OptionGroup var common: AuthorityOptions

        func run() async throws {
            let settings = try common.read()
            common.startLogging(settings)
            let logger = Logger(label: "authority")
            let runner = AuthorityRunner(
                try common.desk(settings, logger: logger), listen: settings.authority.listen,
                names: settings.authority.serverNames, users: try settings.authority.users(), logger: logger)
            try await runner.run()
        }
    }

    struct Ticket: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "token", abstract: "Write the file with which one gateway enrols, once, within 24 hours.")
        @OptionGroup var common: AuthorityOptions
        @Argument(help: "The gateway's id: letters, digits, - and _, 23 at most. It names no person.")
        var gateway: String
        @Option(name: .shortAndLong, help: ArgumentHelp("The file (default: GATEWAY.token).", valueName: "file"))
        var output: String?
        @Flag(help: "Let a gateway that was revoked come back.")
        var readmit = false
        @Flag(
            help: """
                Let it come back to a broker before its revoked certificates have ended: nobody else has their keys, \
                or the brokers read the revocation list.
                """)
        var oldCertificatesAreHarmless = false

        func run() async throws {
            let id = try common.gateway(gateway)
            let path = output ?? "\(id).token"
            guard access(path, F_OK) != 0 else {
                throw Problem("file_exists", .cannotCreate, "\(path) exists", hint: "choose another with --output")
            }
            let settings = try common.read()
            let desk = try common.desk(settings)
            let ticket = try await desk.makeTicket(
                for: id, readmits: readmit, oldCertificatesAreHarmless: oldCertificatesAreHarmless,
                users: try settings.authority.users())
            let old = try await desk.store.endOfRevoked(id.description, at: desk.now())
            let full = path.hasPrefix("/") ? path : FileManager.default.currentDirectoryPath + "/" + path
            do { try PrivateFile.write(Array((ticket.document.text + "\n").utf8), to: full) } catch {
                throw Problem("cannot_create", .cannotCreate, "cannot write \(error.path): \(error.reason)")
            }
            if common.json {
                Output.data(
                    JSONValue.object([
                        "gateway": .string(id.description), "token_file": .string(path),
                        "url": .string(ticket.url), "authority_sha256": .string(ticket.fingerprint),
                        "expires": .string(ticket.expires.description),
                        "revoked_certificates_good_until": .optional(old?.description),
                    ]).text)
            } else {
                Output.data("\(path): good once, until \(ticket.expires). Carry it to the gateway, and there:")
                Output.data("  healthrelay fleet enrol --token-file \(path)")
                if let old {
                    Output.data(
                        "revoked certificates of \(id) are good until \(old): brokers must read the revocation "
                            + "list, or nobody else may have their keys")
                }
            }
        }
    }

    struct List: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "list", abstract: "List the gateways and their certificates.")
        @OptionGroup var common: AuthorityOptions

        func run() async throws {
            let settings = try common.read()
            let desk = try common.desk(settings)
            let list = AuthorityList(
                try await desk.store.gateways(at: .systemClock), hasBroker: settings.authority.broker != nil,
                list: desk.currentList(), at: .systemClock)
            if common.json {
                Output.data(list.document.text)
            } else {
                for line in list.lines { Output.data(line) }
            }
        }
    }

    struct Revoke: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "revoke",
            abstract: "Refuse a gateway from now on, and close its connections.")
        @OptionGroup var common: AuthorityOptions
        @Argument(help: "The gateway's id.") var gateway: String

        func run() async throws {
            let id = try common.gateway(gateway)
            let settings = try common.read()
            let desk = try common.desk(settings)
            let count = try await desk.revoke(id)
            var broker = "none"
            if let users = try settings.authority.users() {
                broker = try await desk.settle(users).contains(id.description) ? "pending" : "removed"
            }
            if common.json {
                Output.data(
                    JSONValue.object([
                        "gateway": .string(id.description), "certificates": .integer(Int64(count)),
                        "broker": .string(broker), "revocation_list_file": .string(desk.listFile),
                    ]).text)
            } else {
                Output.data("\(id) is revoked: \(count) certificates, in \(desk.listFile)")
                switch broker {
                case "removed": Output.data("the broker's user is gone, and its connections are closed")
                case "pending":
                    Output.data("the broker could not be told; `ca run` tries again (see `ca list`)")
                default: Output.data("no `broker` is set: brokers must read the revocation list")
                }
            }
        }
    }
}

/// `ca server`: a certificate for a broker's node or a collector.
struct Server: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "server",
        abstract: "Make a key and a certificate for a broker's node or a collector.",
        discussion: """
            Writes NAME.key and NAME.pem, good for 397 days. A collector may sign in at the broker with it. The name is a \
            host's, with a dot in it: nothing that could be a gateway's id.
            """)
    @OptionGroup var common: AuthorityOptions
    @Argument(help: "The host's name, and others that it is reached by.") var names: [String]
    @Option(help: ArgumentHelp("Where to put the files (default: here).", valueName: "dir"))
    var into = "."

    func run() async throws {
        for name in names where !Self.isHost(name) {
            throw Problem.usage("'\(name)' is no host's name or address")
        }
        guard let name = names.first, GatewayID(ifValid: name) == nil, !name.contains(":") else {
            throw Problem.usage("the first name could be a gateway's id", hint: "use a full name such as a.example")
        }
        let authority = try Authority(in: common.directory)
        let (key, base) = (P256.Signing.PrivateKey(), into + "/" + name)
        let certificate = try authority.serverCertificate(
            names: names, .init(key.publicKey), isClient: true, at: .systemClock)
        for (file, text) in [(base + ".key", key.pemRepresentation + "\n"), (base + ".pem", try certificate.pem)] {
            let path = file.hasPrefix("/") ? file : FileManager.default.currentDirectoryPath + "/" + file
            do { try PrivateFile.write(Array(text.utf8), to: path) } catch {
                throw Problem("cannot_create", .cannotCreate, "cannot write \(error.path): \(error.reason)")
            }
        }
        chmod(base + ".pem", 0o644)
        if common.json {
            Output.data(
                JSONValue.object([
                    "private_key_file": .string(base + ".key"), "certificate_file": .string(base + ".pem"),
                ]).text)
        } else {
            Output.data("\(base).key, \(base).pem: good for 397 days")
        }
    }

    private static func isHost(_ name: String) -> Bool {
        (1...253).contains(name.utf8.count)
            && name.unicodeScalars.allSatisfy {
                $0.isASCII
                    && ($0.properties.isAlphabetic || $0.properties.numericType != nil
                        || ".-:".unicodeScalars.contains($0))
            }
    }
}

/// The flags of the authority's commands.
struct AuthorityOptions: ParsableArguments {
    @Option(help: ArgumentHelp("The settings file.", valueName: "file"))
    var settings: String?

    @Option(help: ArgumentHelp("Where the authority's key and its database live.", valueName: "dir"))
    var stateDir: String?

    @Flag(help: "Print data as JSON, and logs as JSON lines on standard error.")
    var json = false

    var directory: String { AuthoritySettings.stateDirectory(flag: stateDir) }

    func read() throws -> CollectorSettings {
        guard let settings else { return CollectorSettings() }
        return try CollectorSettings(file: settings)
    }

    func startLogging(_ settings: CollectorSettings) {
        let (level, asJSON) = (Logger.Level(rawValue: settings.logLevel) ?? .info, json)
        LoggingSystem.bootstrap { _ in LineLog(logLevel: level, asJSON: asJSON) }
    }

    func gateway(_ text: String) throws(Problem) -> GatewayID {
        do { return try GatewayID(text) } catch { throw Problem.usage(error.description) }
    }

    func desk(_ settings: CollectorSettings, logger: Logger? = nil) throws -> AuthorityDesk {
        // Commands that print what they did log nothing besides.
        let logger = logger ?? Logger(label: "authority") { _ in SwiftLogNoOpLogHandler() }
        return try AuthorityDesk(directory: directory, plan: settings.authority.plan, logger: logger)
    }
}
