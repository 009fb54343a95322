import GATTProfiles
import HealthFigures
import HealthReadings

/// A recording of an O2Ring, as its octets stand in the oximeter.
///
/// | octets | what |
/// |---|---|
/// | 0 | version of the layout: 3, or 5 of a Checkme O2 Max |
/// | 1 | mode: 0 sleep, 1 monitor |
/// | 2 … 8 | start in the oximeter's local time: year (2), month, day, hour, minute, second |
/// | 9 … 12 | size of the recording in octets |
/// | 13 … 14 | duration in seconds |
/// | 15 … 39 | what the oximeter has computed of it; not read |
/// | 40 … | samples of five octets: saturation, pulse, FF without a value, motion, alarms |
///
/// Numbers have the low octet first. A sample covers the duration divided by how many samples there are: one, two or four
/// seconds. Layout: the maker's kit (LepuBle), o2r, OSCAR, and viatom_o2ring, whose author has compared it with recordings of
/// a ring of his.
struct O2RingRecording: Sendable, Hashable {
    /// One sample. `nil` is no value.
    struct Sample: Sendable, Hashable {
        var saturation: UInt8?
        var pulse: UInt8?
    }

    /// Octets in front of the samples.
    static let head = 40
    /// Octets of a sample.
    static let sampleLength = 5
    /// The longest recording that is believed: longer than the duration, which has two octets, allows.
    static let longest = head + sampleLength * 65_536
    static let versions: Set<UInt8> = [3, 5]

    /// When it began, as the oximeter's clock showed it.
    let start: WallTime
    /// The seconds of a sample.
    let interval: Int
    /// Oldest first.
    let samples: [Sample]

    /// Reads a recording.
    ///
    /// - Parameter name: what the oximeter calls it. Rings are reported that answer a name they don't have with another
    ///   recording; so a name that is a time has to be the recording's.
    /// - Throws: `MalformedFrame` with the octet at which it is none.
    init(_ octets: [UInt8], named name: O2RingRecordingName) throws(MalformedFrame) {
        func expect(_ expected: String, _ place: Int, _ found: Int, _ isSo: Bool) throws(MalformedFrame) {
            guard isSo else { throw Self.failure(name, expected, place, "\(found)") }
        }
        func word(_ place: Int) -> Int { Int(octets[place]) | Int(octets[place + 1]) << 8 }
        start = try Self.start(of: octets, named: name)
        try expect("version 3 or 5", 0, Int(octets[0]), Self.versions.contains(octets[0]))
        try expect("mode 0 or 1", 1, Int(octets[1]), octets[1] <= 1)
        let body = octets.count - Self.head
        try expect(
            "samples of \(Self.sampleLength) octets", octets.count, octets.count, body % Self.sampleLength == 0)
        let (size, duration, count) = (word(9) | word(11) << 16, word(13), body / Self.sampleLength)
        let isDoubled = Self.isDoubled(octets, duration)
        let sizes = [octets.count] + (isDoubled ? [Self.head + body / 2] : [])
        try expect("the size \(octets.count)", 9, size, sizes.contains(size))
        // A duration is a whole number of samples, or ends within the last one.
        let interval = [4, 2, 1].min { abs(duration - count * $0) < abs(duration - count * $1) } ?? 4
        try expect(
            "a duration of 1, 2 or 4 seconds for each of \(count) samples", 13, duration,
            abs(duration - count * interval) < max(interval, 1))
        self.interval = isDoubled ? 2 * interval : interval
        samples = stride(from: Self.head, to: octets.count, by: Self.sampleLength * (isDoubled ? 2 : 1)).map { place in
            let (saturation, pulse, mark) = (octets[place], octets[place + 1], octets[place + 2])
            let hasValue = mark != 0xFF
            return Sample(
                saturation: hasValue && (1...100).contains(saturation) ? saturation : nil,
                pulse: mark == 0 && pulse < 0xFF && Plausibility.heartRates.contains(Double(pulse)) ? pulse : nil)
        }
    }

    private static func failure(
        _ name: O2RingRecordingName, _ expected: String, _ place: Int, _ found: String
    ) -> MalformedFrame {
        MalformedFrame(subject: "O2Ring recording \(name)", expected: expected, octet: place, found: found)
    }

