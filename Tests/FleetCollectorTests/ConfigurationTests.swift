import FleetCollector
import FleetDocuments
import FleetStore
import GatewaySettings
import HealthReadings
import Logging
import Testing

/// What gateways are told when they say how they are, and what an operator sees of it.
@Suite struct ConfigurationTests {
    private func desk() async throws -> DocumentDesk {
        let store = try SQLiteCentralStore(directory: SampleBatch.folder())
        try await store.prepare()
        return DocumentDesk(store: store, logger: Logger(label: "tests") { _ in SwiftLogNoOpLogHandler() })
    }

    private static let noon = Instant(seconds: 1_800_000_000)

    private func hello(
        _ gateway: GatewayID, _ state: FleetConfigurationState = .init(), unconfirmed: [Int64] = []
    ) -> [UInt8] {
        let hello = FleetHello(
            gateway: gateway, sentAt: Self.noon, version: "1.0", configuration: state, unconfirmed: unconfirmed)
        return Array(hello.document.text.utf8)
    }

    private func status(_ gateway: GatewayID, _ state: FleetConfigurationState) -> [UInt8] {
        let report = FleetReport(gateway: gateway, sentAt: Self.noon, version: "1.0", configuration: state)
        return Array(FleetStatus.online(report).document.text.utf8)
    }

    @Test func aHelloIsAnsweredWithReceiptsOfWhatIsStored() async throws {
        let (desk, gateway) = (try await desk(), try GatewayID("gw1"))
        _ = try await desk.keep(SampleBatch.octets("gw1", 1, ids: 0..<3), from: gateway)
        _ = try await desk.keep(SampleBatch.octets("gw1", 2, ids: 3..<5), from: gateway)
        let answer = try await desk.note(hello(gateway, unconfirmed: [2, 7]), .hello, from: gateway)
        #expect(answer.receipts.map(\.batch) == [2] && answer.configuration == nil)
        #expect(answer.receipts.first?.stored.map(\.description) == [3, 4].map(SampleBatch.id))
        // Another gateway learns nothing of it.
        let other = try GatewayID("gw2")
        #expect(try await desk.note(hello(other, unconfirmed: [2]), .hello, from: other).receipts.isEmpty)
    }

    @Test func settingsAreToldToWhoeverDoesNotKnowThem() async throws {
        let (desk, gateway) = (try await desk(), try GatewayID("gw1"))
        let desired = try DesiredSettings(yaml: "log: {level: debug}\nfleet.status_minutes: 5\n", path: "f")
        let version = try await desired.keep(for: nil, in: desk.store, at: Self.noon)
        let answer = try await desk.note(hello(gateway), .hello, from: gateway)
        #expect(answer.configuration?.version == version && answer.configuration?.gateway == gateway)
        #expect(answer.configuration?.settings == ["log.level": .text("debug"), "fleet.status_minutes": .whole(5)])
        let old = FleetConfigurationState(version: version - 1, state: .applied)
        let new = FleetConfigurationState(version: version, applied: version, state: .applied)
        #expect(try await desk.note(status(gateway, old), .status, from: gateway).configuration?.version == version)
        #expect(try await desk.note(status(gateway, new), .status, from: gateway).configuration == nil)
        let odd = FleetConfigurationState(version: 9_007_199_254_740_991, applied: version - 1, state: .refused)
        #expect(try await desk.note(status(gateway, odd), .status, from: gateway).configuration?.version == version)
        let no = FleetConfigurationState(version: version, state: .refused)
        #expect(try await desk.note(status(gateway, no), .status, from: gateway).configuration == nil)
        // A hello is answered in any case: the answer shows the gateway that its settings are good.
        #expect(try await desk.note(hello(gateway, new), .hello, from: gateway).configuration?.version == version)
        #expect(try await desk.note(Array(#"{"online":false}"#.utf8), .status, from: gateway).configuration == nil)
    }

