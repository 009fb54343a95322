import Foundation
import Testing

/// Root's commands on the store of another user, as while the service is stopped.
@Suite("Another user's store", .enabled("needs root to act as another user") { geteuid() == 0 }) struct StoreOwnerTests
{
    private static let owner: uid_t = 65_534

    /// A state directory that another user owns, in a directory that this user may enter.
    private static func place(_ scratch: Scratch, _ name: String = "state") throws -> String {
        let path = scratch.url.appendingPathComponent(name).path
        try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: false)
        let isOwned = chown(path, owner, owner) == 0 && chmod(path, 0o700) == 0 && chmod(scratch.url.path, 0o755) == 0
        try #require(isOwned)
        return path
    }

    /// A file that root alone can read.
    private static func secret(_ scratch: Scratch, _ text: String) throws -> String {
        let path = scratch.url.appendingPathComponent(UUID().uuidString).path
        try text.write(toFile: path, atomically: true, encoding: .utf8)
        let isClosed = chmod(path, 0o600) == 0
        try #require(isClosed)
        return path
    }

    /// Files that another user than the owner owns.
    private static func strangers(in directory: String) throws -> [String] {
        try FileManager.default.subpathsOfDirectory(atPath: directory).filter { name in
            var status = stat()
            return lstat(directory + "/" + name, &status) == 0 && status.st_uid != owner
        }
    }

    private static func asOwner(_ arguments: String...) async throws -> Tool.Result {
        try await Tool.other(
            "setpriv", ["--reuid=\(owner)", "--regid=\(owner)", "--clear-groups", Tool.executable.path] + arguments)
    }

    @Test("what root makes there is the owner's, who goes on with the store: replay, settings, another key, an import")
    func files() async throws {
        let scratch = try Scratch()
        let (state, other) = (try Self.place(scratch), try Self.place(scratch, "other"))
        let passphrase = try Self.secret(scratch, "correct horse battery staple\n")
        let export = scratch.url.appendingPathComponent("root").path
        try FileManager.default.createDirectory(
            atPath: export, withIntermediateDirectories: false, attributes: [.posixPermissions: 0o700])
        let file = export + "/backup.export"
        let commands = [
            ["replay", Tool.fixture("glucose-first-delivery.btsnoop"), "--state-dir", state],
            ["settings", "set", "sync.mode", "manual", "--state-dir", state],
            ["store", "rotate-key", "--state-dir", state],
            // Root's own files are root's: nobody else may write this one, or read it.
            ["store", "export", file, "--passphrase-file", passphrase, "--state-dir", state],
            ["store", "import", file, "--passphrase-file", passphrase, "--state-dir", other],
        ]
        for command in commands {
            let result = try await Tool.run(command)
            #expect(result.status == 0, "\(command) \(result.errors)")
        }
        for directory in [state, other] {
            let strangers = try Self.strangers(in: directory)
            #expect(strangers.isEmpty, "\(strangers)")
            let read = try await Self.asOwner("query", "--format", "ndjson", "--state-dir", directory)
            #expect(read.status == 0 && !read.lines.isEmpty, "\(read.errors)")
        }
        var status = stat()
        let found = stat(file, &status)
        #expect(found == 0 && status.st_uid == 0)
    }

    @Test("a gateway that root runs there is the owner's, too")
    func run() async throws {
        let scratch = try Scratch()
        let state = try Self.place(scratch)
        let gateway = try Tool.Running(
            ["run", "--sandbox", "--state-dir", state], environment: ["HEALTHRELAY_HTTP_LISTEN": "127.0.0.1:0"],
            in: scratch.url)
        #expect(await gateway.wait { $0.errorText.contains("Page at") }, "\(gateway.errorText)")
        let running = try Self.strangers(in: state)
        gateway.kill(SIGTERM)
        #expect(await gateway.finish().status == 0)
        let ended = try Self.strangers(in: state)
        #expect(running.isEmpty && ended.isEmpty, "\(running) \(ended)")
    }

    @Test(
        "a link that the owner has put there leads root to nothing that the owner may not write",
        arguments: ["store.lock", "readings.sqlite", "readings.sqlite-wal"])
    func links(_ name: String) async throws {
        let scratch = try Scratch()
        let state = try Self.place(scratch)
        let secret = try Self.secret(scratch, "root's own")
        try FileManager.default.createSymbolicLink(atPath: state + "/" + name, withDestinationPath: secret)
        _ = try await Tool.run(["replay", Tool.fixture("glucose-first-delivery.btsnoop"), "--state-dir", state])
        let left = try String(contentsOfFile: secret, encoding: .utf8)
        #expect(left == "root's own")
    }
}
