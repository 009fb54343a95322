import HealthReadings
import Testing

@testable import GatewayCommands

@Suite("LibreView's table") struct LibreViewTableTests {
    @Test("a sensor that another program passes on as plain glucose is history, by its pace; other values are strips")
    func pace() throws {
        let zone = try #require(ZoneRules.named("UTC"))
        let begin = try #require(Instant(rfc3339: "2026-11-20T07:00:00Z"))
        func reading(_ number: Int, of source: String, every seconds: Int64) -> Reading {
            let time = begin.advanced(bySeconds: Int64(number) * seconds)
            let quantity = Quantity(ExactDecimal(significand: 120), .milligramsPerDecilitre)
            var record = Record(value: .glucose(GlucoseValue(concentration: quantity)))
            record.imported = ImportFacts(source: source)
            return Reading(
                id: ReadingID(high: source == "Dexcom" ? 1 : 2, low: UInt64(number)), record: record,
                device: DeviceDescription(address: nil, model: "imported", provider: "apple_health_kit"),
                time: ResolvedTime(instant: time, basis: .corrected), receivedAt: time)
        }
        let sensor = (0..<12).map { reading($0, of: "Dexcom", every: 300) }
        let sticks = (0..<12).map { reading($0, of: "Diary", every: 7200) }
        let table = LibreViewTable(
            sensor + sticks, person: "anna", now: begin, zone: { _ in zone }, model: { $0.name })
        let rows = table.lines.dropFirst(2).map { $0.split(separator: ",", omittingEmptySubsequences: false) }
        #expect(rows.count == 24 && table.leftOut == 0)
        for (device, type, column) in [("Dexcom", "0", 4), ("Diary", "2", 14)] {
            let own = rows.filter { $0[0] == device }
            #expect(own.count == 12 && own.allSatisfy { $0[3] == type && $0[column] == "120" }, "\(device)")
        }
    }
}
