import EmulatedRadio
import Foundation
import GATTClient
import HealthReadings
import Logging
import ReadingStore
import ScriptedServer
import Testing
import VitalSandbox

@testable import GatewayCommands
@testable import GatewaySettings

/// `doctor`: looks at everything, changes nothing, and ends with the worst it found.
@Suite struct DoctorTests {
    static let names = [
        "adapter", "bus_policy", "reader", "permissions", "clock", "zone", "server", "source", "store",
    ]

    struct Findings {
        var checks: [String: [String: any Sendable]] = [:]
        var problem: Problem?

        func isGood(_ name: String) -> Bool { checks[name]?["ok"] as? Bool == true }
        func found(_ name: String) -> String { checks[name]?["found"] as? String ?? "" }
        func mend(_ name: String) -> String? { checks[name]?["mend"] as? String }

        init(_ output: Collected, _ problem: Problem?) {
            self.problem = problem
            let list = output.data.first?.object["checks"] as? [[String: any Sendable]] ?? []
            #expect(list.compactMap { $0["name"] as? String } == DoctorTests.names)
            for check in list { checks[check["name"] as? String ?? ""] = check }
        }
    }

    static func examine(
        _ settings: [String: String] = [:], state: URL? = nil, adapter: AdapterState = .emulated
    ) async throws -> Findings {
        let directory = try state ?? GatewayBench.scratch().appendingPathComponent("state")
        let radio = EmulatedRadio(adapter: adapter)
        let output = Collected()
        var problem: Problem?
        do {
            try await Doctor.examine(
                Settings(environment: [:], flags: settings),
                state: StateDirectory(flag: directory.path, environment: [:]), json: true, radio: { _, _ in radio },
                output: output)
        } catch {
            problem = Problem(describing: error)
        }
        if state == nil {
            #expect(!FileManager.default.fileExists(atPath: directory.path), "doctor makes no store")
        }
        return Findings(output, problem)
    }

    @Test("a reader that is not there, or whose setting names none, is said with what to do")
    func reader() async throws {
        let gone = try await Self.examine(["nfc.reader": "pn532_uart:/nowhere:115200"])
        #expect(!gone.isGood("reader") && gone.mend("reader") != nil, "\(gone.found("reader"))")
        let unnamed = try await Self.examine(["nfc.reader": "\t"])
        #expect(!unnamed.isGood("reader") && unnamed.mend("reader")?.contains("pn532_uart") == true)
    }

    @Test("it works without Bluetooth, server and store, and names each")
    func nothing() async throws {
        let findings = try await Self.examine(adapter: .unusable(.noService))
        #expect(!findings.isGood("adapter") && findings.mend("adapter")?.contains("systemctl") == true)
        #expect(!findings.isGood("server") && findings.mend("server")?.contains("api_key_file") == true)
        #expect(findings.isGood("store") && findings.found("store").contains("none yet"))
        #expect(findings.found("reader") == "no NFC reader configured")
        #expect(findings.problem?.code == "checks_failed" && findings.problem?.status == .configuration)
    }

    @Test(
        "each state of the radio is told apart",
        arguments: [
            (RadioError.noBus("no socket"), "bus_policy", Problem.ExitStatus.unavailable),
            (.notPermitted("policy"), "bus_policy", .notPermitted), (.noAdapter("hci7"), "adapter", .unavailable),
            (.blocked("hci0", hard: false), "adapter", .unavailable), (.poweredOff("hci0"), "adapter", .unavailable),
        ])
    func radio(_ error: RadioError, _ check: String, _ status: Problem.ExitStatus) async throws {
        let server = try await Sandboxed()
        let findings = try await Self.examine(server.settings, adapter: .unusable(error))
        #expect(!findings.isGood(check) && findings.found(check) == error.description)
        #expect(findings.mend(check) == error.hint && findings.problem?.status == status)
        try await server.stop()
    }

    @Test("with all in order it is 0, asked by itself or through a gateway", arguments: [true, false])
    func good(_ isAsked: Bool) async throws {
        let server = try await Sandboxed()
        let directory = try GatewayBench.scratch().appendingPathComponent("state")
        let asked = try await Self.askGateway(server.settings, state: directory)
        let findings = isAsked ? asked : try await Self.examine(server.settings, state: directory)
        #expect(findings.problem == nil && Self.names.allSatisfy(findings.isGood))
        #expect(findings.found("server").contains("accepts the key") && findings.found("adapter").contains("hci0"))
        try await server.stop()
    }

