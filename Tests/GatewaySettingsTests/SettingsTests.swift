import Foundation
import HealthReadings
import ReadingStore
import Testing

@testable import GatewaySettings

@Suite("Settings")
struct SettingsTests {
    /// Settings of a file with this text.
    private func settings(
        _ text: String, environment: [String: String] = [:], flags: [String: String] = [:]
    ) throws -> Settings {
        let path = NSTemporaryDirectory() + "settings-\(UUID().uuidString).yaml"
        defer { try? FileManager.default.removeItem(atPath: path) }
        try text.write(toFile: path, atomically: true, encoding: .utf8)
        return try Settings(file: path, environment: environment, flags: flags)
    }

    /// The problem that such settings are.
    private func refusal(_ text: String, environment: [String: String] = [:]) -> Problem? {
        do {
            _ = try settings(text, environment: environment)
            return nil
        } catch {
            return error as? Problem
        }
    }

    @Test(
        "a key nobody knows is refused with its place and what is known",
        arguments: [
            ("server:\n  base_urll: http://127.0.0.1:1\n", 2, "server.base_urll", "server.base_url"),
            ("server:\n  kinds: [glucose]\n", 2, "server.kinds", "server.base_url"),
            ("log: {level: info}\nsever:\n  region: eu\n", 2, "sever", "destinations"),
            (
                "# a comment\n\nsync:\n  mode: manual\n  backfil_days: 90\n", 5, "sync.backfil_days",
                "sync.backfill_days"
            ),
            ("http:\n  listen: 127.0.0.1:0\n  port: 1\n", 3, "http.port", "http.listen"),
        ])
    func unknown(_ text: String, _ line: Int, _ key: String, _ known: String) throws {
        let problem = try #require(refusal(text))
        #expect(problem.code == "config_invalid" && problem.status == .configuration)
        #expect(problem.message.contains(".yaml:\(line): ") && problem.message.contains("`\(key)`"), "\(problem)")
        #expect(problem.hint?.contains(known) == true)
    }

    @Test(
        "a value that a setting cannot have is refused with its place, what was expected and what was found",
        arguments: [
            ("server: {environment: live}", 1, "production, sandbox or local", "'live'"),
            ("log:\n  level: loud\n", 2, "trace, debug", "'loud'"),
            ("sync:\n  mode: manual\n  backfill_days: ninety\n", 3, "a whole number from 0 to 36500", "'ninety'"),
            ("sync: {backfill_days: -1}", 1, "a whole number from 0 to 36500", "'-1'"),
            ("clock: {require_sync: perhaps}", 1, "true or false", "'perhaps'"),
            ("sources:\n  map: [a, b]\n", 2, "keys with values", "a list"),
            ("server:\n  region: [us]\n", 2, "us or eu", "a list"),
            ("server:\n  region: {us: eu}\n", 2, "us or eu", "found keys with values"),
            ("sources: {map: {a: [b]}}", 1, "keys with values", "more than a value"),
            ("sources:\n  map:\n    generic_glucose:\n", 2, "keys with values", "a key without a value"),
            ("sources: {map: {a: manual, b: null}}", 1, "keys with values", "a key without a value"),
            ("sources: {map: {a: ~}}", 1, "keys with values", "a key without a value"),
            ("sources: {map: {a: ''}}", 1, "keys with values", "a key without a value"),
            ("store: {keep: {trend: null}}", 1, "keys with values", "a key without a value"),
            ("sync:\n  ignore: [[a]]\n", 2, "a list", "a list with more than texts"),
            ("server:\n  base_url: http://127.0.0.1:99999\n", 2, "server.base_url", "1 to 65535"),
            ("server:\n  base_url: 'http://127.0.0.1:'\n", 2, "server.base_url", "1 to 65535"),
            ("server: {base_url: 'ftp://example.org'}", 1, "server.base_url", "ftp"),
            ("http:\n  listen: 127.0.0.1:65536\n", 2, "HOST:PORT", "127.0.0.1:65536"),
            ("http:\n  trusted_proxies: [10.0.0.0/33]\n", 2, "a prefix", "'10.0.0.0/33'"),
            ("http: {trusted_proxies: ['::1', 10.0.0.0/-1]}", 1, "a prefix", "'10.0.0.0/-1'"),
            ("\nserver: 5\n", 2, "settings under `server`", "'5'"),
        ])
    func wrong(_ text: String, _ line: Int, _ expected: String, _ found: String) throws {
        let problem = try #require(refusal(text))
        #expect(problem.code == "config_invalid" && problem.status == .configuration)
        #expect(problem.message.contains(".yaml:\(line): "), "\(problem)")
        #expect(problem.message.contains(expected) && problem.message.contains(found), "\(problem)")
    }

