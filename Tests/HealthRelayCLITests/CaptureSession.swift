import Foundation
import Testing

/// A capture under way.
final class CaptureSession {
    let scratch = try? Scratch()
    let server: MonitorServer
    let file: String
    let run: Tool.Running

    init(_ arguments: [String] = [], environment: [String: String] = [:]) throws {
        let scratch = try #require(scratch)
        server = try MonitorServer(scratch)
        file = scratch.url.appendingPathComponent("capture.btsnoop").path
        run = try Tool.Running(
            ["capture", file, "--yes"] + arguments,
            environment: ["HEALTHRELAY_CAPTURE_MONITOR": server.path].merging(environment) { $1 }, in: scratch.url)
    }

    /// Waits until so many packets are in the file.
    func wait(for packets: Int) async -> Bool {
        await run.wait { _ in (try? MonitorFile(self.file).datagrams.count) ?? 0 >= packets }
    }

    /// Waits until this packet is the file's last.
    func wait(for datagram: [UInt8]) async -> Bool {
        await run.wait { _ in (try? MonitorFile(self.file).datagrams.last) == datagram }
    }

    func finish(_ signal: Int32 = SIGINT) async -> Tool.Result {
        run.kill(signal)
        return await run.finish()
    }
}
