import Foundation
import Testing

/// `user remove` against a sandbox server in a process of its own.
@Suite struct RemovalTests {
    /// Says that a new address of the server is meant.
    private func accept(_ scratch: Scratch, _ environment: [String: String]) async throws {
        let accepted = try await Tool.run(
            ["destination", "accept", "vital", "--state-dir", scratch.state], environment: environment)
        #expect(accepted.status == 0, "\(accepted.errors)")
    }

    /// A sandbox's environment without a name for the user: nothing but the store names them.
    private func environment(_ sandbox: Sandboxed) -> [String: String] {
        sandbox.environment.filter { $0.key != "HEALTHRELAY_USER_CLIENT_USER_ID" }
    }

    /// A user who is made at the server, with delivered readings of two meters.
    private func settle(_ scratch: Scratch, _ sandbox: Sandboxed) async throws {
        for arguments in [
            ["user", "create", "white_bear"],
            ["replay", Tool.fixture("glucose-first-delivery.btsnoop"), Tool.fixture("cuff-three.btsnoop")], ["sync"],
        ] {
            let result = try await Tool.run(
                arguments + ["--state-dir", scratch.state], environment: environment(sandbox))
            #expect(result.status == 0, "\(arguments): \(result.errors)")
        }
        #expect(try await sandbox.samples > 20)
        #expect(try await users(sandbox) == ["white_bear"])
    }

    private func users(_ sandbox: Sandboxed) async throws -> [String] {
        try await Document(sandbox.curl(sandbox.baseURL + "/sandbox/users")).elements("users")
            .compactMap { $0["client_user_id"]?.plain }
    }

    private func remove(_ arguments: [String], _ scratch: Scratch, _ environment: [String: String]) async throws
        -> Tool.Result
    {
        try await Tool.run(
            ["user", "remove"] + arguments + ["--json", "--state-dir", scratch.state], environment: environment)
    }

    /// How many of the payloads, as hexadecimal, stand in any file of the store; with none given, what they are.
    private func payloads(_ scratch: Scratch, among known: [String] = []) async throws -> [String] {
        let script = """
            import glob, sqlite3, sys
            state, known = sys.argv[1], sys.argv[2:]
            if not known:
                db = sqlite3.connect(state + "/readings.sqlite")
                known = [p.hex() for p, in db.execute("SELECT payload FROM frame WHERE length(payload) > 8")]
            octets = b"".join(open(f, "rb").read() for f in glob.glob(state + "/*") if f[-5:] != ".sock")
            print("\\n".join(k for k in known if bytes.fromhex(k) in octets))
            """
        return try await Tool.other("python3", ["-c", script, scratch.state] + known).lines
    }

    private func readings(_ scratch: Scratch, _ sandbox: Sandboxed) async throws -> Int {
        try await Document(
            Tool.run(["query", "--json", "--state-dir", scratch.state], environment: environment(sandbox)).output
        ).elements("readings").count
    }

    @Test(
        "the person goes at the server and from every file here; doing it again is no error", arguments: [false, true])
    func remove(throughSocket: Bool) async throws {
        let scratch = try Scratch()
        let sandbox = try await Sandboxed(in: scratch)
        try await settle(scratch, sandbox)
        let known = try await payloads(scratch)
        #expect(known.count >= 25)
        let run =
            throughSocket
            ? try Tool.Running(
                ["run", "--state-dir", scratch.state],
                environment: environment(sandbox).merging(["HEALTHRELAY_HTTP_LISTEN": "127.0.0.1:0"]) { $1 },
                in: scratch.url) : nil
        if let run { #expect(await run.wait { $0.errorText.contains("Page at ") }) }

        let documents = scratch.url.appendingPathComponent("documents")
        try FileManager.default.createDirectory(at: documents, withIntermediateDirectories: true)
        for (number, atServer) in ["removed", "absent"].enumerated() {
            let result = try await remove(["--yes"], scratch, environment(sandbox))
            #expect(result.status == 0, "\(result.errors)")
            let document = try Document(result.output)
            #expect(document["at_server"]?.plain == atServer)
            #expect(document["erased"]?["readings"]?.text != "0" || number == 1)
            try result.output.write(
                to: documents.appendingPathComponent("user_remove-\(number).json"), atomically: true, encoding: .utf8)
            #expect(try await payloads(scratch, among: known).isEmpty)
            #expect(try await users(sandbox).isEmpty)
        }
        let check = try await Tool.other(Tool.root.path + "/Tests/Schemas/check", ["--directory", documents.path])
        #expect(check.status == 0, "\(check.output) \(check.errors)")
        #expect(try await readings(scratch, sandbox) == 0)
        let shown = try await Tool.run(
            ["user", "show", "--json", "--state-dir", scratch.state], environment: environment(sandbox))
        #expect(try Document(shown.output)["client_user_id"]?.text == "null")
        // The name is in no file either.
        let named = try await Tool.other("grep", ["-rlaE", "--devices=skip", "white_bear", scratch.state])
        #expect(named.status == 1, "\(named.output)")
        if let run {
            run.kill(SIGTERM)
            #expect(await run.finish().status == 0)
        }
        #expect(
            try await Tool.run(["store", "verify", "--state-dir", scratch.state], environment: environment(sandbox))
                .status == 0)
    }

