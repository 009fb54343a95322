import EmulatedRadio
import GATTClient
import HealthDevices
import HealthReadings
import LocalAccess
import Testing

@testable import GatewayCommands
@testable import LocalAPI

@Suite("A fault of the radio at a glance", .timeLimit(.minutes(5))) struct RadioFaultTests {
    private static let faults: [RadioError] = [
        .noService, .noAdapter("hci1"), .poweredOff("hci0"), .blocked("hci0", hard: false), .notPermitted("denied"),
        .noBus("no socket"), .lost, .other(name: "org.bluez.Error.Failed", message: "dev_C0_00_00_00_18_08"),
    ]

    @Test(
        "the overview has its code while it stands, to the household and to a client of one person",
        arguments: faults)
    func overview(_ error: RadioError) async throws {
        let bench = try await APIBench(
            tls: false, captures: ["two-meters"], settings: ["user.client_user_id": "white_bear"])
        let grant = try #require(AccessGrant(.read, person: "white_bear"))
        let token = try await bench.token(for: grant)
        let manager = try bench.gateway.requireManager()
        let schedule = Task { await MeterSchedule(manager).run() }
        func texts() async throws -> [String] {
            [
                try await bench.send("/api/v1/gateway").text,
                try await bench.send("/api/v1/gateway", token: token).text,
            ]
        }
        let before = try await texts()
        #expect(before.allSatisfy { $0.contains(#""radio_fault":null,"#) }, "\(before)")
        bench.radio.setAdapter(.unusable(error))
        while manager.standingFaults.isEmpty { try await Task.sleep(for: .milliseconds(5)) }
        let during = try await texts()
        let told = #""radio_fault":{"code":"\#(error.code)","began_at":"2"#
        #expect(during.allSatisfy { $0.contains(told) && !$0.contains("C0_00") }, "\(during)")
        bench.radio.setAdapter(.emulated)
        while !manager.standingFaults.isEmpty { try await Task.sleep(for: .milliseconds(5)) }
        let after = try await texts()
        #expect(after.allSatisfy { $0.contains(#""radio_fault":null,"#) }, "\(after)")
        schedule.cancel()
        await schedule.value
        try await bench.stop()
    }
}
