import Foundation
import Synchronization
import Testing

/// A real broker: Debian's `mosquitto` on a port of its own on loopback, ended with the last reference.
package final class TestBroker: Sendable {
    private static let program = "/usr/sbin/mosquitto"
    package static let isInstalled =
        FileManager.default.isExecutableFile(atPath: program)
        && FileManager.default.isExecutableFile(atPath: TestAuthority.program)
    /// Why a test that needs one is skipped.
    package static let needs = "mosquitto or openssl is not installed: make test-deps installs them"

    /// Where it listens on 127.0.0.1.
    package let port: UInt16
    /// Its folder, for whatever a test puts there.
    package let folder: URL
    private let process = Mutex<Process?>(nil)

    private init(port: UInt16, folder: URL) {
        self.port = port
        self.folder = folder
    }

    deinit {
        kill()
        try? FileManager.default.removeItem(at: folder)
    }

    /// Starts a broker and waits until it listens.
    ///
    /// - Parameters:
    ///   - users: users with their passwords; none: everybody is let in.
    ///   - rules: lines of an access list.
    ///   - lines: further lines of its configuration; `FOLDER` stands for its folder.
    ///   - files: files of its folder, by name.
    package static func start(
        users: [String: String] = [:], rules: [String] = [], lines: [String] = [], files: [String: String] = [:]
    ) async throws -> TestBroker {
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent(
            "broker-\(UUID().uuidString.prefix(8))")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        for (name, text) in files {
            try text.write(to: folder.appendingPathComponent(name), atomically: true, encoding: .utf8)
        }
        // Another program may take a free port before the broker does.
        for _ in 0..<5 {
            let broker = TestBroker(port: try TCPPort.free(), folder: folder)
            try broker.configure(users: users, rules: rules, lines: lines)
            if try await broker.begin() { return broker }
        }
        throw Failed("mosquitto does not start: \(log(in: folder))")
    }

    /// A file of its folder.
    package func path(_ name: String) -> String { folder.appendingPathComponent(name).path }

    /// What it has logged.
    package var log: String { Self.log(in: folder) }

    private static func log(in folder: URL) -> String {
        (try? String(contentsOf: folder.appendingPathComponent("log"), encoding: .utf8)) ?? ""
    }

    private func configure(users: [String: String], rules: [String], lines: [String]) throws {
        var text = ["user root", "persistence true", "persistence_location \(folder.path)/", "log_type all"]
        text += ["log_dest file \(path("log"))", "listener \(port) 127.0.0.1"]
        text += lines.map { $0.replacingOccurrences(of: "FOLDER", with: folder.path) }
        if users.isEmpty {
            if !lines.contains(where: { $0.hasPrefix("allow_anonymous") || $0.hasPrefix("require_certificate") }) {
                text.append("allow_anonymous true")
            }
        } else {
            let names = users.map { "\($0.key):\($0.value)\n" }.joined()
            try names.write(toFile: path("users"), atomically: true, encoding: .utf8)
            try TestProcess.run("/usr/bin/mosquitto_passwd", ["-U", path("users")])
            text += ["allow_anonymous false", "password_file \(path("users"))"]
        }
        if !rules.isEmpty {
            try (rules.joined(separator: "\n") + "\n").write(toFile: path("rules"), atomically: true, encoding: .utf8)
            text.append("acl_file \(path("rules"))")
        }
        try (text.joined(separator: "\n") + "\n").write(
            toFile: path("mosquitto.conf"), atomically: true, encoding: .utf8)
    }

    /// Starts it again, on the same port.
    package func restart() async throws {
        kill()
        guard try await begin() else { throw Failed("mosquitto does not start again: \(log)") }
    }

    private func begin() async throws -> Bool {
        let started = try launch()
        while started.isRunning {
            if TCPPort.isOpen(port) { return true }
            try await Task.sleep(for: .milliseconds(10))
        }
        return false
    }

    private func launch() throws -> Process {
        let started = Process()
        started.executableURL = URL(fileURLWithPath: Self.program)
        started.arguments = ["-c", path("mosquitto.conf")]
        started.standardInput = FileHandle.nullDevice
        started.standardOutput = FileHandle.nullDevice
        started.standardError = FileHandle.nullDevice
        // It inherits the signals that this thread does not take: it has to take SIGTERM.
        var (none, before) = (sigset_t(), sigset_t())
        sigemptyset(&none)
        pthread_sigmask(SIG_SETMASK, &none, &before)
        defer { pthread_sigmask(SIG_SETMASK, &before, nil) }
        try started.run()
        process.withLock { $0 = started }
        return started
    }

    /// Kills it (SIGKILL): what it has not written to its folder is gone.
    package func kill() { end(SIGKILL) }

    /// Stops it (SIGTERM): it writes what it keeps to its folder, and tells its clients goodbye.
    package func stop() { end(SIGTERM) }

    private func end(_ signal: Int32) {
        process.withLock { process in
            guard let running = process, running.isRunning else { return }
            Foundation.kill(running.processIdentifier, signal)
            running.waitUntilExit()
            process = nil
        }
    }
}

/// Why a test's surroundings could not be made.
package struct Failed: Error, CustomStringConvertible {
    package let description: String

    package init(_ description: String) { self.description = description }
}

/// A program that runs to its end.
package enum TestProcess {
    package static func run(_ program: String, _ arguments: [String]) throws {
        let process = Process()
        process.executableURL = URL(fileURLWithPath: program)
        process.arguments = arguments
        process.standardInput = FileHandle.nullDevice
        process.standardOutput = FileHandle.nullDevice
        process.standardError = FileHandle.nullDevice
        try process.run()
        process.waitUntilExit()
        guard process.terminationStatus == 0 else {
            throw Failed("\(program) \(arguments.joined(separator: " ")): status \(process.terminationStatus)")
        }
    }
}
