import GATTClient
import HealthReadings
import Testing

@testable import HealthDevices

/// What Omron monitors advertise.
@Suite struct OmronAdvertisementTests {
    @Test("the advertisement of an HEM-7361T says both users' newest measurements (ble_monitor issue 1003)")
    func logged() throws {
        let octets = [UInt8](hex: "0101d002641100" + "11")
        let said = try #require(OmronAdvertisement(octets))
        #expect(said.users == [.init(newest: 720, count: 100), .init(newest: 17, count: 17)])
        #expect(!said.isClockUnset && !said.isPairing && said.news == Array(octets.dropFirst(2)))
        var later = octets
        later[2] += 1
        #expect(OmronAdvertisement(later)?.news != said.news)
        // Status bits alone are no news.
        var unset = octets
        unset[1] |= 0b0100_1100
        let other = try #require(OmronAdvertisement(unset))
        #expect(other.news == said.news && other.isClockUnset && other.isPairing)
    }

    @Test("each format has the lengths that its users make, and no other says anything")
    func lengths() {
        let lengths: [UInt8: [Int]] = [
            1: [5, 8, 11, 14], 2: [5, 8, 11, 14], 6: [5, 8, 11, 14], 8: [10, 13], 9: [9, 11, 13, 15],
        ]
        for format in UInt8.min...UInt8.max {
            for field in 0..<4 {
                for length in 0..<24 {
                    var octets = [UInt8](repeating: 0, count: length)
                    if length > 0 { octets[0] = format }
                    if length > 1 { octets[1] = UInt8(field) }
                    let isOne =
                        format == 3
                        ? length >= 3
                        : lengths[format].map { field < $0.count && $0[field] == length } ?? false
                    #expect((OmronAdvertisement(octets) != nil) == isOne, "\(format) \(field) \(length)")
                }
            }
        }
    }

    @Test("another maker's data says nothing")
    func others() {
        let advertisement = Advertisement(
            address: nil, manufacturerData: [0x004C: [1, 0, 1, 0, 1]], seenAt: Instant(seconds: 0))
        #expect(OmronAdvertisement(advertisement) == nil)
    }
}
