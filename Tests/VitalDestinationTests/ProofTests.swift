import DeliveryFixture
import Foundation
import ReadingDelivery
import ScriptedServer
import Testing
import VitalClient

@testable import VitalDestination

private let whiteBear = #"{"user_id":"00000000-0000-4000-8000-000000000001","client_user_id":"white_bear"}"#

@Suite("What a test of a server proves") struct ProofTests {
    /// The findings about a server whose answers depend on whether it is asked with the right key.
    private func findings(
        _ answer: @escaping @Sendable (_ isRightKey: Bool) -> ScriptedAnswer
    ) async throws -> [Finding] {
        let key = "sk_eu_right"
        return try await Fixture.with { fixture in
            try await ScriptedServer.with({ answer($0.headers["x-vital-api-key"] == key) }) { server in
                let destination = VitalDestination(
                    store: fixture.store, api: try api(server.baseURL, key: key), policy: .create,
                    logger: Fixture.quiet)
                let findings = await destination.test()
                #expect(server.requests.allSatisfy { $0.method == "GET" })
                return findings
            }
        }
    }

    @Test("an answer about the person proves the key")
    func person() async throws {
        let findings = try await findings { _ in .json(200, whiteBear) }
        #expect(findings.map(\.isGood) == [true, nil, true, true, nil], "\(findings)")
    }

    @Test(
        "the days of which the server keeps a person's data are told",
        arguments: [
            (#""ingestion_start":"2020-01-01""#, nil, "before 2020-01-01"),
            (#""ingestion_start":"2999-01-01","ingestion_end":null"#, false, "before 2999-01-01"),
            (#""ingestion_end":"2020-01-01T00:00:00""#, false, "from 2020-01-01 on"),
            (#""ingestion_start":"2020-01-01","ingestion_end":"2999-01-01""#, nil, "or from 2999-01-01 on"),
            (#""ingestion_start":null,"ingestion_end":"soon""#, nil, "cannot be proven"),
        ] as [(String, Bool?, String)])
    func bounds(_ members: String, _ isGood: Bool?, _ words: String) async throws {
        let findings = try await findings { _ in .json(200, "\(whiteBear.dropLast()),\(members)}") }
        #expect(findings.map(\.isGood) == [true, nil, true, true, isGood], "\(findings)")
        #expect(findings.last?.name == "delivery" && findings.last?.found.contains(words) == true, "\(findings)")
    }

    @Test(
        "the days are told to a session too if the server tells it whose it is; else that they can't be known",
        arguments: [
            (200, #","ingestion_end":"2020-01-01""#, false, "from 2020-01-01 on"), (200, "", nil, "cannot be proven"),
            (403, "", nil, "doesn't tell a sign-in token"), (404, "", nil, "doesn't tell a sign-in token"),
        ] as [(Int, String, Bool?, String)])
    func session(_ status: Int, _ members: String, _ isGood: Bool?, _ words: String) async throws {
        let id = "00000000-0000-4000-8000-000000000001"
        let claims = Data(#"{"uid":"\#(id)"}"#.utf8).base64EncodedString()
        let token = try VitalSignInToken(
            Data(#"{"public_key":"k","user_token":"a.\#(claims).c"}"#.utf8).base64EncodedString())
        let script: ScriptedServer.Script = { request in
            switch request.path {
            case "/v1/token": .json(200, #"{"access_token":"a","refresh_token":"r","expires_in":3600}"#)
            case "/v2/user/\(id)": .json(status, status == 200 ? "\(whiteBear.dropLast())\(members)}" : "{}")
            default: .json(200, #"{"providers":[]}"#)
            }
        }
        try await ScriptedServer.with(script) { server in
            let api = VitalAPI(
                server: try VitalServer(baseURL: server.baseURL),
                credentials: .session(VitalSession(signInToken: token, storage: MemorySession())),
                logger: Fixture.quiet)
            let findings = await VitalDestination.test(api, person: "white_bear")
            #expect(findings.map(\.isGood) == [true, nil, true, true, isGood], "\(findings)")
            #expect(findings.last?.name == "delivery" && findings.last?.found.contains(words) == true, "\(findings)")
        }
    }

    @Test(
        "404 proves the key only where the server refuses a key that nobody has", arguments: [401, 403])
    func absent(_ status: Int) async throws {
        let findings = try await findings {
            $0 ? .json(404, #"{"detail":"User not found"}"#) : .json(status, #"{"detail":"Invalid key"}"#)
        }
        #expect(findings.map(\.isGood) == [true, nil, true, true, nil], "\(findings)")
    }

    @Test(
        "404 with any key is another server's, and the finding says what was expected and found",
        arguments: [#"{"detail":"Not Found"}"#, "{}", #"{"error":"no such page"}"#])
    func elsewhere(_ body: String) async throws {
        let findings = try await findings { _ in .json(404, body) }
        let bad = try #require(findings.first { $0.isGood == false }, "\(findings)")
        #expect(!findings.contains { $0.isGood == true }, "\(findings)")
        #expect(bad.found.contains("expected") && bad.found.contains("401") && bad.found.contains("404"), "\(bad)")
        #expect(bad.mend?.contains("base_url") == true, "\(bad)")
    }

    @Test(
        "whatever else the API does not answer is a finding",
        arguments: [
            (200, "{}"), (200, "[]"), (200, "null"), (204, ""),
            (200, #"{"user_id":"1","client_user_id":"white_bear"}"#),
            (200, whiteBear.replacing("white_bear", with: "brown_bear")), (400, "{}"), (405, "{}"), (409, "{}"),
            (418, "{}"),
            (500, "{}"), (200, "<html>"), (404, "<html>"), (404, "null"),
        ])
    func wrong(_ status: Int, _ body: String) async throws {
        let findings = try await findings { _ in .json(status, body) }
        let bad = try #require(findings.first { $0.isGood == false }, "\(findings)")
        #expect(bad.name == "address" && bad.found.contains("/v2/user/resolve/{client_user_id}"), "\(bad)")
        #expect(!findings.contains { $0.isGood == true }, "\(findings)")
    }
}
