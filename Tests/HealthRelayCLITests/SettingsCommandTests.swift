import Foundation
import TestSupport
import Testing

/// `settings`, with and without a gateway that runs.
@Suite("The command settings", .timeLimit(.minutes(5))) struct SettingsCommandTests {
    @Test("settings are changed without a gateway, shown with their places, and heeded by other commands")
    func alone() async throws {
        let scratch = try Scratch()
        let documents = scratch.url.appendingPathComponent("documents")
        try FileManager.default.createDirectory(at: documents, withIntermediateDirectories: false)
        @Sendable func run(_ arguments: String...) async throws -> Tool.Result {
            try await Tool.run(
                arguments + ["--state-dir", scratch.state],
                environment: ["XDG_CONFIG_HOME": scratch.url.path, "HEALTHRELAY_USER_TIME_ZONE": "Europe/Berlin"])
        }
        let changed = try await run(
            "settings", "set", "destinations.sugar.kind", "nightscout", "destinations.sugar.url", "https://ns.example",
            "sync.mode", "manual", "--json")
        #expect(changed.status == 0, "\(changed.errors)")
        try changed.output.write(
            to: documents.appendingPathComponent("settings_change-set.json"), atomically: false, encoding: .utf8)
        let shown = try await run("settings", "show", "--json")
        try shown.output.write(
            to: documents.appendingPathComponent("settings_show-some.json"), atomically: false, encoding: .utf8)
        #expect(shown.output.contains(#"{"key":"sync.mode","value":"manual","secret":false,"set_by":"settings""#))
        let config = try await run("config", "show")
        #expect(config.lines.contains { $0.hasPrefix("sync.mode: manual   (\(scratch.state)/settings.yaml:") })
        let fixed = try await run("settings", "set", "user.time_zone", "Europe/Paris", "--json")
        #expect(fixed.status == 78 && fixed.errors.contains(#""code":"setting_fixed""#))
        #expect(fixed.errors.contains("HEALTHRELAY_USER_TIME_ZONE"))
        for (arguments, status) in [
            (["settings", "set", "sync.mode"], Int32(64)), (["settings", "set"], 64),
            (["settings", "set", "sync.mode", "never"], 64), (["settings", "set", "a.b", "c"], 64),
            (["settings", "set", "sync.ignore", "no_such_model"], 64),
            (["settings", "set", "consent.default", "denied", "destinations.sugar.devices", "no_such_model"], 64),
            (["settings", "set", "sync.ignore", "accuchek_guide, omron_ble"], 0),
            (["settings", "unset", "sync.ignore"], 0),
            (["settings", "unset", "sync.mode", "destinations.sugr"], 64),
            (["settings", "unset", "sync.mode", "destinations.sugar"], 0),
            (["settings", "unset", "destinations.sugar"], 64), (["settings", "unset", "users.nobody"], 64),
        ] {
            let result = try await Tool.run(
                arguments + ["--state-dir", scratch.state], environment: ["XDG_CONFIG_HOME": scratch.url.path])
            #expect(result.status == status, "\(arguments): \(result.errors)")
        }
        // The rule for the administrator's file: what cannot be used is named, and nothing runs by it.
        try "sync:\n  mode: never\n".write(
            toFile: scratch.state + "/settings.yaml", atomically: false, encoding: .utf8)
        let bad = try await run("store", "stats")
        #expect(bad.status == 78 && bad.errors.contains("settings.yaml:2: sync.mode: expected automatic or manual"))
        let check = try await Tool.other(Tool.root.path + "/Tests/Schemas/check", ["--directory", documents.path])
        #expect(check.status == 0, "\(check.output)\(check.errors)")
    }

    @Test("a PEM file on standard input is taken whole; the beginning of one is refused, and the former secret stays")
    func pemFile() async throws {
        let scratch = try Scratch()
        let pem = "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"
        @Sendable func set(_ text: String) async throws -> Tool.Result {
            let file = scratch.url.appendingPathComponent("typed").path
            try text.write(toFile: file, atomically: false, encoding: .utf8)
            return try await Tool.other(
                "sh",
                [
                    "-c",
                    "'\(Tool.executable.path)' settings set --secret destinations.home.private_key "
                        + "destinations.home.kind mqtt destinations.home.url mqtts://broker.example --json "
                        + "--state-dir '\(scratch.state)' < '\(file)'",
                ])
        }
        @Sendable func kept() throws -> [String] {
            let folder = scratch.state + "/secrets"
            return try FileManager.default.contentsOfDirectory(atPath: folder).map {
                try String(contentsOfFile: folder + "/" + $0, encoding: .utf8)
            }
        }
        let whole = try await set(pem)
        #expect(whole.status == 0, "\(whole.errors)")
        let first = try kept()
        #expect(first == [pem])
        let torn = try await set("-----BEGIN PRIVATE KEY-----\nAAAA\n")
        #expect(torn.status == 64 && torn.errors.contains("setting_invalid"), "\(torn.errors)")
        let second = try kept()
        #expect(second == [pem])
    }

    @Test("a command that waited for the store leaves the secret that was typed meanwhile")
    func waited() async throws {
        let scratch = try Scratch()
        #expect(try await Tool.run(["store", "stats", "--state-dir", scratch.state]).status == 0)
        let lock = open(scratch.state + "/store.lock", O_RDWR | O_CLOEXEC)
        try #require(lock >= 0 && flock(lock, LOCK_EX | LOCK_NB) == 0)
        let waiting = try Tool.Running(
            ["store", "stats", "--state-dir", scratch.state], environment: [:], in: scratch.url)
        // It tries for three seconds.
        try await Task.sleep(for: .seconds(1))
        let secrets = scratch.state + "/secrets"
        try FileManager.default.createDirectory(atPath: secrets, withIntermediateDirectories: false)
        let (name, text) = (
            "destinations.sugar.secret-0a1b2c3d", "{name: sugar, kind: nightscout, url: 'https://ns.example'"
        )
        try "hush\n".write(toFile: secrets + "/" + name, atomically: false, encoding: .utf8)
        try "destinations:\n  - \(text), secret_file: \(name)}\n".write(
            toFile: scratch.state + "/settings.yaml", atomically: false, encoding: .utf8)
        close(lock)
        let result = await waiting.finish()
        #expect(result.status == 0, "\(result.errors)")
        #expect(FileManager.default.fileExists(atPath: secrets + "/" + name))
    }

    @Test("a secret is typed without being shown, and is in no output")
    func secret() async throws {
        let gateway = try await HostedGateway([])
        let session = try TerminalSession(
            ["settings", "set", "--secret", "backup.passphrase", "--state-dir", gateway.scratch.state],
            in: gateway.scratch.url)
        #expect(await session.expect("backup.passphrase: "))
        #expect(await eventually { !session.showsInput })
        session.type("hush hush hush\n")
        #expect(await session.finish() == 0)
        #expect(!session.outputText.contains("hush") && !session.errorText.contains("hush"))
        let names = try FileManager.default.contentsOfDirectory(atPath: gateway.scratch.state + "/secrets")
        let file = gateway.scratch.state + "/secrets/" + (try #require(names.first))
        #expect(try String(contentsOfFile: file, encoding: .utf8) == "hush hush hush\n" && names.count == 1)
        #expect(session.errorText.contains("After a restart of the gateway count: backup.to, backup.passphrase_file"))
        try await gateway.stop()
    }
}
