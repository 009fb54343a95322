import Foundation
import Testing

/// The built `healthrelay` with a state directory of its own, on the lab's bus.
final class TestGateway: Sendable {
    struct Result: Sendable {
        var status: Int32
        var signal: Int32?
        var output: String
        var errors: String

        /// What was printed with `--json`, a document a line.
        var documents: [Document] { Document.lines(output) }
        /// The only document that was printed.
        var document: Document { get throws { try #require(documents.first) } }
        /// The code of the error it ended with, where it was told to use JSON.
        var errorCode: String? { error?["code"]?.text }
        var hint: String? { error?["hint"]?.text }
        private var error: Document? {
            // A prompt on a terminal may stand before it on its line.
            let line = errors.split(separator: "\n").last { $0.contains("{\"error\":") }
            guard let line, let start = line.range(of: "{\"error\":") else { return nil }
            return (try? Document(String(line[start.lowerBound...])))?["error"]
        }
    }

    /// The product beside the test bundle.
    static let executable = URL(fileURLWithPath: CommandLine.arguments[0]).standardizedFileURL
        .deletingLastPathComponent().appendingPathComponent("healthrelay")

    let directory: URL
    var state: String { directory.appendingPathComponent("state").path }

    init() throws {
        directory = FileManager.default.temporaryDirectory.appendingPathComponent(
            "healthrelay-lab-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
    }

    deinit { try? FileManager.default.removeItem(at: directory) }

    /// Nothing of the person's own settings reaches a test; the bus is the guest's.
    private static let environment: [String: String] = {
        var environment = ProcessInfo.processInfo.environment.filter {
            !$0.key.hasPrefix("HEALTHRELAY_") && !$0.key.hasPrefix("XDG_")
        }
        environment["HOME"] = "/nonexistent"
        environment["TZ"] = "UTC"
        environment["SWIFT_BACKTRACE"] = "enable=no"
        environment["HEALTHRELAY_USER_TIME_ZONE"] = Lab.zone
        environment["HEALTHRELAY_HTTP_LISTEN"] = "127.0.0.1:0"
        return environment
    }()

    /// Starts a command, with `--json`.
    func start(
        _ arguments: [String], environment: [String: String] = [:], input: FileHandle = .nullDevice
    ) throws -> Running {
        try Running(
            arguments + ["--state-dir", state, "--json"], Self.environment.merging(environment) { $1 }, input, of: self)
    }

    /// Runs a command to its end, with `--json`.
    @discardableResult
    func callAsFunction(_ arguments: String..., environment: [String: String] = [:]) async throws -> Result {
        try await start(arguments, environment: environment).finish()
    }

    /// Scans until something holds, or for a minute. A machine that has other work may take seconds to hear a meter.
    func scan(until condition: (Running) async throws -> Bool = { !$0.documents.isEmpty }) async throws -> Result {
        let running = try start(["scan"])
        _ = try await running.wait(until: condition)
        return await running.end()
    }

    /// Pairs a meter; what it shows is put into a file as a person would type it, once it is shown.
    @discardableResult
    func pair(_ meter: LabMeter, address: String? = nil, typing digits: String? = nil, _ more: String...) async throws
        -> Result
    {
        let file = directory.appendingPathComponent("passkey-\(UUID().uuidString)")
        try Data().write(to: file)
        let running = try start(["pair", address ?? meter.address, "--passkey-file", file.path] + more)
        let typist = Task {
            let shown = try await meter.passkey()
            try Data((digits ?? shown).utf8).write(to: file, options: .atomic)
        }
        defer { typist.cancel() }
        return await running.finish()
    }

    /// All readings of the store.
    func stored() async throws -> [Document] {
        try await self("query", "--limit", "10000").document["readings"]?.elements ?? []
    }

    /// What `devices` says of a meter.
    func device(_ meter: LabMeter) async throws -> Document? {
        try await self("devices").document["devices"]?.elements.first { $0["address"]?.text == meter.address }
    }

    /// Runs another program.
    static func run(_ program: String, _ arguments: String...) async throws -> Result {
        let gateway = try TestGateway()
        return try await Running(
            [program] + arguments, environment, .nullDevice, of: gateway,
            executable: URL(fileURLWithPath: "/usr/bin/env")
        ).finish()
    }
}

/// A process that goes on.
final class Running {
    let process = Process()
    private let output: URL
    private let errors: URL
    /// Its directory goes with it.
    private let gateway: TestGateway

    init(
        _ arguments: [String], _ environment: [String: String], _ input: FileHandle, of gateway: TestGateway,
        executable: URL = TestGateway.executable
    ) throws {
        self.gateway = gateway
        let directory = gateway.directory
        let number = UUID().uuidString.prefix(8)
        output = directory.appendingPathComponent("out-\(number)")
        errors = directory.appendingPathComponent("err-\(number)")
        for file in [output, errors] { try Data().write(to: file) }
        process.executableURL = executable
        process.arguments = arguments
        process.environment = environment
        process.standardInput = input
        process.standardOutput = try FileHandle(forWritingTo: output)
        process.standardError = try FileHandle(forWritingTo: errors)
        try process.run()
    }

    var outputText: String { (try? String(contentsOf: output, encoding: .utf8)) ?? "" }
    var errorText: String { (try? String(contentsOf: errors, encoding: .utf8)) ?? "" }
    var documents: [Document] { Document.lines(outputText) }

    func kill(_ signal: Int32) { Foundation.kill(process.processIdentifier, signal) }

    /// Waits for the end, holding no thread.
    func finish() async -> TestGateway.Result {
        while process.isRunning { try? await Task.sleep(for: .milliseconds(5)) }
        process.waitUntilExit()
        let isSignal = process.terminationReason == .uncaughtSignal
        return TestGateway.Result(
            status: process.terminationStatus, signal: isSignal ? process.terminationStatus : nil, output: outputText,
            errors: errorText)
    }

    /// Ends it as a person does, and waits.
    func end(_ signal: Int32 = SIGINT) async -> TestGateway.Result {
        kill(signal)
        return await finish()
    }

    /// Waits until something holds; false where it does not within the time, or before the process ends.
    func wait(_ seconds: Double = 60, until condition: (Running) async throws -> Bool) async throws -> Bool {
        let end = Lab.now + seconds
        while Lab.now < end {
            if try await condition(self) { return true }
            if !process.isRunning { return try await condition(self) }
            try await Task.sleep(for: .milliseconds(20))
        }
        return false
    }

    deinit { if process.isRunning { Foundation.kill(process.processIdentifier, SIGKILL) } }
}
