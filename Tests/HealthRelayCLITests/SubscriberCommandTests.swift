import Foundation
import Testing

/// `watch --subscriber` and `subscriber`, as a service or a timer runs them.
@Suite("Changes under a name, on the command line") struct SubscriberCommandTests {
    private static let person = [
        "HEALTHRELAY_USER_CLIENT_USER_ID": "white_bear", "HEALTHRELAY_USER_TIME_ZONE": "Europe/Berlin",
        "HEALTHRELAY_HTTP_LISTEN": "127.0.0.1:0", "HEALTHRELAY_BLUETOOTH_ADAPTER": "none",
    ]

    private func run(_ arguments: String..., in scratch: Scratch) async throws -> Tool.Result {
        try await Tool.run(arguments + ["--state-dir", scratch.state], environment: Self.person)
    }

    private func gateway(_ scratch: Scratch) async throws -> Tool.Running {
        let gateway = try Tool.Running(
            ["run", "--state-dir", scratch.state], environment: Self.person, in: scratch.url)
        #expect(await gateway.wait { $0.errorText.contains("Page at ") })
        return gateway
    }

    private func watch(_ arguments: String..., in scratch: Scratch) throws -> Tool.Running {
        try Tool.Running(
            ["watch", "--json", "--state-dir", scratch.state] + arguments, environment: Self.person, in: scratch.url)
    }

    private func ids(_ text: String) throws -> [String] {
        try text.split(separator: "\n").map { line in
            let document = try Document(String(line))
            return "\(document["id"]?.plain ?? "") \(document["revision"]?.plain ?? "")"
        }
    }

    private func check(_ schema: String, lines: String) async throws {
        let file = FileManager.default.temporaryDirectory.appendingPathComponent("\(UUID().uuidString).json")
        defer { try? FileManager.default.removeItem(at: file) }
        try lines.write(to: file, atomically: true, encoding: .utf8)
        let result = try await Tool.other(Tool.root.path + "/Tests/Schemas/check", ["--lines", schema, file.path])
        #expect(result.status == 0, "\(schema): \(result.output.suffix(600))")
    }

