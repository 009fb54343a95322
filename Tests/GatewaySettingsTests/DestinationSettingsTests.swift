import Foundation
import HealthReadings
import Testing

@testable import GatewaySettings

@Suite("Destinations in the settings") struct DestinationSettingsTests {
    /// A part of a schema in `Tests/Schemas/cli`.
    private static func part(of schema: String, _ keys: String...) throws -> Any? {
        let path = URL(filePath: #filePath).deletingLastPathComponent()
            .appending(path: "../Schemas/cli/\(schema).schema.json")
        let whole: Any? = try JSONSerialization.jsonObject(with: Data(contentsOf: path))
        return keys.reduce(whole) { ($0 as? [String: Any])?[$1] }
    }

    @Test("the schemas know every kind of destination", arguments: ["sync_status", "destination_list"])
    func schema(_ name: String) throws {
        let part = try Self.part(of: name, "properties", "destinations", "items", "properties", "kind", "enum")
        #expect(Set(part as? [String] ?? []) == Set(DestinationKind.allCases.map(\.name)))
    }

    @Test(
        "the schema of `config show` has the settings of each kind of destination",
        arguments: DestinationKind.allCases)
    func schema(of kind: DestinationKind) throws {
        let part = try Self.part(of: "config_show", "properties", "destinations", "items", "anyOf")
        let variants = (part as? [[String: Any]] ?? []).compactMap { $0["properties"] as? [String: Any] }
        let own = variants.first { ($0["kind"] as? [String: Any])?["const"] as? String == kind.name }
        #expect(Set(own?.keys.map(\.self) ?? []) == Set(["name", "kind"] + kind.settings.map(\.key)))
    }

    private func settings(_ text: String, environment: [String: String] = [:]) throws -> Settings {
        let path = NSTemporaryDirectory() + "destinations-\(UUID().uuidString).yaml"
        defer { try? FileManager.default.removeItem(atPath: path) }
        try text.write(toFile: path, atomically: true, encoding: .utf8)
        return try Settings(file: path, environment: environment)
    }

    private func refusal(_ text: String, environment: [String: String] = [:]) -> Problem? {
        do {
            _ = try settings(text, environment: environment)
            return nil
        } catch {
            return error as? Problem
        }
    }

    private static let clinic = """
        destinations:
          - name: clinic
            kind: vital
            environment: production
            region: eu
            api_key_file: /k
            kinds: [glucose, weight]
            people: [white_bear]
            devices: [accuchek_guide, C0:00:00:00:18:08]
            backfill_days: 7
            mode: manual
            ca_file: /ca
            insecure: true

        """

    @Test("a destination has its own keys and those of every kind")
    func keys() throws {
        let settings = try settings(Self.clinic)
        let clinic = try #require(settings.destination("clinic"))
        #expect(settings.destinations.count == 1 && settings.vital == nil)
        #expect(clinic["environment"] == "production" && clinic["region"] == "eu" && clinic["api_key_file"] == "/k")
        #expect(clinic.list("kinds") == ["glucose", "weight"] && clinic.list("people") == ["white_bear"])
        #expect(clinic.list("devices") == ["accuchek_guide", "C0:00:00:00:18:08"])
        #expect(settings.backfillDays(clinic) == 7 && settings.isManual(clinic) && clinic.isOn("insecure"))
        #expect(
            settings.document["destinations"]?.text
                == #"[{"name":"clinic","kind":"vital","environment":"production","region":"eu","base_url":null,"#
                + #""api_key_file":"/k","sign_in_token_file":null,"kinds":["glucose","weight"],"#
                + #""people":["white_bear"],"devices":["accuchek_guide","C0:00:00:00:18:08"],"backfill_days":7,"#
                + #""mode":"manual","ca_file":"/ca","insecure":true}]"#)
    }

    @Test("what a destination does not say, `sync` says")
    func common() throws {
        let settings = try settings(
            "sync: {mode: manual, backfill_days: 3}\ndestinations: [{name: a, kind: vital}]\n")
        let destination = try #require(settings.destination("a"))
        #expect(settings.isManual(destination) && settings.backfillDays(destination) == 3)
        #expect(destination.list("kinds").isEmpty && settings.document.text.contains(#""kinds":null"#))
    }

    @Test("what stands in a URL's query is not shown: it may be a secret")
    func query() throws {
        let url = "https://h.example/x?key=SECRET"
        let text = "destinations: [{name: a, kind: webhook, url: \"\(url)\", secret_file: /s}]\n"
        let shown = try settings(text).document.text
        #expect(!shown.contains("SECRET") && shown.contains("https://h.example/x?***"), "\(shown)")
        let site = "destinations: [{name: a, kind: nightscout, url: \"https://SECRET@ns.example\", token_file: /s}]\n"
        #expect(try settings(site).document.text.contains("https://***@ns.example"))
        for url in [
            "https://ann:SEC/RET@h.example/x", "https://ann:SEC#RET@h.example", "https://h.example:x/?k=SECRET",
        ] {
            let broken = "destinations: [{name: a, kind: webhook, url: \"\(url)\", secret_file: /s}]\n"
            let shown = (try? settings(broken))?.document.text ?? ""
            #expect(!shown.contains("SEC"), "\(shown)")
        }
    }

    @Test("a `server:` section, the environment of one, and a file that says nothing are the destination `vital`")
    func server() throws {
        let section = try settings("server: {region: eu, api_key_file: /k}")
        #expect(section.destinations.map(\.name) == ["vital"])
        #expect(section.vital?["region"] == "eu" && section.vital?["api_key_file"] == "/k")
        let both = try settings("server: {region: eu}\ndestinations: [{name: clinic, kind: vital}]\n")
        #expect(both.destinations.map(\.name) == ["vital", "clinic"])
        #expect(try settings("").destinations.map(\.name) == ["vital"])
        // Whoever lists destinations gets these and no other, and may list none.
        #expect(try settings(Self.clinic).destinations.map(\.name) == ["clinic"])
        #expect(try settings("destinations: []\n").destinations.isEmpty)
        let variable = ["HEALTHRELAY_SERVER_REGION": "eu"]
        #expect(try settings("", environment: variable).vital?["region"] == "eu")
        #expect(try settings("destinations: []\n", environment: variable).vital?["region"] == "eu")
        let listed = "destinations: [{name: vital, kind: vital, region: us}]\n"
        #expect(try settings(listed, environment: variable).vital?["region"] == "eu")
        #expect(try settings("server:\n" + listed).destinations.count == 1)
    }

    @Test(
        "HEALTHRELAY_SERVER_* is refused where the settings name others and no `vital`: it makes no destination",
        arguments: ["HEALTHRELAY_SERVER_REGION": "eu", "HEALTHRELAY_SERVER_API_KEY_FILE": "/k"])
    func strayServerVariable(_ variable: String, _ text: String) throws {
        let problem = try #require(refusal(Self.clinic, environment: [variable: text]))
        #expect(problem.code == "config_invalid" && problem.status == .configuration)
        #expect(problem.message.contains(variable) && problem.message.contains("clinic"), "\(problem)")
        #expect(problem.hint?.contains("vital") == true && problem.hint?.contains("unset") == true, "\(problem)")
    }

    @Test(
        "a variable that sets nothing is refused: a misspelt one must not be ignored",
        arguments: [
            "HEALTHRELAY_DESTINATIONS", "HEALTHRELAY_DESTINATIONS_", "HEALTHRELAY_SERVER",
            "HEALTHRELAY_SERVER_BASE_URLL", "HEALTHRELAY_SERVER_CA_FILE",
        ])
    func strayVariable(_ variable: String) throws {
        for text in ["", Self.clinic] {
            let problem = try #require(refusal(text, environment: [variable: "x"]), "\(variable)")
            #expect(problem.code == "config_invalid" && problem.status == .configuration)
            #expect(problem.message.contains(variable + ":"), "\(problem)")
            // An empty variable counts as not set.
            #expect(refusal(text, environment: [variable: ""]) == nil)
        }
    }

    @Test("a name begins with a letter or a digit: others would be taken for an option")
    func names() throws {
        for name in ["-", "--json", "_", "_a", "-a"] {
            let problem = try #require(refusal("destinations: [{name: '\(name)', kind: vital}]\n"), "\(name)")
            #expect(problem.message.contains("begins with a letter or a digit"), "\(problem)")
            #expect(problem.message.contains("'\(name)'"), "\(problem)")
        }
        for name in ["a", "0", "7-", "a_b-c"] {
            #expect(try settings("destinations: [{name: '\(name)', kind: vital}]\n").destination(name) != nil)
        }
    }

    @Test("a URL that cannot be used is told with the destination's own key")
    func address() throws {
        let problem = try #require(
            refusal("destinations:\n  - {name: clinic, kind: vital, base_url: 'ftp://example.org'}\n"))
        #expect(problem.message.contains(".yaml:2: destinations.clinic.base_url"), "\(problem)")
        #expect(!problem.message.contains("server."), "\(problem)")
        let section = try #require(refusal("server: {base_url: 'ftp://example.org'}\n"))
        #expect(section.message.contains(".yaml:1: server.base_url"), "\(section)")
    }

