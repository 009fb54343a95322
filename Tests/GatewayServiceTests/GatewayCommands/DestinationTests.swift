import EmulatedRadio
import Foundation
import HealthReadings
import ReadingDelivery
import ReadingStore
import Testing
import VitalSandbox

@testable import GatewayCommands
@testable import GatewaySettings
@testable import ReadingStore

@Suite("Destinations", .timeLimit(.minutes(5))) struct DestinationTests {
    /// A gateway with the five readings of each of two meters, which delivers to a sandbox.
    private func bench(
        _ server: Sandboxed, _ settings: [String: String] = [:], in directory: URL? = nil
    ) async throws -> GatewayBench {
        let all = server.settings.merging(settings.merging(["sync.backfill_days": "36500"]) { $1 }) { $1 }
        let bench = try await GatewayBench(settings: all, in: directory)
        _ = try await CaptureReplay([APIBench.fixture("two-meters")]).run(with: bench.gateway.reader())
        return bench
    }

    private func document(_ lines: [String]) throws -> [String: any Sendable] { try #require(lines.first).object }

    /// The one destination of `sync status`.
    private func status(_ bench: GatewayBench) async throws -> [String: any Sendable] {
        let destinations = try document(await bench.lines(.sync(.status)))["destinations"]
        return try #require((destinations as? [[String: any Sendable]])?.first)
    }

    private func held(_ bench: GatewayBench) async throws -> Set<String> {
        let waiting = try await status(bench)["waiting"] as? [[String: any Sendable]] ?? []
        return Set(waiting.map { "\($0["kind"] as? String ?? "") \($0["held"] as? String ?? "none")" })
    }

    /// The states of what is not excluded, of a kind.
    private func states(_ bench: GatewayBench, _ kind: ReadingKind? = nil) async throws -> Set<DeliveryState> {
        let readings = try await bench.gateway.store.query(ReadingQuery(kinds: kind.map { [$0] })).readings
        return Set(readings.filter { $0.excluded == nil }.flatMap { $0.deliveries.map(\.state) })
    }

    @Test("a new store has only destinations that the settings name, also if `run` is told of some of them")
    func named() async throws {
        let files = try WebSettingsFolder()
        defer { files.remove() }
        let folder = files.folder.path
        let settings = try Settings(
            file: files.file(
                "config.yaml",
                """
                destinations:
                  - {name: archive, kind: file, path: \(folder)/archive}
                  - {name: other, kind: file, path: \(folder)/other}
                """), environment: ["HOME": folder])
        let gateway = try await Gateway.open(
            settings, state: StateDirectory(flag: folder + "/state", environment: [:]), named: ["archive"],
            isService: true)
        let names = try await gateway.store.destinations().filter { $0.state != .removed }.map(\.name)
        #expect(names == ["archive"])
        try gateway.store.close()
    }

    @Test("a destination that is renamed while the store's key is missing gets nothing that was denied to it")
    func renamedWhileLocked() async throws {
        let files = try WebSettingsFolder()
        defer { files.remove() }
        let folder = files.folder.path
        func open(_ name: String) async throws -> Gateway {
            let file = try files.file(
                "config.yaml",
                """
                user: {client_user_id: white_bear, time_zone: Europe/Berlin}
                sync: {backfill_days: 36500}
                destinations:
                  - {name: \(name), kind: file, path: \(folder)/readings}
                """)
            return try await Gateway.open(
                Settings(file: file, environment: ["HOME": folder]),
                state: StateDirectory(flag: folder + "/state", environment: [:]),
                radio: { _, _ in EmulatedRadio() }, isService: true)
        }
        let first = try await open("old")
        _ = try await CaptureReplay([APIBench.fixture("two-meters")]).run(with: first.reader())
        let user = try await first.store.currentUser().key
        let old = try await first.store.key(ofDestination: "old")
        try await first.store.setConsent(.glucose, granted: false, of: user, at: old)
        try await first.close()
        let key = folder + "/state/store.key"
        try FileManager.default.moveItem(atPath: key, toPath: key + ".away")
        let second = try await open("new")
        #expect(second.store.lockedBecause != nil)
        try FileManager.default.moveItem(atPath: key + ".away", toPath: key)
        // Delivery finds the key before the store is told of the destinations.
        _ = await second.destinations.worker?.syncOnce()
        let readings = try await second.store.query(ReadingQuery()).readings.filter { $0.excluded == nil }
        func states(_ kind: ReadingKind) -> Set<DeliveryState> {
            Set(readings.filter { $0.kind == kind }.flatMap { $0.deliveries.map(\.state) })
        }
        #expect(states(.glucose) == [.held(.noConsent)])
        #expect(states(.bloodPressure) == [.delivered])
        try await second.close()
    }

    @Test("sync status goes by destination, and so do its counts")
    func syncStatus() async throws {
        let server = try await Sandboxed()
        let bench = try await bench(server)
        let whole = try document(await bench.lines(.sync(.status)))
        #expect(Set(whole.keys) == ["enabled", "destinations"] && whole["enabled"] as? Bool == true)
        let before = try await status(bench)
        #expect(before["name"] as? String == "vital" && before["kind"] as? String == "vital")
        #expect(before["delivered"] as? Int == 0 && before["enabled"] as? Bool == true)
        let left = before["left_behind"] as? [String: any Sendable]
        #expect(before["retracting"] as? Int == 0 && left?["count"] as? Int == 0)
        try await bench.run(.sync(.now(from: nil, to: nil, types: ["glucose"], destination: "vital")))
        #expect(try await states(bench, .glucose) == [.delivered])
        #expect(try await states(bench, .bloodPressure) == [.held(.noSource)])
        try await bench.run(.sync(.now(from: nil, to: nil)))
        #expect(try await states(bench) == [.delivered])
        let after = try await status(bench)
        #expect((after["waiting"] as? [any Sendable])?.isEmpty == true && after["last_success"] is String)
        let lines = try await bench.lines(.sync(.status), json: false)
        #expect(lines.first?.hasPrefix("vital (vital): http://127.0.0.1") == true, "\(lines)")
        try await bench.stop()
        try await server.stop()
    }

    @Test("a status says what is to be taken back and what cannot be, and calls only a server's words a server's")
    func leftBehind() throws {
        let (excluded, id) = (Exclusion.implausible, ReadingID(high: 7, low: 9))
        let reading = Reading(
            id: id, record: Record(value: .glucose(GlucoseValue(concentration: nil))),
            device: DeviceDescription(address: nil, provider: "manual"),
            time: ResolvedTime(instant: nil, basis: .unknown), excluded: excluded, receivedAt: Instant(seconds: 5))
        var status = DestinationStatus(
            name: "home", kind: "file", address: "/srv/readings", isEnabled: true, isManual: false, refusal: nil,
            isMoved: false, waiting: [], handedOver: 4, delivered: 8,
            refused: [RefusedReading(id: ReadingID(high: 1, low: 2), serverSaid: "too odd")], refusedCount: 1,
            retracting: 3, leftBehindCount: 2, leftBehind: [reading], notDelivered: [])
        #expect(
            status.lines == [
                "home (file): /srv/readings", "  nothing waits", "  4 handed over, without a receipt yet",
                "  refused: \(ReadingID(high: 1, low: 2)): too odd", "  3 to be taken back with the next delivery",
                "  2 that were excluded, replaced or erased here, and cannot be taken back",
                "  still there: \(id): implausible", "  delivered: 8",
            ])
        #expect(
            status.document.text.contains(
                #""retracting":3,"left_behind":{"count":2,"readings":[{"id":"\#(id)","excluded":"implausible"}]},"#))
        status.kind = "vital"
        #expect(status.lines.contains("  refused: \(ReadingID(high: 1, low: 2)): the server said: too odd"))
        #expect(status.document.text.contains(#""handed_over":4,"delivered":8,"#))
        (status.handedOver, status.retracting, status.leftBehindCount, status.leftBehind) = (0, 0, 0, [])
        #expect(status.lines.count == 4)
    }

    @Test("a destination that there is not is 66, whatever is asked of it")
    func unknown() async throws {
        let bench = try await GatewayBench()
        for operation: GatewayCommands.Operation in [
            .destination(.test("clinic")), .destination(.enable("clinic")), .destination(.disable("clinic")),
            .destination(.redeliver("clinic", from: nil, to: nil, types: [])),
            .sync(.now(from: nil, to: nil, destination: "clinic")), .sync(.watch(destination: "clinic")),
            .sync(.retry([], destination: "clinic")),
        ] {
            let problem = try await bench.problem(operation)
            #expect(problem.code == "no_such_destination" && problem.status == .noInput, "\(operation)")
            #expect(problem.hint?.contains("vital") == true)
        }
        try await bench.stop()
    }

    @Test(
        "a destination that the settings name since the gateway was started counts after a restart, and the error says so",
        arguments: GatewayBench.Way.allCases)
    func late(_ way: GatewayBench.Way) async throws {
        let bench = try await GatewayBench(way, isService: true)
        try await bench.run(
            .settings(
                .change(
                    .init(set: [
                        "destinations.sugar.kind": .text("nightscout"),
                        "destinations.sugar.url": .text("https://ns.example"),
                    ]))))
        let problem = try await bench.problem(.destination(.test("sugar")))
        #expect(problem.code == "no_such_destination" && problem.status == .noInput)
        #expect(problem.message.contains("started without it") && problem.hint?.contains("restart") == true)
        try await bench.stop()
    }

    @Test("a destination that is switched off keeps what waits, says so, and delivers it when it is on again")
    func disabled() async throws {
        let server = try await Sandboxed()
        let bench = try await bench(server)
        let listed = try document(await bench.lines(.destination(.disable("vital"))))
        #expect((listed["destinations"] as? [[String: any Sendable]])?.first?["enabled"] as? Bool == false)
        #expect(try await states(bench) == [.held(.destinationDisabled)])
        try await bench.run(.sync(.now(from: nil, to: nil)))
        #expect(try await states(bench) == [.held(.destinationDisabled)])
        #expect(try await held(bench) == ["glucose destination_disabled", "blood_pressure destination_disabled"])
        try await bench.run(.destination(.enable("vital")))
        try await bench.run(.sync(.now(from: nil, to: nil)))
        #expect(try await states(bench) == [.delivered])
        try await bench.stop()
        try await server.stop()
    }

    @Test("what goes only when somebody asks is held as manual, and goes when somebody asks")
    func manual() async throws {
        let server = try await Sandboxed()
        let bench = try await bench(server, ["destinations.vital.mode": "manual"])
        #expect(try await states(bench) == [.held(.manual)])
        #expect(try await held(bench) == ["glucose manual", "blood_pressure manual"])
        try await bench.run(.sync(.now(from: nil, to: nil)))
        #expect(try await states(bench) == [.delivered])
        try await bench.stop()
        try await server.stop()
    }

    @Test(
        "what a destination was not selected for never goes there",
        arguments: [
            ("kinds", "glucose", ReadingKind.bloodPressure), ("people", "white_bear", nil),
            ("people", "brown_bear", .glucose), ("devices", "contour_next", .bloodPressure),
        ] as [(String, String, ReadingKind?)])
    func selection(_ key: String, _ value: String, _ unselected: ReadingKind?) async throws {
        let server = try await Sandboxed()
        let bench = try await bench(server, ["destinations.vital." + key: value])
        try await bench.run(.sync(.now(from: nil, to: nil)))
        for kind in [ReadingKind.glucose, .bloodPressure] {
            let isSelected = value != "brown_bear" && kind != unselected
            let states = try await states(bench, kind)
            #expect(states == [isSelected ? .delivered : .held(.notSelected)], "\(kind): \(states)")
        }
        let waits = try await held(bench)
        #expect(waits.allSatisfy { $0.hasSuffix(" not_selected") } && waits.isEmpty == (unselected == nil), "\(waits)")
        try await bench.stop()
        try await server.stop()
    }

    @Test("a device nobody can mean is refused, before anything is delivered")
    func unknownDevice() async throws {
        let problem = await #expect(throws: Problem.self) {
            try await GatewayBench(settings: ["destinations.vital.devices": "accuchek_gide"])
        }
        #expect(problem?.code == "config_invalid" && problem?.message.contains("accuchek_gide") == true)
    }

    @Test("redeliver queues again what was delivered, by kind and by time, and it goes at the same timestamps")
    func redeliver() async throws {
        let server = try await Sandboxed()
        let bench = try await bench(server)
        try await bench.run(.sync(.now(from: nil, to: nil)))
        let delivered = try await bench.gateway.store.statistics().delivered
        let glucose = try await bench.lines(.destination(.redeliver("vital", from: nil, to: nil, types: ["glucose"])))
        let waiting = try #require(try document(glucose)["waiting_again"] as? Int)
        #expect(waiting > 0 && waiting < delivered)
        #expect(try await states(bench, .glucose) == [.waiting])
        #expect(try await states(bench, .bloodPressure) == [.delivered])
        let early = try await bench.lines(
            .destination(.redeliver("vital", from: nil, to: "2001-01-01", types: [])))
        #expect(try document(early)["waiting_again"] as? Int == 0)
        try await bench.run(.sync(.now(from: nil, to: nil)))
        #expect(try await states(bench) == [.delivered])
        #expect(try await bench.gateway.store.statistics().delivered == delivered)
        let wrong = try await bench.problem(.destination(.redeliver("vital", from: nil, to: nil, types: ["sugar"])))
        #expect(wrong.status == .usage)
        try await bench.stop()
        try await server.stop()
    }

    /// The findings of `destination test`, by name; `nil` for what cannot be proven.
    private func test(_ settings: [String: String]) async throws -> (findings: [String: Bool?], problem: Problem?) {
        let bench = try await GatewayBench(settings: settings)
        let output = Collected()
        var problem: Problem?
        do {
            try await bench.run(.destination(.test("vital")), output: output)
        } catch {
            problem = error as? Problem
        }
        try await bench.stop()
        let checks = try #require(document(output.data)["checks"] as? [[String: any Sendable]])
        return (
            Dictionary(checks.map { ($0["name"] as? String ?? "", $0["ok"] as? Bool) }) { first, _ in first }, problem
        )
    }

    @Test("a test proves address, credentials and permission, and names what it cannot prove")
    func test() async throws {
        let server = try await Sandboxed()
        let good = try await test(server.settings)
        #expect(
            good.problem == nil
                && good.findings == [
                    "settings": true, "address": true, "certificate": nil, "credentials": true, "permission": true,
                    "delivery": nil,
                ])
        var settings = server.settings
        settings["server.api_key_file"] = try DoctorTests.file("sk_us_wrong")
        let refused = try await test(settings)
        #expect(refused.problem?.code == "checks_failed" && refused.problem?.status == .notPermitted)
        #expect(refused.findings["address"] == true && refused.findings["credentials"] == false)
        #expect(refused.findings["permission"] == .some(nil))
        try await server.stop()
        let gone = try await test(server.settings)
        #expect(gone.problem?.status == .unavailable && gone.findings["address"] == false)
        #expect(gone.findings["credentials"] == .some(nil))
        let none = try await test([:])
        #expect(none.problem?.status == .configuration && none.findings["settings"] == false)
        settings["server.base_url"] = "http://10.0.0.9:1"
        #expect(try await test(settings).findings["settings"] == false)
    }

    @Test("a file of certificates that is not there is refused before anything is sent")
    func authorities() throws {
        let settings = try Settings(
            environment: [:],
            flags: [
                "server.api_key_file": DoctorTests.file("sk_us"), "destinations.vital.ca_file": "/nowhere/ca.pem",
            ])
        let problem = #expect(throws: Problem.self) { try VitalConnection(settings, state: "/nowhere") }
        #expect(problem?.status == .configuration && problem?.message.contains("/nowhere/ca.pem") == true)
    }

    @Test(
        "a file of certificates that is not there or holds none is a finding, also where the server speaks no TLS",
        arguments: ["missing", "", "no certificate", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"])
    func emptyAuthorities(_ text: String) async throws {
        let server = try await Sandboxed()
        var settings = server.settings
        let path = text == "missing" ? "/nowhere/ca.pem" : try DoctorTests.file(text)
        settings["destinations.vital.ca_file"] = path
        let tested = try await test(settings)
        #expect(tested.problem?.status == .configuration && tested.findings["settings"] == false)
        let problem = #expect(throws: Problem.self) {
            try VitalConnection(Settings(environment: [:], flags: settings), state: "/nowhere")
        }
        #expect(problem?.message.contains(path) == true && problem?.message.contains("ca_file") == true)
        #expect(problem?.message.contains("OPENSSL") == false, "\(problem?.message ?? "")")
        try await server.stop()
    }

    @Test("a name and password in an address are told with the destination's own key")
    func credentialsInAddress() throws {
        let folder = try GatewayBench.scratch()
        let file = folder.appendingPathComponent("config.yaml")
        let key = try DoctorTests.file("sk_us")
        try """
        destinations:
          - {name: clinic, kind: vital, api_key_file: \(key), base_url: "https://bear:secretword@example.org"}

        """.write(to: file, atomically: true, encoding: .utf8)
        let settings = try Settings(file: file.path, environment: [:])
        let clinic = try #require(settings.destination("clinic"))
        let problem = #expect(throws: Problem.self) { try VitalConnection(clinic, state: "/nowhere") }
        #expect(problem?.code == "config_invalid" && problem?.status == .configuration)
        let words = "\(problem?.message ?? "") \(problem?.hint ?? "")"
        #expect(words.contains("destinations.clinic.base_url"), "\(words)")
        #expect(words.contains("destinations.clinic.api_key_file"), "\(words)")
        #expect(!words.contains("server.") && !words.contains("secretword"), "\(words)")
    }

    @Test(
        "what fails in the store ends `sync` as it ends any other command",
        arguments: [
            StoreError.corrupt(detail: "a row"), .diskFull, .inputOutput(detail: "x"), .keyMissing(path: "/k"),
            .keyWrong(path: "/k"), .tookTooLong, .pruneKeyMissing(path: "/k"), .internalFault(detail: "x"),
            .newerSchema, .notPermitted(path: "/k"),
        ])
    func storeFailures(_ error: StoreError) throws {
        let (failed, direct) = (Problem(DeliveryFailure(error)), try #require(Problem(describing: error)))
        #expect(failed.code == direct.code && failed.status == direct.status)
        #expect(failed.hint?.contains("sign-in token") != true)
    }

    @Test("the gateway's id is made once, and a restart, other settings and a restored export leave it as it is")
    func identity() async throws {
        let directory = try GatewayBench.scratch()
        let first = try await GatewayBench(in: directory)
        let id = try await first.gateway.store.gatewayID()
        #expect(UUID(uuidString: id) != nil && id == id.lowercased())
        #expect(try document(await first.lines(.store(.stats)))["gateway"] as? String == id)
        var octets: [UInt8] = []
        try await first.gateway.store.export(passphrase: "correct horse") { octets += $0 }
        let export = directory.appendingPathComponent("export")
        try Data(octets).write(to: export)
        _ = try await first.gateway.store.eraseUser(first.gateway.store.currentUser().key)
        try await first.stop()

        let again = try await GatewayBench(
            settings: ["server.region": "eu", "user.client_user_id": "x"], in: directory)
        #expect(try await again.gateway.store.gatewayID() == id)
        try await again.stop()

        let elsewhere = try GatewayBench.scratch()
        let other = try await GatewayBench(in: elsewhere)
        #expect(try await other.gateway.store.gatewayID() != id)
        try await other.stop()
        _ = try await Gateway.importing(
            export.path, passphrase: "correct horse", Settings(environment: [:]),
            state: StateDirectory(flag: elsewhere.appendingPathComponent("state").path, environment: [:]))
        let restored = try await GatewayBench(in: elsewhere)
        #expect(try await restored.gateway.store.gatewayID() == id)
        try await restored.stop()
    }
}
