import Foundation
import GatewayCommands
import HealthReadings
import LocalAccess
import NIOHTTP1
import Testing

/// The local API on a disk without room: a real tmpfs of a few megabytes, filled to its last byte.
@Suite(
    "The local API on a full disk", .serialized, .timeLimit(.minutes(5)),
    .enabled(if: SmallDisk.canMount, SmallDisk.why))
struct FullDiskTests {
    @Test("somebody who is put out while the disk is full is out at once")
    func revocation() async throws {
        let disk = try await SmallDisk(megabytes: 8)
        let bench = try await APIBench(tls: false, captures: [], settings: ["http.local": "session"], in: disk.path)
        let (token, client) = try await bench.door.clients.admit(
            "lost", as: .client, for: .owner, now: Date(), expiresAt: Date() + 60)
        #expect(try await bench.send("/api/v1/readings", token: token.text).status == 200)
        try disk.fill()
        await #expect(throws: AccessError.self) { try await bench.door.clients.revoke(client.number, now: Date()) }
        #expect(try await bench.send("/api/v1/readings", token: token.text).status == 401)
        try FileManager.default.removeItem(at: disk.path.appendingPathComponent("filler"))
        try await bench.stop()
        await disk.unmount()
    }

    @Test("a paired client goes on reading, and health says that the disk is full")
    func readingGoesOn() async throws {
        let disk = try await SmallDisk(megabytes: 8)
        let bench = try await APIBench(tls: false, in: disk.path)
        let token = try await bench.token()
        try disk.fill()
        let answer = try await bench.send("/api/v1/readings", token: token)
        #expect(answer.status == 200 && answer.text.contains("glucose"), "\(answer.text.prefix(300))")
        #expect(try await bench.send("/api/v1/status", token: token).status == 200)
        // What cannot be written is said by its name, and what is known of the client stays in memory.
        let code = bench.door.desk.invite(for: .owner, now: Date()).code
        let pairing = try await bench.send("/api/v1/pair", .POST, body: #"{"code":"\#(code)","clientName":"x"}"#)
        #expect(pairing.code == "disk_full", "\(pairing.text)")
        await bench.door.audit.flush()
        #expect(try await bench.door.clients.clients().first?.lastSeen != nil)
        #expect(try await bench.door.audit.newest(10).isEmpty)
        let health = try await bench.send("/health")
        #expect(health.status == 503 && health.object["disk"] as? String == "full")
        // With room again, what waited is written.
        try FileManager.default.removeItem(at: disk.path.appendingPathComponent("filler"))
        #expect(
            try await bench.door.audit.newest(10).contains { $0.event == "request" && $0.route == "/api/v1/readings" })
        try await bench.stop()
        await disk.unmount()
    }

    @Test("promise 10: health says that the store cannot be written, until it was")
    func unwritable() async throws {
        let disk = try await SmallDisk(megabytes: 8)
        let bench = try await APIBench(
            tls: false, captures: [], settings: ["user.client_user_id": "anna"], in: disk.path)
        let token = try await bench.token()
        #expect(try await bench.send("/health").object["store"] as? String == "ok")
        try disk.fill()
        // The log has room for some until it is written from its beginning.
        var code: String?
        for minute in 0..<40 where code == nil {
            let answer = try await add(minute, token, bench)
            if answer.status != 201 { code = answer.code }
        }
        #expect(code == "disk_full")
        let health = try await bench.send("/health")
        #expect(health.status == 503 && health.object["store"] as? String == "unwritable")
        try FileManager.default.removeItem(at: disk.path.appendingPathComponent("filler"))
        #expect(try await add(40, token, bench).status == 201)
        #expect(try await bench.send("/health").object["store"] as? String == "ok")
        try await bench.stop()
        await disk.unmount()
    }

    private func add(_ minute: Int, _ token: String, _ bench: APIBench) async throws -> APIBench.Answer {
        let time = "2026-11-20T06:\(10 + minute):00Z"
        let body = #"{"kind":"glucose","value":5.5,"unit":"mmol/L","time":"\#(time)"}"#
        return try await bench.send("/api/v1/readings", .POST, token: token, body: body)
    }
}

/// A tmpfs of its own size.
struct SmallDisk {
    let path: URL

    static let why: Comment = "mounting a small tmpfs needs root (CAP_SYS_ADMIN)"
    /// Whether this process may mount: asked by mounting.
    static let canMount: Bool = {
        guard let path = try? GatewayBench.scratch().path else { return false }
        guard mount("tmpfs", path, "tmpfs", 0, "size=1m") == 0 else { return false }
        return umount(path) == 0
    }()

    init(megabytes: Int) async throws {
        path = try GatewayBench.scratch()
        guard mount("tmpfs", path.path, "tmpfs", 0, "size=\(megabytes)m") == 0 else {
            throw CocoaError(.fileWriteNoPermission)
        }
    }

    /// Writes until there is no room for another byte.
    func fill() throws {
        let file = open(path.path + "/filler", O_WRONLY | O_CREAT | O_CLOEXEC, 0o600)
        defer { close(file) }
        var block = [UInt8](repeating: 7, count: 65_536)
        while !block.isEmpty {
            if write(file, block, block.count) < block.count { block.removeLast((block.count + 1) / 2) }
        }
    }

    func unmount() async {
        _ = umount2(path.path, 2)  // MNT_DETACH: also while a descriptor is open
        try? FileManager.default.removeItem(at: path)
    }
}
