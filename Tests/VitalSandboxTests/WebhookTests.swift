import Crypto
import Foundation
import ScriptedServer
import Synchronization
import TestSupport
import Testing

@testable import VitalSandbox

@Suite("Webhooks of the sandbox", .timeLimit(.minutes(2)))
struct SandboxWebhookTests {
    private static func json(_ request: ReceivedRequest) throws -> [String: Any] {
        try #require(JSONSerialization.jsonObject(with: Data(request.body)) as? [String: Any])
    }

    private static func types(_ server: ScriptedServer) -> [String] {
        server.requests.compactMap { try? json($0)["event_type"] as? String }
    }

    @Test("Svix's own example is signed as it says")
    func vector() throws {
        let webhook = try SandboxWebhook(url: "https://example.org/hook", secret: "whsec_plJ3nmyCDGBKInavdOK15jsl")
        #expect(
            webhook.signature(
                of: #"{"event_type":"ping","data":{"success":true}}"#, message: "msg_loFOjxBNrRLzqYUf",
                timestamp: 1_731_705_121) == "v1,rAvfW3dJ/X/qxhsaXPOyyCGmRKsaKWcsNccKXlIktD0=")
        for (url, secret) in [
            ("ftp://example.org", SandboxWebhook.fixedSecret), ("hook", SandboxWebhook.fixedSecret),
            ("http://example.org", "secret"), ("http://example.org", "whsec_"), ("http://example.org", "whsec_%"),
        ] {
            #expect(throws: SandboxWebhook.Failure.self) { try SandboxWebhook(url: url, secret: secret) }
        }
    }

    @Test("a source, new samples, changed samples and a backfill are told, each signed")
    func told() async throws {
        try await ScriptedServer.with({ _ in .json(204, "") }) { server in
            var configuration = SandboxConfiguration()
            configuration.webhook = try SandboxWebhook(url: server.baseURL + "/hook")
            try await withSandbox(configuration) { probe in
                let id = try await probe.user(sources: ["accuchek_ble"])
                let path = "/v2/timeseries/\(id)/"
                for value in ["5.2730", "5.2730", "6.0"] {
                    #expect(try await probe.send("POST", path + "glucose", Bodies.glucose(value)).status == 200)
                }
                let pressure = Bodies.envelope([Bodies.pressure("127.0", "79", "60", at: "2026-11-20T12:30:00Z")])
                #expect(try await probe.send("POST", path + "blood_pressure", pressure).status == 200)
                let backfill = Bodies.glucose("4.0", at: "2026-10-01T08:00:00Z").replacingOccurrences(
                    of: #""stage":"daily""#,
                    with: #""stage":"historical","start_date":"2026-10-01T00:00:00Z","end_date":"2026-10-31T00:00:00Z""#
                )
                #expect(try await probe.send("POST", path + "glucose", backfill).status == 200)
                let expected = [
                    "provider.connection.created", "daily.data.glucose.created", "daily.data.glucose.updated",
                    "daily.data.blood_pressure.created", "historical.data.glucose.created",
                ]
                #expect(await eventually { Self.types(server) == expected }, "\(Self.types(server))")
                for request in server.requests {
                    let event = try Self.json(request)
                    #expect(event["user_id"] as? String == id && event["client_user_id"] as? String == "white_bear")
                    let data = try #require(event["data"] as? [String: Any])
                    #expect(data["user_id"] as? String == id)
                    // Checked without the sandbox's own code.
                    let key = try #require(Data(base64Encoded: String(SandboxWebhook.fixedSecret.dropFirst(6))))
                    let message = try #require(request.headers["svix-id"])
                    let time = try #require(request.headers["svix-timestamp"])
                    let code = HMAC<SHA256>.authenticationCode(
                        for: Data("\(message).\(time).".utf8) + request.body, using: SymmetricKey(data: key))
                    #expect(request.headers["svix-signature"] == "v1," + Data(code).base64EncodedString())
                }
                let glucose = String(decoding: server.requests[1].body, as: UTF8.self)
                #expect(
                    glucose.contains(#""data":[{"timestamp":"2026-11-20T12:30:00Z","value":5.2730,"unit":"mmol/L","#),
                    "\(glucose)")
                #expect(String(decoding: server.requests[3].body, as: UTF8.self).contains(#""systolic":127.0"#))
                let events = try await probe.send("GET", "/sandbox/events").json["events"] as? [[String: Any]]
                #expect(events?.compactMap { $0["type"] as? String } == expected)
            }
        }
    }

    @Test("what was not taken is told again under the same id, after a restart too, and forgotten with its person")
    func retried() async throws {
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent("sandbox-hook-\(UUID().uuidString)")
        defer { try? FileManager.default.removeItem(at: folder) }
        let status = Mutex(503)
        try await ScriptedServer.with({ _ in .json(status.withLock(\.self), "{}") }) { server in
            var configuration = SandboxConfiguration(storage: .directory(folder.path))
            configuration.webhook = try SandboxWebhook(url: server.baseURL)
            let user = Mutex("")
            try await withSandbox(configuration) { probe in
                let id = try await probe.user(sources: ["manual"])
                user.withLock { $0 = id }
                #expect(await eventually { server.requests.count == 1 })
            }
            status.withLock { $0 = 200 }
            try await withSandbox(configuration) { probe in
                #expect(await eventually { server.requests.count == 2 })
                #expect(Set(server.requests.compactMap { $0.headers["svix-id"] }).count == 1)
                #expect(Set(server.requests.map(\.body)).count == 1)
                _ = try await probe.send("DELETE", "/v2/user/\(user.withLock(\.self))")
                let events = try await probe.send("GET", "/sandbox/events")
                #expect(events.text.contains(#""events":[]"#), "\(events.text)")
            }
        }
    }
}
