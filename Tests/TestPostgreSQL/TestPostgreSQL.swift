import Foundation
import Synchronization

/// A PostgreSQL server of the tests' own, in a temporary folder, on a Unix socket in that folder alone.
///
/// A shell stands between the tests and the server and ends it when the tests' end of a pipe closes: also where the
/// tests were killed.
package final class TestPostgreSQL: Sendable {
    /// Why a server could not be started.
    package struct Failure: Error, CustomStringConvertible {
        package let description: String
    }

    private struct State {
        var process: Process?
        var lifeline: Pipe?
        var databases = 0
    }

    /// Whether the server's programs are installed.
    package static var isInstalled: Bool { programs != nil }

    /// The folder of Debian's newest installed version.
    private static let programs: String? = {
        let folder = "/usr/lib/postgresql"
        let versions = (try? FileManager.default.contentsOfDirectory(atPath: folder)) ?? []
        return versions.compactMap(Int.init).sorted(by: >).map { "\(folder)/\($0)/bin" }
            .first { FileManager.default.isExecutableFile(atPath: $0 + "/postgres") }
    }()

    /// One that all suites share; each test makes a database of its own in it.
    package static let shared = Result<TestPostgreSQL, any Error> { try TestPostgreSQL() }

    private let folder: String
    private let state = Mutex(State())

    /// Makes a cluster and starts its server.
    package init() throws {
        guard let programs = Self.programs else { throw Failure(description: "PostgreSQL is not installed") }
        folder = FileManager.default.temporaryDirectory.path + "/pg-" + UUID().uuidString.prefix(8)
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        if geteuid() == 0, let user = getpwnam("postgres") { chown(folder, user.pointee.pw_uid, user.pointee.pw_gid) }
        try Self.run(
            Self.unprivileged + [
                programs + "/initdb", "-D", folder + "/data", "-U", "healthrelay", "-A", "trust", "--no-sync",
                "--no-instructions", "-E", "UTF8", "--locale=C",
            ])
        try start()
    }

    deinit {
        stop()
        try? FileManager.default.removeItem(atPath: folder)
    }

    /// libpq's address of a new, empty database.
    package func database() throws -> String {
        let name = state.withLock { state in
            state.databases += 1
            return "test\(state.databases)"
        }
        try run(in: "postgres", "CREATE DATABASE \(name)")
        return address(of: name)
    }

    private func address(of database: String) -> String { "host=\(folder) user=healthrelay dbname=\(database)" }

    /// Runs a statement as an administrator would.
    ///
    /// - Parameter address: what ``database()`` gave.
    package func run(at address: String, _ statement: String) throws -> String {
        guard let name = address.split(separator: "=").last else { throw Failure(description: "no database") }
        return try run(in: String(name), statement)
    }

    @discardableResult
    private func run(in database: String, _ statement: String) throws -> String {
        try Self.run([(Self.programs ?? "") + "/psql", "-XAtq", "-d", address(of: database), "-c", statement])
    }

    /// Ends the server at once, as a machine that loses its power does to its clients.
    package func stop() {
        let (process, lifeline) = state.withLock { state in
            defer { (state.process, state.lifeline) = (nil, nil) }
            return (state.process, state.lifeline)
        }
        try? lifeline?.fileHandleForWriting.close()
        process?.waitUntilExit()
        // The shell can't wait for the server: Foundation starts programs with SIGCHLD blocked.
        while FileManager.default.fileExists(atPath: folder + "/data/postmaster.pid") { usleep(10_000) }
    }

    /// Starts it again and waits until it takes connections.
    package func start() throws {
        let (process, lifeline) = (Process(), Pipe())
        process.executableURL = URL(fileURLWithPath: "/bin/sh")
        let server =
            Self.unprivileged + [
                (Self.programs ?? "") + "/postgres", "-D", folder + "/data", "-k", folder, "-c", "listen_addresses=",
                "-c", "shared_buffers=16MB", "-c", "max_connections=40",
            ]
        process.arguments =
            [
                "-c", #""$@" <&- >"$0" 2>&1 & server=$!; read -r line; kill -QUIT $server"#,
                folder + ".log",
            ] + server
        process.standardInput = lifeline
        try process.run()
        try? lifeline.fileHandleForReading.close()
        state.withLock { ($0.process, $0.lifeline) = (process, lifeline) }
        for _ in 0..<600 {
            if (try? run(in: "postgres", "SELECT 1")) != nil { return }
            usleep(100_000)
        }
        throw Failure(description: "PostgreSQL took no connection within a minute")
    }

    /// What a command begins with so that it does not run as root, which PostgreSQL refuses.
    private static var unprivileged: [String] {
        geteuid() == 0 ? ["setpriv", "--reuid", "postgres", "--regid", "postgres", "--clear-groups", "--"] : []
    }

    @discardableResult
    private static func run(_ command: [String]) throws -> String {
        let (process, output) = (Process(), Pipe())
        process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
        process.arguments = command
        (process.standardOutput, process.standardError) = (output, output)
        process.standardInput = FileHandle.nullDevice
        try process.run()
        let text = String(decoding: output.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
        process.waitUntilExit()
        guard process.terminationStatus == 0 else { throw Failure(description: text) }
        return text.trimmingCharacters(in: .whitespacesAndNewlines)
    }
}
