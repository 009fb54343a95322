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
            commandName: "export",
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
            let passphrase = try await secret.passphrase(isNew: true).text
            let terminal = TerminalOutput(asJSON: global.json, answers: .terminal)
            defer { terminal.clearProgress() }
            let output = try ExportFile(file, beside: terminal)
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
                and checked before the store is put in place. A row that was damaged in the exported store stays as it \
                is, and all others are taken: `store verify` names it. What was decided after the export was made, such as a \
                consent that was withdrawn, is not in it: do it again before you start the gateway. Pair the meters with \
                this machine afterwards.
                """)
        @Argument(help: ArgumentHelp("The export.", valueName: "file")) var file: String
        @OptionGroup var secret: PassphraseOptions
        @OptionGroup var global: GlobalOptions

        func run() async throws {
            let settings = try global.settings()
            global.startLogging(settings)
            let export = open(file, O_RDONLY | O_CLOEXEC | O_NONBLOCK)
            guard export >= 0 else {
                throw Problem(
                    "export_unreadable", .noInput, "cannot read \(file): \(String(cString: strerror(errno)))")
            }
            defer { close(export) }
            guard FileKind(at: file).isAbsentOrRegular else { throw StoreError.foreign(path: file) }
            try StateDirectory.requireNoOwner(flag: global.stateDir)
            let state = StateDirectory(flag: global.stateDir)
            let passphrase = try await secret.passphrase(isNew: false)
            let isJSON = global.json
            let output = TerminalOutput(asJSON: isJSON, answers: .terminal)
            defer { output.clearProgress() }
            let importing = { @Sendable (passphrase: String) in
                try await output.following { progress in
                    try await StoreOwner.acting(at: state.path) {
                        try await Gateway.importing(
                            from: export, passphrase: passphrase, settings, state: state, progress: progress)
                    }
                }
            }
            try await Interruption.endingBySignal {
                let statistics: StoreStatistics
                do { statistics = try await importing(passphrase.text) } catch ExportError.wrongPassphrase {
                    guard let former = passphrase.former else { throw ExportError.wrongPassphrase }
                    statistics = try await importing(former)
                }
                output.clearProgress()
                Terminal.data(isJSON ? Self.document(statistics).text : Self.line(statistics))
                output.note(Self.afterwards)
            }
        }

        /// What no export can know: what was decided after it was made.
        private static let afterwards =
            "everything is as when the export was made: leave out or erase again what was left out or erased since, and "
            + "withdraw consent again where it was withdrawn since (`healthrelay consent revoke KIND...`); nothing is delivered "
            + "before the rest is confirmed (`healthrelay consent grant KIND...`, for each person with `--user ID`); what a "
            + "destination has taken back since counts as delivered, and `healthrelay destination redeliver NAME` sends it again"

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

/// Writes octets into a file that has its name only when it is whole, or to standard output.
private final class ExportFile: OperationOutput {
    private let path: String
    private let other: TerminalOutput
    private let file: Mutex<WholeFile?>
    private let isSpaceChecked = Mutex(false)

    init(_ path: String, beside other: TerminalOutput) throws {
        self.path = path
        self.other = other
        do { file = Mutex(path == "-" ? nil : try WholeFile(path, streams: true)) } catch {
            throw Self.failure(error, path)
        }
    }

    func data(_ line: String) throws { try other.data(line) }
    func note(_ line: String) { other.note(line) }

    /// The first of the copy tells how large the file will be.
    func progress(_ progress: WorkProgress) throws {
        guard progress.step == StoreProgress.Step.copying.rawValue else { return other.progress(progress) }
        let isChecked = isSpaceChecked.withLock { isChecked in
            defer { isChecked = true }
            return isChecked
        }
        if !isChecked, path != "-", FileKind(at: path).isAbsentOrRegular, let total = progress.total {
            try DiskSpace.require(total, at: parentDirectory(of: path))
        }
        other.progress(progress)
    }

    func octets(_ octets: [UInt8]) throws {
        do {
            try file.withLock { file in
                if path == "-" { try Terminal.write(octets) } else { try file?.write(octets) }
            }
        } catch let error as POSIXError { throw Self.failure(error, path) }
    }

    /// Gives the file its name; returns how many octets it has.
    func finish() throws -> Int {
        do {
            return try file.withLock { file in
                guard let whole = file.take() else { return 0 }
                let count = whole.count
                try whole.finish()
                return count
            }
        } catch let error as POSIXError { throw Self.failure(error, path) }
    }

    private static func failure(_ error: POSIXError, _ path: String) -> Problem {
        let reason = String(cString: strerror(error.code.rawValue))
        guard path != "-" else { return Terminal.failed(reason) }
        return switch error.code {
        case .ENOSPC, .EDQUOT, .EIO, .EPIPE: Problem("export_io", .inputOutput, "cannot write \(path): \(reason)")
        case .EBUSY:
            Problem(
                "export_cannot_create", .cannotCreate, "cannot create \(path): another program is writing it",
                hint: "choose another name, or wait until the other program has ended")
        default: Problem("export_cannot_create", .cannotCreate, "cannot create \(path): \(reason)")
        }
    }
}
