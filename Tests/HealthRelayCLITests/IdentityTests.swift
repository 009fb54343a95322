import Foundation
import Testing

/// Which gateway this is, and whether receivers accept it: real processes and a server.
@Suite(.timeLimit(.minutes(5))) struct IdentityTests {
    private func check(_ schema: String, _ output: String, _ scratch: Scratch) async throws {
        let file = scratch.url.appendingPathComponent("\(schema).json")
        try Data(output.utf8).write(to: file)
        let check = try await Tool.other(Tool.root.path + "/Tests/Schemas/check", [schema, file.path])
        #expect(check.status == 0, "\(check.output.suffix(800)) \(output)")
    }

    @Test(
        "a new machine becomes the gateway that another one was, and a gateway that has delivered does not by accident")
    func moved() async throws {
        let (old, new) = (try Scratch(), try Scratch())
        func run(_ scratch: Scratch, _ arguments: String...) async throws -> Tool.Result {
            try await Tool.run(
                arguments + ["--state-dir", scratch.state],
                environment: ["HEALTHRELAY_USER_CLIENT_USER_ID": "white_bear", "HEALTHRELAY_USER_TIME_ZONE": "UTC"])
        }
        let exported = try await run(old, "id", "export")
        #expect(exported.status == 0 && exported.lines.count == 1)
        try await check("identity", exported.output, old)
        let id = try #require(try Document(exported.output)["gateway_id"]?.plain)
        #expect(try Document(exported.output)["reference_id"]?.plain == "white_bear")
        #expect(try await run(old, "id").output.contains(id))
        let file = old.url.appendingPathComponent("identity.json")
        try exported.output.write(to: file, atomically: true, encoding: .utf8)

        let first = try await run(new, "id", "show", "--json")
        #expect(try Document(first.output)["gateway_id"]?.plain != id)
        let imported = try await run(new, "id", "import", file.path, "--json")
        #expect(imported.status == 0 && imported.output == exported.output, "\(imported.errors)")
        #expect(try await run(new, "id", "show", "--json").output == exported.output)
        // Again is no change.
        #expect(try await run(new, "id", "import", file.path).status == 0)

        // A gateway that has delivered is known to its receivers.
        let server = try await Sandboxed(in: new)
        let replayed = try await Tool.run(
            ["replay", Tool.fixture("cuff-three.btsnoop"), "--state-dir", new.state], environment: server.environment)
        #expect(replayed.status == 0)
        #expect(
            try await Tool.run(["sync", "--state-dir", new.state], environment: server.environment).status == 0)
        let other = try await run(try Scratch(), "id", "export")
        try other.output.write(to: file, atomically: true, encoding: .utf8)
        let refused = try await run(new, "id", "import", file.path)
        #expect(refused.status == 78 && refused.errors.contains("has delivered 3 readings"), "\(refused.errors)")
        #expect(try await run(new, "id", "show", "--json").output == exported.output)
        #expect(try await run(new, "id", "import", file.path, "--replace", "--json").output == other.output)
    }

    @Test(
        "what is no identity is refused by name",
        arguments: [
            ("", "expected what `id export` writes"), ("{}", "expected what `id export` writes"),
            (#"{"format":"healthrelay-identity","version":2,"gateway_id":"x"}"#, "expected version 1"),
            (#"{"format":"healthrelay-identity","version":1,"gateway_id":"x"}"#, "expected a UUID, found 'x'"),
            (#"{"format":"other","version":1,"gateway_id":"x"}"#, "expected what `id export` writes"),
        ])
    func malformed(text: String, expected: String) async throws {
        let scratch = try Scratch()
        let file = scratch.url.appendingPathComponent("identity.json")
        try text.write(to: file, atomically: true, encoding: .utf8)
        let result = try await Tool.run(["id", "import", file.path, "--state-dir", scratch.state])
        #expect(result.status == 65 && result.errors.contains(expected), "\(result.errors)")
        #expect(try await Tool.run(["id", "import", "/nowhere", "--state-dir", scratch.state]).status == 66)
    }

    @Test("auth check says yes, no, or that the server cannot be asked")
    func authenticated() async throws {
        let scratch = try Scratch()
        let server = try await Sandboxed(in: scratch)
        func ask(_ changes: [String: String] = [:]) async throws -> Tool.Result {
            try await Tool.run(
                ["auth", "check", "--json", "--state-dir", scratch.state],
                environment: server.environment.merging(changes) { $1 })
        }
        let yes = try await ask()
        #expect(yes.status == 0, "\(yes.errors)")
        try await check("auth_check", yes.output, scratch)
        #expect(
            yes.output.contains(
                #"{"authenticated":true,"destinations":[{"destination":"vital","authenticated":true,"reason":null}]}"#))
        let wrong = scratch.url.appendingPathComponent("wrong-key")
        try "wrong-key".write(to: wrong, atomically: true, encoding: .utf8)
        let no = try await ask(["HEALTHRELAY_SERVER_API_KEY_FILE": wrong.path])
        #expect(no.status == 77 && no.errors.contains("not_authenticated"), "\(no.errors)")
        #expect(no.output.contains(#"{"authenticated":false"#) && !no.output.contains("wrong-key"))
        try await check("auth_check", no.output, scratch)
        let away = try await ask(["HEALTHRELAY_SERVER_BASE_URL": "http://127.0.0.1:1"])
        #expect(away.status == 69 && away.output.contains(#"{"authenticated":null"#), "\(away.errors)")
        let none = try await Tool.run(["auth", "check", "--state-dir", try Scratch().state])
        #expect(none.status == 78 && none.errors.contains("neither a key nor a sign-in token"), "\(none.errors)")
    }

    @Test("a single-use token signs a person in once; the session delivers, and outlives the process")
    func connect() async throws {
        let scratch = try Scratch()
        let server = try await Sandboxed(in: scratch)
        let user = try await server.curl(
            "-X", "POST", server.baseURL + "/v2/user", "-H", "content-type: application/json", "-d",
            #"{"client_user_id":"white_bear"}"#)
        let userID = try #require(try Document(user)["user_id"]?.plain)
        func token() async throws -> String {
            let answer = try await server.curl("-X", "POST", server.baseURL + "/v2/user/\(userID)/sign_in_token")
            return try #require(try Document(answer)["sign_in_token"]?.plain, "\(answer)")
        }
        var environment = server.environment
        environment["HEALTHRELAY_SERVER_API_KEY_FILE"] = nil
        func run(_ arguments: String..., more: [String: String] = [:]) async throws -> Tool.Result {
            try await Tool.run(
                arguments + ["--state-dir", scratch.state], environment: environment.merging(more) { $1 })
        }
        let first = try await token()
        let connected = try await run("connect", "--token", first, "--json")
        #expect(connected.status == 0, "\(connected.errors)")
        #expect(connected.output.contains(#"{"destination":"vital","user_id":"\#(userID)"}"#))
        let mode = try FileManager.default.attributesOfItem(atPath: scratch.state + "/session.json")[.posixPermissions]
        #expect(mode as? Int == 0o600)
        #expect(try await run("auth", "check").status == 0)
        #expect(try await run("replay", Tool.fixture("cuff-three.btsnoop")).status == 0)
        let synced = try await run("sync")
        #expect(synced.status == 0, "\(synced.errors)")
        #expect(try await server.samples > 0)

        // The same token again is the session that there is; another begins another.
        #expect(try await run("connect", "--token", first).status == 0)
        #expect(try await run("connect", "--token", try await token()).status == 0)
        // The first one was used up; the session that there is stays.
        let again = try await run("connect", "--token", first)
        #expect(again.status == 77 && again.errors.contains("doesn't take the token"), "\(again.errors)")
        #expect(!again.errors.contains(first))
        #expect(try await run("auth", "check").status == 0)
        let nonsense = try await run("connect", "--token", "abc", "--json")
        #expect(nonsense.status == 65 && nonsense.errors.contains("invalid_token"))
        #expect(try await run("connect", "--token", try await token(), "--destination", "none").status == 66)
        // A key in the settings comes first.
        let keyed = try await run(
            "connect", "--token", try await token(),
            more: ["HEALTHRELAY_SERVER_API_KEY_FILE": scratch.url.appendingPathComponent("sandbox-key").path])
        #expect(keyed.status == 78 && keyed.errors.contains("api_key_file"), "\(keyed.errors)")
    }
}
