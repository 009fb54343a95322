import Foundation
import LibDBus
import Testing

/// A message bus of its own: `dbus-daemon` in a temporary folder, ended with the last reference.
package final class TestBus: Sendable {
    private static let daemon = "/usr/bin/dbus-daemon"
    package static let isInstalled = FileManager.default.isExecutableFile(atPath: daemon)

    /// Where it listens.
    package let address: String
    private let folder: URL
    private let process: Process

    private init(address: String, folder: URL, process: Process) {
        (self.address, self.folder, self.process) = (address, folder, process)
    }

    deinit {
        stop()
        try? FileManager.default.removeItem(at: folder)
    }

    /// Makes a folder that a bus can be in.
    package static func makeFolder() throws -> URL {
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent("bus-\(UUID().uuidString.prefix(8))")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        return folder
    }

    /// Where a bus in a folder listens.
    package static func address(in folder: URL) -> String {
        "unix:path=\(folder.appendingPathComponent("socket").path)"
    }

    /// Starts a bus and waits until it listens.
    ///
    /// - Parameters:
    ///   - folder: where a bus was before, to begin again at its address; `nil` for a new one.
    ///   - listen: where it listens instead of on a socket in its folder. It then lets everyone in.
    ///   - matchRules: how many match rules a connection may have. A system bus allows 512.
    ///   - replies: how many calls of a connection may be unanswered. A system bus allows 128.
    package static func start(
        in folder: URL? = nil, listen: String? = nil, matchRules: Int = 5000, replies: Int = 50000
    ) async throws -> TestBus {
        let folder = try folder ?? makeFolder()
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        let file = folder.appendingPathComponent("bus.conf")
        try configuration(
            listen ?? address(in: folder), isOpen: listen != nil, matchRules: matchRules, replies: replies
        ).write(to: file, atomically: true, encoding: .utf8)
        let printed = folder.appendingPathComponent("printed")
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
                // What it prints of its own socket names its identity, which another bus there will not have.
                let address = listen == nil ? address(in: folder) : text.trimmingCharacters(in: .newlines)
                return TestBus(address: address, folder: folder, process: process)
            }
            try #require(process.isRunning, "dbus-daemon ended at once")
            try await Task.sleep(for: .milliseconds(5))
        }
    }

    private static func configuration(_ listen: String, isOpen: Bool, matchRules: Int, replies: Int) -> String {
        """
        <!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN"
         "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
        <busconfig>
          <listen>\(listen)</listen>
          <auth>\(isOpen ? "ANONYMOUS" : "EXTERNAL")</auth>
          <allow_anonymous/>
          <policy context="default">
            <allow send_destination="*" eavesdrop="true"/>
            <allow eavesdrop="true"/>
            <allow own="*"/>
          </policy>
          <limit name="max_outgoing_bytes">1000000000</limit>
          <limit name="max_incoming_bytes">1000000000</limit>
          <limit name="max_message_size">134217728</limit>
          <limit name="max_replies_per_connection">\(replies)</limit>
          <limit name="max_match_rules_per_connection">\(matchRules)</limit>
        </busconfig>
        """
    }

    /// A connection to it.
    package func connect() async throws -> DBusConnection {
        try await DBusConnection.open(.address(address), timeout: .seconds(60))
    }

    /// Kills the daemon.
    package func stop() {
        if process.isRunning { kill(process.processIdentifier, SIGKILL) }
    }
}
