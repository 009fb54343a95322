import Foundation
import HealthReadings
import LocalAccess
import LogLines
import NIOHTTP1
import ReadingStore
import Testing

@testable import GatewayCommands
@testable import GatewaySettings
@testable import LocalAPI

@Suite("Putting a backup back over HTTP", .timeLimit(.minutes(5))) struct RestoreRouteTests {
    private static let passphrase = "of several words"

    private static func export(
        _ prepare: (ReadingStore) async throws -> Void = { _ in }
    ) async throws -> [UInt8] {
        let source = try await APIBench(tls: false, captures: ["two-meters"])
        try await prepare(source.gateway.store)
        var octets: [UInt8] = []
        try await source.gateway.store.export(passphrase: passphrase) { octets += $0 }
        try await source.stop()
        return octets
    }

    private func send(
        _ bench: APIBench, _ token: String, _ piece: some Collection<UInt8>, at offset: Int, of length: Int
    ) async throws -> APIBench.Answer {
        try await bench.send(
            "/api/v1/restore/pieces?offset=\(offset)&length=\(length)", .POST, token: token,
            headers: [("Content-Type", "application/octet-stream")], octets: Array(piece))
    }

    private func finish(_ bench: APIBench, _ token: String, _ body: String) async throws -> APIBench.Answer {
        try await bench.send("/api/v1/restore", .POST, token: token, body: body)
    }

    @Test("pieces become one file of mode 0600; one may come twice; a passphrase that is wrong can be tried again")
    func course() async throws {
        let export = try await Self.export()
        let bench = try await APIBench(tls: true, captures: [])
        let token = try await bench.token()
        let early = try await finish(bench, token, #"{"passphrase":"x"}"#)
        #expect(early.status == 400 && early.code == "restore_incomplete")
        let size = 60_000
        var (offset, last) = (0, "")
        while offset < export.count {
            let piece = export[offset..<min(offset + size, export.count)]
            for _ in 0..<2 {
                let answer = try await send(bench, token, piece, at: offset, of: export.count)
                #expect(answer.status == 200, "\(answer.text)")
                #expect(answer.object["received"] as? Int == piece.endIndex)
                last = answer.text
            }
            let incomplete = try await finish(bench, token, #"{"passphrase":"x"}"#)
            if piece.endIndex < export.count { #expect(incomplete.code == "restore_incomplete") }
            offset = piece.endIndex
        }
        try await SchemaCheck.expect(last, follows: "restore_piece")
        let path = bench.gateway.store.directory + "/restore.part"
        #expect(FileManager.default.contents(atPath: path) == Data(export))
        #expect(try FileManager.default.attributesOfItem(atPath: path)[.posixPermissions] as? Int == 0o600)
        let wrong = try await finish(bench, token, #"{"passphrase":"something else"}"#)
        #expect(wrong.status == 403 && wrong.code == "export_wrong_passphrase", "\(wrong.text)")
        // This gateway is not run by what could start it anew, and can be asked again.
        for _ in 0..<2 {
            let right = try await finish(bench, token, #"{"passphrase":"\#(Self.passphrase)"}"#)
            #expect(right.status == 409 && right.code == "cannot_restart", "\(right.text)")
        }
        let stand = try await bench.send("/api/v1/setup", token: token)
        try await SchemaCheck.expect(stand.text, follows: "setup_steps")
        #expect(stand.text.contains(#""restore":{"possible":true,"received":\#(export.count),"outcome":null}"#))
        #expect(!bench.log.text.contains(Self.passphrase))
        // A piece that is changed is found before anything ends.
        var damaged = export
        damaged[damaged.count / 2] ^= 1
        _ = try await send(bench, token, damaged[..<size], at: 0, of: damaged.count)
        for offset in stride(from: size, to: damaged.count, by: size) {
            let piece = damaged[offset..<min(offset + size, damaged.count)]
            _ = try await send(bench, token, piece, at: offset, of: damaged.count)
        }
        let bad = try await finish(bench, token, #"{"passphrase":"\#(Self.passphrase)"}"#)
        #expect(bad.status == 400 && bad.code == "export_damaged", "\(bad.text)")
        try await bench.stop()
    }

    @Test("what a person had said when the backup was made counts, and is asked anew: it may have been withdrawn since")
    func consents() async throws {
        let export = try await Self.export { store in
            try await store.setConsents([.glucose, .weight], granted: true, of: store.currentUser().key)
        }
        let folder = try GatewayBench.scratch()
        let file = folder.appendingPathComponent("export")
        try Data(export).write(to: file)
        try await ReadingStore.importing(
            file.path, passphrase: Self.passphrase, into: folder.appendingPathComponent("state").path,
            decoder: Gateway.decoder)
        let bench = try await APIBench(tls: true, captures: [], in: folder)
        let token = try await bench.token()
        let restored = try await bench.send("/api/v1/setup", token: token).text
        try await SchemaCheck.expect(restored, follows: "setup_steps")
        for told in [
            #"{"kind":"glucose","granted":true,"decided":false,"from_backup":true}"#,
            #"{"kind":"weight","granted":true,"decided":false,"from_backup":true}"#,
            #"{"kind":"spo2","granted":true,"decided":false,"from_backup":false}"#,
        ] {
            #expect(restored.contains(told), "\(restored)")
        }
        let store = bench.gateway.store
        try await store.setConsents([.glucose], granted: false, of: store.currentUser().key)
        let decided = try await bench.send("/api/v1/setup", token: token).text
        for told in [
            #"{"kind":"glucose","granted":false,"decided":true,"from_backup":false}"#,
            #"{"kind":"weight","granted":true,"decided":false,"from_backup":true}"#,
        ] {
            #expect(decided.contains(told), "\(decided)")
        }
        try await bench.stop()
    }

    @Test(
        "of a store that the gateway has made of a backup, each kind is to be confirmed, also one of which nobody had said anything"
    )
    func unconfirmed() async throws {
        let export = try await Self.export { store in
            try await store.setConsents([.glucose], granted: true, of: store.currentUser().key)
        }
        let folder = try GatewayBench.scratch()
        let file = folder.appendingPathComponent("export")
        try Data(export).write(to: file)
        _ = try await Gateway.importing(
            file.path, passphrase: Self.passphrase, Settings(environment: [:], flags: GatewayBench.zone),
            state: StateDirectory(flag: folder.appendingPathComponent("state").path, environment: [:]))
        let bench = try await APIBench(tls: true, captures: [], in: folder)
        let token = try await bench.token()
        let restored = try await bench.send("/api/v1/setup", token: token).text
        try await SchemaCheck.expect(restored, follows: "setup_steps")
        for kind in ["glucose", "spo2"] {
            let told = #"{"kind":"\#(kind)","granted":true,"decided":false,"from_backup":true}"#
            #expect(restored.contains(told), "\(restored)")
        }
        let status = try await bench.send("/api/v1/sync", token: token).text
        #expect(status.contains("a backup was put back at"), "\(status)")
        let said = try await bench.send(
            "/api/v1/consent", .POST, token: token, body: #"{"kinds":["spo2"],"granted":true}"#)
        #expect(said.status == 200, "\(said.text)")
        let confirmed = try await bench.send("/api/v1/setup", token: token).text
        #expect(
            confirmed.contains(#"{"kind":"spo2","granted":true,"decided":true,"from_backup":false}"#)
                && confirmed.contains(#"{"kind":"glucose","granted":true,"decided":false,"from_backup":true}"#),
            "\(confirmed)")
        try await bench.stop()
    }

    @Test("a store of which everything was erased is not replaced before destinations have taken it back")
    func stillToBeTakenBack() async throws {
        let export = try await Self.export()
        let bench = try await APIBench(tls: true, captures: [])
        let (token, store) = (try await bench.token(), bench.gateway.store)
        let place = try await store.setDestination(
            "diary", kind: "file", kinds: [.weight], hasUniqueSeconds: false, needsSource: false, canRetract: true)
        let now = Instant.systemClock.flooredToSecond
        let entry = #"{"kind":"weight","value":"70.5","unit":"kg","time":"\#(now.description)"}"#
        let entered = try await bench.send("/api/v1/readings", .POST, token: token, body: entry)
        #expect(entered.status == 201, "\(entered.text)")
        let group = try #require(try await store.groupsWaiting(at: place).first)
        let items = try await store.outboxBatch(
            user: group.user, resource: group.resource, provider: group.provider, limit: 10, at: place)
        try await store.acknowledge(items.map(\.id), at: now)
        _ = try await store.eraseUser(group.user, retracts: true)
        let refused = try await send(bench, token, export[..<1000], at: 0, of: export.count)
        #expect(refused.status == 409 && refused.code == "store_not_empty", "\(refused.text)")
        let waiting = try await bench.send("/api/v1/setup", token: token).text
        #expect(waiting.contains(#""restore":{"possible":false"#), "\(waiting)")
        let retractions = try await store.retractions(at: place, limit: 10)
        #expect(retractions.count == 1)
        try await store.acknowledgeRetractions(retractions.map(\.key))
        let taken = try await send(bench, token, export[..<1000], at: 0, of: export.count)
        #expect(taken.status == 200, "\(taken.text)")
        try await bench.stop()
    }

    @Test("what is too large, out of step, of another type or names a path is refused, and nothing is written")
    func refused() async throws {
        let bench = try await APIBench(tls: true, captures: [])
        let token = try await bench.token()
        let most = Int(RestoreDesk.mostOctets)
        for (offset, length, code) in [
            (0, most + 1, "restore_too_large"), (0, 0, "restore_too_large"), (0, 2, "restore_out_of_step"),
            (1, 4, "restore_out_of_step"), (0, Int.max, "restore_too_large"), (Int.max, 4, "restore_out_of_step"),
        ] {
            let answer = try await send(bench, token, [1, 2, 3], at: offset, of: length)
            #expect(answer.status == 400 && answer.code == code, "\(offset) \(length): \(answer.text)")
        }
        let large = try await send(bench, token, [UInt8](repeating: 0, count: 70_000), at: 0, of: 100_000)
        #expect(large.status == 413, "\(large.text)")
        for query in [
            "", "?offset=0", "?offset=0&length=3&path=/etc/shadow", "?offset=0&offset=0&length=3",
            "?offset=-1&length=3",
            "?offset=0x0&length=3",
        ] {
            let answer = try await bench.send(
                "/api/v1/restore/pieces" + query, .POST, token: token,
                headers: [("Content-Type", "application/octet-stream")], octets: [1, 2, 3])
            #expect(answer.status == 400 && answer.code == "bad_request", "\(query): \(answer.text)")
        }
        let typed = try await bench.send(
            "/api/v1/restore/pieces?offset=0&length=3", .POST, token: token, body: "{}")
        #expect(typed.status == 415)
        for body in [#"{"passphrase":"x","file":"/etc/shadow"}"#, "{}", #"{"passphrase":["x"]}"#] {
            #expect(try await finish(bench, token, body).code == "bad_request", "\(body)")
        }
        #expect(!FileManager.default.fileExists(atPath: bench.gateway.store.directory + "/restore.part"))
        // What is no export at all is told as that.
        _ = try await send(bench, token, Array("not one at all".utf8), at: 0, of: 14)
        #expect(try await finish(bench, token, #"{"passphrase":"x"}"#).code == "export_foreign")
        try await bench.stop()
    }

    @Test("a gateway that has readings, and a client that is no owner's, put nothing back")
    func notEmpty() async throws {
        let bench = try await APIBench(tls: true, captures: ["two-meters"])
        let token = try await bench.token()
        let answer = try await send(bench, token, [1], at: 0, of: 1)
        #expect(answer.status == 409 && answer.code == "store_not_empty")
        #expect(!answer.text.contains(bench.gateway.store.directory))
        let writer = try await bench.token(for: try #require(AccessGrant(.write, person: nil)))
        #expect(try await send(bench, writer, [1], at: 0, of: 1).code == "scope_too_small")
        #expect(try await bench.send("/api/v1/setup", token: token).text.contains(#""possible":false"#))
        try await bench.stop()
    }

    @Test("a backup that a client asks for is restored on trial, and the steps tell its time")
    func backup() async throws {
        let scratch = try GatewayBench.scratch()
        let passphrase = scratch.appendingPathComponent("passphrase")
        try "correct horse battery".write(to: passphrase, atomically: false, encoding: .utf8)
        try FileManager.default.setAttributes([.posixPermissions: 0o600], ofItemAtPath: passphrase.path)
        try FileManager.default.createDirectory(
            at: scratch.appendingPathComponent("backups"), withIntermediateDirectories: false,
            attributes: [.posixPermissions: 0o700])
        let bench = try await APIBench(
            tls: true, captures: ["two-meters"],
            settings: [
                "backup.to": scratch.appendingPathComponent("backups").path, "backup.passphrase_file": passphrase.path,
            ])
        let token = try await bench.token()
        let made = try await bench.send("/api/v1/backups", .POST, token: token, body: "{}")
        #expect(made.status == 200, "\(made.text)")
        try await SchemaCheck.expect(made.text, follows: "setup_backup")
        let steps = try await bench.send("/api/v1/setup", token: token)
        try await SchemaCheck.expect(steps.text, follows: "setup_steps")
        #expect(steps.object["newest_backup"] as? String == made.object["time"] as? String)
        #expect(made.object["time"] != nil && !steps.text.contains("correct horse"))
        try await bench.stop()
    }

    @Test("no request names a path of this machine")
    func paths() async throws {
        let bench = try await APIBench(tls: true, captures: [])
        let token = try await bench.token()
        for set in [
            #""backup.to":"/etc""#, #""backup.to":"../x""#, #""backup.passphrase_file":"/etc/shadow""#,
            #""destinations.a.kind":"vital","destinations.a.api_key_file":"/etc/shadow""#,
            #""destinations.a.kind":"vital","destinations.a.api_key_file":"../readings.sqlite""#,
            #""destinations.a.kind":"file","destinations.a.path":"/etc/passwd""#, #""nfc.reader":"/dev/sda""#,
            #""store.key_file":"/etc/shadow""#, #""http.listen":"0.0.0.0:1""#,
        ] {
            let answer = try await bench.send("/api/v1/settings", .PATCH, token: token, body: "{\"set\":{\(set)}}")
            #expect([400, 409].contains(answer.status), "\(set): \(answer.status) \(answer.text)")
        }
        for secret in [#""../../x":"y""#, #""destinations.../x.api_key":"y""#, #""destinations.a/b.api_key":"y""#] {
            let answer = try await bench.send(
                "/api/v1/settings", .PATCH, token: token, body: "{\"secrets\":{\(secret)}}")
            #expect([400, 409].contains(answer.status), "\(secret): \(answer.status) \(answer.text)")
        }
        let names = try FileManager.default.contentsOfDirectory(atPath: bench.gateway.store.directory)
        #expect(!names.contains("settings.yaml") && !names.contains("secrets"), "\(names)")
        try await bench.stop()
    }
}
