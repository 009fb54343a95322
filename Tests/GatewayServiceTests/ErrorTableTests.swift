import EmulatedRadio
import Foundation
import GATTClient
import GuardedServer
import HTTPTypes
import HealthDevices
import HealthReadings
import HealthSyncClient
import ReadingStore
import ScriptedServer
import Testing
import VitalClient

@testable import GatewayCommands
@testable import GatewaySettings
@testable import LocalAPI

/// Documentation/errors.md: the codes exist, have the exit status beside them, and are what the situations end with.
@Suite("Errors by the names of the SDKs", .timeLimit(.minutes(5))) struct ErrorTableTests {
    /// A row of the page.
    struct Row: Sendable, CustomStringConvertible {
        var names: String
        var what: String
        var code: String?
        var statuses: [Int]
        var serverStatuses: [Int]
        var description: String { "\(code ?? "-"): \(what)" }
    }

    static let root = URL(fileURLWithPath: #filePath).deletingLastPathComponent().appending(path: "../..")

    static func rows() throws -> [Row] {
        let page = try String(contentsOf: root.appending(path: "Documentation/errors.md"), encoding: .utf8)
        return page.split(separator: "\n").compactMap { line in
            let cells = line.split(separator: "|").map { $0.trimmingCharacters(in: .whitespaces) }
            guard line.hasPrefix("| "), cells.count == 5, cells[2] != "code" else { return nil }
            func numbers(_ text: String) -> [Int] { text.matches(of: #/\b\d{1,3}\b/#).compactMap { Int($0.0) } }
            return Row(
                names: cells[0], what: cells[1], code: cells[2].firstMatch(of: #/^`([a-z_]+)`$/#).map { String($0.1) },
                statuses: numbers(cells[3]), serverStatuses: numbers(cells[4]))
        }
    }

    @Test("every code is one of the program's, and cli.md lists it with this exit status")
    func codes() throws {
        let rows = try Self.rows()
        #expect(rows.count > 45 && rows.filter { $0.code == nil }.count == 1)
        var sources = ""
        let files = FileManager.default.enumerator(
            at: Self.root.appending(path: "Sources"), includingPropertiesForKeys: nil)
        for case let file as URL in files ?? .init() where file.pathExtension == "swift" {
            sources += try String(contentsOf: file, encoding: .utf8)
        }
        let table = try String(contentsOf: Self.root.appending(path: "Documentation/cli.md"), encoding: .utf8)
            .split(separator: "\n").filter { $0.contains(#/^\| \d+ \| /#) }
        for row in rows {
            guard let code = row.code else { continue }
            #expect(sources.contains("\"\(code)\"") || code.hasPrefix("racp_"), "\(row)")
            #expect(row.names.contains("`") || row.names.hasPrefix("an answer of"), "\(row)")
            guard code != "no_consent", !code.hasPrefix("racp_") else { continue }
            let listed = table.filter { $0.contains("`\(code)`") }.compactMap { line in
                line.firstMatch(of: #/^\| (\d+) \|/#).flatMap { Int($0.1) }
            }
            #expect(!listed.isEmpty && !Set(listed).isDisjoint(with: row.statuses), "\(row): cli.md says \(listed)")
        }
    }

    @Test("our routes answer with the status that follows from the exit status, as the page says")
    func routes() throws {
        let said: [(Problem.ExitStatus, Int)] = [
            (.usage, 400), (.badData, 400), (.noInput, 404), (.unavailable, 503), (.tryAgain, 503), (.ourFault, 500),
            (.cannotCreate, 500), (.inputOutput, 500), (.protocolBroken, 502), (.notPermitted, 403),
            (.configuration, 409),
        ]
        for (status, answer) in said {
            #expect(APIRefusal(describing: Problem("x", status, "x")).status.code == answer, "\(status)")
        }
    }

    @Test("a server's answers are known by the codes of the page")
    func servers() async throws {
        var produced = 0
        for row in try Self.rows() {
            // A session's end and a sign-in token are told by other requests; the app's statuses by the phone.
            guard let code = row.code, !row.serverStatuses.isEmpty,
                !["token_expired", "invalid_token", "no_such_user", "source_not_connected"].contains(code),
                !code.hasPrefix("phone_"), !["type_not_enabled", "no_permission", "pairing_refused"].contains(code)
            else { continue }
            for status in row.serverStatuses {
                let body = code == "not_json" ? "<html>" : status == 200 ? "[]" : #"{"detail":"the words"}"#
                let problem = await Self.problem(of: .json(status, body))
                #expect(problem?.code == code, "\(row): \(status) is \(problem?.code ?? "no error")")
                #expect(problem.map { row.statuses.contains(Int($0.status.rawValue)) } == true, "\(row)")
                produced += 1
            }
        }
        #expect(produced >= 12)
    }

    /// The problem that a server's answer ends a request with.
    private static func problem(of answer: ScriptedAnswer) async -> Problem? {
        do {
            return try await ScriptedServer.with({ _ in answer }) { server in
                let api = VitalAPI(
                    server: try VitalServer(baseURL: server.baseURL), credentials: .apiKey(Secret("sk_us_test")),
                    recorder: nil)
                do {
                    _ = try await api.user("00000000-0000-4000-8000-000000000000")
                    return nil
                } catch {
                    return Problem(describing: error)
                }
            }
        } catch {
            return nil
        }
    }

    @Test("what the phone answers is known by the codes of the page")
    func phones() throws {
        let kinds: [HealthSyncError.Kind] = [
            .locked, .tokenExpired, .typeNotEnabled, .noPermission, .phoneFailed, .pairingRefused,
        ]
        let rows = try Self.rows()
        for kind in kinds {
            let error = HealthSyncError(kind, route: "GET /api/v1/status")
            let problem = try #require(Problem(describing: error))
            #expect(
                rows.contains { $0.code == problem.code && $0.statuses.contains(Int(problem.status.rawValue)) },
                "\(kind) is \(problem.code)")
        }
    }

    @Test("each state of the radio ends a command with the code of the page, through the control socket too")
    func radio() async throws {
        let rows = try Self.rows()
        let states: [RadioError] = [
            .noAdapter(nil), .noService, .noBus("gone"), .poweredOff("hci0"), .blocked("hci0", hard: false),
            .blocked("hci0", hard: true), .notPermitted("policy"), .lost,
        ]
        for (way, state) in zip(
            [GatewayBench.Way.inProcess, .controlSocket] + Array(repeating: .inProcess, count: 6), states)
        {
            let bench = try await GatewayBench(way, adapter: .unusable(state))
            let problem = try await bench.problem(.device(.scan(ScanOperation(seconds: 1))))
            #expect(problem.code == state.code)
            #expect(
                rows.contains { $0.code == state.code && $0.statuses == [Int(problem.status.rawValue)] },
                "\(state): \(problem.status)")
            try await bench.stop()
        }
    }

    @Test("what goes wrong with a device ends a command with the code of the page")
    func devices() async throws {
        let rows = try Self.rows()
        func check(_ problem: Problem, _ code: String) {
            #expect(problem.code == code)
            #expect(
                rows.contains { $0.code == code && $0.statuses == [Int(problem.status.rawValue)] },
                "\(code): \(problem.status)")
        }
        let pairing = DeviceOperation.pair(PairOperation(address: "C0:00:00:00:18:08", seconds: 5))
        for (failure, code) in [
            (PairingFailure.wrongPasskey, "wrong_passkey"), (.rejectedByDevice, "pairing_rejected_by_device"),
            (.timedOut, "pairing_timed_out"), (.forgottenHere, "bond_lost_here"),
        ] {
            let meter = EmulatedMeter("C0:00:00:00:18:08", name: "meter+1808", pairing: .fails(failure))
            let bench = try await GatewayBench(.inProcess, [meter])
            check(try await bench.problem(.device(pairing)), code)
            try await bench.stop()
        }
        let reading = DeviceOperation.read(ReadOperation(addresses: ["C0:00:00:00:18:08"], seconds: 0.2))
        let meter = EmulatedMeter("C0:00:00:00:18:08", name: "meter+1808")
        let bench = try await GatewayBench(.inProcess, [meter])
        check(try await bench.problem(.device(reading)), "not_paired")
        meter.bondAlready()
        meter.sleep()
        check(try await bench.problem(.device(reading)), "device_not_seen")
        meter.wake()
        meter.forgetBond()
        check(try await bench.problem(.device(reading)), "bond_lost_by_device")
        try await bench.stop()
    }

    @Test("what goes wrong with people and data ends a command with the code of the page")
    func people() async throws {
        let rows = try Self.rows()
        func check(_ problem: Problem, _ code: String) {
            #expect(problem.code == code, "\(problem)")
            #expect(
                rows.contains { $0.code == code && $0.statuses.contains(Int(problem.status.rawValue)) },
                "\(code): \(problem.status)")
        }
        let server = try await Sandboxed()
        let bench = try await GatewayBench(settings: server.settings)
        try await bench.run(.user(.create("white_bear")))
        let made = try await bench.lines(.user(.create("brown_bear", isSet: false))).joined()
        let brown = try #require(made.firstMatch(of: /"user_id":"([^"]+)"/).map { String($0.1) })
        check(try await bench.problem(.user(.set("polar_bear"))), "no_such_user")
        check(
            try await bench.problem(.user(.set(nil, userID: "00000000-0000-4000-8000-000000000000"))), "no_such_user")
        check(try await bench.problem(.user(.set("white_bear", userID: brown))), "user_mismatch")
        var query = QueryOperation()
        query.types = ["steps_on_the_moon"]
        check(try await bench.problem(.query(query)), "usage")
        query = QueryOperation()
        query.from = "yesterday"
        check(try await bench.problem(.query(query)), "usage")
        check(try await bench.problem(.metrics(MetricsOperation())), "no_wearable_data")
        // Another process, as far as the lock is concerned.
        let state = StateDirectory(flag: bench.gateway.store.directory, environment: [:])
        do {
            _ = try await Gateway.open(
                Settings(environment: [:], flags: GatewayBench.zone), state: state,
                radio: { _, _ in EmulatedRadio([], adapter: .emulated) })
            Issue.record("the store has two owners")
        } catch {
            check(try #require(Problem(describing: error)), "store_locked")
        }
        try await bench.stop()
        try await server.stop()

        // Nobody is there any more.
        let alone = try await GatewayBench(
            settings: server.settings.merging(["server.base_url": "http://127.0.0.1:9"]) { $1 })
        check(try await alone.problem(.user(.create("white_bear"))), "no_connection")
        try await alone.stop()
    }
}
