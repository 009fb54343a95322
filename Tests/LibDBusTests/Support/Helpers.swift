import Foundation
import LibDBus
import Testing

extension DBusConnection {
    /// Calls the bus itself.
    @discardableResult
    func bus(_ member: String, _ arguments: [DBusValue] = []) async throws(DBusError) -> [DBusValue] {
        try await call(
            "org.freedesktop.DBus", "/org/freedesktop/DBus", "org.freedesktop.DBus", member, arguments,
            timeout: .seconds(120))
    }

    /// Takes a well-known name.
    func own(_ name: String) async throws {
        let answer = try await bus("RequestName", [.string(name), .uint32(4)])
        try #require(answer == [.uint32(1)])
    }
}

/// Runs a program to its end, without holding a thread.
func run(_ path: String, _ arguments: [String], environment: [String: String] = [:]) async throws -> (
    status: Int32, output: String
) {
    let file = FileManager.default.temporaryDirectory.appendingPathComponent("out-\(UUID().uuidString)")
    try Data().write(to: file)
    defer { try? FileManager.default.removeItem(at: file) }
    let process = Process()
    process.executableURL = URL(fileURLWithPath: path)
    process.arguments = arguments
    process.environment = ProcessInfo.processInfo.environment.merging(environment) { $1 }
    process.standardInput = FileHandle.nullDevice
    let output = try FileHandle(forWritingTo: file)
    process.standardOutput = output
    process.standardError = output
    try process.run()
    while process.isRunning { try? await Task.sleep(for: .milliseconds(5)) }
    process.waitUntilExit()
    return (process.terminationStatus, (try? String(contentsOf: file, encoding: .utf8)) ?? "")
}