    /// What a gateway that owns the store finds; it is gone when this returns.
    private static func askGateway(_ settings: [String: String], state: URL) async throws -> Findings {
        let gateway = try await Gateway.open(
            Settings(environment: [:], flags: settings), state: StateDirectory(flag: state.path, environment: [:]),
            radio: { _, _ in EmulatedRadio() })
        let output = Collected()
        try await gateway.run(OperationRequest(.doctor, json: true), output: output)
        try await gateway.close()
        return Findings(output, nil)
    }

    @Test("the store's key is missed while the gateway still runs, and can be put back")
    func keyAway() async throws {
        let bench = try await GatewayBench()
        let key = bench.gateway.store.directory + "/store.key"
        try FileManager.default.moveItem(atPath: key, toPath: key + ".away")
        let output = Collected()
        _ = try await bench.problem(.doctor, output: output)
        let checks = output.data.first?.object["checks"] as? [[String: any Sendable]] ?? []
        let store = checks.first { $0["name"] as? String == "store" }
        #expect(store?["ok"] as? Bool == false)
        #expect((store?["found"] as? String)?.contains("its key is not in \(key)") == true)
        try await bench.stop()
    }

    @Test("a key that is refused is 77, a server that is not there 69")
    func server() async throws {
        let server = try await Sandboxed()
        var settings = server.settings
        settings["server.api_key_file"] = try Self.file("sk_us_wrong")
        let refused = try await Self.examine(settings)
        #expect(!refused.isGood("server") && refused.problem?.status == .notPermitted)
        #expect(!refused.found("server").contains("sk_us"))
        try await server.stop()
        let gone = try await Self.examine(server.settings)
        #expect(!gone.isGood("server") && gone.problem?.status == .unavailable)
    }

