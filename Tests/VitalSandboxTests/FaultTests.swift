import Testing

@testable import VitalSandbox

@Suite("Ordered faults")
struct FaultTests {
    @Test("a status is answered in JSON, after N requests, so often, and never to an inspection")
    func status() async throws {
        var configuration = SandboxConfiguration()
        configuration.faults = try FaultPlan("status=503,retry-after=7,after=2,times=3")
        try await withSandbox(configuration) { probe in
            var statuses: [Int] = []
            for number in 0..<7 {
                statuses.append(try await probe.send("POST", "/v2/user", #"{"client_user_id":"\#(number)"}"#).status)
                let users = try await probe.send("GET", "/sandbox/users")
                #expect(users.status == 200)
            }
            #expect(statuses == [200, 200, 503, 503, 503, 200, 200])
        }
    }

    @Test("a dropped connection answers nothing; dropped after, the request was carried out", arguments: [false, true])
    func drop(after: Bool) async throws {
        var configuration = SandboxConfiguration()
        configuration.faults = try FaultPlan(after ? "drop=after" : "drop")
        try await withSandbox(configuration) { probe in
            let body = #"{"client_user_id":"x"}"#
            let text = try await rawExchange(
                probe.address.port,
                "POST /v2/user HTTP/1.1\r\nhost: x\r\nx-vital-api-key: sk_us_sandbox\r\n"
                    + "content-length: \(body.utf8.count)\r\n\r\n\(body)")
            #expect(text == "")
            let users = try await probe.send("GET", "/sandbox/users").json["users"] as? [Any]
            #expect(users?.count == (after ? 1 : 0))
        }
    }

    @Test("a truncated answer ends in the middle; the request was carried out")
    func truncate() async throws {
        var configuration = SandboxConfiguration()
        configuration.faults = try FaultPlan("truncate")
        try await withSandbox(configuration) { probe in
            let body = #"{"client_user_id":"x"}"#
            let text = try await rawExchange(
                probe.address.port,
                "POST /v2/user HTTP/1.1\r\nhost: x\r\nx-vital-api-key: sk_us_sandbox\r\n"
                    + "content-length: \(body.utf8.count)\r\n\r\n\(body)")
            #expect(text.hasPrefix("HTTP/1.1 200") && text.hasSuffix("{\"success\":tr"))
            let users = try await probe.send("GET", "/sandbox/users").json["users"] as? [Any]
            #expect(users?.count == 1)
        }
    }

    @Test("a slow answer comes late, and a rate strikes its share, the same with the same seed")
    func slowAndRate() async throws {
        var configuration = SandboxConfiguration()
        configuration.faults = try FaultPlan("slow=0.3,times=1")
        try await withSandbox(configuration) { probe in
            let took = try await ContinuousClock().measure {
                _ = try await probe.send("GET", "/v2/user/resolve/x")
            }
            #expect(took >= .milliseconds(300))
        }
        let plan = try FaultPlan("status=500,rate=0.3,seed=4")
        let first = FaultDice(plan)
        let second = FaultDice(plan)
        var strikes = 0
        for _ in 0..<1000 {
            let struck = await first.strike()
            let again = await second.strike()
            #expect(struck == again)
            if struck { strikes += 1 }
        }
        #expect((250...350).contains(strikes))
    }

    @Test("a fault can be ordered for one part of a path: the others work")
    func path() async throws {
        var configuration = SandboxConfiguration()
        configuration.faults = try FaultPlan("status=404,path=temperature")
        try await withSandbox(configuration) { probe in
            let id = try await probe.user(sources: ["manual"])
            func post(_ name: String, _ unit: String) async throws -> Int {
                let item = Bodies.quantity("36", unit, "unknown", at: "2026-11-20T12:30:00Z")
                return try await probe.send(
                    "POST", "/v2/timeseries/\(id)/\(name)", Bodies.envelope([item], provider: "manual")
                ).status
            }
            #expect(try await post("temperature", "°C") == 404)
            #expect(try await post("blood_oxygen", "%") == 200)
        }
    }

    @Test(
        "a wrong specification names its part",
        arguments: [
            "", "rate=0.5", "status=200", "status", "drop=never", "slow=x", "rate=2,drop", "panic", "drop,",
            "drop,path=", "drop,path=a/b",
        ])
    func wrong(specification: String) {
        #expect(throws: FaultPlan.Failure.self) { try FaultPlan(specification) }
    }
}
