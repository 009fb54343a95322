import Foundation
import LibDBus
import Testing

/// A message bus of its own: `dbus-daemon` in a temporary folder, ended with the last reference.
final class TestBus: Sendable {
    static let daemon = "/usr/bin/dbus-daemon"
    static let isInstalled = FileManager.default.isExecutableFile(atPath: daemon)

    let folder: URL
    let address: String
    private let process: Process

    private init(folder: URL, process: Process) {
        self.folder = folder
        self.process = process
        address = Self.address(in: folder)
    }

    deinit {
        stop()
        try? FileManager.default.removeItem(at: folder)
    }

    static func makeFolder() throws -> URL {
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent(
            "bluez-\(UUID().uuidString.prefix(8))")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        return folder
    }

    static func address(in folder: URL) -> String { "unix:path=\(folder.appendingPathComponent("socket").path)" }

    /// Starts a bus and waits until it listens.
    ///
    /// - Parameter folder: where a bus was before, to begin again at its address.
    static func start(in folder: URL? = nil) async throws -> TestBus {
        let folder = try folder ?? makeFolder()
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        let configuration = """
            <!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN"
             "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
            <busconfig>
              <listen>\(address(in: folder))</listen>
              <auth>EXTERNAL</auth>
              <policy context="default">
                <allow send_destination="*" eavesdrop="true"/>
                <allow eavesdrop="true"/>
                <allow own="*"/>
              </policy>
            </busconfig>
            """
        let file = folder.appendingPathComponent("bus.conf")
        try configuration.write(to: file, atomically: true, encoding: .utf8)
        let printed = folder.appendingPathComponent("printed")
        try Data().write(to: printed)
        let process = Process()
        process.executableURL = URL(fileURLWithPath: daemon)
        process.arguments = ["--config-file=\(file.path)", "--nofork", "--nopidfile", "--print-address=1"]
        process.standardInput = FileHandle.nullDevice
        process.standardOutput = try FileHandle(forWritingTo: printed)
        process.standardError = FileHandle.nullDevice
        try process.run()
        while !((try? String(contentsOf: printed, encoding: .utf8)) ?? "").hasSuffix("\n") {
            try #require(process.isRunning, "dbus-daemon ended at once")
            try await Task.sleep(for: .milliseconds(5))
        }
        return TestBus(folder: folder, process: process)
    }

    func connect() async throws -> DBusConnection {
        try await DBusConnection.open(.address(address), timeout: .seconds(60))
    }

    func stop() {
        if process.isRunning { kill(process.processIdentifier, SIGKILL) }
    }
}

/// Waits until something holds; the test's own time limit ends it where it never does.
func until(_ condition: () async throws -> Bool) async throws {
    while !(try await condition()) { try await Task.sleep(for: .milliseconds(5)) }
}
