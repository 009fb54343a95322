import Foundation
import HealthReadings
import LocalAccess
import NIOHTTP1
import ReadingStore
import Testing

@testable import GatewayCommands
@testable import GatewaySettings
@testable import LocalAPI

@Suite("Settings over the local API", .timeLimit(.minutes(3))) struct SettingsRouteTests {
    @Test("an owner sees and changes settings; a key that is fixed, an old digest and an unknown key are refused")
    func course() async throws {
        let bench = try await APIBench(tls: true, captures: [])
        let token = try await bench.token()
        func send(_ body: String) async throws -> APIBench.Answer {
            try await bench.send("/api/v1/settings", .PATCH, token: token, body: body)
        }
        let before = try await bench.send("/api/v1/settings", token: token)
        #expect(before.status == 200)
        let digest = try #require(before.object["digest"] as? String)
        let done = try await send(
            #"{"set":{"consent.default":"denied","libre.deliver":"none","sync.ignore":["manual"]},"digest":"\#(digest)"}"#
        )
        #expect(done.status == 200 && done.object["after_restart"] as? [String] == [], "\(done.text)")
        #expect(bench.gateway.settings["libre.deliver"] == "none")
        let stale = try await send(#"{"set":{"libre.deliver":"estimate"},"digest":"\#(digest)"}"#)
        #expect(stale.status == 409 && stale.code == "settings_changed")
        let fixed = try await send(#"{"set":{"sync.backfill_days":3}}"#)
        #expect(fixed.status == 409 && fixed.code == "setting_fixed")
        for (body, code) in [
            (#"{"set":{"http.local":"trusted"}}"#, "setting_fixed"), (#"{"set":{"x.y":1}}"#, "setting_unknown"),
            (#"{"set":{"libre.deliver":[1]}}"#, "bad_request"), ("{}", "bad_request"), (#"{"sets":{}}"#, "bad_request"),
            (#"{"secrets":{"backup.passphrase":7}}"#, "bad_request"), (#"{"unset":"sync.mode"}"#, "bad_request"),
            (#"{"set":{"clock.require_sync":"perhaps"}}"#, "setting_invalid"),
        ] {
            let answer = try await send(body)
            #expect(answer.code == code && [400, 409].contains(answer.status), "\(body): \(answer.text)")
        }
        let secret = try await send(#"{"secrets":{"backup.passphrase":"hush hush hush"}}"#)
        #expect(secret.status == 200 && !secret.text.contains("hush"))
        // One by which no backup could be made leaves the good one.
        let kept = bench.gateway.settings.backup?.passphraseFile
        let short = try await send(#"{"secrets":{"backup.passphrase":"hush"}}"#)
        #expect(short.status == 400 && short.code == "setting_invalid", "\(short.text)")
        #expect(short.text.contains("at least 8 characters, found 4") && !short.text.contains("hush"))
        #expect(kept != nil && bench.gateway.settings.backup?.passphraseFile == kept)
        #expect(try String(contentsOfFile: kept ?? "", encoding: .utf8) == "hush hush hush\n")
        let after = try await bench.send("/api/v1/settings", token: token)
        #expect(!after.text.contains("hush") && after.text.contains("backup.passphrase_file"))
        await bench.door.audit.flush()
        let events = try await bench.door.audit.newest(100).map(\.event)
        #expect(events.contains("settings_changed"), "\(events)")
        try await bench.stop()
    }

    @Test("an edited file is refused until it has been read again, which the page can ask for")
    func edited() async throws {
        let bench = try await APIBench(tls: true, captures: [])
        let token = try await bench.token()
        let path = bench.gateway.store.directory + "/settings.yaml"
        try "libre: {deliver: none}\n".write(toFile: path, atomically: false, encoding: .utf8)
        let answer = try await bench.send(
            "/api/v1/settings", .PATCH, token: token, body: #"{"set":{"consent.default":"denied"}}"#)
        #expect(answer.status == 409 && answer.code == "settings_changed")
        #expect(try await bench.send("/api/v1/settings", token: token).object["edited"] as? Bool == true)
        #expect(try await bench.send("/api/v1/settings/reload", .POST, token: token, body: "{}").status == 200)
        #expect(bench.gateway.settings["libre.deliver"] == "none")
        #expect(try String(contentsOfFile: path, encoding: .utf8) == "libre: {deliver: none}\n")
        try await bench.stop()
    }
}
