import EmulatedRadio
import GATTClient
import GatewaySettings
import HealthReadings
import TestSupport
import Testing

@testable import GatewayCommands

/// `devices`, `monitor` and `watch`: what is known, and what comes.
@Suite struct DevicesTests {
    @Test("a device is listed with its bond, battery and readings", arguments: GatewayBench.Way.allCases)
    func list(_ way: GatewayBench.Way) async throws {
        let meter = try await ReadTests.paired()
        let bench = try await GatewayBench(way, [meter], settings: ["user.client_user_id": "white_bear"])
        try await bench.run(ReadTests.read)
        let output = try await bench.lines(.device(.list))
        let devices = output[0].object["devices"] as? [[String: any Sendable]] ?? []
        let device = try #require(devices.first)
        #expect(devices.count == 1)
        #expect(device["address"] as? String == "C0:00:00:00:18:08" && device["serial"] as? String == "meter+00001808")
        #expect(device["paired"] as? Bool == true && device["proven"] as? Bool == true)
        #expect(device["battery_percent"] as? Int == 87 && device["readings"] as? Int == 5)
        #expect(device["last_sequence"] as? Int == 5 && device["sequence_epoch"] as? Int == 0)
        #expect(device["provider"] as? String == "accuchek_ble" && device["user"] as? String == "white_bear")
        #expect(device["last_seen"] is String)
        try await bench.stop()
    }

    @Test("a bond that was made or removed by other means is seen")
    func otherMeans() async throws {
        let meter = try await ReadTests.paired()
        let bench = try await GatewayBench(.inProcess, [meter])
        #expect(try await bench.lines(.device(.list))[0].contains(#""paired":true,"proven":false"#))
        _ = try await bench.radio.unpair(meter.address)
        #expect(try await bench.lines(.device(.list))[0].contains(#""paired":false"#))
    }

    @Test(
        "once a user is removed, the meters are barred, whatever bond there is: only pairing one lifts it",
        .timeLimit(.minutes(2)), arguments: GatewayBench.Way.allCases)
    func barred(_ way: GatewayBench.Way) async throws {
        let meter = try await ReadTests.paired()
        let bench = try await GatewayBench(way, [meter])
        #expect(try await bench.lines(ReadTests.read).count == 5)
        try await bench.run(.user(.remove(confirmed: nil, local: true)))
        let before = meter.events.count
        let address = "C0:00:00:00:18:08"
        let one = try await bench.problem(.device(.read(ReadOperation(addresses: [address], seconds: 60))))
        #expect(one.code == "device_barred" && one.status == .configuration)
        #expect(one.hint?.contains("healthrelay pair \(address)") == true)
        let all = try await bench.problem(ReadTests.read)
        #expect(all.code == "nothing_paired" && all.message.contains(address))
        let listed = try await bench.lines(.device(.list), json: false)
        #expect(listed.count == 1 && listed[0].contains("barred until it is paired again"))
        #expect(try await bench.lines(.device(.list))[0].contains(#""paired":false,"proven":false"#))
        #expect(meter.events.count == before)
        #expect(try await bench.lines(.device(.pair(PairOperation(address: address, seconds: 60)))).count == 1)
        #expect(try await bench.lines(ReadTests.read).count == 5)
        try await bench.stop()
    }

    @Test("a schedule that runs leaves a meter alone once its user is removed", .timeLimit(.minutes(2)))
    func barredInSchedule() async throws {
        let meter = try await ReadTests.paired()
        let other = EmulatedMeter(
            "C0:00:00:00:18:09", name: "meter+00001809", pairing: .passkey(12_345), records: 1...3, serial: "00001809")
        let bench = try await GatewayBench(.inProcess, [meter, other])
        let output = Collected()
        let watching = Task { try await bench.run(.device(.watch(types: [])), output: output) }
        #expect(await eventually { output.data.count == 5 && !meter.isConnected })
        try await bench.run(.user(.remove(confirmed: nil, local: true)))
        meter.measure(6...7)
        meter.sleep()
        let before = meter.events.count
        meter.wake()
        // The other, which is paired now, is read by the same schedule: it has looked at all bonds anew.
        try await bench.run(
            .device(.pair(PairOperation(address: "C0:00:00:00:18:09", seconds: 60))), output: PairTests.typing(12_345))
        #expect(await eventually { output.data.count == 8 && !other.isConnected })
        #expect(meter.events.count == before)
        try await bench.run(.device(.pair(PairOperation(address: "C0:00:00:00:18:08", seconds: 60))))
        #expect(await eventually { output.data.count == 15 })
        watching.cancel()
        _ = await watching.result
        try await bench.stop()
    }