    @Test("a name goes on where it was, whichever process ends how: everything once, then live")
    func course() async throws {
        let scratch = try Scratch()
        #expect(try await run("replay", Tool.fixture("two-meters.btsnoop"), in: scratch).status == 0)
        let stored = try await Document(run("query", "--json", in: scratch).output).elements("readings").count

        // Without a gateway, in a process of its own.
        let first = try await run(
            "watch", "--subscriber", "a", "--from-beginning", "--once", "--json", in: scratch)
        #expect(first.status == 0 && first.lines.count == stored, "\(first.errors)")
        try await check("watch_change", lines: first.output)
        #expect(try await run("watch", "--subscriber", "a", "--from-beginning", "--once", in: scratch).output.isEmpty)
        #expect(try await run("watch", "--subscriber", "new", "--once", in: scratch).output.isEmpty)

        // Through a gateway, which is killed in the middle; so is the watch.
        var gateway = try await gateway(scratch)
        var follower = try watch("--subscriber", "a", in: scratch)
        func add(_ value: String) async throws {
            let result = try await run(
                "add", "glucose", value, "mg/dL", "--at", "2026-11-20T0\(value.prefix(1)):00:00Z", "--yes", in: scratch)
            #expect(result.status == 0, "\(result.errors)")
        }
        try await add("101")
        #expect(await follower.wait { $0.outputText.contains("101") })
        let second = try watch("--subscriber", "a", in: scratch)
        let refused = await second.finish()
        #expect(refused.status == 75 && refused.errors.contains("subscriber_in_use"), "\(refused.errors)")
        follower.kill(SIGKILL)
        _ = await follower.finish()
        try await add("201")
        follower = try watch("--subscriber", "a", in: scratch)
        #expect(await follower.wait { $0.outputText.contains("201") })
        gateway.kill(SIGKILL)
        _ = await gateway.finish()
        #expect(await follower.finish().status == 75)
        try await add("301")

        gateway = try await self.gateway(scratch)
        follower = try watch("--subscriber", "a", in: scratch)
        #expect(await follower.wait { $0.outputText.contains("301") })
        try await add("401")
        #expect(await follower.wait { $0.outputText.contains("401") })
        let listed = try await run("subscriber", "list", "--json", in: scratch)
        try await check("subscriber_list", lines: listed.output)
        let names = try Document(listed.output).elements("subscribers")
        #expect(names.map { $0["name"]?.plain } == ["a", "new"] && names[0]["attached"]?.plain == "true")
        #expect(names[1]["waiting"]?.text == "4")

        // What the others were shown comes to neither; a signal is the ordinary end.
        #expect(try ids(follower.outputText).count <= 3)
        follower.kill(SIGTERM)
        #expect(await follower.finish().status == 0)
        let new = try await run("watch", "--subscriber", "new", "--once", "--json", in: scratch)
        #expect(try ids(new.output).count == 4)
        #expect(try await run("watch", "--subscriber", "new", "--once", in: scratch).output.isEmpty)

        // One that is removed ends at once.
        follower = try watch("--subscriber", "a", in: scratch)
        #expect(
            await follower.wait { _ in
                let text = (try? await run("subscriber", "list", in: scratch).output) ?? ""
                return text.contains("attached")
            })
        let removed = try await run("subscriber", "remove", "a", "--json", in: scratch)
        try await check("subscriber_remove", lines: removed.output)
        let ended = await follower.finish()
        #expect(ended.status == 66 && ended.errors.contains("no_such_subscriber"), "\(ended.errors)")
        gateway.process.terminate()
        #expect(await gateway.finish().status == 0)
    }

    @Test("what a full disk does not take counts as not taken")
    func fullDisk() async throws {
        let scratch = try Scratch()
        #expect(try await run("replay", Tool.fixture("two-meters.btsnoop"), in: scratch).status == 0)
        let shell = try await Tool.other(
            "sh",
            [
                "-c",
                "HEALTHRELAY_BLUETOOTH_ADAPTER=none '\(Tool.executable.path)' watch --subscriber a --from-beginning --once "
                    + "--json --state-dir '\(scratch.state)' > /dev/full; echo $?",
            ])
        #expect(shell.output == "74\n" && shell.errors.contains("output_failed"), "\(shell.errors)")
        let again = try await run("watch", "--subscriber", "a", "--once", "--json", in: scratch)
        let stored = try await Document(run("query", "--json", in: scratch).output).elements("readings").count
        #expect(again.status == 0 && again.lines.count == stored)
    }

    @Test("a wrong command line is 64, another scope too; nobody's person and an unknown name are 66")
    func refused() async throws {
        let scratch = try Scratch()
        for (arguments, status, code) in [
            (["watch", "--once"], 64, "usage"), (["watch", "--from-beginning"], 64, "usage"),
            (["watch", "--subscriber", "a", "--from", "then"], 64, "usage"),
            (["watch", "--subscriber", "A b", "--once"], 64, "subscriber_name_invalid"),
            (["watch", "--subscriber", "a", "--types", "weather", "--once"], 64, "usage"),
            (["watch", "--subscriber", "a", "--person", "nobody", "--once"], 66, "no_such_user"),
            (["watch", "--subscriber", "a", "--types", "glucose", "--once"], 0, ""),
            (["watch", "--subscriber", "a", "--types", "weight", "--once"], 64, "subscriber_differs"),
            (["watch", "--subscriber", "a", "--once"], 0, ""),
            (["subscriber", "remove", "b"], 66, "no_such_subscriber"),
        ] as [([String], Int32, String)] {
            let result = try await Tool.run(
                arguments + ["--json", "--state-dir", scratch.state], environment: Self.person)
            #expect(
                result.status == status && (code.isEmpty || result.errors.contains(code)),
                "\(arguments): \(result.errors)")
        }
    }
}
