import GATTClient
import HealthReadings
import Testing

@testable import HealthDevices

@Suite struct ProbeIndexTests {
    @Test("what looks like an index in its first words may have anything of a person behind them")
    func index() {
        var map = OmronMap()
        // Two small words, then a date of birth, a height and a weight.
        map.note([0, 1, 0, 2, 0x19, 0x66, 0x04, 0x11, 0x06, 0xE5, 0x02, 0xDE, 0x41, 0x4E, 0x4E, 0x41], at: 0x0260)
        for area in map.areas(beside: []) {
            if case .index(let octets) = area.content { #expect(!octets.contains(0x66), "\(octets)") }
        }
    }
}
