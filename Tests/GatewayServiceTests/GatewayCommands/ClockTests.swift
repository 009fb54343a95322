import EmulatedRadio
import GATTClient
import GatewaySettings
import HealthReadings
import ReadingStore
import Testing

@testable import GatewayCommands

/// `devices set-clock`: the one way a device's clock is set.
@Suite struct ClockTests {
    private static let order = Operation.device(
        .setClock(SetClockOperation(address: "C0:00:00:00:18:08", seconds: 60)))

    private func difference(_ bench: GatewayBench) async throws -> Int? {
        let devices = try await bench.lines(.device(.list))[0].object["devices"] as? [[String: any Sendable]] ?? []
        return (devices.first?["clock"] as? [String: any Sendable])?["difference_seconds"] as? Int
    }

    @Test(
        "promise 7: the clock is set to the user's time on request, and `devices` says how it stands",
        arguments: GatewayBench.Way.allCases)
    func set(_ way: GatewayBench.Way) async throws {
        let meter = try await ReadTests.paired()
        meter.giveClock(WallTime(secondsSinceEpoch: 1_780_000_000))
        let bench = try await GatewayBench(way, [meter])
        try await bench.run(ReadTests.read)
        #expect(abs(try #require(try await difference(bench))) > 86_400)
        let before = meter.events.count
        let lines = try await bench.lines(Self.order)
        let document = try #require(lines.first).object
        #expect(lines.count == 1 && document["address"] as? String == "C0:00:00:00:18:08")
        let after = try #require((document["after"] as? [String: any Sendable])?["difference_seconds"] as? Int)
        #expect(abs(after) <= 60, "a busy machine may take a while between writing and reading")
        let written = meter.events[before...].filter { if case .wrote = $0 { true } else { false } }
        #expect(written.count == 1, "nothing is asked at the record access control point")
        #expect(abs(try #require(try await difference(bench))) <= 60)
        try await bench.stop()
    }

    @Test("the clock of a meter that is another person's whole is set to that person's time")
    func another() async throws {
        let meter = try await ReadTests.paired()
        meter.giveClock(WallTime(secondsSinceEpoch: 1_780_000_000))
        let bench = try await GatewayBench(.inProcess, [meter])
        try await bench.gateway.store.setPeople([
            StorePerson(
                clientUserID: "brown_bear", timeZone: "America/New_York",
                shares: [.init(address: 0xC000_0000_1808, slot: nil)])
        ])
        try await bench.run(Self.order)
        #expect(abs(try #require(try await difference(bench))) <= 60)
        try await bench.stop()
    }

    @Test("a clock that may not be set is named, and a device that is not paired is left alone")
    func refused() async throws {
        let meter = try await ReadTests.paired()
        meter.giveClock(WallTime(secondsSinceEpoch: 1_780_000_000), refusesToBeSet: true)
        let bench = try await GatewayBench(.inProcess, [meter])
        let problem = try await bench.problem(Self.order)
        #expect(problem.code == "clock_refused" && problem.status == .notPermitted && problem.hint != nil)
        _ = try await bench.radio.unpair(meter.address)
        #expect(try await bench.problem(Self.order).code == "not_paired")
        try await bench.stop()
    }
}
