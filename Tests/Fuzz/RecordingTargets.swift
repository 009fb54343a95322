import GATTProfiles
import HealthReadings

@testable import HealthDevices

extension FuzzTarget {
    /// Blocks and windows of recordings, and the series that blocks become: the first octet chooses.
    static let recording = FuzzTarget(
        "recording", longest: 600,
        seeds: { _ in
            var block = RecordedBlock(characteristic: 0x2A37)
            for second in 0..<20 {
                block.add(
                    HeartRateMeasurement(beatsPerMinute: 70, hasContact: true, intervals: [870]).encoded,
                    atMilliseconds: second * 1000)
            }
            let window = RecordedWindow(seconds: 300, runs: [[870, 880], [900]])
            let series = SampleSeries([
                .init(milliseconds: 0, value: ExactDecimal(significand: 705, exponent: -1), intervals: [870])
            ])
            return [[0] + block.payload, [1] + block.payload, [2] + window.payload, [3] + series.octets]
        }
    ) { octets in
        guard let choice = octets.first else { return }
        let payload = Array(octets.dropFirst())
        if choice & 3 == 3 {
            guard let series = try? SampleSeries(octets: payload) else { return }
            expect(Array(series).count == series.count, "a series has fewer samples than it says")
            expect(Array(SampleSeries(Array(series))) == Array(series), "a series is not what its samples are")
            return
        }
        let format: FrameFormat = [.heartRateBlock, .saturationBlock, .beatWindow][Int(choice & 3)]
        let frame = Frame(format: format, payload: payload, receivedAt: Instant(seconds: 1_795_000_000), ordinal: 0)
        let decoded = ModelFrameDecoder().decode(frame, model: nil)
        expect(decoded == ModelFrameDecoder().decode(frame, model: nil), "the same frame says two things")
        if case .record(let record) = decoded { _ = record.document().text }
        if let window = try? RecordedWindow(payload: payload) {
            expect((try? RecordedWindow(payload: window.payload)) == window, "a window is not what its octets say")
        }
    }
}
