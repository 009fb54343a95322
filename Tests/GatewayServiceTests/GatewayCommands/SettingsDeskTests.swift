import Foundation
import HealthReadings
import LogLines
import Logging
import ReadingStore
import Testing

@testable import GatewayCommands
@testable import GatewaySettings

/// `settings`: changes of a running gateway's own settings.
@Suite("Changing settings", .timeLimit(.minutes(3))) struct SettingsDeskTests {
    private static func path(_ bench: GatewayBench) -> String { bench.gateway.store.directory + "/settings.yaml" }

    private static func mode(_ path: String) -> Int? {
        try? FileManager.default.attributesOfItem(atPath: path)[.posixPermissions] as? Int
    }

    private func change(_ bench: GatewayBench, _ change: SettingsChange) async throws -> [String: any Sendable] {
        try #require(try await bench.lines(.settings(.change(change))).last).object
    }

    @Test(
        "a change counts at once where it can, says what needs a restart, and survives one",
        arguments: GatewayBench.Way.allCases)
    func course(_ way: GatewayBench.Way) async throws {
        let bench = try await GatewayBench(way, isService: true)
        let first = try await change(
            bench, .init(set: ["sync.backfill_days": .text("7"), "consent.default": .text("denied")]))
        #expect(first["after_restart"] as? [String] == [])
        #expect(bench.gateway.settings["sync.backfill_days"] == "7")
        #expect(try await bench.gateway.store.consentedKinds(of: nil).isEmpty)
        let second = try await change(bench, .init(set: ["sync.mode": .text("manual")]))
        #expect(second["after_restart"] as? [String] == ["sync.mode"])
        #expect(second["digest"] as? String == bench.gateway.settings.managedDigest)
        #expect(Self.mode(Self.path(bench)) == 0o600)
        let shown = try #require(try await bench.lines(.settings(.show)).first).object
        #expect(shown["after_restart"] as? [String] == ["sync.mode"] && shown["edited"] as? Bool == false)
        #expect(shown["file"] as? String == Self.path(bench))
        let output = Collected()
        _ = try await bench.lines(.settings(.show), json: false, output: output)
        #expect(output.data.contains { $0.hasPrefix("sync.mode: manual   (\(Self.path(bench)):") }, "\(output.data)")
        #expect(output.data.contains("user.time_zone: Europe/Berlin   (flag)   fixed"))
        let again = try Settings(
            environment: [:], flags: [:], managed: ManagedSettings(stateDirectory: bench.gateway.store.directory))
        #expect(again["sync.mode"] == "manual" && again["sync.backfill_days"] == "7")
        try await bench.stop()
    }

    @Test(
        "a file that was edited meanwhile is left as it is; a reload takes it in force, and the change can be made then"
    )
    func edited() async throws {
        let bench = try await GatewayBench(isService: true)
        _ = try await change(bench, .init(set: ["sync.backfill_days": .text("7")]))
        let edited = "sync: {backfill_days: 8}   # mine\n"
        try edited.write(toFile: Self.path(bench), atomically: false, encoding: .utf8)
        let problem = try await bench.problem(.settings(.change(.init(set: ["sync.mode": .text("manual")]))))
        #expect(problem.code == "settings_changed" && problem.message.contains(Self.path(bench)))
        #expect(try String(contentsOfFile: Self.path(bench), encoding: .utf8) == edited)
        #expect(
            bench.gateway.settings["sync.backfill_days"] == "7" && bench.gateway.settings["sync.mode"] == "automatic")
        let output = Collected()
        _ = try await bench.lines(.settings(.show), json: false, output: output)
        #expect(output.notes.contains { $0.contains("was edited") })
        _ = try await bench.lines(.settings(.reload))
        _ = try await change(bench, .init(set: ["sync.mode": .text("manual")]))
        #expect(bench.gateway.settings["sync.backfill_days"] == "8" && bench.gateway.settings["sync.mode"] == "manual")
        // One that cannot be used changes nothing, and meters are read on.
        try "sync: {mode: never}\n".write(toFile: Self.path(bench), atomically: false, encoding: .utf8)
        let bad = try await bench.problem(.settings(.reload))
        #expect(bad.code == "config_invalid" && bad.message.contains("settings.yaml:1:"))
        #expect(bench.gateway.settings["sync.mode"] == "manual")
        // A file that was removed is an edit too.
        try FileManager.default.removeItem(atPath: Self.path(bench))
        #expect(try await bench.problem(.settings(.change(.init(unset: ["sync.mode"])))).code == "settings_changed")
    }

    @Test("of two changes made for the same settings one counts, and many at once lose nothing")
    func races() async throws {
        let bench = try await GatewayBench(isService: true)
        let digest = bench.gateway.settings.managedDigest
        let wins = try await withThrowingTaskGroup(of: Bool.self) { group in
            for number in 1...8 {
                group.addTask {
                    do {
                        let change = SettingsChange(set: ["sync.backfill_days": .text("\(number)")], digest: digest)
                        _ = try await bench.lines(.settings(.change(change)))
                        return true
                    } catch let problem as Problem {
                        #expect(problem.code == "settings_changed")
                        return false
                    }
                }
            }
            return try await group.reduce(into: 0) { $0 += $1 ? 1 : 0 }
        }
        #expect(wins == 1)
        try await withThrowingTaskGroup(of: Void.self) { group in
            for number in 0..<20 {
                group.addTask {
                    let change = SettingsChange(set: ["users.person\(number).reports.paper": .text("a4")])
                    _ = try await bench.lines(.settings(.change(change)))
                }
            }
            try await group.waitForAll()
        }
        #expect(bench.gateway.settings.people.count == 20)
        #expect(try bench.gateway.settings.readAgain().people.count == 20)
    }

    @Test("promise 12: a secret becomes a file of mode 0600 and is shown and logged nowhere; the former one goes")
    func secrets() async throws {
        let bench = try await GatewayBench(isService: true)
        let directory = bench.gateway.store.directory
        func files() throws -> [String] {
            try FileManager.default.contentsOfDirectory(atPath: directory + "/secrets").sorted()
        }
        _ = try await change(
            bench,
            .init(
                set: [
                    "destinations.clinic.kind": .text("vital"),
                    "destinations.clinic.base_url": .text("http://127.0.0.1:1"),
                ],
                secrets: ["destinations.clinic.api_key": "hush-1"]))
        let first = try files()
        #expect(first.count == 1 && Self.mode(directory + "/secrets") == 0o700)
        #expect(Self.mode(directory + "/secrets/" + first[0]) == 0o600)
        #expect(try String(contentsOfFile: directory + "/secrets/" + first[0], encoding: .utf8) == "hush-1\n")
        _ = try await change(bench, .init(secrets: ["destinations.clinic.api_key": "hush-2"]))
        #expect(try files().count == 1 && files() != first)
        let bad = try await bench.problem(
            .settings(
                .change(.init(set: ["sync.mode": .text("never")], secrets: ["destinations.clinic.api_key": "hush-3"]))))
        #expect(bad.code == "setting_invalid" && !bad.message.contains("hush"))
        #expect(try files().count == 1)
        let output = Collected()
        for json in [true, false] { _ = try await bench.lines(.settings(.show), json: json, output: output) }
        let own = try String(contentsOfFile: Self.path(bench), encoding: .utf8)
        for text in output.data + output.notes + [own, bench.log.text] { #expect(!text.contains("hush")) }
        #expect(output.data.contains { $0.hasPrefix("destinations.clinic.api_key_file: a secret that was typed") })
        _ = try await change(bench, .init(unset: ["destinations.clinic"]))
        #expect(try files().isEmpty)
    }

    @Test("a change that cannot be written leaves the secret that the file on the disk names")
    func unwritten() async throws {
        let bench = try await GatewayBench(isService: true)
        let directory = bench.gateway.store.directory
        func change(_ address: String, _ secret: String) -> SettingsChange {
            .init(
                set: ["destinations.clinic.kind": .text("vital"), "destinations.clinic.base_url": .text(address)],
                secrets: ["destinations.clinic.api_key": secret])
        }
        _ = try await self.change(bench, change("http://127.0.0.1:1", "first"))
        let names = try FileManager.default.contentsOfDirectory(atPath: directory + "/secrets")
        // The new text is written beside the file first.
        try FileManager.default.createDirectory(
            atPath: Self.path(bench) + ".part", withIntermediateDirectories: false)
        let problem = try await bench.problem(.settings(.change(change("http://127.0.0.1:2", "second"))))
        #expect(problem.code == "settings_not_writable")
        #expect(try FileManager.default.contentsOfDirectory(atPath: directory + "/secrets") == names)
        let again = try bench.gateway.settings.readAgain()
        let file = try #require(again.destinations.first { $0.name == "clinic" }?["api_key_file"])
        #expect(try String(contentsOfFile: file, encoding: .utf8) == "first\n")
    }

    @Test("what the store cannot heed, and a link in the file's place, change nothing")
    func unheeded() async throws {
        let bench = try await GatewayBench(isService: true)
        let problem = try await bench.problem(.settings(.change(.init(set: ["sync.ignore": .text("no such model")]))))
        #expect(problem.code == "setting_invalid" && problem.status == .usage)
        #expect(problem.message.hasPrefix("sync.ignore: expected"), "\(problem.message)")
        #expect(bench.gateway.settings.list("sync.ignore").isEmpty)
        #expect(!FileManager.default.fileExists(atPath: Self.path(bench)))
        let elsewhere = bench.directory.appendingPathComponent("elsewhere").path
        try "".write(toFile: elsewhere, atomically: false, encoding: .utf8)
        try FileManager.default.createSymbolicLink(atPath: Self.path(bench), withDestinationPath: elsewhere)
        let linked = try await bench.problem(.settings(.change(.init(set: ["sync.backfill_days": .text("3")]))))
        #expect(linked.code == "settings_not_writable" && bench.gateway.settings["sync.backfill_days"] == "90")
        #expect(try String(contentsOfFile: elsewhere, encoding: .utf8).isEmpty)
    }

    @Test("settings that are refused leave nothing of themselves in the store: no reading goes out without consent")
    func refusedWhole() async throws {
        let bench = try await GatewayBench(isService: true)
        _ = try await change(bench, .init(set: ["consent.default": .text("denied")]))
        let digest = bench.gateway.settings.managedDigest
        // The destination that is there, and one that would count only after a restart.
        for name in ["vital", "clinic"] {
            let problem = try await bench.problem(
                .settings(
                    .change(
                        .init(set: [
                            "consent.default": .text("granted"), "destinations.\(name).kind": .text("vital"),
                            "destinations.\(name).devices": .list(["no_such_model"]),
                        ]))))
            #expect(problem.code == "setting_invalid" && problem.status == .usage)
            #expect(problem.message.hasPrefix("destinations.\(name).devices: expected"), "\(problem.message)")
            #expect(try await bench.gateway.store.consentedKinds(of: nil).isEmpty)
            #expect(bench.gateway.settings.managedDigest == digest)
        }
        let text =
            "consent: {default: granted}\ndestinations:\n  - {name: vital, kind: vital, devices: [no_such_model]}\n"
        try text.write(toFile: Self.path(bench), atomically: false, encoding: .utf8)
        let problem = try await bench.problem(.settings(.reload))
        #expect(problem.code == "config_invalid" && problem.status == .configuration)
        #expect(problem.message.contains("settings.yaml:3: destinations.vital.devices: "), "\(problem.message)")
        #expect(try await bench.gateway.store.consentedKinds(of: nil).isEmpty)
        #expect(bench.gateway.settings["consent.default"] == "denied")
        try await bench.stop()
    }

    @Test("a process that waited for the store takes the settings as they are then, and leaves their secrets")
    func waited() async throws {
        let directory = try GatewayBench.scratch()
        defer { try? FileManager.default.removeItem(at: directory) }
        let state = StateDirectory(flag: directory.appendingPathComponent("state").path, environment: [:])
        let stale = try Settings(
            environment: [:], flags: GatewayBench.zone, managed: ManagedSettings(stateDirectory: state.path))
        let logger = LogLines().logger()
        let first = try await Gateway.open(stale, state: state, logger: logger)
        let second = Task { try await Gateway.open(stale, state: state, patience: .seconds(60), logger: logger) }
        _ = try await SettingsDesk(first).change(
            .init(
                set: [
                    "consent.default": .text("denied"), "destinations.clinic.kind": .text("vital"),
                    "destinations.clinic.base_url": .text("http://127.0.0.1:1"),
                ], secrets: ["destinations.clinic.api_key": "hush"]))
        try await Task.sleep(for: .milliseconds(200))
        try await first.close()
        let gateway = try await second.value
        #expect(gateway.settings["consent.default"] == "denied")
        #expect(try await gateway.store.consentedKinds(of: nil).isEmpty)
        let file = try #require(gateway.settings.destination("clinic")?["api_key_file"])
        #expect(try String(contentsOfFile: file, encoding: .utf8) == "hush\n")
        try await gateway.close()
    }

    @Test("a secret that the settings in use don't know stays while the file is another than they were read from")
    func unknownSecret() async throws {
        let bench = try await GatewayBench(isService: true)
        _ = try await change(
            bench,
            .init(
                set: [
                    "destinations.clinic.kind": .text("vital"),
                    "destinations.clinic.base_url": .text("http://127.0.0.1:1"),
                ], secrets: ["destinations.clinic.api_key": "hush"]))
        let secrets = bench.gateway.store.directory + "/secrets"
        let known = try FileManager.default.contentsOfDirectory(atPath: secrets)
        let typed = secrets + "/destinations.sugar.secret-0a1b2c3d"
        try "hush".write(toFile: typed, atomically: false, encoding: .utf8)
        let text = try String(contentsOfFile: Self.path(bench), encoding: .utf8)
        try (text + "# edited\n").write(toFile: Self.path(bench), atomically: false, encoding: .utf8)
        bench.gateway.removeStraySecrets()
        #expect(try FileManager.default.contentsOfDirectory(atPath: secrets).count == known.count + 1)
        // Once they are the settings in use, it is a stray.
        _ = try await bench.lines(.settings(.reload))
        #expect(try FileManager.default.contentsOfDirectory(atPath: secrets) == known)
        try await bench.stop()
    }

    @Test("an entry that names no device and no model is told, and keeps no gateway from its meters")
    func withoutEffect() async throws {
        let bench = try await GatewayBench(
            settings: ["clock.set": "C0:00:00:00:18:08, no_such_cuff", "sources.map": "no_such_meter=manual"],
            isService: true)
        for name in ["no_such_cuff", "no_such_meter"] {
            #expect(bench.log.lines(from: .warning).contains { $0.contains("'\(name)', which does nothing") })
        }
        #expect(!bench.log.text.contains("C0:00"))
        let output = Collected()
        _ = try await bench.lines(.settings(.reload), output: output)
        #expect(output.notes.filter { $0.contains("which does nothing") }.count == 2)
        let checks = await Doctor(bench.gateway).examine()
        let check = try #require(checks.last)
        #expect(
            check.name == "settings" && check.ok && check.mend != nil && check.found.contains("'no_such_cuff'"),
            "\(check)")
        try await bench.stop()
    }
}