    @Test("without a radio, what is remembered is listed")
    func noRadio() async throws {
        let meter = try await ReadTests.paired()
        let bench = try await GatewayBench(.inProcess, [meter])
        try await bench.run(ReadTests.read)
        bench.radio.setAdapter(.unusable(.noAdapter(nil)))
        #expect(try await bench.lines(.device(.list))[0].contains(#""paired":true,"proven":true"#))
        let output = Collected()
        try await bench.run(.device(.list), json: false, output: output)
        #expect(output.data.count == 1 && output.data[0].contains("5 readings"))
    }

    @Test("promise 12: an alias does not lead back to its address, and is the same each time")
    func alias() throws {
        let address = try #require(DeviceAddress("C0:00:00:00:18:08"))
        let alias = DeviceAlias(address, model: "accuchek_guide")
        #expect(alias == DeviceAlias(address, model: "accuchek_guide"))
        #expect(alias.description == "accuchek_guide-\(alias.digits)" && alias.digits.count == 4)
        let others = Set((0..<1000).map { DeviceAlias(DeviceAddress(bits: $0, kind: .random), model: nil).digits })
        #expect(others.count > 980)
    }

    @Test(
        "monitor tells how devices stand, then each change", .timeLimit(.minutes(2)),
        arguments: GatewayBench.Way.allCases)
    func monitor(_ way: GatewayBench.Way) async throws {
        let meter = try await ReadTests.paired()
        let bench = try await GatewayBench(way, [meter])
        let output = Collected()
        let monitoring = Task { try await bench.run(.device(.monitor(addresses: [])), output: output) }
        #expect(await eventually { output.data.count == 1 })
        meter.hold(after: 0)
        let reading = Task { try await bench.run(ReadTests.read) }
        #expect(await eventually { output.data.count == 2 })
        meter.cut()
        _ = await reading.result
        #expect(await eventually { output.data.count == 3 })
        monitoring.cancel()
        _ = await monitoring.result
        #expect(output.data.map { $0.object["connected"] as? Bool } == [false, true, false])
        #expect(output.data.allSatisfy { $0.object["address"] as? String == "C0:00:00:00:18:08" })
        try await bench.stop()
    }

    @Test("monitor without a paired device is 66")
    func monitorNothing() async throws {
        let bench = try await GatewayBench()
        #expect(try await bench.problem(.device(.monitor(addresses: []))).code == "nothing_paired")
    }

    @Test("watch tells readings as they come into the store of a gateway", .timeLimit(.minutes(2)))
    func watch() async throws {
        let meter = try await ReadTests.paired()
        let bench = try await GatewayBench(.controlSocket, [meter], isService: true)
        let (all, none) = (Collected(), Collected())
        let watching = Task { try await bench.run(.device(.watch(types: ["glucose"])), output: all) }
        let other = Task { try await bench.run(.device(.watch(types: ["blood_pressure"])), output: none) }
        // Both have subscribed once a reading reaches them; what came before is no news.
        #expect(
            await eventually {
                meter.measure(100...100)
                try? await bench.run(.device(.read(ReadOperation(allRecords: true, seconds: 60))))
                meter.measureOther()
                return all.data.count >= 2
            })
        for task in [watching, other] {
            task.cancel()
            _ = await task.result
        }
        #expect(none.data.isEmpty)
        #expect(all.data.allSatisfy { $0.object["kind"] as? String == "glucose" })
        let problem = try await bench.problem(.device(.watch(types: ["weather"])))
        #expect(problem.status == .usage)
        try await bench.stop()
    }

    @Test("watch without a gateway reads the paired meters itself", .timeLimit(.minutes(2)))
    func watchAlone() async throws {
        let meter = try await ReadTests.paired()
        let bench = try await GatewayBench(.inProcess, [meter])
        let output = Collected()
        let watching = Task { try await bench.run(.device(.watch(types: [])), output: output) }
        #expect(await eventually { output.data.count == 5 })
        watching.cancel()
        _ = await watching.result
        #expect(!meter.isConnected)
    }
}