    @Test("each destination is looked at, also where none is a server", arguments: [true, false])
    func destinations(_ isAsked: Bool) async throws {
        let folder = try GatewayBench.scratch()
        let state = StateDirectory(flag: folder.appendingPathComponent("state").path, environment: [:])
        let file = folder.appendingPathComponent("config.yaml")
        try """
        destinations:
          - {name: lines, kind: file, path: \(folder.path)/lines.jsonl}
          - {name: away, kind: file, path: \(folder.path)/no/such/lines.jsonl}
          - {name: study, kind: webhook, url: "https://hook.example/", secret_file: \(folder.path)/none}
        """.write(to: file, atomically: true, encoding: .utf8)
        let settings = try Settings(file: file.path, environment: [:])
        let output = Collected()
        let problem = await #expect(throws: Problem.self) {
            let gateway = try await Gateway.open(settings, state: state, radio: { _, _ in EmulatedRadio() })
            if isAsked { try await gateway.run(OperationRequest(.doctor, json: true), output: output) }
            try await gateway.close()
            try await Doctor.examine(
                settings, state: state, json: true, radio: { _, _ in EmulatedRadio() }, output: output)
        }
        let checks = output.data.first?.object["checks"] as? [[String: any Sendable]] ?? []
        let found = checks.filter { $0["name"] as? String == "destination" }
        #expect(found.map { $0["ok"] as? Bool } == [true, false, false])
        let words = found.compactMap { $0["found"] as? String }
        #expect(words.first?.hasPrefix("lines (file): ") == true)
        #expect(words.dropFirst().first?.contains("no/such") == true && words.last?.contains("none") == true)
        #expect(problem?.message.hasSuffix("found a problem: destination") == true, "\(problem?.message ?? "")")
        #expect(!FileManager.default.fileExists(atPath: folder.appendingPathComponent("lines.jsonl").path))
    }

    @Test("a server that answers 404 whatever it is asked has not accepted the key")
    func elsewhere() async throws {
        try await ScriptedServer.with({ _ in .json(404, #"{"detail":"Not Found"}"#) }) { server in
            let findings = try await Self.examine([
                "server.base_url": server.baseURL, "server.api_key_file": Self.file("sk_us"),
            ])
            #expect(!findings.isGood("server"), "\(findings.found("server"))")
            #expect(findings.mend("server")?.contains("base_url") == true)
        }
    }

    @Test("a key that others can read, and a store, is 77 with the command that mends it")
    func permissions() async throws {
        let server = try await Sandboxed()
        var settings = server.settings
        settings["server.api_key_file"] = try Self.file(SandboxConfiguration.fixedKey, mode: 0o644)
        let findings = try await Self.examine(settings)
        #expect(!findings.isGood("permissions") && findings.mend("permissions")?.hasPrefix("chmod 600 ") == true)
        #expect(findings.problem?.status == .notPermitted)
        try await server.stop()
    }

    /// The check of permissions with a settings file, and the file's path.
    private static func checked(_ text: String, mode: Int = 0o600) throws -> (check: DoctorCheck, file: String) {
        let folder = try GatewayBench.scratch()
        let file = folder.appendingPathComponent("config.yaml").path
        _ = FileManager.default.createFile(
            atPath: file, contents: Data(text.utf8), attributes: [.posixPermissions: mode])
        let doctor = Doctor(
            settings: try Settings(file: file, environment: [:]),
            stateDirectory: folder.appendingPathComponent("state").path, store: .success(nil), servers: [], others: [],
            radio: nil, clock: GatewayClock(requiresSynchronization: false, memory: .init(newestContact: { nil })),
            logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() })
        return (doctor.permissionsCheck(), file)
    }

    private static let fhir = #"destinations: [{name: a, kind: fhir, url: "https://a.example""#

    @Test(
        "whatever secret the settings name, others may not read it",
        arguments: [
            "\(fhir), token_file: SECRET}]", "\(fhir), client_id: a, private_key_file: SECRET}]",
            #"destinations: [{name: a, kind: webhook, url: "https://a.example", secret_file: SECRET}]"#,
            #"destinations: [{name: a, kind: nightscout, url: "https://a.example", secret_file: SECRET}]"#,
            #"destinations: [{name: a, kind: influxdb, url: "https://a.example", password_file: SECRET}]"#,
            #"destinations: [{name: a, kind: mqtt, url: "mqtts://a.example", private_key_file: SECRET}]"#,
            "destinations: [{name: a, kind: fleet, hosts: [a.example], password_file: SECRET}]",
            "cloud: {app_key_file: SECRET}", "cloud: {whoop_client_secret_file: SECRET}", "store: {key_file: SECRET}",
            "backup: {to: /nowhere, passphrase_file: SECRET}",
        ])
    func secrets(settings: String) throws {
        for mode in [0o644, 0o604, 0o620] {
            let open = try Self.file("secret", mode: mode)
            let check = try Self.checked(settings.replacing("SECRET", with: open)).check
            #expect(check.status == .notPermitted && check.found.hasSuffix(open), "\(check.found)")
            #expect(check.mend == "chmod 600 \(open)")
        }
        let closed = try Self.checked(settings.replacing("SECRET", with: Self.file("secret"))).check
        #expect(closed.ok && closed.mend == nil, "\(closed.found)")
    }

    @Test(
        "certificates are no secrets",
        arguments: [
            "\(fhir), ca_file: PUBLIC}]", "cloud: {ca_file: PUBLIC}",
            "destinations: [{name: a, kind: fleet, hosts: [a], certificate_file: PUBLIC, seal_to_file: PUBLIC}]",
        ])
    func certificates(settings: String) throws {
        let check = try Self.checked(settings.replacing("PUBLIC", with: Self.file("public", mode: 0o644))).check
        #expect(check.ok && check.mend == nil, "\(check.found)")
    }

    @Test("root may let the gateway's group read a secret, and nobody else")
    func group() throws {
        let state = try GatewayBench.scratch().path
        let account = GatewayAccount(stateDirectory: state)
        func access(_ mode: mode_t, owner: uid_t, group: gid_t) -> GatewayAccount.Access {
            account.access(toMode: 0o100000 | mode, owner: owner, group: group)
        }
        #expect(access(0o600, owner: 0, group: account.group) == .closed)
        // A gateway that runs as root has no group of its own.
        let shared: GatewayAccount.Access = account.user == 0 ? .open : .group
        #expect(access(0o640, owner: 0, group: account.group) == shared)
        #expect(access(0o640, owner: 0, group: account.group + 1) == .open)
        #expect(access(0o640, owner: account.user + 1, group: account.group) == .open)
        #expect(access(0o660, owner: 0, group: account.group) == .open)
        #expect(access(0o644, owner: 0, group: account.group) == .open)
        #expect(account.closing("/k", of: account.user) == "chmod 600 /k")
        #expect(account.closing("/k", of: account.user + 1) == "chown \(account.userName) /k && chmod 600 /k")
        #expect(
            account.closingSettings("/c", of: account.user + 1) == "chgrp \(account.groupName) /c && chmod 640 /c")
    }

    @Test("settings with patients' numbers or a secret URL that every user can read are said, and fail nothing")
    func openSettings() throws {
        let secret = try Self.file("whsec_c2VjcmV0")
        let webhook = "{name: b, kind: webhook, url: \"https://b.example/?key=1\", secret_file: \(secret)}"
        let patients = "\(Self.fhir), patients: {white_bear: \"https://a.example/mrn|4711\"}}"
        let (check, file) = try Self.checked("\(patients), \(webhook)]", mode: 0o644)
        #expect(check.ok && check.mend == "chmod 600 \(file)")
        #expect(
            check.found.hasSuffix("can read \(file), which has destinations.a.patients and 1 more like it"),
            "\(check.found)")
        #expect(!check.found.contains("4711") && !check.found.contains("key=1"))
        let alone = try Self.checked("destinations: [\(webhook)]", mode: 0o644).check
        #expect(alone.ok && alone.found.hasSuffix("which has destinations.b.url"))
        #expect(try Self.checked("\(patients), \(webhook)]", mode: 0o640).check.mend == nil)
        #expect(try Self.checked("\(Self.fhir)}]", mode: 0o644).check.mend == nil)
    }

    @Test("a store that another process owns is 75 and names it, and everything else is still looked at")
    func locked() async throws {
        let server = try await Sandboxed()
        let bench = try await GatewayBench()
        let findings = try await Self.examine(
            server.settings, state: bench.directory.appendingPathComponent("state"))
        #expect(!findings.isGood("store") && findings.found("store").contains(String(getpid())))
        #expect(findings.problem?.status == .tryAgain && findings.isGood("server"))
        try await server.stop()
    }

    @Test("a clock that is earlier than the newest contact is wrong")
    func clock() async throws {
        let bench = try await GatewayBench(machine: .unsynchronized)
        _ = try await bench.gateway.store.beginContact(
            with: DeviceDescription(address: DeviceAddress("C0:00:00:00:18:08")),
            at: Instant(seconds: Instant.systemClock.seconds + 86_400), clock: nil, batteryPercent: nil)
        let output = Collected()
        let problem = try await bench.problem(.doctor, output: output)
        let findings = Findings(output, problem)
        #expect(!findings.isGood("clock") && findings.found("clock").contains("newest contact"))
        #expect(problem.code == "checks_failed")
    }

    @Test("`store trust-clock` sets the later contact aside, keeps it, and `doctor` names it")
    func trustClock() async throws {
        let bench = try await GatewayBench(machine: .unsynchronized)
        let store = bench.gateway.store
        let later = Instant(seconds: Instant.systemClock.seconds + 10 * 365 * 86_400)
        _ = try await store.beginContact(
            with: DeviceDescription(address: DeviceAddress("C0:00:00:00:18:08")), at: later, clock: nil,
            batteryPercent: nil)
        let doubted = Collected()
        let problem = try await bench.problem(.doctor, output: doubted)
        #expect(Findings(doubted, problem).mend("clock")?.contains("healthrelay store trust-clock") == true)
        #expect(try await bench.problem(.store(.prune(olderThan: 1))).code == "clock_not_trusted")
        let lines = try await bench.lines(.store(.trustClock))
        #expect(lines.first?.object["contacts_set_aside"] as? Int == 1)
        #expect(try await store.newestContact() == nil)
        let aside = try #require(try await store.contactsSetAside())
        #expect(aside.count == 1 && aside.newest == later)
        let output = Collected()
        try? await bench.gateway.run(OperationRequest(.doctor, json: true), output: output)
        let findings = Findings(output, nil)
        #expect(findings.isGood("clock") && findings.found("clock").contains("1 contacts began under a wrong clock"))
        _ = try await store.beginContact(
            with: DeviceDescription(address: DeviceAddress("C0:00:00:00:18:08")), at: later, clock: nil,
            batteryPercent: nil)
        #expect(try await store.newestContact() == later, "a contact that begins afterwards counts")
        try await bench.run(.store(.prune(olderThan: 1_000_000_000)))
    }

    @Test("readings that wait for a source are found, with the command that connects it")
    func source() async throws {
        let meter = try await ReadTests.paired()
        let bench = try await GatewayBench(
            .inProcess, [meter], settings: ["sources.policy": "require", "sync.backfill_days": "36500"])
        try await bench.run(ReadTests.read)
        let output = Collected()
        let problem = try await bench.problem(.doctor, output: output)
        let findings = Findings(output, problem)
        #expect(!findings.isGood("source") && findings.found("source").contains("5 glucose for accuchek_ble"))
        #expect(findings.mend("source")?.contains("source connect accuchek_ble") == true)
    }

    @Test("for people: each check on a line, with what to do below it")
    func text() async throws {
        let bench = try await GatewayBench()
        let output = Collected()
        _ = try? await bench.run(.doctor, json: false, output: output)
        #expect(output.data.contains { $0.hasPrefix("ok    adapter") })
        #expect(output.data.contains { $0.hasPrefix("FAIL  server") })
        #expect(output.data.contains { $0.hasPrefix("      → put the key into a file") })
    }

    static func file(_ text: String, mode: Int = 0o600) throws -> String {
        let path = try GatewayBench.scratch().appendingPathComponent("key").path
        _ = FileManager.default.createFile(
            atPath: path, contents: Data(text.utf8), attributes: [.posixPermissions: mode])
        return path
    }
}
