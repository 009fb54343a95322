import GATTProfiles
import HealthReadings

@testable import HealthDevices

extension FuzzTarget {
    /// A recording of an O2Ring with its name in front, and what such an oximeter says of itself.
    static let o2ringRecording = FuzzTarget(
        "o2ring-recording", longest: 400,
        seeds: { _ in
            let name = Array("20261117225251".utf8)
            let samples: [[UInt8]] = [
                [97, 60, 0, 3, 0], [98, 61, 0, 0, 0x80], [0xFF, 0xFF, 0xFF, 0, 0], [0, 0, 0, 0, 0],
                [99, 64, 0, 127, 0],
                [99, 64, 0, 127, 0],
            ]
            func recording(_ version: UInt8, interval: UInt8, _ samples: [[UInt8]]) -> [UInt8] {
                let size = UInt8(40 + 5 * samples.count)
                let head: [UInt8] = [
                    version, 0, 0xEA, 0x07, 11, 17, 22, 52, 51, size, 0, 0, 0, interval * UInt8(samples.count), 0,
                ]
                return [14] + name + head + [UInt8](repeating: 0, count: 25) + samples.flatMap(\.self)
            }
            let doubled = samples.flatMap { [$0, $0] }
            return [
                recording(3, interval: 4, samples), recording(5, interval: 1, samples),
                recording(3, interval: 2, doubled), recording(3, interval: 2, Array(doubled.dropLast())),
                Array(
                    #"{"Region":"CE","CurTIME":"2020-07-27,11:08:24","CurMode":1,"FileList":"20200723114655,x,"}"#.utf8),
            ]
        }
    ) { octets in
        let parts: [(O2RingRecording.Part, FrameFormat)] = [
            (.saturation, .o2ringSaturations), (.pulse, .o2ringPulses),
        ]
        for (part, format) in parts {
            let frame = Frame(format: format, payload: octets, receivedAt: Instant(seconds: 0), ordinal: 0)
            let decoded = ModelFrameDecoder().decode(frame, model: "viatom_o2ring")
            expect(decoded == O2RingRecording.decode(octets, as: part), "a model reads a recording otherwise")
            guard case .record(let record) = decoded, case .vital(let value) = record.value, let series = value.series
            else { continue }
            expect(record.baseTime != nil, "a recording without a beginning")
            let values = series.compactMap(\.value)
            expect(values.isEmpty == (record.exclusion == .noValue), "a night of nothing counts")
            let range = part == .saturation ? Plausibility.saturations : Plausibility.heartRates
            expect(values.allSatisfy { range.contains($0.approximation) }, "a value that nobody has")
            let places = series.map(\.milliseconds)
            let step = places.count > 1 ? places[1] : 1000
            expect([1000, 2000, 4000].contains(step), "samples of \(step) ms")
            expect(places == (0..<places.count).map { $0 * step }, "samples out of step")
            _ = record.document().text
        }
        if let information = try? O2RingInformation(octets) {
            expect(information.recordings.count <= O2RingInformation.mostRecordings, "too many recordings")
            for name in information.recordings {
                expect(O2RingRecordingName(name.octets) == name, "a name that is none")
                expect(O2RingQuestion.open(name).octets.count == name.octets.count + 9, "a question of another length")
            }
        }
    }
}