    @Test(
        "an abbreviation is no time zone, in the file, the environment or a flag",
        arguments: ["BST", "GMT+3", "Mars/X"])
    func zones(_ name: String) throws {
        let problem = try #require(refusal("user:\n  time_zone: \(name)\n"))
        #expect(problem.code == "unknown_time_zone" && problem.status == .configuration)
        #expect(problem.message.contains(".yaml:2: ") && problem.message.contains("'\(name)'"), "\(problem)")
        let variable = try #require(refusal("", environment: ["HEALTHRELAY_USER_TIME_ZONE": name]))
        #expect(variable.message.contains("HEALTHRELAY_USER_TIME_ZONE"))
        let flag = #expect(throws: Problem.self) { try settings("", flags: ["user.time_zone": name]) }
        #expect(flag?.status == .usage && flag?.code == "unknown_time_zone")
    }

    @Test("a FIFO or a device in place of the settings is a named error at once")
    func fifo() throws {
        let path = NSTemporaryDirectory() + "fifo-\(UUID().uuidString)"
        defer { unlink(path) }
        try #require(mkfifo(path, 0o600) == 0)
        for place in [path, "/dev/zero"] {
            let problem = #expect(throws: Problem.self) { try Settings(file: place, environment: [:]) }
            #expect(problem?.code == "config_unreadable" && problem?.message.contains("ordinary") == true)
        }
    }

