import EmulatedRadio
import Foundation
import GATTClient
import GatewayCommands
import GatewayService
import GatewaySettings
import Logging
import ServiceLifecycle

/// `run` in this process over an emulated radio: the executable reaches it through its real control socket.
final class HostedGateway: Sendable {
    let scratch: Scratch
    let radio: EmulatedRadio
    private let group: ServiceGroup
    private let running: Task<Void, any Error>

    init(_ meters: [EmulatedMeter]) async throws {
        scratch = try Scratch()
        radio = EmulatedRadio(meters)
        let (radio, state) = (radio, StateDirectory(flag: scratch.state, environment: [:]))
        let logger = Logger(label: "hosted") { _ in SwiftLogNoOpLogHandler() }
        let settings = try Settings(
            environment: [:], flags: ["http.listen": "127.0.0.1:0", "user.time_zone": "Europe/Berlin"],
            managed: ManagedSettings(stateDirectory: state.path))
        let runner = GatewayRunner(
            settings: settings, state: state, radio: { _, _ in radio }, showsValues: false, logger: logger
        ) { _ in }
        let group = ServiceGroup(services: [runner], logger: logger)
        self.group = group
        running = Task { try await group.run() }
        while try ControlClient(socket: state.socket) == nil { try await Task.sleep(for: .milliseconds(10)) }
    }

    /// Runs the tool against it.
    func run(_ arguments: String...) async throws -> Tool.Result {
        try await Tool.run(arguments + ["--state-dir", scratch.state])
    }

    /// Starts the tool against it.
    func start(_ arguments: String...) throws -> Tool.Running {
        try Tool.Running(arguments + ["--state-dir", scratch.state], environment: [:], in: scratch.url)
    }

    func stop() async throws {
        await group.triggerGracefulShutdown()
        try await running.value
    }
}

/// The tool at a terminal: standard input is one, and what a person types goes there.
final class TerminalSession {
    let process = Process()
    private let master: Int32
    private let output: URL
    private let errors: URL

    init(_ arguments: [String], in directory: URL) throws {
        // What posix_openpt(3), unlockpt(3) and ptsname(3) do, which Glibc's module does not show.
        let master = open("/dev/ptmx", O_RDWR | O_NOCTTY)
        var (isLocked, number) = (Int32(0), Int32(0))
        let (unlock, getNumber): (UInt, UInt) = (0x4004_5431, 0x8004_5430)
        guard master >= 0, ioctl(master, unlock, &isLocked) == 0, ioctl(master, getNumber, &number) == 0 else {
            throw POSIXError(.ENXIO)
        }
        self.master = master
        let path = "/dev/pts/\(number)"
        let slave = open(path, O_RDWR | O_NOCTTY)
        guard slave >= 0 else { throw POSIXError(.ENXIO) }
        output = directory.appendingPathComponent("tty-out-\(UUID().uuidString.prefix(8))")
        errors = directory.appendingPathComponent("tty-err-\(UUID().uuidString.prefix(8))")
        for file in [output, errors] { try Data().write(to: file) }
        process.executableURL = Tool.executable
        process.arguments = arguments
        process.environment = Tool.environment
        process.standardInput = FileHandle(fileDescriptor: slave, closeOnDealloc: true)
        process.standardOutput = try FileHandle(forWritingTo: output)
        process.standardError = try FileHandle(forWritingTo: errors)
        try process.run()
    }

    deinit {
        if process.isRunning { kill(process.processIdentifier, SIGKILL) }
        close(master)
    }

    var outputText: String { (try? String(contentsOf: output, encoding: .utf8)) ?? "" }
    var errorText: String { (try? String(contentsOf: errors, encoding: .utf8)) ?? "" }

    /// Waits until standard error holds a text.
    func expect(_ text: String, times: Int = 1) async -> Bool {
        for _ in 0..<6000 {
            if errorText.components(separatedBy: text).count > times { return true }
            if !process.isRunning { return errorText.components(separatedBy: text).count > times }
            try? await Task.sleep(for: .milliseconds(10))
        }
        return false
    }

    /// Whether what is typed is shown.
    var showsInput: Bool {
        var attributes = termios()
        return tcgetattr(master, &attributes) == 0 && attributes.c_lflag & tcflag_t(ECHO) != 0
    }

    func type(_ text: String) {
        let octets = Array(text.utf8)
        _ = octets.withUnsafeBytes { write(master, $0.baseAddress, $0.count) }
    }

    func finish() async -> Int32 {
        while process.isRunning { try? await Task.sleep(for: .milliseconds(5)) }
        process.waitUntilExit()
        return process.terminationStatus
    }
}