    @Test("a `server:` section beside a destination named `vital` is refused, with both places")
    func twice() throws {
        let problem = try #require(refusal("server: {region: eu}\ndestinations:\n  - {name: vital, kind: vital}\n"))
        #expect(problem.code == "config_invalid" && problem.status == .configuration)
        #expect(problem.message.contains(".yaml:1: ") && problem.message.contains(".yaml:3)"), "\(problem)")
    }

    @Test(
        "a destination that cannot be meant is refused with its place and what was expected",
        arguments: [
            ("destinations: clinic", 1, "a list of destinations"), ("destinations: [clinic]", 1, "name: clinic"),
            ("destinations:\n  - {kind: vital}", 2, "a name of the characters a-z, 0-9, _ and -"),
            ("destinations: [{name: Clinic, kind: vital}]", 1, "'Clinic'"),
            ("destinations: [{name: 'a b', kind: vital}]", 1, "'a b'"),
            ("destinations: [{name: a}]", 1, "there is: vital"),
            ("destinations:\n  - name: a\n    kind: vitel\n", 3, "there is: vital"),
            ("destinations: [{name: a, kind: vital}, {name: a, kind: vital}]", 1, "two named a"),
            ("destinations:\n  - name: a\n    kind: vital\n    base_urll: x\n", 4, "destinations.a.base_urll"),
            ("destinations: [{name: a, kind: vital, kinds: []}]", 1, "found an empty list"),
            ("destinations: [{name: a, kind: vital, people: []}]", 1, "a list with one entry at least"),
            ("destinations: [{name: a, kind: vital, devices: []}]", 1, "found an empty list"),
            ("destinations: [{name: a, kind: vital, kinds: [sugar]}]", 1, "glucose, blood_pressure"),
            ("destinations: [{name: a, kind: vital, kinds: glucose}]", 1, "found 'glucose'"),
            ("destinations: [{name: a, kind: vital, mode: hourly}]", 1, "automatic or manual"),
            ("destinations: [{name: a-b, kind: vital}, {name: a_b, kind: vital}]", 0, "HEALTHRELAY_DESTINATIONS_A_B_"),
        ])
    func wrong(_ text: String, _ line: Int, _ words: String) throws {
        let problem = try #require(refusal(text))
        #expect(problem.code == "config_invalid" && problem.status == .configuration)
        #expect(line == 0 || problem.message.contains(".yaml:\(line): "), "\(problem)")
        #expect(problem.message.contains(words), "\(problem)")
    }

