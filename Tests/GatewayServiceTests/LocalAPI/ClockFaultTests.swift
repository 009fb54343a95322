import HealthReadings
import LocalAccess
import Synchronization
import Testing

@testable import GatewayCommands
@testable import LocalAPI

@Suite("A clock that is not trusted at a glance", .timeLimit(.minutes(5))) struct ClockFaultTests {
    @Test("the overview says so while it lasts, to the household and to a client of one person, and asks seldom")
    func overview() async throws {
        let watch = SettableWatch()
        let bench = try await APIBench(
            tls: false, captures: [], settings: ["user.client_user_id": "anna", "clock.require_sync": "true"],
            machine: watch.machine)
        let token = try await bench.token(for: try #require(AccessGrant(.read, person: "anna")))
        func texts() async throws -> [String] {
            [
                try await bench.send("/api/v1/gateway").text,
                try await bench.send("/api/v1/gateway", token: token).text,
            ]
        }
        let told = #""clock_fault":{"code":"clock_not_trusted","reason":"not_synchronised"}"#
        let during = try await texts()
        #expect(during.allSatisfy { $0.contains(told) }, "\(during)")
        let asked = watch.asked
        for _ in 0..<20 { _ = try await texts() }
        // Forty requests; a look counts for five seconds.
        #expect(watch.asked < asked + 10, "\(watch.asked - asked)")
        watch.isSynchronized = true
        _ = await bench.gateway.clock.doubt()
        let after = try await texts()
        #expect(after.allSatisfy { $0.contains(#""clock_fault":null"#) }, "\(after)")
        try await bench.stop()
    }

    @Test("each kind of doubt about the whole clock has a published name")
    func names() {
        let doubts: [ClockDoubt] = [
            .beforeStored(Instant(seconds: 0)), .beforeBuild(Instant(seconds: 0)), .jumped(1), .notSynchronized,
        ]
        #expect(doubts.map(\.name) == ["before_stored", "before_build", "jumped", "not_synchronised"])
    }

    @Test("what the last look has found counts for some seconds, and no longer")
    func lastLook() async {
        let machine = GatewayClockTests.Machine()
        let clock = machine.clock(requiresSynchronization: true)
        #expect(await clock.recentDoubt() == .notSynchronized)
        machine.state.withLock { $0.isSynchronized = true }
        machine.pass(4)
        #expect(await clock.recentDoubt() == .notSynchronized)
        machine.pass(1)
        #expect(await clock.recentDoubt() == nil)
    }
}