    @Test("a value from the environment is held to the same, and its place is the variable")
    func environment() throws {
        let variable = "HEALTHRELAY_SERVER_REGION"
        let problem = try #require(refusal("", environment: [variable: "mars"]))
        #expect(problem.message.contains(variable) && problem.message.contains("'mars'"), "\(problem)")
        let settings = try settings("server: {region: us}", environment: [variable: "eu"])
        #expect(
            settings.vital?["region"] == "eu"
                && settings.vital?.origin(of: "region") == .environment(variable: variable))
        // Empty is none, and variables of others are nobody's.
        let none = try self.settings("server: {region: us}", environment: [variable: "", "HEALTHRELAY_NONSENSE": "1"])
        #expect(none.vital?["region"] == "us")
    }

    @Test(
        "what is no settings file says so",
        arguments: ["server: [", "- a\n- b\n", "just words", "server: 5\n", "a: b: c"])
    func malformed(_ text: String) {
        let problem = refusal(text)
        #expect(
            problem?.code == "config_invalid" && problem?.status == .configuration, "\(String(describing: problem))")
    }

    @Test(
        "nothing said is what stands: an empty file, empty sections, null",
        arguments: ["", "\n", "server:\n", "server: {base_url: null, region: ~}"])
    func nothing(_ text: String) throws {
        let settings = try settings(text)
        #expect(settings.vital?["base_url"] == nil && settings.vital?["region"] == "us")
        #expect(settings.vital?.origin(of: "region") == .standard)
        #expect(settings["http.listen"] == "127.0.0.1:8480" && settings.list("sync.ignore").isEmpty)
    }

    @Test("null in quotes is a text, as any other word in quotes is", arguments: ["'null'", "\"null\"", "'~'"])
    func quoted(_ text: String) throws {
        let settings = try settings("user: {client_user_id: \(text)}")
        #expect(settings["user.client_user_id"] == String(text.dropFirst().dropLast()))
    }

    @Test("flag over environment over file, each with its origin")
    func layers() throws {
        let text = "server:\n  region: eu\nsync:\n  mode: manual\nlog:\n  level: error\n"
        let settings = try settings(
            text, environment: ["HEALTHRELAY_SYNC_MODE": "automatic", "HEALTHRELAY_LOG_LEVEL": "debug"],
            flags: ["log.level": "trace"])
        #expect(
            settings.vital?["region"] == "eu" && settings["sync.mode"] == "automatic"
                && settings["log.level"] == "trace")
        #expect(settings.origin(of: "log.level") == .flag)
        guard case .file(let path, let line) = settings.vital?.origin(of: "region") else {
            Issue.record("\(String(describing: settings.vital?.origin(of: "region")))")
            return
        }
        #expect(path == settings.file && line == 2)
    }

    @Test("maps come from the file and from the environment")
    func maps() throws {
        let text = "sources: {map: {omron_x: omron_ble, other: manual}}"
        #expect(try settings(text).map("sources.map") == ["omron_x": "omron_ble", "other": "manual"])
        let environment = ["HEALTHRELAY_SOURCES_MAP": "a=manual,b=omron_ble"]
        #expect(try settings(text, environment: environment).map("sources.map") == ["a": "manual", "b": "omron_ble"])
        #expect(throws: Problem.self) {
            try settings(text, environment: ["HEALTHRELAY_SOURCES_MAP": "a=manual,b=omron_ble,nonsense"])
        }
    }

    @Test(
        "what a setting may say is taken, in every form that YAML has for it",
        arguments: [
            "store: {encryption: off}", "store: {encryption: on}", "store: {key_file: /k}",
            "store: {keep: {trend: 90d, frames: 1y, heart_rate: 26w}}", "store: {keep: {}}",
            "consent: {default: denied}",
            "http: {tls: on}", "clock: {require_sync: true}", "sync: {backfill_days: 90}",
            "sync: {ignore: [omron_ble]}",
            "sync: {ignore: []}", "bluetooth: {adapter: hci1}", "users: []", "users:\n",
        ])
    func taken(_ text: String) { #expect(refusal(text) == nil) }

    @Test("how long parts are kept is in seconds; a part or an age that there is not is refused with what was expected")
    func kept() throws {
        let settings = try settings("store: {keep: {trend: 90d, frames: 2y}}", environment: [:])
        #expect(settings.keptSeconds == ["trend": 90 * 86_400, "frames": 730 * 86_400])
        for (text, expected) in [
            ("{sleep: 1y}", "one of blood_pressure, body_composition, frames,"), ("{trend: 12h}", "1d to 100y"),
            ("{trend: 101y}", "1d to 100y"), ("{trend: -1y}", "1d to 100y"), ("{frames: soon}", "found 'soon'"),
            ("90d", "expected keys with values, found '90d'"),
        ] {
            let problem = refusal("store: {keep: \(text)}")
            #expect(
                problem?.code == "config_invalid" && problem?.message.contains(expected) == true,
                "\(String(describing: problem))")
        }
    }

    @Test("people and what of which device is theirs; whoever has no zone of their own has the user's")
    func people() throws {
        let text = """
            users:
              - client_user_id: brown_bear
                time_zone: Europe/Lisbon
                devices: {C0:00:00:00:18:10: 2, c0-00-00-00-18-11: all}
              - {client_user_id: polar_bear, devices: {C0:00:00:00:18:10: 1}}
              - {client_user_id: black_bear, time_zone: null, devices: null}
            """
        let settings = try settings(text)
        #expect(settings.people.map(\.clientUserID) == ["brown_bear", "polar_bear", "black_bear"])
        #expect(settings.people.map(\.timeZone) == ["Europe/Lisbon", nil, nil])
        #expect(settings.people[0].shares.map(\.slot) == [2, nil] && settings.people[1].shares.map(\.slot) == [1])
        #expect(settings.people[0].shares.map(\.address) == [0xC000_0000_1810, 0xC000_0000_1811])
        #expect(settings.document.text.contains(#""devices":{"C0:00:00:00:18:10":2,"C0:00:00:00:18:11":"all"}"#))
    }

    @Test(
        "an entry of users that cannot be meant is refused with its place and what was expected",
        arguments: [
            ("users: bear", "a list of people"), ("users: [bear]", "client_user_id"),
            ("users: [{time_zone: UTC}]", "a client_user_id"), ("users: [{client_user_id: ''}]", "a client_user_id"),
            ("users: [{client_user_id: a, device: {}}]", "'device'"),
            ("users: [{client_user_id: a, time_zone: Mars/Base}]", "'Mars/Base'"),
            ("users: [{client_user_id: a, devices: [C0]}]", "ADDRESS: slot"),
            ("users: [{client_user_id: a, reports: letter}]", "reports as a map"),
            ("users: [{client_user_id: a, reports: {colour: red}}]", "'colour'"),
            ("users: [{client_user_id: a, reports: {paper: a5}}]", "a4 or letter"),
            ("users: [{client_user_id: a, reports: {language: tlh}}]", "en or de or fr or es or ar"),
            ("users: [{client_user_id: a, reports: {glucose_unit: kPa}}]", "mg/dL or mmol/L"),
            ("users: [{client_user_id: a, reports: {glucose_ranges: 180-70}}]", "'180-70'"),
            ("users: [{client_user_id: a, reports: {pressure_line: 85/135}}]", "135/85"),
            ("users: [{client_user_id: a, reports: {glucose_line: 150-80}}]", "80-150"),
            ("users: [{client_user_id: a, reports: {glucose_line: 54-70-180-250}}]", "80-150"),
            ("users: [{client_user_id: a, reports: {weight_line: 72.5}}]", "72.5 kg"),
            ("users: [{client_user_id: a, reports: {weight_line: 11 st}}]", "72.5 kg"),
            ("users: [{client_user_id: a, reports: {morning: early}}]", "04:00-12:00"),
            ("users: [{client_user_id: a, reports: {evening: '17:00-17:00'}}]", "04:00-12:00"),
            (
                "users: [{client_user_id: a, reports: {morning: '05:00-18:00', evening: '12:00-17:00'}}]",
                "reports.evening that don't overlap the morning, 05:00-18:00, found '12:00-17:00'"
            ),
            ("users: [{client_user_id: a, reports: {evening: '11:59-17:00'}}]", "the morning, 04:00-12:00"),
            ("users: [{client_user_id: a, reports: {morning: '01:00-10:00'}}]", "the evening, 17:00-02:00"),
            ("users: [{client_user_id: a, reports: {morning: '22:00-17:30'}}]", "the evening, 17:00-02:00"),
            ("users: [{client_user_id: a, devices: {C0: 1}}]", "a device's address"),
            ("users: [{client_user_id: a, devices: {C0:00:00:00:18:10: 255}}]", "0 to 254"),
            ("users: [{client_user_id: a, devices: {C0:00:00:00:18:10: both}}]", "'both'"),
            (
                "users: [{client_user_id: a, devices: {C0:00:00:00:18:10: 1}}, "
                    + "{client_user_id: b, devices: {c0:00:00:00:18:10: 1}}]", "both have slot 1"
            ),
        ])
    func wrongPeople(_ text: String, _ words: String) throws {
        let problem = try #require(refusal(text))
        #expect(problem.code == "config_invalid" && problem.status == .configuration)
        #expect(problem.message.contains("users") && problem.message.contains(words), "\(problem)")
    }

    @Test("every setting is shown, in order, with a URL's password masked and no secret's text")
    func shown() throws {
        let document = try settings("server: {base_url: 'https://bear:secretword@example.org/v'}").document
        guard case .object(let members) = document else {
            Issue.record("\(document.text)")
            return
        }
        #expect(members.map(\.key) == ["destinations"] + SettingDefinition.all.map(\.key))
        #expect(!document.text.contains("secretword") && document.text.contains("example.org/v"))
        #expect(Set(SettingDefinition.all.map(\.key)).count == SettingDefinition.all.count)
        #expect(SettingDefinition.all.allSatisfy { $0.standard.map($0.accepts) ?? true })
    }

    @Test("a file that is named must be there: 66; one that is looked for need not")
    func missing() throws {
        let problem = #expect(throws: Problem.self) { try Settings(file: "/nonexistent.yaml", environment: [:]) }
        #expect(problem?.code == "config_unreadable" && problem?.status == .noInput)
        let environment = ["HEALTHRELAY_CONFIG": "/nonexistent.yaml"]
        #expect(throws: Problem.self) { try Settings(environment: environment) }
        #expect(
            Settings.usualPaths(["HOME": "/h"]) == [
                "/etc/healthrelay/config.yaml", "/h/.config/healthrelay/config.yaml",
            ])
        #expect(Settings.usualPaths(["HOME": "/h", "XDG_CONFIG_HOME": "/x"]).last == "/x/healthrelay/config.yaml")
        #expect(Settings.usualPaths([:]).count == 1)
        // An empty variable counts as not set.
        _ = try Settings(environment: ["HEALTHRELAY_CONFIG": ""])
        #expect(
            Settings.usualPaths(["HOME": "/h", "XDG_CONFIG_HOME": ""]).last == "/h/.config/healthrelay/config.yaml")
    }

    @Test("the administrator's file counts also if it leads nowhere or can't be looked at; another one does not")
    func unseen() throws {
        let directory = NSTemporaryDirectory() + "settings-\(UUID().uuidString)"
        try FileManager.default.createDirectory(atPath: directory, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(atPath: directory) }
        let (none, own, loop, away) = (
            directory + "/none", directory + "/own", directory + "/loop", directory + "/away"
        )
        try Data().write(to: URL(fileURLWithPath: own))
        // Nobody can look into it, root neither.
        try FileManager.default.createSymbolicLink(atPath: loop, withDestinationPath: loop)
        try FileManager.default.createSymbolicLink(atPath: away, withDestinationPath: none)
        #expect(Settings.file(among: [loop + "/config.yaml", own]) == loop + "/config.yaml")
        #expect(Settings.file(among: [away, own]) == away)
        #expect(Settings.file(among: [none, own]) == own && Settings.file(among: [none + "/config.yaml", own]) == own)
        #expect(Settings.file(among: [own + "/config.yaml", own]) == own)
        #expect(Settings.file(among: [none, loop + "/config.yaml"]) == nil)
    }

    @Test(
        "a person's own file that was read before and can't be looked at any more is named; one that is gone is not needed"
    )
    func outOfSight() throws {
        let directory = NSTemporaryDirectory() + "settings-\(UUID().uuidString)"
        defer { try? FileManager.default.removeItem(atPath: directory) }
        let place = directory + "/healthrelay"
        try FileManager.default.createDirectory(atPath: place, withIntermediateDirectories: true)
        try "sync: {mode: manual}".write(toFile: place + "/config.yaml", atomically: true, encoding: .utf8)
        let settings = try Settings(environment: ["XDG_CONFIG_HOME": directory])
        try #require(settings.file == place + "/config.yaml", "this machine has settings of its own")
        let again = try settings.readAgain()
        #expect(again["sync.mode"] == "manual")
        // Nobody can look into it, root neither.
        try FileManager.default.removeItem(atPath: place)
        try FileManager.default.createSymbolicLink(atPath: place, withDestinationPath: place)
        let problem = #expect(throws: Problem.self) { try again.readAgain() }
        #expect(problem?.code == "config_unreadable")
        try FileManager.default.removeItem(atPath: place)
        let without = try again.readAgain()
        #expect(without.file == nil && without["sync.mode"] != "manual")
    }

    @Test("spaces beside the commas of a list or a map are none of its entries'")
    func spaces() throws {
        let settings = try settings(
            "clock: {set: 'a, b'}",
            environment: ["HEALTHRELAY_SYNC_IGNORE": " x , y", "HEALTHRELAY_SOURCES_MAP": "m = manual, n=oura "])
        #expect(settings.list("clock.set") == ["a", "b"] && settings.list("sync.ignore") == ["x", "y"])
        #expect(settings.map("sources.map") == ["m": "manual", "n": "oura"])
        #expect(refusal("", environment: ["HEALTHRELAY_SOURCES_MAP": "m= "])?.code == "config_invalid")
    }

    @Test(
        "what is no YAML is told with its line, and without anything that stands in it",
        arguments: [
            ("sync: {mode: manual}\nserver: {api_key_file: hunter2\n", 3), ("log: {level: info}\n\thunter2: [\n", 2),
            ("a: hunter2\nb: 1\nb: 2\n", 2), ("a: 1\nb: \u{7}hunter2\n", 2), ("hunter2\n", nil),
            ("- hunter2\n", nil),
        ] as [(String, Int?)])
    func noYAML(_ text: String, _ line: Int?) throws {
        let problem = try #require(refusal(text))
        #expect(problem.code == "config_invalid" && problem.status == .configuration)
        #expect(!problem.message.contains("hunter2") && !problem.message.contains("\n"), "\(problem.message)")
        if let line { #expect(problem.message.contains(".yaml:\(line): "), "\(problem.message)") }
    }

    @Test("a flag's value that a setting cannot have is a wrong command line")
    func flag() {
        let problem = #expect(throws: Problem.self) { try settings("", flags: ["log.level": "verbose"]) }
        #expect(problem?.code == "usage" && problem?.status == .usage)
        #expect(problem?.message.contains("'verbose'") == true)
    }

    @Test("two entries of one person are one, unless they contradict each other: the order must not decide")
    func twice() throws {
        func entry(_ rest: String) -> String { "  - {client_user_id: anna, \(rest)}\n" }
        let cuff = entry("devices: {C0:00:00:00:18:10: 1}")
        for (first, second) in [
            (cuff, entry("devices: {C0:00:00:00:18:11: all}, reports: {paper: letter}")),
            (entry("reports: {paper: letter}, time_zone: Europe/Lisbon"), cuff), (cuff, cuff),
        ] {
            let both = try settings("users:\n" + first + second, environment: [:]).people
            let reversed = try settings("users:\n" + second + first, environment: [:]).people
            #expect(both.count == 1 && reversed.count == 1)
            #expect(both.first?.shares.contains { $0.slot == 1 } == true)
            #expect(both.first.map { Set($0.shares) } == reversed.first.map { Set($0.shares) })
            #expect(both.first?.timeZone == reversed.first?.timeZone && both.first?.reports == reversed.first?.reports)
        }
        for (first, second) in [
            ("time_zone: Europe/Lisbon", "time_zone: Europe/Berlin"),
            ("reports: {paper: letter}", "reports: {paper: a4}"),
        ] {
            let problem = try #require(refusal("users:\n" + entry(first) + entry(second)))
            #expect(problem.code == "config_invalid" && problem.status == .configuration)
            #expect(problem.message.contains(".yaml:3: ") && problem.message.contains("anna"), "\(problem.message)")
        }
    }
}

extension Settings {
    /// The destination that a `server:` section, and nothing at all, stand for.
    var vital: DestinationSetting? { destination("vital") }
}
