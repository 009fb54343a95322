import Foundation
import Logging
import NIOHTTP1
import OutgoingHTTP
import Synchronization

@testable import WebDestinations

/// A database server of Debian's, started on a loopback port of its own for a test.
struct RealServer: Sendable {
    let port: Int
    /// Where it keeps its data, and its log.
    let folder: String

    var url: String { "http://127.0.0.1:\(port)" }

    /// Whether a program is installed.
    static func isInstalled(_ program: String) -> Bool {
        FileManager.default.isExecutableFile(atPath: "/usr/bin/" + program)
    }

    /// Starts a server, waits until it answers, and ends it after `body`, whatever that does.
    ///
    /// - Parameter arguments: of the program, given the folder and the port.
    static func with(
        _ program: String, _ arguments: (_ folder: String, _ port: Int) throws -> [String],
        _ body: (RealServer) async throws -> Void
    ) async throws {
        let folder = FileManager.default.temporaryDirectory.appending(path: "web-\(UUID().uuidString)").path
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(atPath: folder) }
        let server = RealServer(port: try freePort(), folder: folder)
        let process = Process()
        // It ends when this pipe is closed, which a crash of the tests does too. A signal would not do: a process inherits
        // those that the thread which starts it has blocked.
        let lifetime = Pipe()
        process.executableURL = URL(fileURLWithPath: "/bin/sh")
        process.arguments =
            ["-c", #""$0" "$@" & read -r line; kill -9 $!"#, "/usr/bin/" + program]
            + (try arguments(folder, server.port))
        process.standardInput = lifetime
        let log = folder + "/log"
        _ = FileManager.default.createFile(atPath: log, contents: nil)
        process.standardOutput = FileHandle(forWritingAtPath: log)
        process.standardError = FileHandle(forWritingAtPath: log)
        try process.run()
        defer {
            try? lifetime.fileHandleForWriting.close()
            process.waitUntilExit()
        }
        for _ in 0..<600 where process.isRunning {
            if try await server.call("/ping", method: .GET)?.isGood == true {
                return try await body(server)
            }
            try await Task.sleep(for: .milliseconds(50))
        }
        throw NotStarted(log: (try? String(contentsOfFile: log, encoding: .utf8)) ?? "")
    }

    struct NotStarted: Error {
        var log: String
    }

    /// Two requests of a test.
    func call(_ path: String, method: HTTPMethod = .POST, form: String? = nil, body: String? = nil) async throws
        -> HTTPAnswer?
    {
        let client = WebClient(
            try WebServer(url: url), secrets: [], logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() })
        var request = WebRequest(method: method, url: url + path, route: path)
        if let form {
            request.headers = [("content-type", Masked("application/x-www-form-urlencoded"))]
            request.body = Array(form.utf8)
        }
        if let body { request.body = Array(body.utf8) }
        return try? await client.send(request)
    }

    /// A port that nobody has. It lies below those that the kernel gives out: one of those could be somebody else's before the
    /// server has it.
    private static func freePort() throws -> Int {
        for _ in 0..<100 {
            let port = UInt16.random(in: 10_000..<20_000)
            if isFree(port) { return Int(port) }
        }
        throw NotStarted(log: "no port is free")
    }

    private static func isFree(_ port: UInt16) -> Bool {
        let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        defer { close(descriptor) }
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = port.bigEndian
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        let length = socklen_t(MemoryLayout<sockaddr_in>.size)
        return withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { bind(descriptor, $0, length) == 0 }
        }
    }
}
