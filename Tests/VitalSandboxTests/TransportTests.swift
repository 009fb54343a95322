import Foundation
import LogLines
import Logging
import ServiceLifecycle
import Testing

@testable import VitalSandbox

@Suite("Over the wire")
struct TransportTests {
    @Test("a gzip body is inflated, and the log shows both sizes")
    func gzip() async throws {
        try await withSandbox { probe in
            let id = try await probe.user(sources: ["accuchek_ble"])
            let items = (10..<60).map {
                Bodies.quantity("5.\($0)", "mmol/L", "fingerprick", at: "2026-11-20T12:\($0):00Z")
            }
            let body = Bodies.envelope(items)
            let packed = try await shell("printf '%s' '\(body)' | gzip -9")
            let answer = try await probe.send(
                "POST", "/v2/timeseries/\(id)/glucose", octets: packed, headers: ["content-encoding": "gzip"])
            #expect(answer.status == 200)
            let post = try #require(try await probe.posts().first)
            #expect(post["encoding"] as? String == "gzip")
            #expect(post["body_octets"] as? Int == packed.count)
            #expect(post["inflated_octets"] as? Int == body.utf8.count)
            #expect(post["inserted"] as? Int == 50)
        }
    }

    @Test("a bomb, a truncated, damaged or trailing stream, and another encoding are refused in JSON")
    func badEncodings() async throws {
        try await withSandbox { probe in
            let headers = ["content-encoding": "gzip"]
            let bomb = try await shell("head -c 100000000 /dev/zero | gzip -9")
            #expect(try await probe.send("POST", "/v2/user", octets: bomb, headers: headers).status == 413)
            let right = try await shell(#"printf '{"client_user_id":"a"}' | gzip"#)
            var damaged = right
            damaged[right.count - 6] ^= 1
            for body in [Array(right.dropLast(4)), damaged, right + [0], Array("{}".utf8), []] {
                let answer = try await probe.send("POST", "/v2/user", octets: body, headers: headers)
                #expect(answer.status == 400)
                #expect(answer.errorType == "INVALID_ENCODING")
            }
            let brotli = try await probe.send("POST", "/v2/user", "{}", headers: ["content-encoding": "br"])
            #expect(brotli.status == 415)
            #expect(try await probe.send("POST", "/v2/user", octets: right, headers: headers).status == 200)
        }
    }

    @Test("more octets or items than the limits are 413 and 422")
    func limits() async throws {
        var configuration = SandboxConfiguration()
        configuration.maximumBodyOctets = 2000
        configuration.maximumItems = 3
        try await withSandbox(configuration) { probe in
            let id = try await probe.user(sources: ["accuchek_ble"])
            let large = #"{"client_user_id":"\#(String(repeating: "x", count: 200_000))"}"#
            let answer = try await probe.send("POST", "/v2/user", large)
            #expect(answer.status == 413)
            #expect(answer.errorType == "CONTENT_TOO_LARGE")
            let items = (0..<4).map { Bodies.quantity("5", "mmol/L", "fingerprick", at: "2026-11-20T12:3\($0):00Z") }
            let many = try await probe.send("POST", "/v2/timeseries/\(id)/glucose", Bodies.envelope(items))
            #expect(many.findings == ["body.data|too_long"])
        }
    }

    @Test(
        "malformed JSON is 422 naming the octet",
        arguments: ["", "{", "nope", #"{"client_user_id":"a",}"#, #"{"a":1,"a":2}"#, "\u{FEFF}{}", "[01]", "<html>"])
    func malformed(body: String) async throws {
        try await withSandbox { probe in
            let answer = try await probe.send("POST", "/v2/user", octets: Array(body.utf8))
            #expect(answer.status == 422)
            #expect(answer.findings.first?.hasSuffix("|json_invalid") == true)
        }
    }

    @Test("unknown paths and methods are 404 in JSON", arguments: ["GET", "POST", "PUT", "DELETE"])
    func unknown(method: String) async throws {
        try await withSandbox { probe in
            for path in ["/v2/nothing", "/index.html", "/v2/user/a/b/c/d"] {
                let answer = try await probe.send(method, path)
                #expect(answer.status == 404)
            }
        }
    }

    @Test("pipelined requests are answered in order")
    func pipelining() async throws {
        try await withSandbox { probe in
            let key = SandboxConfiguration.fixedKey
            let requests = (0..<5).map { number in
                let body = #"{"client_user_id":"u\#(number)"}"#
                return "POST /v2/user HTTP/1.1\r\nhost: x\r\nx-vital-api-key: \(key)\r\n"
                    + "connection: \(number < 4 ? "keep-alive" : "close")\r\n"
                    + "content-length: \(body.utf8.count)\r\n\r\n\(body)"
            }
            let text = try await rawExchange(probe.address.port, requests.joined())
            let found = text.components(separatedBy: #""client_user_id":""#).dropFirst().map { String($0.prefix(2)) }
            #expect(found == ["u0", "u1", "u2", "u3", "u4"])
        }
    }

    @Test("what is no HTTP is refused without HTML")
    func noHTTP() async throws {
        try await withSandbox { probe in
            let text = try await rawExchange(probe.address.port, "\u{16}\u{3}\u{1} hello\r\n\r\n")
            #expect(text.hasPrefix("HTTP/1.1 400"))
            #expect(!text.lowercased().contains("<html"))
        }
    }

    @Test("curl can use it", .enabled(if: FileManager.default.isExecutableFile(atPath: "/usr/bin/curl")))
    func curl() async throws {
        try await withSandbox { probe in
            let key = "-sS -H 'x-vital-api-key: \(SandboxConfiguration.fixedKey)'"
            let base = probe.address.baseURL
            let created = try await shell("curl \(key) -d '{\"client_user_id\":\"c\"}' \(base)/v2/user")
            #expect(String(decoding: created, as: UTF8.self).contains(#""client_user_id":"c""#))
            let status = try await shell(
                "head -c 6000000 /dev/zero | curl \(key) -o /dev/null -w '%{http_code}' --data-binary @- \(base)/v2/user"
            )
            #expect(String(decoding: status, as: UTF8.self) == "413")
        }
    }

    @Test("what was acknowledged is there after a restart, for its owner only")
    func persistence() async throws {
        try await withFolder { folder in
            let before = SandboxConfiguration(storage: .directory(folder))
            try await withSandbox(before) { probe in
                let id = try await probe.user(sources: ["accuchek_ble"])
                #expect(
                    try await probe.send("POST", "/v2/timeseries/\(id)/glucose", Bodies.glucose("5.10")).status == 200)
            }
            try await withSandbox(before) { probe in
                let id = try #require(
                    try await probe.send("GET", "/v2/user/resolve/white_bear").json["user_id"] as? String)
                #expect(try await probe.send("GET", "/sandbox/samples").text.contains(#""value":5.10"#))
                #expect(
                    try await probe.send("POST", "/v2/timeseries/\(id)/glucose", Bodies.glucose("5.10")).status == 200)
                #expect(try await probe.samples().count == 1)
            }
            let attributes = try FileManager.default.attributesOfItem(atPath: folder + "/sandbox.sqlite")
            #expect((attributes[.posixPermissions] as? NSNumber)?.intValue == 0o600)
            let folderAttributes = try FileManager.default.attributesOfItem(atPath: folder)
            #expect((folderAttributes[.posixPermissions] as? NSNumber)?.intValue == 0o700)
        }
    }

    @Test("bodies are recorded inflated, under the name of their schema")
    func recording() async throws {
        try await withFolder { folder in
            var configuration = SandboxConfiguration()
            configuration.recordBodies = folder
            try await withSandbox(configuration) { probe in
                let id = try await probe.user(sources: ["accuchek_ble"])
                _ = try await probe.send("POST", "/v2/timeseries/\(id)/glucose", Bodies.glucose("5"))
            }
            let names = try FileManager.default.contentsOfDirectory(atPath: folder).sorted()
            #expect(
                names == ["create_source-000002.json", "create_user-000001.json", "timeseries_glucose-000003.json"])
            let text = try String(contentsOfFile: folder + "/timeseries_glucose-000003.json", encoding: .utf8)
            #expect(text == Bodies.glucose("5"))
            let checker = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
                .appendingPathComponent("Schemas/check").path
            let said = try await shell("'\(checker)' --self-test && '\(checker)' --directory '\(folder)'")
            #expect(String(decoding: said, as: UTF8.self).hasSuffix("3 of 3 documents are right\n"))
        }
    }