    @Test("the environment overrides a key of a destination, and never makes one")
    func environment() throws {
        let prefix = "HEALTHRELAY_DESTINATIONS_"
        let named = "destinations: [{name: at-home, kind: vital, region: us}]\n"
        let settings = try settings(
            named,
            environment: [
                prefix + "AT_HOME_REGION": "eu", prefix + "AT_HOME_KINDS": "glucose,weight",
                prefix + "AT_HOME_API_KEY_FILE": "",
            ])
        let destination = try #require(settings.destination("at-home"))
        #expect(destination["region"] == "eu" && destination.list("kinds") == ["glucose", "weight"])
        #expect(destination.origin(of: "region") == .environment(variable: prefix + "AT_HOME_REGION"))
        #expect(destination["api_key_file"] == nil)
        for (variable, text) in [
            ("NEW_KIND", "vital"), ("NEW_REGION", "eu"), ("AT_HOME_REGIONN", "eu"), ("AT_HOME_NAME", "x"),
        ] {
            let problem = try #require(refusal(named, environment: [prefix + variable: text]))
            #expect(problem.status == .configuration && problem.message.contains(prefix + variable), "\(problem)")
        }
        let wrong = try #require(refusal(named, environment: [prefix + "AT_HOME_REGION": "mars"]))
        #expect(wrong.message.contains("us or eu") && wrong.message.contains(prefix + "AT_HOME_REGION"))
    }

    @Test("both variables of one setting are refused")
    func twoVariables() throws {
        let problem = try #require(
            refusal(
                "", environment: ["HEALTHRELAY_SERVER_REGION": "eu", "HEALTHRELAY_DESTINATIONS_VITAL_REGION": "us"]))
        #expect(problem.message.contains("HEALTHRELAY_SERVER_REGION and HEALTHRELAY_DESTINATIONS_VITAL_REGION"))
    }

    @Test("what a reload cannot take in force is named; days of backfill it can")
    func reload() throws {
        let old = try settings(Self.clinic)
        #expect(try settings(Self.clinic).destinationsThatDiffer(from: old).isEmpty)
        let days = Self.clinic.replacing("backfill_days: 7", with: "backfill_days: 8")
        #expect(try settings(days).destinationsThatDiffer(from: old).isEmpty)
        let region = Self.clinic.replacing("region: eu", with: "region: us")
        #expect(try settings(region).destinationsThatDiffer(from: old) == ["destinations.clinic.region"])
        #expect(try settings("").destinationsThatDiffer(from: old) == ["destinations"])
    }
}