    @Test func theListSaysWhatBecameOfThem() async throws {
        let desk = try await desk()
        let desired = try DesiredSettings(yaml: "log.level: debug", path: "f")
        let version = try await desired.keep(for: nil, in: desk.store, at: Self.noon)
        let states: [(String, FleetConfigurationState)] = [
            ("gw1", .init(version: version, applied: version, state: .applied)),
            (
                "gw2",
                .init(
                    version: version, state: .refused,
                    refused: [.init(key: "log.level", reason: "fixed by the administrator")])
            ),
            ("gw3", .init(version: version, applied: 7, state: .rolledBack, reason: "the centre did not answer")),
            ("gw4", .init(version: 7, applied: 7, state: .applied)),
        ]
        for (name, state) in states {
            let gateway = try GatewayID(name)
            _ = try await desk.note(hello(gateway, state), .hello, from: gateway)
        }
        let metrics = CollectorMetrics(store: desk.store, counters: desk.counters, silentAfterMinutes: 45)
        let list = GatewayList(try await desk.store.gateways(), metrics: metrics)
        for (line, words) in zip(
            list.lines.dropFirst(),
            [
                "\(version) applied", "\(version) refused: log.level: fixed by the administrator",
                "\(version) rolled back: the centre did not answer", "\(version) waits for the gateway",
            ])
        {
            #expect(line.hasSuffix(words), "\(line)")
        }
        let document = list.document.text
        #expect(document.contains(#""wanted_configuration":\#(version),"configuration":{"version":\#(version)"#))
    }

    @Test func onlyWhatACentreMaySetIsTaken() {
        for (yaml, words) in [
            ("http: {listen: \"0.0.0.0:80\"}", "f: http.listen: expected one of clock.require_sync"),
            ("consent.default: granted", "f: consent.default: expected one of"),
            ("sync: {mode: manual}", "f: sync.mode: expected one of"),
            ("sync: {backfill_days: many}", "f: sync.backfill_days: expected a whole number from 0 to 36500"),
            ("- 1", "f: expected settings"),
            ("cloud: {every: 1s}", "f: cloud.every: expected 15m to 30d"),
            ("cloud: {every: 5m}", "f: cloud.every: expected 15m to 30d"),
            ("cloud: {every: 99999h}", "f: cloud.every: expected 15m to 30d"),
            ("sources: {map: {omron_m7: \"a=b,c\"}}", "f: sources.map.omron_m7: expected a model and a provider"),
            ("sources: {map: {\"a b\": omron}}", "f: sources.map.a b: expected a model and a provider"),
            ("log: &a {level: info}\nfleet: *a", "f: line 2: an alias can't be used here"),
            ("log: {level: info} # " + String(repeating: "x", count: 65_536), "f: expected 65536 bytes at most"),
        ] {
            #expect {
                try DesiredSettings(yaml: yaml, path: "f")
            } throws: { error in
                (error as? Problem)?.message.hasPrefix(words) == true
            }
        }
        let taken = try? DesiredSettings(
            yaml: "sources.map: {omron_m7: omron}\ncloud: {every: 6h}\nclock: {require_sync: true}", path: "f")
        #expect(
            taken?.settings == [
                "sources.map": .map(["omron_m7": "omron"]), "cloud.every": .text("6h"),
                "clock.require_sync": .flag(true),
            ])
        let starred = try? DesiredSettings(
            yaml: "# *all* gateways\nlog: {level: \"info\"} # and *no* others", path: "f")
        #expect(starred?.settings == ["log.level": .text("info")])
        // The map within a section, as in a gateway's file.
        let nested = try? DesiredSettings(yaml: "sources: {map: {a: b}}", path: "f")
        #expect(nested?.settings == ["sources.map": .map(["a": "b"])])
    }

    @Test(.timeLimit(.minutes(1))) func aliasesOfAliasesEndAtOnce() {
        var yaml = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
        for level in 1...12 {
            let aliases = Array(repeating: "*a\(level - 1)", count: 10).joined(separator: ",")
            yaml += "a\(level): &a\(level) [\(aliases)]\n"
        }
        let begun = ContinuousClock.now
        #expect(throws: Problem.self) { try DesiredSettings(yaml: yaml + "? *a12\n: x\n", path: "f") }
        #expect(ContinuousClock.now - begun < .seconds(20))
    }
}
