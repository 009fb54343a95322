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
            (["settings", "unset", "sync.mode", "destinations.sugar"], 0),
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
