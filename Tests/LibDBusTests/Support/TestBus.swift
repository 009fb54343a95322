import Foundation
import LibDBus
import Testing

/// A message bus of its own: `dbus-daemon` in a temporary folder, ended with the last reference.
final class TestBus: Sendable {
    static let daemon = "/usr/bin/dbus-daemon"
    static let isInstalled = FileManager.default.isExecutableFile(atPath: daemon)

    /// Where it listens.
    let address: String
    private let folder: URL
    private let process: Process

    private init(address: String, folder: URL, process: Process) {
        (self.address, self.folder, self.process) = (address, folder, process)
    }

    deinit {
        kill(SIGKILL)
        try? FileManager.default.removeItem(at: folder)
    }

    /// Starts a bus and waits until it listens; elsewhere than on a socket of its own, it lets everyone in.
    static func start(listen: String? = nil) async throws -> TestBus {
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent("bus-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        let socket = folder.appendingPathComponent("socket").path
        let configuration = """
            <!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN"
             "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
            <busconfig>
              <listen>\(listen ?? "unix:path=\(socket)")</listen>
              <auth>\(listen == nil ? "EXTERNAL" : "ANONYMOUS")</auth>
              <allow_anonymous/>
              <policy context="default">
                <allow send_destination="*" eavesdrop="true"/>
                <allow eavesdrop="true"/>
                <allow own="*"/>
              </policy>
              <limit name="max_outgoing_bytes">1000000000</limit>
              <limit name="max_incoming_bytes">1000000000</limit>
              <limit name="max_message_size">134217728</limit>
              <limit name="max_replies_per_connection">50000</limit>
              <limit name="max_match_rules_per_connection">5000</limit>
            </busconfig>
            """
        let file = folder.appendingPathComponent("bus.conf")
        try configuration.write(to: file, atomically: true, encoding: .utf8)
        let printed = folder.appendingPathComponent("address")
        try Data().write(to: printed)
        let process = Process()
        process.executableURL = URL(fileURLWithPath: daemon)
        process.arguments = ["--config-file=\(file.path)", "--nofork", "--nopidfile", "--print-address=1"]
        process.standardInput = FileHandle.nullDevice
        process.standardOutput = try FileHandle(forWritingTo: printed)
        process.standardError = FileHandle.nullDevice
        try process.run()
        // It prints its address once it listens.
        while true {
            let text = (try? String(contentsOf: printed, encoding: .utf8)) ?? ""
            if text.hasSuffix("\n") {
                return TestBus(
                    address: text.trimmingCharacters(in: .newlines), folder: folder, process: process)
            }
            try #require(process.isRunning, "dbus-daemon ended at once")
            try await Task.sleep(for: .milliseconds(5))
        }
    }

    /// A connection to it.
    func connect() async throws -> DBusConnection {
        try await DBusConnection.open(.address(address), timeout: .seconds(60))
    }

    /// Sends the daemon a signal of the system.
    func kill(_ signal: Int32) {
        if process.isRunning { _ = Foundation.kill(process.processIdentifier, signal) }
    }
}

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

/// Waits until something holds; the suite's own time limit ends it where it never does.
func until(_ condition: () async throws -> Bool) async rethrows {
    while !(try await condition()) { try? await Task.sleep(for: .milliseconds(5)) }
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
