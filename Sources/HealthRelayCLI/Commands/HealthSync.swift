import ArgumentParser
import Foundation
import GatewayCommands
import GatewaySettings

struct HealthSync: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "healthsync", abstract: "Fetch samples from an iPhone with the Health Sync app.",
        discussion: """
            Share in the app, pair once by what its QR code holds, then fetch. The phone and this machine have to be in one \
            network; the phone has to be unlocked and the app open.
            """,
        subcommands: [
            Discover.self, Pair.self, List.self, Status.self, Types.self, Fetch.self, Forget.self,
        ])

    /// Which phone, and where it is.
    struct PhoneOptions: ParsableArguments {
        @Option(help: ArgumentHelp("The phone, as it was paired (default: the only one).", valueName: "name"))
        var phone: String?
        @Option(help: ArgumentHelp("Where it is now, if it can't be found by itself.", valueName: "address"))
        var host: String?
        @Option(help: ArgumentHelp("The port that the app shows now.", valueName: "n")) var port: Int?

        var choice: PhoneChoice {
            var choice = PhoneChoice()
            choice.name = phone
            choice.host = host
            choice.port = port
            return choice
        }
    }

    struct Discover: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "discover",
            abstract: "List the phones that the local network tells of, through Avahi.")
        @Option(name: .customLong("for"), help: ArgumentHelp("How long to look.", valueName: "duration"))
        var time = DurationArgument(seconds: HealthSyncOperation.usualSearch)
        @OptionGroup var global: GlobalOptions

        func run() async throws {
            try await OperationCommand.run(.healthSync(.discover(seconds: time.seconds)), global)
        }
    }

    struct Pair: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "pair",
            abstract: "Pair with a phone by what its QR code holds.",
            discussion: """
                The app copies the QR code's text: paste it at the prompt, pipe it in, or name a file that holds it. Or give \
                --host, --port, --code and --fingerprint as the app shows them. A code pairs once and is good for five \
                minutes. The phone's certificate is trusted by its fingerprint alone.
                """)
        @Argument(help: "The QR code's text. Other users of this machine can see it in the process list.")
        var payload: String?
        @Option(help: ArgumentHelp("A file with the QR code's text, or - for standard input.", valueName: "file"))
        var file: String?
        @Option(help: ArgumentHelp("The phone's address.", valueName: "address")) var host: String?
        @Option(help: ArgumentHelp("The phone's port.", valueName: "n")) var port: Int?
        @Option(help: ArgumentHelp("The pairing code.", valueName: "code")) var code: String?
        @Option(help: ArgumentHelp("The SHA-256 of the phone's certificate.", valueName: "hex")) var fingerprint:
            String?
        @Option(help: ArgumentHelp("What to call the phone (default: its own name).", valueName: "name"))
        var name: String?
        @OptionGroup var global: GlobalOptions

        func validate() throws {
            let parts = [host, port.map(String.init), code, fingerprint]
            let hasParts = parts.contains { $0 != nil }
            guard !hasParts || parts.allSatisfy({ $0 != nil }) else {
                throw ValidationError("give all of --host, --port, --code and --fingerprint, or none")
            }
            guard [payload != nil, file != nil, hasParts].count(where: \.self) <= 1 else {
                throw ValidationError("give the QR code's text, --file, or the four parts of it")
            }
        }

        func run() async throws {
            var invitation = PhoneInvitation()
            invitation.name = name
            if host != nil {
                (invitation.host, invitation.port, invitation.code) = (host, port, code)
                invitation.fingerprint = fingerprint
            } else {
                invitation.payload = try await text()
            }
            try await OperationCommand.run(.healthSync(.pair(invitation)), global)
        }

        private static let longest = 16_384

        private func text() async throws -> String {
            if let payload { return payload }
            if let file, file != "-" {
                do {
                    return try OrdinaryFile.text(file)
                } catch {
                    throw Problem("file_unreadable", .noInput, "cannot read \(file): \(error.localizedDescription)")
                }
            }
            if file == nil, TerminalInput.isThere {
                guard let line = try await TerminalInput.line("Paste what the QR code holds: ") else {
                    throw Problem.usage("nothing was pasted")
                }
                return line
            }
            let data = try FileHandle.standardInput.read(upToCount: Self.longest) ?? Data()
            guard !data.isEmpty else {
                throw Problem.usage("expected the QR code's text on standard input, found nothing")
            }
            return String(decoding: data, as: UTF8.self)
        }
    }

    struct List: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "list", abstract: "List the phones that are paired.")
        @OptionGroup var global: GlobalOptions

        func run() async throws { try await OperationCommand.run(.healthSync(.list), global) }
    }

    struct Forget: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "forget",
            abstract: "Forget a phone's token.",
            discussion: "The phone keeps its own record: revoke the gateway in the app.")
        @Argument(help: "The phone, as it was paired.") var phone: String
        @OptionGroup var global: GlobalOptions

        func run() async throws { try await OperationCommand.run(.healthSync(.forget(phone)), global) }
    }

    struct Status: AsyncParsableCommand {
        static let configuration = CommandConfiguration(commandName: "status", abstract: "Ask a phone for its status.")
        @OptionGroup var phone: PhoneOptions
        @OptionGroup var global: GlobalOptions

        func run() async throws { try await OperationCommand.run(.healthSync(.status(phone.choice)), global) }
    }

    struct Types: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "types", abstract: "List the types that a phone shares.")
        @OptionGroup var phone: PhoneOptions
        @OptionGroup var global: GlobalOptions

        func run() async throws { try await OperationCommand.run(.healthSync(.types(phone.choice)), global) }
    }

    struct Fetch: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "fetch",
            abstract: "Fetch a phone's samples: all of them, or an error.",
            discussion: """
                Samples come newest first. If the command doesn't end with status 0, what it printed is not all; a JSON \
                document is then cut short.
                """)
        @Option(
            help: ArgumentHelp(
                "Types by the app's names, separated by commas (default: all shared).", valueName: "type"))
        var types: String?
        @Option(
            help: ArgumentHelp("The first instant or date (default: a week before the last).", valueName: "instant"))
        var from: String?
        @Option(help: ArgumentHelp("The last instant or date (default: now).", valueName: "instant")) var to: String?
        @Option(help: "How to print samples: csv, json or ndjson (default: csv, with --json json).")
        var format: SampleRequest.Format?
        @Flag(help: "Store the samples as readings, instead of printing them.") var store = false
        @Option(
            help: ArgumentHelp("Whose samples they are, with --store (default: the current user).", valueName: "id"))
        var person: String?
        @OptionGroup var phone: PhoneOptions
        @OptionGroup var global: GlobalOptions

        func validate() throws {
            guard !store || format == nil else {
                throw ValidationError("give --format or --store: with --store nothing is printed")
            }
            guard store || person == nil else {
                throw ValidationError("--person is about what is stored: give --store, too")
            }
        }

        func run() async throws {
            var request = SampleRequest()
            request.phone = phone.choice
            request.types = try KindNames.of(types)
            request.from = from
            request.to = to
            request.stores = store
            request.person = person
            request.format = format ?? (global.json ? .json : .csv)
            try await OperationCommand.run(.healthSync(.fetch(request)), global)
        }
    }
}

extension SampleRequest.Format: ExpressibleByArgument {}