    @Test("store forget erases everybody, at the server too where asked, or one person by name")
    func forget() async throws {
        let scratch = try Scratch()
        let sandbox = try await Sandboxed(in: scratch)
        try await settle(scratch, sandbox)
        let known = try await payloads(scratch)
        let away = environment(sandbox).merging(["HEALTHRELAY_SERVER_BASE_URL": "http://127.0.0.1:9"]) { $1 }
        func forget(_ arguments: [String], _ environment: [String: String]) async throws -> Tool.Result {
            try await Tool.run(
                ["store", "forget"] + arguments + ["--json", "--state-dir", scratch.state], environment: environment)
        }
        let unasked = try await forget([], away)
        #expect(unasked.status == 64 && unasked.errors.contains("not_confirmed"), "\(unasked.errors)")
        let unknown = try await forget(["--yes", "--user", "brown_bear"], away)
        #expect(unknown.status == 66 && unknown.errors.contains("unknown_user"), "\(unknown.errors)")
        let moved = try await forget(["--yes", "--server"], away)
        #expect(moved.status == 78 && moved.errors.contains("address_changed"), "\(moved.errors)")
        try await accept(scratch, away)
        let unreachable = try await forget(["--yes", "--server"], away)
        #expect(unreachable.status == 69 && unreachable.errors.contains("without --server"), "\(unreachable.errors)")
        #expect(try await payloads(scratch, among: known) == known)

        let documents = scratch.url.appendingPathComponent("documents")
        try FileManager.default.createDirectory(at: documents, withIntermediateDirectories: true)
        let one = try await forget(["--yes", "--user", "white_bear"], away)
        #expect(one.status == 0, "\(one.errors)")
        #expect(try Document(one.output).elements("users").map { $0["at_server"]?.plain } == ["untouched"])
        #expect(try await payloads(scratch, among: known).isEmpty)
        #expect(try await users(sandbox) == ["white_bear"])
        try await accept(scratch, environment(sandbox))
        try await settle(scratch, sandbox)
        let later = try await payloads(scratch)
        #expect(later.count >= 25 && Set(later).isDisjoint(with: known))
        let all = try await forget(["--yes", "--server"], environment(sandbox))
        #expect(all.status == 0, "\(all.errors)")
        #expect(try Document(all.output).elements("users").map { $0["at_server"]?.plain } == ["removed"])
        #expect(try await payloads(scratch, among: known + later).isEmpty)
        #expect(try await users(sandbox).isEmpty)
        for (number, output) in [one.output, all.output].enumerated() {
            try output.write(
                to: documents.appendingPathComponent("store_forget-\(number).json"), atomically: true, encoding: .utf8)
        }
        let check = try await Tool.other(Tool.root.path + "/Tests/Schemas/check", ["--directory", documents.path])
        #expect(check.status == 0, "\(check.output) \(check.errors)")
        let devices = try await Tool.run(["devices", "--state-dir", scratch.state], environment: environment(sandbox))
        #expect(devices.lines.count == 2 && devices.lines.allSatisfy { $0.contains("barred until it is paired again") })
    }

    @Test("a server that cannot be reached: nothing is erased, and it says how; --local erases here alone")
    func unreachable() async throws {
        let scratch = try Scratch()
        let sandbox = try await Sandboxed(in: scratch)
        try await settle(scratch, sandbox)
        let before = try await readings(scratch, sandbox)
        let away = environment(sandbox).merging(["HEALTHRELAY_SERVER_BASE_URL": "http://127.0.0.1:9"]) { $1 }
        let moved = try await remove(["--yes"], scratch, away)
        #expect(moved.status == 78 && moved.errors.contains("nothing was erased here"), "\(moved.errors)")
        try await accept(scratch, away)
        let failed = try await remove(["--yes"], scratch, away)
        #expect(failed.status == 69 && failed.output.isEmpty, "\(failed.errors)")
        #expect(failed.errors.contains("no_connection") && failed.errors.contains("--local"))
        #expect(failed.errors.contains("nothing was erased here"))
        #expect(try await readings(scratch, sandbox) == before)

        let keyless = away.filter { $0.key != "HEALTHRELAY_SERVER_API_KEY_FILE" }
        let noKey = try await remove(["--yes"], scratch, keyless)
        #expect(noKey.status == 78 && noKey.errors.contains("--local"), "\(noKey.errors)")
        #expect(try await readings(scratch, sandbox) == before)

        let local = try await remove(["--yes", "--local"], scratch, keyless)
        #expect(local.status == 0, "\(local.errors)")
        #expect(try Document(local.output)["at_server"]?.plain == "untouched")
        #expect(try await readings(scratch, sandbox) == 0)
        #expect(try await users(sandbox) == ["white_bear"])
        // Nobody is left here whom the server could know: it need not be asked.
        #expect(try await Document(remove(["--yes"], scratch, keyless).output)["at_server"]?.plain == "absent")
    }

