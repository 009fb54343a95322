import HealthReadings
import Testing

@testable import HealthDevices

@Suite struct OmronOrderTests {
    @Test(
        "where either order may be meant, a record that both fit is not read by the wrong one",
        arguments: OmronRecordLayout.Order.allCases)
    func ambiguous(order: OmronRecordLayout.Order) throws {
        let layout = OmronRecordLayout(length: 14, order: nil)
        var (both, wrong) = (0, 0)
        for _ in 0..<60_000 {
            var sample = OmronSample()
            sample.systolic = .random(in: 105...145)
            sample.diastolic = .random(in: 60...95)
            sample.pulse = .random(in: 50...95)
            (sample.month, sample.day, sample.hour) = (
                .random(in: 1...12), .random(in: 1...28), .random(in: 0...23)
            )
            (sample.minute, sample.second, sample.number) = (
                .random(in: 0...59), .random(in: 0...59), .random(in: 0...120)
            )
            // A monitor with 0 beside the sum, and a sum of 0.
            var octets = sample.octets(14, order)
            guard octets.dropLast(2).reduce(0, &+) == 0 else { continue }
            (octets[12], octets[13]) = (0, 0)
            both += 1
            guard let read = try? layout.record(octets) else { continue }
            if read.systolic != sample.systolic || read.time != sample.time { wrong += 1 }
        }
        #expect(both > 0 && wrong == 0, "\(wrong) of \(both)")
    }
}
