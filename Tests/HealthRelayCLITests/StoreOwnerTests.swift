import Foundation
import Testing

/// Whether any user may run the tool: the sources may be below a directory that only root may enter.
private func isToolForAll() -> Bool {
    var url = Tool.executable
    var status = stat()
    while stat(url.path, &status) == 0, status.st_mode & 0o001 != 0 {
        guard url.path != "/" else { return true }
        url = url.deletingLastPathComponent()
    }
    return false
}

/// Root's commands on the store of another user, as while the service is stopped.
@Suite(
    "Another user's store",
    .enabled("needs root to act as another user, who can run the tool") { geteuid() == 0 && isToolForAll() })
struct StoreOwnerTests {
    private static let owner: uid_t = 65_534

    /// A state directory that another user owns, in a directory that this user may enter.
    private static func place(
        _ scratch: Scratch, _ name: String = "state", group: gid_t = StoreOwnerTests.owner
    ) throws -> String {
        let path = scratch.url.appendingPathComponent(name).path
        try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: false)
        let isOwned = chown(path, owner, group) == 0 && chmod(path, 0o700) == 0 && chmod(scratch.url.path, 0o755) == 0
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

    @Test(
        "a capture that root alone may read is read once: also for a device whose address the store knows to be a public one"
    )
    func typedAddress() async throws {
        let scratch = try Scratch()
        let state = try Self.place(scratch)
        let cuff = try FixtureTests.publicCuff(in: scratch.url)
        let isClosed = chmod(cuff.whole, 0o600) == 0 && chmod(cuff.late, 0o600) == 0
        try #require(isClosed)
        let replay = ["replay", "--model", "beurer_bm96", "--state-dir", state]
        for arguments in [[cuff.whole], [cuff.late, "--address", "C0:00:00:00:18:27"]] {
            let result = try await Tool.run(replay + arguments)
            #expect(result.status == 0, "\(result.errors)")
        }
        let stored = try await Self.asOwner("query", "--format", "ndjson", "--state-dir", state)
        #expect(stored.lines.count == 2, "\(stored.errors)")
    }

    @Test("settings that root alone may read don't go unheeded once root acts as the owner")
    func closedSettings() async throws {
        let scratch = try Scratch()
        let state = try Self.place(scratch)
        let folder = scratch.url.appendingPathComponent("root").path
        try FileManager.default.createDirectory(atPath: folder + "/healthrelay", withIntermediateDirectories: true)
        let settings = folder + "/healthrelay/config.yaml"
        try "sync: {mode: manual}".write(toFile: settings, atomically: true, encoding: .utf8)
        let isClosed = chmod(folder, 0o700) == 0
        try #require(isClosed)
        let arguments = ["settings", "set", "consent.default", "denied", "--state-dir", state]
        let result = try await Tool.run(arguments, environment: ["XDG_CONFIG_HOME": folder])
        #expect(result.status == 66 && result.errors.contains(settings), "\(result.errors)")
        let own = try FileManager.default.subpathsOfDirectory(atPath: state).filter { $0.hasSuffix(".yaml") }
        #expect(own.isEmpty, "nothing was changed")
    }

    @Test("a file of root's that is left there ends a command with whose it has to be, not with root")
    func leftover() async throws {
        let scratch = try Scratch()
        let state = try Self.place(scratch)
        let lock = state + "/store.lock"
        try Data().write(to: URL(fileURLWithPath: lock))
        let isClosed = chmod(lock, 0o600) == 0
        try #require(isClosed)
        let result = try await Tool.run(["store", "stats", "--state-dir", state])
        #expect(result.status == 77)
        #expect(result.errors.contains("no permission to write \(lock) for nobody"), "\(result.errors)")
        #expect(result.errors.contains("`chown -R nobody \(state)`"), "\(result.errors)")
    }

    @Test("a gateway that root runs there is the owner's, too, and has the owner's groups alone")
    func run() async throws {
        let scratch = try Scratch()
        let state = try Self.place(scratch, group: 0)
        let gateway = try Tool.Running(
            ["run", "--sandbox", "--state-dir", state], environment: ["HEALTHRELAY_HTTP_LISTEN": "127.0.0.1:0"],
            in: scratch.url)
        #expect(await gateway.wait { $0.errorText.contains("Page at") }, "\(gateway.errorText)")
        let running = try Self.strangers(in: state)
        let threads = try Self.threads(of: gateway.process.processIdentifier)
        gateway.kill(SIGTERM)
        #expect(await gateway.finish().status == 0)
        let ended = try Self.strangers(in: state)
        #expect(running.isEmpty && ended.isEmpty, "\(running) \(ended)")
        let own = try await Tool.other("id", ["-G", "nobody"]).output.split { $0.isWhitespace }.map(String.init)
        #expect(threads.count > 1)
        for thread in threads {
            // The real, the effective and the file system's; the saved one is root's.
            let group = thread["Gid"]?.enumerated().filter { $0.offset != 2 }.map(\.element)
            #expect(group.map(Set.init) == ["\(Self.owner)"])
            #expect(thread["Groups"].map(Set.init) == Set(own))
        }
    }

    /// What the kernel says of each thread but the first: that has ended for the C library, and only waits for the end of the process.
    private static func threads(of process: pid_t) throws -> [[String: [String]]] {
        let tasks = "/proc/\(process)/task"
        return try FileManager.default.contentsOfDirectory(atPath: tasks).filter { $0 != String(process) }.compactMap {
            // A thread may end meanwhile.
            guard let status = try? String(contentsOfFile: "\(tasks)/\($0)/status", encoding: .utf8) else { return nil }
            let lines = status.split(separator: "\n").map { line in
                line.split { $0 == ":" || $0.isWhitespace }.map(String.init)
            }
            return Dictionary(lines.filter { !$0.isEmpty }.map { ($0[0], Array($0.dropFirst())) }) { first, _ in first }
        }
    }

    @Test(
        "a link that the owner has put there leads root to nothing that the owner may not write",
        arguments: ["store.lock", "readings.sqlite", "readings.sqlite-wal"])
    func links(_ name: String) async throws {
        let scratch = try Scratch()
        let state = try Self.place(scratch)
        // An empty one would be made a store.
        let secret = try Self.secret(scratch, "")
        try FileManager.default.createSymbolicLink(atPath: state + "/" + name, withDestinationPath: secret)
        _ = try await Tool.run(["replay", Tool.fixture("glucose-first-delivery.btsnoop"), "--state-dir", state])
        let left = try String(contentsOfFile: secret, encoding: .utf8)
        #expect(left.isEmpty)
    }
}
