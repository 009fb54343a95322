import HealthReadings
import Testing
import VitalClient

@testable import VitalDestination

@Suite("Posts of an oximeter's night")
struct NightTests {
    private static func samples(_ count: Int) -> [QuantitySample] {
        (0..<count).map { number in
            QuantitySample(
                id: "night-\(number)", value: ExactDecimal(significand: 97), unit: .percent,
                at: Instant(seconds: 1_790_000_000 + Int64(number)))
        }
    }

    @Test("a series of more samples than a post has is cut, and no sample is lost", arguments: [1, 5000, 5001, 12_001])
    func cut(count: Int) {
        let samples = Self.samples(count)
        for data in [TimeSeriesData.bloodOxygen(samples), .heartRate(samples)] {
            let pieces = data.cutBySamples.map { piece -> [QuantitySample] in
                switch piece {
                case .bloodOxygen(let samples), .heartRate(let samples): samples
                default: []
                }
            }
            #expect(pieces.flatMap(\.self) == samples && pieces.allSatisfy { $0.count <= 5000 })
            #expect(data.cutBySamples.allSatisfy { $0.resource == data.resource })
        }
        #expect(TimeSeriesData.glucose(samples).cutBySamples == [.glucose(samples)])
    }
}