    @Test("a user whose id of the server is forgotten is found there by name; one who is not there counts as gone")
    func byName() async throws {
        let scratch = try Scratch()
        let sandbox = try await Sandboxed(in: scratch)
        try await settle(scratch, sandbox)
        _ = try await Tool.run(["user", "clear", "--state-dir", scratch.state], environment: environment(sandbox))
        let result = try await remove(["--yes"], scratch, environment(sandbox))
        #expect(try Document(result.output)["at_server"]?.plain == "removed", "\(result.errors)")
        #expect(try await users(sandbox).isEmpty)
        // With the settings naming them, they are made anew here by the next command, and told apart by nothing.
        let again = try await remove(["--yes"], scratch, sandbox.environment)
        #expect(try Document(again.output)["at_server"]?.plain == "absent", "\(again.errors)")
        let words = try await Tool.run(
            ["user", "remove", "--yes", "--state-dir", scratch.state], environment: sandbox.environment)
        #expect(words.errors.contains("still names them"))
    }

    @Test("without --yes it asks at a terminal, by name; without a terminal it is 64 and says how")
    func confirmation() async throws {
        let scratch = try Scratch()
        let sandbox = try await Sandboxed(in: scratch)
        try await settle(scratch, sandbox)
        let before = try await readings(scratch, sandbox)
        let unasked = try await remove([], scratch, environment(sandbox))
        #expect(unasked.status == 64 && unasked.errors.contains("--yes"), "\(unasked.errors)")
        #expect(unasked.errors.contains("not_confirmed"))

        let no = try await answer("yes", scratch, sandbox)
        #expect(
            no.contains("status 64") && no.contains("Type white_bear to continue") && no.contains("nothing was"),
            "\(no)")
        #expect(try await readings(scratch, sandbox) == before)
        #expect(try await users(sandbox) == ["white_bear"])
        let yes = try await answer("white_bear", scratch, sandbox)
        #expect(yes.contains("status 0") && yes.contains("removed at the server"), "\(yes)")
        #expect(try await readings(scratch, sandbox) == 0)
        #expect(try await users(sandbox).isEmpty)
    }

    /// Answers the question at a terminal of its own; gives what the terminal showed, and the status.
    private func answer(_ word: String, _ scratch: Scratch, _ sandbox: Sandboxed) async throws -> String {
        let script = """
            import os, pty, sys
            word, program = sys.argv[1], sys.argv[2:]
            pid, terminal = pty.fork()
            if pid == 0:
                os.execv(program[0], program)
            shown = b""
            asked = False
            while True:
                try:
                    chunk = os.read(terminal, 4096)
                except OSError:
                    break
                if not chunk:
                    break
                shown += chunk
                if not asked and b"to continue:" in shown:
                    asked = True
                    os.write(terminal, word.encode() + b"\\n")
            print(shown.decode(errors="replace"))
            print("status", os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
            """
        let result = try Tool.Running(
            [
                "python3", "-c", script, word, Tool.executable.path, "user", "remove", "--state-dir", scratch.state,
            ], environment: environment(sandbox), in: scratch.url, executable: URL(fileURLWithPath: "/usr/bin/env"))
        return await result.finish().output
    }

    @Test(
        "promise 10: killed between the server and the store, or before the files are written anew: again, and all is gone",
        arguments: ["erase.before-commit", "erase.after-commit"])
    func crash(_ point: String) async throws {
        let scratch = try Scratch()
        let sandbox = try await Sandboxed(in: scratch)
        try await settle(scratch, sandbox)
        let known = try await payloads(scratch)
        let killed = try await remove(
            ["--yes"], scratch, environment(sandbox).merging(["HEALTHRELAY_CRASH_AT": point]) { $1 })
        #expect(killed.signal == SIGKILL)
        #expect(try await users(sandbox).isEmpty)
        let again = try await remove(["--yes"], scratch, environment(sandbox))
        #expect(again.status == 0, "\(again.errors)")
        #expect(try Document(again.output)["at_server"]?.plain == "absent")
        #expect(try await payloads(scratch, among: known).isEmpty)
        #expect(try await readings(scratch, sandbox) == 0)
    }
}