    /// When a recording began.
    ///
    /// - Throws: `MalformedFrame` if it has no header, or is another than its name says.
    static func start(of octets: [UInt8], named name: O2RingRecordingName) throws(MalformedFrame) -> WallTime {
        guard octets.count >= head else {
            throw failure(name, "a header of \(head) octets", octets.count, "\(octets.count) octets")
        }
        let parts = octets[4...8].map(Int.init)
        guard
            let start = WallTime(
                year: Int(octets[2]) | Int(octets[3]) << 8, month: parts[0], day: parts[1], hour: parts[2],
                minute: parts[3], second: parts[4])
        else { throw failure(name, "a date and a time", 2, "none") }
        guard name.start == nil || name.start == start else {
            throw failure(name, "the start that its name says", 2, "\(start)")
        }
        return start
    }

    /// Whether octets are as many as their header says.
    static func isWhole(_ octets: [UInt8]) -> Bool {
        octets.count >= head && octets[9..<13].reversed().reduce(0) { $0 << 8 | Int($1) } == octets.count
    }

    /// Whether each sample stands there twice: older oximeters write one of four seconds as two of two (OSCAR).
    private static func isDoubled(_ octets: [UInt8], _ duration: Int) -> Bool {
        let body = octets[head...]
        guard octets[0] == 3, !body.isEmpty, body.count % (2 * sampleLength) == 0,
            duration == 2 * (body.count / sampleLength)
        else { return false }
        return stride(from: head, to: octets.count, by: 2 * sampleLength).allSatisfy { place in
            octets[place..<(place + sampleLength)]
                .elementsEqual(octets[(place + sampleLength)..<(place + 2 * sampleLength)])
        }
    }

    /// What a recording is decoded to.
    enum Part {
        case saturation, pulse
    }

    /// The reading that the recording is: the mean of its samples, with them.
    func record(of part: Part) -> Record {
        let series = samples.enumerated().map { index, sample in
            let value = part == .saturation ? sample.saturation : sample.pulse
            return SampleSeries.Sample(
                milliseconds: index * interval * 1000, value: value.map { ExactDecimal(significand: Int64($0)) })
        }
        let mean = ExactDecimal.mean(of: series.compactMap(\.value), places: 1)
        let (kind, name, unit): (ReadingKind, VitalValue.Part, MeasurementUnit) =
            part == .saturation ? (.spo2, .saturation, .percent) : (.heartRate, .heartRate, .beatsPerMinute)
        let value = VitalValue(
            kind: kind, [.init(name, Quantity(mean.map(MeasuredNumber.value) ?? .notANumber, unit))],
            series: SampleSeries(series))
        return Record(value: .vital(value), baseTime: start, exclusion: mean == nil ? .noValue : nil)
    }
}

extension O2RingRecording {
    /// A frame of `FrameFormat.o2ringSaturations` or `FrameFormat.o2ringPulses`: the length of the name, the name, the
    /// recording.
    static func payload(_ octets: [UInt8], named name: O2RingRecordingName) -> [UInt8] {
        [UInt8(name.octets.count)] + name.octets + octets
    }

    /// How many octets such a frame has.
    static func lengthOfPayload(_ size: Int, named name: O2RingRecordingName) -> Int { 1 + name.octets.count + size }

    /// Decodes such a frame.
    static func decode(_ payload: [UInt8], as part: Part) -> DecodedFrame {
        let length = Int(payload.first ?? 0)
        guard let name = O2RingRecordingName(payload.dropFirst().prefix(length)), name.octets.count == length else {
            return .malformed(
                MalformedFrame(
                    subject: "O2Ring recording", expected: "a name", octet: 0, found: "\(payload.count) octets"))
        }
        do throws(MalformedFrame) {
            return .record(try O2RingRecording(Array(payload.dropFirst(1 + length)), named: name).record(of: part))
        } catch {
            return .malformed(error)
        }
    }

    /// Decodes a message: a damaged one is named; the others say nothing by themselves.
    static func decode(message octets: [UInt8]) -> DecodedFrame {
        do throws(MalformedFrame) {
            _ = try O2RingAnswer(decoding: octets)
            return .nothing
        } catch {
            return .malformed(error)
        }
    }
}

extension FrameFormat {
    /// A message of an O2Ring as it came, or octets of it that are none.
    public static let o2ringMessage = FrameFormat(rawValue: 0x1_0060)
    /// A recording of an O2Ring with its name, as the pulses in it; see `FrameFormat.o2ringSaturations`.
    public static let o2ringPulses = FrameFormat(rawValue: 0x1_0062)
}