    @Test("promise 12: no key, user or reading in the log")
    func quietLog() async throws {
        let lines = LogLines()
        let server = try SandboxServer(configuration: .init(), logger: lines.logger())
        let running = Task { try await server.run() }
        let probe = Probe(address: try await server.address())
        let id = try await probe.user("white_bear", sources: ["accuchek_ble"])
        _ = try await probe.send("POST", "/v2/timeseries/\(id)/glucose", Bodies.glucose("5.4321"))
        _ = try await probe.send("POST", "/v2/timeseries/\(id)/glucose", Bodies.glucose(#""5.4321""#))
        _ = try await probe.send("GET", "/v2/user/resolve/white_bear")
        running.cancel()
        _ = await running.result
        let text = lines.text
        #expect(text.contains("/v2/timeseries/{user_id}/{resource}") || text.contains("/v2/timeseries/:user_id"))
        for secret in [id, "white_bear", "5.4321", SandboxConfiguration.fixedKey] {
            #expect(!text.contains(secret))
        }
    }

    @Test("a port in use is a typed error, for run and for whoever waits for the address")
    func portInUse() async throws {
        try await withSandbox { probe in
            let port = probe.address.port
            let second = try SandboxServer(configuration: .init(port: port), logger: Logger(label: "second"))
            let waiting = Task { try await second.address() }
            await #expect(throws: SandboxError.portInUse(port: port)) { try await second.run() }
            await #expect(throws: SandboxError.portInUse(port: port)) { try await waiting.value }
        }
    }

    @Test("storage that cannot be opened is a typed error")
    func badStorage() throws {
        let logger = Logger(label: "bad")
        #expect(throws: SandboxError.self) {
            try SandboxServer(configuration: .init(storage: .directory("/dev/null/x")), logger: logger)
        }
    }

    @Test("a graceful shutdown does not wait for a client that stopped in the middle of a request")
    func shutdown() async throws {
        let clock = ContinuousClock()
        let logger = Logger(label: "shutdown") { _ in SwiftLogNoOpLogHandler() }
        let server = try SandboxServer(configuration: .init(), logger: logger)
        let group = ServiceGroup(services: [server], logger: logger)
        let running = Task { try await group.run() }
        let port = try await server.address().port
        let stalled = Task.detached {
            try await rawExchange(
                port,
                "POST /v2/user HTTP/1.1\r\nhost: x\r\nx-vital-api-key: sk_us_sandbox\r\ncontent-length: 100\r\n\r\n{",
                patience: 300)
        }
        try await Task.sleep(for: .milliseconds(200))
        let took = try await clock.measure {
            await group.triggerGracefulShutdown()
            try await running.value
        }
        // One second of grace, and the rest for a machine under load: well below the patience of the client.
        #expect(took < .seconds(150))
        _ = try await stalled.value
    }
}
