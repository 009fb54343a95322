import EmulatedRadio
import GATTClient
import HealthDevices
import HealthReadings
import TestSupport
import Testing

@testable import GatewayCommands
@testable import GatewaySettings

/// `watch --faults`.
@Suite struct FaultCommandTests {
    @Test(
        "faults are shown beside readings, once each, by whatever way the command reaches the gateway",
        .timeLimit(.minutes(2)), arguments: GatewayBench.Way.allCases)
    func watched(_ way: GatewayBench.Way) async throws {
        let meter = EmulatedMeter("C0:00:00:00:18:08", name: "meter+1808")
        meter.bondAlready()
        meter.forgetBond()
        meter.sleep()
        let bench = try await GatewayBench(way, [meter])
        let output = Collected()
        let watching = Task {
            try await bench.run(.device(.watch(types: ["glucose"], faults: true)), output: output)
        }
        let manager = try bench.gateway.requireManager()
        bench.radio.setAdapter(.unusable(.poweredOff("hci0")))
        #expect(await eventually { output.data.count == 1 })
        bench.radio.setAdapter(.unusable(.poweredOff("hci0")))
        bench.radio.setAdapter(.emulated)
        #expect(await eventually { output.data.count == 2 })
        meter.wake()
        #expect(await eventually { output.data.count == 3 })
        #expect(try await manager.unpair(meter.address))
        #expect(await eventually { output.data.count == 4 })
        watching.cancel()
        _ = try? await watching.value
        let expected = [
            (#"{"fault":{"subject":"radio","address":null,"code":"adapter_powered_off","name":"poweredOff""#, true),
            (#"{"fault":{"subject":"radio","address":null,"code":"adapter_powered_off""#, false),
            (#"{"fault":{"subject":"device","address":"C0:00:00:00:18:08","code":"bond_lost_by_device""#, true),
            (#"{"fault":{"subject":"device","address":"C0:00:00:00:18:08","code":"bond_lost_by_device""#, false),
        ]
        #expect(output.data.count == expected.count)
        for (line, (start, stands)) in zip(output.data, expected) {
            #expect(line.hasPrefix(start) && line.hasSuffix(#""ended_at":null}}"#) == stands, "\(line)")
        }
        try await bench.stop()
    }

    @Test("without a radio by the settings there are no faults to watch")
    func noRadio() async throws {
        let bench = try await GatewayBench(settings: ["bluetooth.adapter": "none"])
        let problem = try await bench.problem(.device(.watch(types: [], faults: true)))
        #expect(problem.code == "bluetooth_disabled")
        try await bench.stop()
    }

    @Test("for people, a fault is a line with what to do, and another when it has passed")
    func lines() {
        var fault = DeviceFault(.radio, ContactFailure(RadioError.noService), began: Instant(seconds: 1))
        #expect(fault.line.contains("bluetoothd") && fault.line.contains("systemctl start bluetooth"))
        fault.ended = Instant(seconds: 2)
        #expect(fault.line == "passed: the Bluetooth service (bluetoothd) is not running")
    }
}
