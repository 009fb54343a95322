import Foundation
import HealthReadings
import ReadingStore
import TestSupport
import Testing

@testable import GatewaySettings

@Suite("Settings that the gateway writes itself")
struct ManagedSettingsTests {
    /// A state directory with a settings file, and an administrator's file.
    final class Files: Sendable {
        let directory = NSTemporaryDirectory() + "managed-\(UUID().uuidString)"
        let managed: ManagedSettings
        private let hasFile: Bool

        init(_ text: String?, file: String? = nil) throws {
            try FileManager.default.createDirectory(atPath: directory, withIntermediateDirectories: true)
            managed = ManagedSettings(stateDirectory: directory)
            hasFile = file != nil
            try text?.write(toFile: managed.path, atomically: false, encoding: .utf8)
            try file?.write(toFile: directory + "/config.yaml", atomically: false, encoding: .utf8)
        }

        deinit { try? FileManager.default.removeItem(atPath: directory) }

        func settings(environment: [String: String] = [:], flags: [String: String] = [:]) throws -> Settings {
            try Settings(
                file: hasFile ? directory + "/config.yaml" : nil, environment: environment, flags: flags,
                managed: managed)
        }

        func problem(_ change: SettingsChange, environment: [String: String] = [:]) throws -> Problem? {
            let settings = try settings(environment: environment)
            do {
                _ = try settings.draft(change)
                return nil
            } catch {
                return error as? Problem
            }
        }
    }

