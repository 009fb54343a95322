import Foundation
import Testing

/// The udev rules, tried by udevadm on made-up devices.
@Suite struct UdevTests {
    private static let check = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .appendingPathComponent("Udev/check").path

    /// The script's status and words.
    private static let outcome = Task<(Int32, String), any Error> {
        let process = Process()
        let output = Pipe()
        process.executableURL = URL(fileURLWithPath: check)
        process.standardOutput = output
        process.standardError = output
        try process.run()
        let reading = Task.detached { try output.fileHandleForReading.readToEnd() ?? Data() }
        let words = String(decoding: try await reading.value, as: UTF8.self)
        process.waitUntilExit()
        return (process.terminationStatus, words)
    }

    @Test(
        "the udev rules take no device from anyone: a Zigbee stick stays dialout's, and only NFC readers go to the seat",
        .enabled("udevadm is not installed, or devices cannot be made up here") {
            try await UdevTests.outcome.value.0 != 69
        })
    func rules() async throws {
        let (status, words) = try await Self.outcome.value
        #expect(status == 0, "\(words)")
        #expect(words.contains("21 devices, 10 granted, 0 wrong"), "\(words)")
    }
}
