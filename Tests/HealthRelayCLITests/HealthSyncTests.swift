import EmulatedPhone
import Foundation
import Testing

/// The built command against a phone on a real socket, over TLS 1.3.
@Suite("The command healthsync", .timeLimit(.minutes(5))) struct HealthSyncTests {
    private static let noon = Date(timeIntervalSince1970: 1_795_176_000)
    private static let types = ["heartRate", "sleepAnalysis", "steps", "bloodOxygen"]

    /// A phone, and a state directory that is paired with it.
    private struct Paired {
        let scratch: Scratch
        let phone: EmulatedPhone

        init(_ samples: [PhoneSample], _ enabled: [String] = HealthSyncTests.types) async throws {
            scratch = try Scratch()
            var state = EmulatedPhone.State()
            state.samples = samples
            state.enabled = enabled
            phone = try await EmulatedPhone.start(state)
            let result = try await run("pair", phone.showCode(), "--json")
            try #require(result.status == 0, "\(result.errors)")
        }

        func run(_ arguments: String...) async throws -> Tool.Result {
            try await Tool.run(["healthsync"] + arguments + ["--state-dir", scratch.state])
        }

        /// Fetches the day around noon.
        func fetch(_ arguments: String...) async throws -> Tool.Result {
            try await Tool.run(
                ["healthsync", "fetch", "--from", "2026-11-20T00:00:00Z", "--to", "2026-11-21T00:00:00Z"] + arguments
                    + ["--state-dir", scratch.state])
        }

        var tokenFiles: [URL] {
            let folder = URL(fileURLWithPath: scratch.state + "/healthsync")
            return (try? FileManager.default.contentsOfDirectory(at: folder, includingPropertiesForKeys: nil)) ?? []
        }
    }

    private func check(_ schema: String, _ text: String, lines: Bool = false) async throws {
        let file = try Tool.temporaryDirectory().appendingPathComponent("document.json")
        defer { try? FileManager.default.removeItem(at: file.deletingLastPathComponent()) }
        try Data(text.utf8).write(to: file)
        let result = try await Tool.other(
            Tool.root.path + "/Tests/Schemas/check", (lines ? ["--lines"] : []) + [schema, file.path])
        #expect(result.status == 0, "\(schema): \(result.errors)\(result.output)")
    }

    private static func heartRates(_ count: Int) -> [PhoneSample] {
        (0..<count).map { PhoneSample("heartRate", 60 + Double($0 % 30), "count/min", at: noon - Double($0) * 60) }
    }

    @Test("pair, list, status, types, fetch, forget: each prints its document")
    func course() async throws {
        let scratch = try Scratch()
        var state = EmulatedPhone.State()
        state.samples =
            Self.heartRates(3) + [
                .sleep(5, from: Self.noon - 3600, to: Self.noon), PhoneSample("bloodOxygen", 0.97, "%", at: Self.noon),
            ]
        state.enabled = Self.types
        let phone = try await EmulatedPhone.start(state)
        func run(_ arguments: String...) async throws -> Tool.Result {
            try await Tool.run(["healthsync"] + arguments + ["--json", "--state-dir", scratch.state])
        }
        let paired = try await run("pair", phone.showCode())
        #expect(paired.status == 0, "\(paired.errors)")
        try await check("healthsync_pair", paired.output)
        #expect(paired.output.contains(#""phone":"Ann's iPhone""#))
        try await check("healthsync_list", try await run("list").output)
        let status = try await run("status")
        try await check("healthsync_status", status.output)
        try await check("healthsync_types", try await run("types").output)
        let fetched = try await run("fetch", "--from", "2026-11-20T00:00:00Z", "--to", "2026-11-21T00:00:00Z")
        #expect(fetched.status == 0, "\(fetched.errors)")
        try await check("healthsync_fetch", fetched.output)
        #expect(fetched.output.contains(#""value":0.97,"unit":"%""#) && fetched.output.contains(#""sleepStage":"rem""#))
        let lines = try await run(
            "fetch", "--from", "2026-11-20T00:00:00Z", "--to", "2026-11-21T00:00:00Z", "--format", "ndjson")
        try await check("healthsync_sample", lines.output, lines: true)
        #expect(lines.lines.count == 5)
        try await check("healthsync_forget", try await run("forget", "Ann's iPhone").output)
        #expect(try await run("status").status == 78)
        await phone.stop()
    }

    @Test("the token's file is its owner's alone, and no output or log shows what it holds")
    func token() async throws {
        let paired = try await Paired(Self.heartRates(2))
        let file = try #require(paired.tokenFiles.first)
        #expect(paired.tokenFiles.count == 1)
        let attributes = try FileManager.default.attributesOfItem(atPath: file.path)
        #expect(attributes[.posixPermissions] as? Int == 0o600)
        let members = try #require(
            try JSONSerialization.jsonObject(with: Data(contentsOf: file)) as? [String: Any])
        let token = try #require(members["token"] as? String)
        paired.phone.change { $0.tokens = [] }
        for command in ["status", "types", "list", "fetch"] {
            let result = try await Tool.run(
                ["healthsync", command, "--log-level", "trace", "--state-dir", paired.scratch.state])
            #expect(!result.output.contains(token) && !result.errors.contains(token))
        }
        await paired.phone.stop()
    }

    @Test("CSV has a header and a record for each sample, quoted where it has to be")
    func csv() async throws {
        var samples = Self.heartRates(30)
        samples[0].source = #"Ann's "big", watch"#
        samples[1].source = "two\nlines"
        let paired = try await Paired(samples)
        let result = try await paired.fetch("--types", "heartRate,sleepAnalysis")
        #expect(result.status == 0, "\(result.errors)")
        #expect(result.lines.first == "id,type,value,unit,start,end,source,metadata" && result.lines.count == 31)
        #expect(result.output.contains(#","Ann's ""big"", watch","#) && result.output.contains("two lines"))
        await paired.phone.stop()
    }

    @Test("a phone with another certificate is sent nothing; the error says what to do")
    func wrongCertificate() async throws {
        let paired = try await Paired(Self.heartRates(2))
        let (port, count) = (paired.phone.port, paired.phone.requests.count)
        #expect(count == 2)
        await paired.phone.stop()
        let other = try await EmulatedPhone.start(port: port)
        let result = try await paired.run("status", "--json")
        #expect(result.status == 69 && result.errors.contains(#""code":"wrong_certificate""#), "\(result.errors)")
        #expect(other.requests.isEmpty && other.connections > 0)
        await other.stop()
    }

    @Test("a token that is over, a locked phone, a type that isn't shared, no phone: each has its code and status")
    func refusals() async throws {
        let paired = try await Paired(Self.heartRates(2))
        func expect(_ code: String, _ status: Int32, _ arguments: String...) async throws {
            let result = try await Tool.run(
                ["healthsync"] + arguments + ["--json", "--state-dir", paired.scratch.state])
            #expect(result.status == status, "\(code): \(result.errors)")
            #expect(
                result.errors.split(separator: "\n").last?.contains(#""code":"\#(code)""#) == true, "\(result.errors)")
        }
        try await expect("type_not_enabled", 77, "fetch", "--types", "weight,heartRate")
        try await expect("usage", 64, "fetch", "--types", "heart rate")
        try await expect("usage", 64, "fetch", "--from", "2026-11-21T00:00:00Z", "--to", "2026-11-20T00:00:00Z")
        try await expect("no_such_phone", 66, "status", "--phone", "Bob's iPhone")
        paired.phone.change { $0.isLocked = true }
        try await expect("phone_locked", 75, "fetch")
        paired.phone.change {
            $0.isLocked = false
            $0.tokens = []
        }
        try await expect("token_expired", 77, "fetch")
        try await expect(
            "pairing_refused", 77, "pair", paired.phone.showCode("right111").replacing("right111", with: "wrong111"))
        try await expect("pairing_payload_invalid", 65, "pair", "{}")
        paired.phone.change { state in
            state.tokens.insert("x")
            state.fault = { _, reply in
                reply = .refusal(200, "OK", "<html>")
                reply.type = "text/html"
            }
        }
        try await expect("not_json", 76, "status")
        await paired.phone.stop()
        try await expect("no_connection", 69, "status")
    }

    @Test("two phones: one has to be named; another phone of the same name gets a number")
    func twoPhones() async throws {
        let paired = try await Paired(Self.heartRates(2))
        let second = try await EmulatedPhone.start()
        let pairing = try await paired.run("pair", second.showCode())
        #expect(pairing.output.contains("Ann's iPhone 2"), "\(pairing.output)\(pairing.errors)")
        #expect(try await paired.run("status").status == 64)
        #expect(try await paired.run("status", "--phone", "Ann's iPhone 2").status == 0)
        // The same phone again takes the place of what was.
        #expect(try await paired.run("pair", second.showCode()).output.contains("Ann's iPhone 2"))
        #expect(paired.tokenFiles.count == 2)
        // So does one that calls itself something else by now, and one that is to be called something else.
        second.change { $0.name = "Bob's iPhone" }
        #expect(try await paired.run("pair", second.showCode()).output.contains("Ann's iPhone 2"))
        #expect(paired.tokenFiles.count == 2)
        #expect(try await paired.run("pair", second.showCode(), "--name", "Bob").output.contains("Bob"))
        #expect(try await !paired.run("list").output.contains("Ann's iPhone 2"))
        #expect(paired.tokenFiles.count == 2)
        await paired.phone.stop()
        await second.stop()
    }

    @Test("a fetch that fails on the way says so, and its document is no JSON")
    func partial() async throws {
        let paired = try await Paired(Self.heartRates(40))
        paired.phone.change { state in
            state.largestPage = 10
            let first = state.tokens
            state.fault = { request, reply in
                guard request.members["startDate"] != nil, request.number > 5, !first.isEmpty else { return }
                reply = .refusal(401, "Unauthorized", "Missing or invalid token")
            }
        }
        let result = try await paired.fetch("--types", "heartRate", "--format", "json", "--json")
        #expect(result.status == 77 && result.errors.contains("these are not all"), "\(result.errors)")
        #expect((try? JSONSerialization.jsonObject(with: Data(result.output.utf8))) == nil)
        await paired.phone.stop()
    }
}