    @Test("the gateway's own file stands above the defaults and below the administrator's file, environment and flags")
    func precedence() throws {
        let own = "sync: {mode: manual, backfill_days: 1}\nlibre: {deliver: none}\nconsent: {default: denied}\n"
        let files = try Files(own, file: "sync: {backfill_days: 2}\nlibre: {deliver: null}\n")
        let settings = try files.settings(
            environment: ["HEALTHRELAY_CONSENT_DEFAULT": "granted"], flags: ["log.level": "debug"])
        #expect(settings["sync.mode"] == "manual" && settings["sync.backfill_days"] == "2")
        #expect(settings["libre.deliver"] == "none" && settings["consent.default"] == "granted")
        #expect(settings["nfc.reader"] == nil && settings["backup.keep"] == "14")
        let rows = Dictionary(uniqueKeysWithValues: settings.rows.map { ($0.key, $0) })
        let expected = [
            ("sync.mode", "settings", false), ("sync.backfill_days", "file", true),
            ("libre.deliver", "settings", false),
            ("consent.default", "environment", true), ("log.level", "flag", true), ("backup.keep", "default", false),
            ("http.listen", "default", true), ("store.key_file", "default", true), ("nfc.reader", "default", true),
        ]
        for (key, setBy, isFixed) in expected {
            #expect(
                rows[key]?.setBy == setBy && rows[key]?.isFixed == isFixed, "\(key): \(String(describing: rows[key]))")
        }
        #expect(rows["sync.backfill_days"]?.place == files.directory + "/config.yaml:1")
        #expect(rows["sync.mode"]?.place == files.managed.path + ":1")
    }

    @Test(
        "what the file may not say is refused with its line and what was expected",
        arguments: [
            ("sync:\n  mode: sometimes\n", 2, "automatic or manual"),
            ("http: {listen: \"0.0.0.0:1\"}\n", 1, "administrator"),
            ("store:\n  key_file: key\n", 2, "administrator"), ("nfc:\n  reader: \"pcsc:\"\n", 2, "administrator"),
            ("server: {region: eu}\n", 1, "there is no setting `server`"),
            ("sync: {mode: manual}\nbackup: {to: /etc}\n", 2, "expected backups"),
            ("backup: {passphrase_file: /etc/shadow}\n", 1, "the name of a file in"),
            ("backup: {passphrase_file: ../../etc/shadow}\n", 1, "the name of a file in"),
            ("backup: {passphrase_file: ..}\n", 1, "the name of a file in"),
            ("destinations:\n  - {name: a, kind: vital, api_key_file: /etc/shadow}\n", 2, "the name of a file in"),
            ("destinations:\n  - {name: a, kind: file, path: /etc/passwd}\n", 2, "expected a kind"),
            ("destinations:\n  - {name: a, kind: vital}\n  - {name: a, kind: vital}\n", 3, "two named a"),
            ("destinations:\n  - {name: a, kind: mqtt}\n", 2, "url is missing"),
            (
                "users:\n  - {client_user_id: a, devices: {C0:00:00:00:18:10: 1}}\n"
                    + "  - {client_user_id: b, devices: {C0:00:00:00:18:10: 1}}\n", 3, "both have slot"
            ),
        ])
    func refused(_ text: String, _ line: Int, _ expected: String) throws {
        let files = try Files(text)
        let problem = try #require(throws: Problem.self) { try files.settings() }
        #expect(problem.status == .configuration && problem.message.contains(files.managed.path + ":\(line):"))
        #expect(problem.message.contains(expected) || problem.hint?.contains(expected) == true, "\(problem)")
    }

    @Test("destinations and people of both files are there; the administrator's entry of a name counts whole")
    func merged() throws {
        let own = """
            destinations:
              - {name: clinic, kind: vital, region: eu}
              - {name: sugar, kind: nightscout, url: "https://ns.example", secret_file: destinations.sugar.secret-1}
            users:
              - {client_user_id: anna, reports: {paper: letter}}
              - {client_user_id: ben}
            """
        let files = try Files(
            own, file: "destinations: [{name: clinic, kind: vital}]\nusers: [{client_user_id: anna}]\n")
        let settings = try files.settings()
        #expect(settings.destinations.map(\.name) == ["clinic", "sugar"])
        #expect(settings.destination("clinic")?["region"] == "us")
        #expect(
            settings.destination("sugar")?["secret_file"] == files.managed.secrets + "/destinations.sugar.secret-1")
        #expect(settings.people.map(\.clientUserID) == ["anna", "ben"] && settings.people[0].reports.paper == nil)
        #expect(try files.problem(.init(set: ["destinations.clinic.region": .text("eu")]))?.code == "setting_fixed")
        #expect(try files.problem(.init(unset: ["users.anna"]))?.code == "setting_fixed")
        #expect(try files.problem(.init(set: ["users.ben.reports.paper": .text("a4")])) == nil)
        // With the settings of its variables alone, the server is still there beside them.
        let alone = try Files(own).settings(environment: ["HEALTHRELAY_SERVER_REGION": "eu"])
        #expect(alone.destinations.map(\.name) == ["vital", "clinic", "sugar"])
        #expect(try Files(own).settings().destinations.map(\.name) == ["clinic", "sugar"])
    }

    @Test("a key that is set elsewhere, or only there, is refused with its place")
    func fixed() throws {
        let files = try Files(nil, file: "# zones\nuser:\n  time_zone: Europe/Berlin\n")
        for key in ["user.time_zone"] {
            let problem = try #require(try files.problem(.init(set: [key: .text("Europe/Paris")])))
            #expect(problem.code == "setting_fixed" && problem.status == .configuration)
            #expect(problem.message.contains(files.directory + "/config.yaml:3"), "\(problem)")
        }
        let variable = ["HEALTHRELAY_SYNC_MODE": "manual"]
        let problem = try files.problem(.init(set: ["sync.mode": .text("automatic")]), environment: variable)
        #expect(problem?.code == "setting_fixed" && problem?.message.contains("HEALTHRELAY_SYNC_MODE") == true)
        for key in ["http.listen", "http.local", "store.encryption", "store.key_file", "nfc.reader"] {
            #expect(try files.problem(.init(set: [key: .text("x")]))?.code == "setting_fixed", "\(key)")
            #expect(try files.problem(.init(unset: [key]))?.code == "setting_fixed", "\(key)")
        }
    }

    @Test(
        "what cannot be set is refused in a change, and says nothing of a file's lines",
        arguments: [
            ("sync.mode", "sometimes", "setting_invalid"), ("sync.mod", "manual", "setting_unknown"),
            ("sync", "manual", "setting_unknown"), ("", "x", "setting_unknown"), ("...", "x", "setting_unknown"),
            ("sync.mode", "", "setting_invalid"), ("sync.mode", "manual\nhttp: {listen: x}", "setting_invalid"),
            ("user.time_zone", "Europe/Atlantis", "setting_invalid"), ("backup.to", "/etc", "setting_invalid"),
            ("backup.passphrase_file", "x", "setting_invalid"),
            ("cloud.app_key_file", "/etc/shadow", "setting_invalid"),
            ("destinations.clinic.kind", "file", "setting_invalid"),
            ("destinations.clinic.kind", "mqtt", "setting_invalid"),
            ("destinations.clinic.url", "x", "setting_unknown"),
            ("destinations.Clinic.kind", "vital", "setting_unknown"), ("destinations.clinic", "x", "setting_unknown"),
            ("users.anna", "x", "setting_unknown"), ("users.anna.devices", "C0:00:00:00:18:10", "setting_invalid"),
            ("users.anna.devices", "C0:00:00:00:18:10=300", "setting_invalid"),
            ("users.anna.reports.paper", "a5", "setting_invalid"),
            ("users.anna.time_zone", "Nowhere", "setting_invalid"),
        ])
    func impossible(_ key: String, _ value: String, _ code: String) throws {
        let files = try Files(nil)
        let problem = try #require(try files.problem(.init(set: [key: .text(value)])))
        #expect(problem.code == code, "\(problem)")
        #expect(!problem.message.contains("settings.yaml:"), "\(problem)")
    }

    @Test("what does not exist cannot be unset; what could be set here and is not can")
    func unset() throws {
        let own = """
            destinations:
              - {name: sugar, kind: nightscout, url: "https://ns.example", secret_file: destinations.sugar.secret-1}
            users:
              - {client_user_id: anna, reports: {paper: letter}}
            """
        let files = try Files(own, file: "user: {client_user_id: ben}\n")
        for key in [
            "destinations.sugr", "destinations.sugr.url", "destinations.sugar.urls", "destinations.sugar.topic",
            "destinations.vital", "users.ann", "users.ann.reports.paper", "users.anna.reports.papers", "users.ben",
            "sync.modes",
        ] {
            let problem = try files.problem(.init(unset: [key]))
            #expect(problem?.code == "setting_unknown" && problem?.status == .usage, "\(key)")
        }
        for keys in [
            ["destinations.sugar"], ["destinations.sugar", "destinations.sugar.url"], ["destinations.sugar.secret"],
            ["destinations.sugar.token"], ["destinations.sugar.kinds"], ["users.anna"], ["users.anna.reports.paper"],
            ["users.anna.time_zone"], ["sync.mode"],
        ] {
            #expect(try files.problem(.init(unset: keys)) == nil, "\(keys)")
        }
    }

    @Test("whatever is typed comes back as it was typed, and sets nothing else")
    func typed() throws {
        var generator = SeededGenerator(seed: 7)
        let alphabet = Array("ab :{}[]#&*!|>'\"%@`,?-\\\u{e9}\u{1F600}<\u{2028}=0~")
        for _ in 0..<300 {
            let text = String(
                (0..<Int.random(in: 1...12, using: &generator)).map { _ in
                    alphabet[Int.random(in: 0..<alphabet.count, using: &generator)]
                })
            let files = try Files("sync: {mode: manual}\n")
            let draft = try files.settings().draft(
                .init(set: ["bluetooth.adapter": .text(text), "users.\(text).reports.paper": .text("a4")]))
            #expect(draft.settings["bluetooth.adapter"] == text)
            #expect(draft.settings.people.map(\.clientUserID) == [text])
            #expect(
                draft.settings["sync.mode"] == "manual"
                    && draft.settings.rows.filter { $0.setBy == "settings" }.count >= 3)
            try draft.text.write(toFile: files.managed.path, atomically: false, encoding: .utf8)
            #expect(try files.settings()["bluetooth.adapter"] == text)
        }
    }

    @Test("a change adds, changes and removes; what nobody set is gone from the file")
    func course() throws {
        let files = try Files(nil)
        func change(_ change: SettingsChange) throws -> Settings {
            let draft = try files.settings().draft(change)
            try draft.text.write(toFile: files.managed.path, atomically: false, encoding: .utf8)
            #expect(try files.settings().managedDigest == draft.settings.managedDigest)
            return draft.settings
        }
        var settings = try change(
            .init(
                set: [
                    "destinations.sugar.kind": .text("nightscout"),
                    "destinations.sugar.url": .text("https://ns.example"),
                    "destinations.sugar.kinds": .list(["glucose"]), "sources.map": .text("generic_glucose=manual, a=b"),
                    "users.anna.b.devices": .map(["C0:00:00:00:18:10": "2"]),
                    "users.anna.b.reports.paper": .text("a4"),
                ], secrets: ["destinations.sugar.secret": "hush"]))
        #expect(settings.destinations.map(\.name) == ["sugar"])
        let file = try #require(settings.destination("sugar")?["secret_file"])
        #expect(file.hasPrefix(files.managed.secrets + "/destinations.sugar.secret-"))
        #expect(settings.map("sources.map") == ["generic_glucose": "manual", "a": "b"])
        #expect(settings.people.map(\.clientUserID) == ["anna.b"] && settings.people[0].shares.first?.slot == 2)
        #expect(!settings.rows.contains { $0.text.contains("hush") || $0.value.text.contains("hush") })
        settings = try change(.init(set: ["destinations.sugar.url": .text("https://other.example")]))
        #expect(settings.destination("sugar")?["secret_file"] == file)
        settings = try change(.init(unset: ["destinations.sugar.secret", "users.anna.b.reports.paper", "sources.map"]))
        #expect(settings.destination("sugar")?["secret_file"] == nil && settings.people[0].reports.paper == nil)
        settings = try change(.init(unset: ["destinations.sugar", "users.anna.b"]))
        #expect(settings.managedText == ManagedDocument.header && settings.people.isEmpty)
        settings = try change(.init(secrets: ["backup.passphrase": "a passphrase of several words"]))
        #expect(settings.backup?.directory == files.managed.backups)
        settings = try change(.init(unset: ["backup.passphrase"]))
        #expect(settings.backup == nil)
    }

    @Test(
        "a secret is one line or a PEM file, of a setting that has one",
        arguments: [
            ("backup.passphrase", "short", "setting_invalid"), ("backup.passphrase", "sevenxx\n", "setting_invalid"),
            ("backup.passphrase", "two\nlines", "setting_invalid"), ("backup.passphrase", "", "setting_invalid"),
            ("backup.passphrase_file", "x", "setting_unknown"), ("sync.mode", "x", "setting_unknown"),
            ("store.key", "x", "setting_fixed"), ("destinations.none.api_key", "x", "setting_unknown"),
            ("users.anna.api_key", "x", "setting_unknown"), ("backup.passphrase", "a\u{0}b", "setting_invalid"),
            ("cloud.app_key", "-----BEGIN PRIVATE KEY-----", "setting_invalid"),
            ("cloud.app_key", "-----BEGIN PRIVATE KEY-----\nAAAA\n", "setting_invalid"),
            ("cloud.app_key", "-----BEGIN PRIVATE KEY-----\r\nAAAA\r\n-----END PRIVATE KEY-----\r\n", nil),
        ] as [(String, String, String?)])
    func secrets(_ key: String, _ secret: String, _ code: String?) throws {
        #expect(try Files(nil).problem(.init(secrets: [key: secret]))?.code == code)
    }

    @Test(
        "a file that is no text, or is a directory, is refused; another user's is let alone; the named file counts once"
    )
    func unreadable() throws {
        let files = try Files(nil)
        try Data([0xFF, 0xFE, 0x00]).write(to: URL(fileURLWithPath: files.managed.path))
        #expect(throws: Problem.self) { try files.settings() }
        try FileManager.default.removeItem(atPath: files.managed.path)
        try FileManager.default.createDirectory(atPath: files.managed.path, withIntermediateDirectories: false)
        #expect(throws: Problem.self) { try files.settings() }
        let named = try Files("http: {listen: \"127.0.0.1:1\"}\n")
        let settings = try Settings(file: named.managed.path, environment: [:], managed: named.managed)
        #expect(settings["http.listen"] == "127.0.0.1:1" && settings.managed == nil)
        let problem = #expect(throws: Problem.self) { try settings.draft(.init(set: ["sync.mode": .text("manual")])) }
        #expect(problem?.code == "setting_fixed")
    }
}
