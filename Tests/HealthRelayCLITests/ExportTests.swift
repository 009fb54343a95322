import Foundation
import ReadingStore
import Testing

@testable import GatewayCommands

/// `store export`, `import` and `rotate-key`, as a person and a script use them.
@Suite("Taking a store elsewhere")
struct ExportTests {
    private static let passphrase = "correct horse battery staple"

    private func fill(_ scratch: Scratch) async throws {
        for name in ["glucose-first-delivery", "cuff-three"] {
            let result = try await Tool.run(["replay", Tool.fixture(name + ".btsnoop"), "--state-dir", scratch.state])
            #expect(result.status == 0, "\(result.errors)")
        }
    }

    private func readings(_ state: String) async throws -> [String] {
        try await Tool.run(["query", "--format", "ndjson", "--state-dir", state]).lines.sorted()
    }

    @Test(
        "a store is exported while a gateway runs or without one, and is the same elsewhere", arguments: [false, true])
    func elsewhere(throughSocket: Bool) async throws {
        let scratch = try Scratch()
        try await fill(scratch)
        let run =
            throughSocket
            ? try Tool.Running(
                ["run", "--state-dir", scratch.state], environment: ["HEALTHRELAY_HTTP_LISTEN": "127.0.0.1:0"],
                in: scratch.url) : nil
        if let run { #expect(await run.wait { $0.errorText.contains("Page at ") }) }
        let secret = scratch.url.appendingPathComponent("passphrase").path
        try (Self.passphrase + "\n").write(toFile: secret, atomically: true, encoding: .utf8)
        let file = scratch.url.appendingPathComponent("backup.hre").path
        let export = ["store", "export", file, "--passphrase-file", secret, "--json", "--state-dir", scratch.state]
        let exported = try await Tool.run(export)
        #expect(exported.status == 0, "\(exported.errors)")
        let attributes = try FileManager.default.attributesOfItem(atPath: file)
        #expect(attributes[.posixPermissions] as? Int == 0o600)
        #expect(try Document(exported.output)["octets"]?.text == String(attributes[.size] as? Int ?? 0))
        let again = try await Tool.run(export)
        #expect(again.status == 73 && again.errors.contains("export_exists"), "\(again.errors)")
        let rotated = try await Tool.run(["store", "rotate-key", "--json", "--state-dir", scratch.state])
        #expect(rotated.status == 0, "\(rotated.errors)")
        // Documents tell how far it has come; whoever asked for none, and has no terminal, is not told.
        #expect(exported.errors.contains(#""work":{"step":"copying""#), "\(exported.errors)")
        #expect(try await Tool.run(["store", "verify", "--state-dir", scratch.state]).errors == "")
        let before = try await readings(scratch.state)
        #expect(before.count == 25)

        let other = scratch.url.appendingPathComponent("other").path
        let take = ["store", "import", file, "--json", "--state-dir", other]
        let unasked = try await Tool.run(take)
        #expect(unasked.status == 64 && unasked.errors.contains("passphrase_needed"), "\(unasked.errors)")
        let wrong = scratch.url.appendingPathComponent("wrong").path
        try "another passphrase".write(toFile: wrong, atomically: true, encoding: .utf8)
        let refused = try await Tool.run(take + ["--passphrase-file", wrong])
        #expect(refused.status == 77 && refused.errors.contains("export_wrong_passphrase"), "\(refused.errors)")
        let imported = try await Tool.run(take + ["--passphrase-file", secret])
        #expect(imported.status == 0, "\(imported.errors)")
        // What was decided since is in no export.
        #expect(imported.errors.contains("consent revoke") && imported.errors.contains("destination redeliver NAME"))
        // Nor is what was withdrawn since: nothing is delivered before it is confirmed, which doctor and `sync status` say.
        let held = try await readings(other)
        #expect(held != before)
        #expect(held.allSatisfy { $0.contains(#""reason":"no_consent""#) || $0.contains(#""deliveries":[]"#) })
        let status = try await Tool.run(["sync", "status", "--state-dir", other])
        #expect(status.output.contains("warning: a backup was put back at"), "\(status.output)")
        let doctor = try await Tool.run(["doctor", "--state-dir", other])
        #expect(doctor.output.contains("a backup was put back at") && doctor.output.contains("consent grant"))
        let consents = try await Tool.run(["consent", "show", "--state-dir", other])
        #expect(consents.output.contains("not granted before it is confirmed"), "\(consents.output)")
        let granted = try await Tool.run(["consent", "grant", "--state-dir", other])
        #expect(granted.status == 0, "\(granted.errors)")
        #expect(try await readings(other) == before)
        let settled = try await Tool.run(["sync", "status", "--state-dir", other])
        #expect(settled.status == 0 && !settled.output.contains("a backup was put back"), "\(settled.output)")
        let occupied = try await Tool.run(take + ["--passphrase-file", secret])
        #expect(occupied.status == 73 && occupied.errors.contains("store_not_empty"), "\(occupied.errors)")
        if let run {
            let busy = try await Tool.run([
                "store", "import", file, "--passphrase-file", secret, "--json", "--state-dir", scratch.state,
            ])
            #expect(busy.status == 75 && busy.errors.contains("gateway_running"), "\(busy.errors)")
            let replayed = try await Tool.run([
                "replay", Tool.fixture("cuff-kpa.btsnoop"), "--json", "--state-dir", scratch.state,
            ])
            #expect(replayed.status == 75 && replayed.errors.contains("gateway_running"), "\(replayed.errors)")
            run.kill(SIGTERM)
            #expect(await run.finish().status == 0)
        }
        let cut = scratch.url.appendingPathComponent("cut").path
        try Data(contentsOf: URL(fileURLWithPath: file)).dropLast(100).write(to: URL(fileURLWithPath: cut))
        let damaged = try await Tool.run([
            "store", "import", cut, "--passphrase-file", secret, "--json", "--state-dir", other + "2",
        ])
        #expect(damaged.status == 65 && damaged.errors.contains("export_damaged"), "\(damaged.errors)")

        let documents = scratch.url.appendingPathComponent("documents")
        try FileManager.default.createDirectory(at: documents, withIntermediateDirectories: true)
        for (name, result) in [
            ("store_export", exported), ("store_import", imported), ("store_rotate_key", rotated),
        ] {
            try result.output.write(
                to: documents.appendingPathComponent("\(name)-1.json"), atomically: true, encoding: .utf8)
        }
        let check = try await Tool.other(Tool.root.path + "/Tests/Schemas/check", ["--directory", documents.path])
        #expect(check.status == 0, "\(check.output) \(check.errors)")
    }

    @Test("a passphrase may come through standard input or a FIFO; what has no end or is no text is no passphrase")
    func pipedPassphrase() async throws {
        let scratch = try Scratch()
        try await fill(scratch)
        let (pipe, file) = (scratch.url.path + "/pipe", scratch.url.path + "/b.hre")
        try #require(mkfifo(pipe, 0o600) == 0)
        let exported = try await Tool.other(
            "sh",
            [
                "-c",
                "printf '%s\\n' '\(Self.passphrase)' | '\(Tool.executable.path)' store export '\(file)' "
                    + "--passphrase-file /dev/stdin --state-dir '\(scratch.state)'",
            ])
        #expect(exported.status == 0, "\(exported.errors)")
        let imported = try await Tool.other(
            "sh",
            [
                "-c",
                "printf '%s\\n' '\(Self.passphrase)' > '\(pipe)' & '\(Tool.executable.path)' store import '\(file)' "
                    + "--passphrase-file '\(pipe)' --state-dir '\(scratch.state)2'",
            ])
        #expect(imported.status == 0, "\(imported.errors)")
        #expect(try await readings(scratch.state + "2").count == 25)
        for path in ["/dev/zero", "/nonexistent", scratch.url.path, Tool.fixture("cuff-three.btsnoop")] {
            let refused = try await Tool.run([
                "store", "import", file, "--passphrase-file", path, "--json", "--state-dir", scratch.state + "3",
            ])
            #expect(refused.status == 66 && refused.errors.contains("passphrase_unreadable"), "\(refused.errors)")
        }
    }

    @Test("what is printed where standard error or output is closed ends up in no file: the export is whole")
    func closedStreams() async throws {
        let scratch = try Scratch()
        try await fill(scratch)
        let (secret, file) = (scratch.url.path + "/passphrase", scratch.url.path + "/b.hre")
        try (Self.passphrase + "\n").write(toFile: secret, atomically: true, encoding: .utf8)
        func shell(_ command: String) async throws -> Tool.Result {
            try await Tool.other("sh", ["-c", "'\(Tool.executable.path)' \(command)"])
        }
        let exported = try await shell(
            "store export '\(file)' --passphrase-file '\(secret)' --json --state-dir '\(scratch.state)' 2>&-")
        #expect(exported.status == 0)
        let imported = try await shell(
            "store import '\(file)' --passphrase-file '\(secret)' --state-dir '\(scratch.state)2'")
        #expect(imported.status == 0, "\(imported.errors)")
        let count = try await readings(scratch.state + "2").count
        #expect(count == 25)
        let silent = try await shell("store stats --json --state-dir '\(scratch.state)' >&-")
        #expect(silent.status == 74 && silent.errors.contains("output_failed"), "\(silent.errors)")
        for command in ["store export - --passphrase-file '\(secret)'", "report bp"] {
            for output in [">&-", "> /dev/full"] {
                let lost = try await shell("\(command) --json --state-dir '\(scratch.state)' \(output)")
                #expect(lost.status == 74 && lost.errors.contains(#""code":"output_failed""#), "\(lost.errors)")
            }
        }
    }

    @Test("a passphrase is the first line of its file, whether lines end as on Linux or on Windows")
    func lineEnds() async throws {
        let scratch = try Scratch()
        try await fill(scratch)
        let (linux, windows) = (scratch.url.path + "/linux", scratch.url.path + "/windows")
        try Data("\(Self.passphrase)\nnot this\n".utf8).write(to: URL(fileURLWithPath: linux))
        try Data("\(Self.passphrase)\r\nnot this\r\n".utf8).write(to: URL(fileURLWithPath: windows))
        for (secret, other) in [(linux, windows), (windows, linux)] {
            let (file, copy) = (secret + ".hre", secret + ".copy")
            let exported = try await Tool.run([
                "store", "export", file, "--passphrase-file", secret, "--state-dir", scratch.state,
            ])
            #expect(exported.status == 0, "\(exported.errors)")
            let imported = try await Tool.run([
                "store", "import", file, "--passphrase-file", other, "--state-dir", copy,
            ])
            #expect(imported.status == 0, "\(imported.errors)")
            #expect(try await readings(copy).count == 25)
        }
        // Version 0.1.0 took the file's whole text where lines end as on Windows.
        let store = try await ReadingStore.open(directory: scratch.state, decoder: Gateway.decoder)
        var former: [UInt8] = []
        try await store.export(passphrase: "\(Self.passphrase)\r\nnot this\r\n") { former += $0 }
        try store.close()
        let file = scratch.url.path + "/former.hre"
        try Data(former).write(to: URL(fileURLWithPath: file))
        let imported = try await Tool.run([
            "store", "import", file, "--passphrase-file", windows, "--state-dir", scratch.state + "2",
        ])
        #expect(imported.status == 0, "\(imported.errors)")
        let refused = try await Tool.run([
            "store", "import", file, "--passphrase-file", linux, "--json", "--state-dir", scratch.state + "3",
        ])
        #expect(refused.status == 77 && refused.errors.contains("export_wrong_passphrase"), "\(refused.errors)")
    }

    @Test(
        "a passphrase is asked for twice and not shown; a signal leaves the terminal as it was",
        arguments: [true, false])
    func asked(isInterrupted: Bool) async throws {
        let scratch = try Scratch()
        try await fill(scratch)
        let file = scratch.url.appendingPathComponent("backup.hre").path
        let session = try TerminalSession(["store", "export", file, "--state-dir", scratch.state], in: scratch.url)
        #expect(await session.expect("Passphrase of the export: "))
        while session.showsInput { try await Task.sleep(for: .milliseconds(5)) }
        if isInterrupted {
            kill(session.process.processIdentifier, SIGINT)
            #expect(await session.finish() == 75, "\(session.errorText)")
        } else {
            session.type(Self.passphrase + "\n")
            #expect(await session.expect("Repeat the passphrase: "))
            while session.showsInput { try await Task.sleep(for: .milliseconds(5)) }
            session.type(Self.passphrase + "\n")
            #expect(await session.finish() == 0, "\(session.errorText)")
        }
        #expect(session.showsInput)
        #expect(FileManager.default.fileExists(atPath: file) != isInterrupted)
        #expect(!session.errorText.contains(Self.passphrase))
    }

    @Test(
        "promise 12: neither a passphrase nor the store's key is in a log, whatever its level, or in an answer",
        arguments: [false, true])
    func nothingTold(throughSocket: Bool) async throws {
        let scratch = try Scratch()
        try await fill(scratch)
        let log = ["HEALTHRELAY_HTTP_LISTEN": "127.0.0.1:0", "HEALTHRELAY_LOG_LEVEL": "trace"]
        let run =
            throughSocket
            ? try Tool.Running(["run", "--state-dir", scratch.state], environment: log, in: scratch.url) : nil
        if let run { #expect(await run.wait { $0.errorText.contains("Page at ") }) }
        let (secret, file) = (
            scratch.url.appendingPathComponent("pw").path, scratch.url.appendingPathComponent("b").path
        )
        try Self.passphrase.write(toFile: secret, atomically: true, encoding: .utf8)
        let keys = { try String(contentsOfFile: scratch.state + "/store.key", encoding: .utf8).split(separator: "\n") }
        var secrets = try keys().map(String.init) + [Self.passphrase]
        var told = ""
        let commands = [
            ["store", "export", file, "--passphrase-file", secret, "--state-dir", scratch.state],
            ["store", "rotate-key", "--state-dir", scratch.state], ["config", "show", "--state-dir", scratch.state],
            ["store", "import", file, "--passphrase-file", secret, "--state-dir", scratch.state + "2"],
            ["store", "import", file, "--passphrase-file", file, "--state-dir", scratch.state + "3"],
        ]
        for command in commands {
            let result = try await Tool.run(command + ["--json"], environment: log)
            told += result.output + result.errors
        }
        secrets += try keys().map(String.init)
        if let run {
            run.kill(SIGTERM)
            told += await run.finish().errors
        }
        #expect(secrets.count == 3 && secrets.allSatisfy { !told.contains($0) }, "\(told)")
    }

    @Test("a store whose key is away is locked: 78 with where it has to be; it goes on when the key is back")
    func locked() async throws {
        let scratch = try Scratch()
        try await fill(scratch)
        let before = try await readings(scratch.state)
        let (key, away) = (scratch.state + "/store.key", scratch.url.appendingPathComponent("away").path)
        try FileManager.default.moveItem(atPath: key, toPath: away)
        for command in [["query"], ["store", "verify"], ["replay", Tool.fixture("cuff-kpa.btsnoop")]] {
            let result = try await Tool.run(command + ["--json", "--state-dir", scratch.state])
            #expect(result.status == 78 && result.errors.contains("store_key_missing"), "\(command) \(result.errors)")
            #expect(result.errors.contains(key))
        }
        let status = try await Tool.run(["sync", "status", "--json", "--state-dir", scratch.state])
        #expect(status.status == 0, "\(status.errors)")
        let waiting = try #require(try Document(status.output).destination).elements("waiting")
        #expect(!waiting.isEmpty && waiting.allSatisfy { $0["held"]?.plain == "locked" })
        #expect(!FileManager.default.fileExists(atPath: key))
        let run = try Tool.Running(
            ["run", "--state-dir", scratch.state], environment: ["HEALTHRELAY_HTTP_LISTEN": "127.0.0.1:0"],
            in: scratch.url)
        #expect(await run.wait { $0.errorText.contains("the store is locked") })
        #expect(await run.wait { $0.errorText.contains("Page at ") })
        try FileManager.default.moveItem(atPath: away, toPath: key)
        #expect(try await readings(scratch.state) == before)
        run.kill(SIGTERM)
        #expect(await run.finish().status == 0)
    }
}
