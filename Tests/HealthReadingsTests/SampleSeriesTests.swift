import HealthReadings
import Testing

/// The samples behind a kept heart rate.
@Suite struct SampleSeriesTests {
    private static func random(_ generator: inout some RandomNumberGenerator) -> SampleSeries.Sample {
        let exponent = Bool.random(using: &generator) ? 0 : Int16.random(in: -4...2, using: &generator)
        let value: ExactDecimal? =
            Int.random(in: 0...4, using: &generator) == 0
            ? nil : ExactDecimal(significand: Int64.random(in: -3...70_000, using: &generator), exponent: exponent)
        let contact: Bool? = [nil, true, false].randomElement(using: &generator) ?? nil
        let count = [0, 1, 1, 1, 2, 9, 14, 15, 40].randomElement(using: &generator) ?? 0
        return SampleSeries.Sample(
            milliseconds: 0, value: value, hasContact: contact,
            intervals: (0..<count).map { _ in UInt16.random(in: 0...UInt16.max, using: &generator) })
    }

    @Test("what was written is read again, and cut octets are refused with the place")
    func roundTrip() throws {
        var generator = SystemRandomNumberGenerator()
        for _ in 0..<300 {
            var (samples, time): ([SampleSeries.Sample], Int) = ([], 0)
            for _ in 0..<Int.random(in: 0...70, using: &generator) {
                time += Int.random(in: 0...3000, using: &generator)
                var sample = Self.random(&generator)
                sample.milliseconds = time
                samples.append(sample)
            }
            let series = SampleSeries(samples)
            #expect(Array(series) == samples && series.count == samples.count)
            #expect(try SampleSeries(octets: series.octets) == series)
            guard let cut = series.octets.indices.dropFirst().randomElement(using: &generator) else { continue }
            // A cut may fall between two samples: what is left is then a shorter series.
            if let short = try? SampleSeries(octets: Array(series.octets[..<cut])) {
                #expect(short.count < series.count)
            }
        }
    }

    @Test("octets that may be anything never trap")
    func garbage() {
        var generator = SystemRandomNumberGenerator()
        for _ in 0..<5000 {
            let octets = (0..<Int.random(in: 0...60, using: &generator)).map { _ in
                UInt8.random(in: 0...255, using: &generator)
            }
            if let series = try? SampleSeries(octets: octets) { #expect(Array(series).count == series.count) }
        }
        #expect(throws: MalformedFrame.self) { try SampleSeries(octets: [0x08, 0x00]) }
        #expect(throws: MalformedFrame.self) { try SampleSeries(octets: [0xF0, 0x00, 0xFF, 0xFF, 0x7F]) }
    }

    @Test("a sample that seems to come before the one before it has its time")
    func order() {
        let series = SampleSeries([10, 5, 20].map { SampleSeries.Sample(milliseconds: $0, value: nil) })
        #expect(series.map(\.milliseconds) == [10, 10, 20])
    }

    @Test("a day of a strap at 1 Hz takes about 600 KB with its intervals, and 430 KB without")
    func size() {
        let strap = SampleSeries(
            (0..<60).map {
                SampleSeries.Sample(
                    milliseconds: $0 * 1000, value: ExactDecimal(significand: 70), hasContact: true, intervals: [870])
            })
        #expect(strap.octets.count * 1440 < 620_000, "\(strap.octets.count * 1440)")
        let plain = SampleSeries(
            (0..<60).map { SampleSeries.Sample(milliseconds: $0 * 1000, value: ExactDecimal(significand: 70)) })
        #expect(plain.octets.count * 1440 < 450_000, "\(plain.octets.count * 1440)")
    }
}
