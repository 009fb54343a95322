import Foundation
import Testing

/// The built `healthrelay`, run as a user runs it.
struct Tool {
    struct Result {
        var status: Int32
        var signal: Int32?
        var output: String
        var errors: String

        var lines: [String] { output.split(separator: "\n").map(String.init) }
    }

    /// The repository.
    static let root = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .deletingLastPathComponent()

    /// The product beside the test bundle.
    static let executable = URL(fileURLWithPath: CommandLine.arguments[0]).standardizedFileURL
        .deletingLastPathComponent().appendingPathComponent("healthrelay")

    static func fixture(_ name: String) -> String { root.appendingPathComponent("Fixtures/\(name)").path }

    /// The recorded captures, by name.
    static let captures: [String] = {
        let names =
            (try? FileManager.default.contentsOfDirectory(atPath: root.appendingPathComponent("Fixtures").path)) ?? []
        return names.filter { $0.hasSuffix(".btsnoop") }.map { String($0.dropLast(".btsnoop".count)) }.sorted()
    }()

    /// A process of the tool that goes on.
    final class Running {
        let process = Process()
        let output: URL
        let errors: URL

        init(
            _ arguments: [String], environment: [String: String], in directory: URL, executable: URL = Tool.executable
        ) throws {
            let number = UUID().uuidString.prefix(8)
            output = directory.appendingPathComponent("out-\(number)")
            errors = directory.appendingPathComponent("err-\(number)")
            for file in [output, errors] { try Data().write(to: file) }
            process.executableURL = executable
            process.arguments = arguments
            process.environment = Tool.environment.merging(environment) { $1 }
            process.standardInput = FileHandle.nullDevice
            process.standardOutput = try FileHandle(forWritingTo: output)
            process.standardError = try FileHandle(forWritingTo: errors)
            try process.run()
        }

        var errorText: String { Self.text(errors) }
        var outputText: String { Self.text(output) }

        /// All of a file: Foundation's own way leaves out a byte order mark.
        private static func text(_ file: URL) -> String {
            (try? Data(contentsOf: file)).map { String(decoding: $0, as: UTF8.self) } ?? ""
        }

        func kill(_ signal: Int32) { Foundation.kill(process.processIdentifier, signal) }

        /// Waits for the end without holding a thread, of which two cores have two. What does not end is killed after
        /// five minutes.
        func finish() async -> Result {
            if await !wait(300, until: { !$0.process.isRunning }) { kill(SIGKILL) }
            while process.isRunning { try? await Task.sleep(for: .milliseconds(5)) }
            process.waitUntilExit()
            let isSignal = process.terminationReason == .uncaughtSignal
            return Result(
                status: process.terminationStatus, signal: isSignal ? process.terminationStatus : nil,
                output: outputText, errors: errorText)
        }

        /// Waits until a condition holds; false where it does not within the time.
        func wait(_ seconds: Double = 240, until condition: (Running) async -> Bool) async -> Bool {
            let end = Date().addingTimeInterval(seconds)
            while Date() < end {
                if await condition(self) { return true }
                if !process.isRunning { return await condition(self) }
                try? await Task.sleep(for: .milliseconds(10))
            }
            return false
        }

        deinit { if process.isRunning { Foundation.kill(process.processIdentifier, SIGKILL) } }
    }

    /// Nothing of the person's own settings reaches a test.
    static let environment: [String: String] = {
        var environment = ProcessInfo.processInfo.environment.filter {
            !$0.key.hasPrefix("HEALTHRELAY_") && !$0.key.hasPrefix("XDG_")
        }
        environment["HOME"] = "/nonexistent"
        environment["TZ"] = "UTC"
        environment["SWIFT_BACKTRACE"] = "enable=no"
        // The recorded meters grow older than what is backfilled.
        environment["HEALTHRELAY_SYNC_BACKFILL_DAYS"] = "36500"
        return environment
    }()

    static func run(_ arguments: [String], environment: [String: String] = [:]) async throws -> Result {
        let directory = try temporaryDirectory()
        defer { try? FileManager.default.removeItem(at: directory) }
        return try await Running(arguments, environment: environment, in: directory).finish()
    }

    /// Runs another program of the machine; gives its status and what it printed.
    static func other(_ program: String, _ arguments: [String]) async throws -> Result {
        let directory = try temporaryDirectory()
        defer { try? FileManager.default.removeItem(at: directory) }
        return try await Running(
            [program] + arguments, environment: [:], in: directory, executable: URL(fileURLWithPath: "/usr/bin/env")
        ).finish()
    }

    static func temporaryDirectory() throws -> URL {
        let directory = FileManager.default.temporaryDirectory.appendingPathComponent(
            "healthrelay-cli-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
        return directory
    }
}

/// A state directory that goes with the test.
final class Scratch: Sendable {
    let url: URL
    var state: String { url.appendingPathComponent("state").path }

    init() throws { url = try Tool.temporaryDirectory() }
    deinit { try? FileManager.default.removeItem(at: url) }
}
