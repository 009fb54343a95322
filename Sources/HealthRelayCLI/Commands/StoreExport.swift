import ArgumentParser
import Foundation
import GatewayCommands
import GatewaySettings
import HealthReadings
import ReadingStore
import Synchronization

extension Store {
    struct Export: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Write the whole store into one file, sealed under a passphrase.",
            discussion: """
                In it are devices, people, frames, readings, what waits and what was delivered: a backup, and the way \
                to another machine (`store import`). Whoever has the file and the passphrase has it all; without the \
                passphrase nobody has, and nobody can help. A gateway that runs goes on meanwhile.
                """)
        @Argument(help: ArgumentHelp("The file to write, or - for standard output.", valueName: "file"))
        var file: String
        @OptionGroup var secret: PassphraseOptions
        @OptionGroup var global: GlobalOptions

        func run() async throws {
            let settings = try global.settings()
            global.startLogging(settings)
            if file == "-", isatty(1) == 1 {
                throw Problem(
                    "export_to_terminal", .usage, "an export is binary and cannot be written to a terminal",
                    hint: "name a file")
            }
            if file != "-", FileManager.default.fileExists(atPath: file) {
                throw Problem(
                    "export_exists", .cannotCreate, "\(file) already exists; nothing was exported",
                    hint: "choose another name")
            }
            let passphrase = try await secret.passphrase(isNew: true)
            let output = try ExportFile(
                file, beside: TerminalOutput(asJSON: global.json, answers: .terminal))
            try await OperationCommand.run(
                OperationRequest(.store(.export(passphrase: passphrase)), json: global.json), global, settings, output)
            let count = try output.finish()
            guard file != "-" else { return }
            Terminal.data(
                global.json
                    ? JSONValue.object(["file": .string(file), "octets": .integer(Int64(count))]).text
                    : "\(file): \(count / 1024) KiB")
        }
    }

    struct Import: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "import", abstract: "Create this store from a file that `store export` wrote.",
            discussion: """
                The store must be empty, and no gateway may be running on it. Every row is sealed with this store's key \
                and checked before the store is put in place. Pair the meters with this machine afterwards.
                """)
        @Argument(help: ArgumentHelp("The export.", valueName: "file")) var file: String
        @OptionGroup var secret: PassphraseOptions
        @OptionGroup var global: GlobalOptions

        func run() async throws {
            let settings = try global.settings()
            global.startLogging(settings)
            guard access(file, R_OK) == 0 else {
                throw Problem(
                    "export_unreadable", .noInput, "cannot read \(file): \(String(cString: strerror(errno)))")
            }
            let (flag, file) = (global.stateDir, file)
            if try StateDirectory.owner(flag: flag) != nil {
                throw Problem(
                    "gateway_running", .tryAgain, "a gateway is running on this store; nothing was imported",
                    hint: "stop the gateway first")
            }
            let passphrase = try await secret.passphrase(isNew: false)
            let isJSON = global.json
            try await Interruption.endingBySignal {
                let statistics = try await Gateway.importing(
                    file, passphrase: passphrase, settings, state: StateDirectory(flag: flag))
                Terminal.data(isJSON ? Self.document(statistics).text : Self.line(statistics))
            }
        }

        private static func document(_ statistics: StoreStatistics) -> JSONValue {
            .object([
                "readings": .integer(Int64(count(statistics))), "frames": .integer(Int64(statistics.frames)),
                "devices": .integer(Int64(statistics.devices)), "waiting": .integer(Int64(statistics.waiting)),
            ])
        }

        private static func line(_ statistics: StoreStatistics) -> String {
            let readings = "\(count(statistics)) readings of \(statistics.devices) devices"
            return readings + "; \(statistics.waiting) wait for the server"
        }

        private static func count(_ statistics: StoreStatistics) -> Int { statistics.readings.values.reduce(0, +) }
    }
}

/// Writes octets into a file that has its name only when it is whole.
private final class ExportFile: OperationOutput {
    private struct State {
        var descriptor: Int32
        var count = 0
    }

    private let path: String
    private let part: String
    private let other: TerminalOutput
    private let state: Mutex<State>

    init(_ path: String, beside other: TerminalOutput) throws {
        self.path = path
        self.other = other
        part = path + ".part"
        guard path != "-" else {
            state = Mutex(State(descriptor: 1))
            return
        }
        unlink(part)
        let descriptor = open(part, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { throw Self.failure(path) }
        state = Mutex(State(descriptor: descriptor))
    }

    deinit {
        let descriptor = state.withLock(\.descriptor)
        guard descriptor > 1 else { return }
        close(descriptor)
        unlink(part)
    }

    func data(_ line: String) throws { try other.data(line) }
    func note(_ line: String) { other.note(line) }

    func octets(_ octets: [UInt8]) throws {
        try state.withLock { state in
            var rest = octets[...]
            while !rest.isEmpty {
                let count = rest.withUnsafeBytes { write(state.descriptor, $0.baseAddress, $0.count) }
                guard count >= 0 || errno == EINTR else { throw Self.failure(path) }
                rest = rest.dropFirst(max(count, 0))
            }
            state.count += octets.count
        }
    }

    /// Gives the file its name; returns how many octets it has.
    func finish() throws -> Int {
        try state.withLock { state in
            guard state.descriptor > 1 else { return state.count }
            guard fsync(state.descriptor) == 0, rename(part, path) == 0 else { throw Self.failure(path) }
            close(state.descriptor)
            state.descriptor = -1
            // The backup must survive a power cut once the command has said that it exists.
            guard synchronizeDirectory(parentDirectory(of: path)) else { throw Self.failure(path) }
            return state.count
        }
    }

    private static func failure(_ path: String) -> Problem {
        let reason = String(cString: strerror(errno))
        return switch errno {
        case ENOSPC, EDQUOT, EIO, EPIPE: Problem("export_io", .inputOutput, "cannot write \(path): \(reason)")
        default: Problem("export_cannot_create", .cannotCreate, "cannot create \(path): \(reason)")
        }
    }
}
