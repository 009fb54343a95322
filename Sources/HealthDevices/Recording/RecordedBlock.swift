import GATTProfiles
import HealthFigures
import HealthReadings

/// What a strap or an oximeter sent in one piece of a recording: its notifications as they came, each with the milliseconds
/// since the first.
///
/// `version (1) | characteristic (2, low octet first) | notifications`; each notification is
/// `milliseconds since the one before (LEB128) | length (1) | octets`.
///
/// An oximeter that streams by a protocol of its own has its values in the standard's form (2A5F), as `watch` shows them.
public struct RecordedBlock: Sendable, Hashable {
    /// How a block is written. Programs of ours read it for ever.
    ///
    /// The first version is laid out as the second. What an oximeter measured while it calibrated or had a malfunction has a value
    /// in it, and its readings have no status: such a block is the same reading for ever.
    static let version: UInt8 = 2

    /// One notification.
    public struct Entry: Sendable, Hashable {
        /// Milliseconds since the first.
        public var milliseconds: Int
        /// The octets.
        public var octets: [UInt8]
    }

    /// The assigned number of what was notified: 2A37 or 2A5F.
    public let characteristic: UInt16
    private let version: UInt8
    /// The notifications, oldest first.
    public private(set) var entries: [Entry] = []
    /// The block's octets.
    public private(set) var payload: [UInt8]
    private var last = 0

    /// A block without notifications.
    public init(characteristic: UInt16) {
        self.characteristic = characteristic
        version = Self.version
        payload = [
            Self.version, UInt8(truncatingIfNeeded: characteristic), UInt8(truncatingIfNeeded: characteristic >> 8),
        ]
    }

    /// Adds a notification. One that seems to come before the last has its time; octets beyond 255 are cut.
    public mutating func add(_ octets: some Collection<UInt8>, atMilliseconds milliseconds: Int) {
        let octets = Array(octets.prefix(255))
        let place = max(milliseconds, last)
        payload.append(leb128: UInt64(place - last))
        payload.append(UInt8(octets.count))
        payload += octets
        last = place
        entries.append(Entry(milliseconds: place, octets: octets))
    }

    /// Reads a block.
    public init(payload: [UInt8]) throws(MalformedFrame) {
        func failure(_ expected: String, _ place: Int) -> MalformedFrame {
            MalformedFrame(subject: "recorded block", expected: expected, octet: place, in: payload)
        }
        guard let version = payload.first, (1...Self.version).contains(version) else {
            throw failure("version 1 to \(Self.version)", 0)
        }
        guard payload.count >= 3 else { throw failure("a characteristic (2 octets)", 1) }
        self.version = version
        characteristic = UInt16(payload[1]) | UInt16(payload[2]) << 8
        guard [HeartRateMeasurement.assignedNumber, PulseOximeterContinuous.assignedNumber].contains(characteristic)
        else { throw failure("a characteristic that is recorded (2A37, 2A5F)", 1) }
        self.payload = payload
        var place = 3
        while place < payload.count {
            let start = place
            guard let delta = payload.leb128(at: &place), delta <= UInt64(Int32.max),
                last + Int(delta) <= Int(Int32.max)
            else { throw failure("milliseconds below 2^31", start) }
            guard place < payload.count else { throw failure("a length", place) }
            let length = Int(payload[place])
            guard payload.count - place > length else { throw failure("\(length) octets behind the length", place) }
            last += Int(delta)
            entries.append(Entry(milliseconds: last, octets: Array(payload[(place + 1)..<(place + 1 + length)])))
            place += 1 + length
        }
    }
}

extension RecordedBlock {
    /// What a block is decoded to.
    enum Part {
        case heartRate, saturation
    }

    /// The reading that the block is: the mean of its samples, with them. Samples that are none of a person's have no value; the
    /// reading is marked if the device doubts one of the others.
    func record(of part: Part) -> Record {
        var samples: [SampleSeries.Sample] = []
        var status: ReadingStatus = []
        samples.reserveCapacity(entries.count)
        for entry in entries {
            if characteristic == HeartRateMeasurement.assignedNumber {
                guard part == .heartRate, let one = try? HeartRateMeasurement(decoding: entry.octets) else { continue }
                let hasNone = one.hasContact == false
                let rate = one.record
                samples.append(
                    SampleSeries.Sample(
                        milliseconds: entry.milliseconds,
                        value: hasNone || rate.exclusion != nil ? nil : rate.vital?.main?.number.number,
                        hasContact: one.hasContact, intervals: hasNone ? [] : one.intervals))
            } else {
                guard let one = try? PulseOximeterContinuous(decoding: entry.octets) else { continue }
                let hasNone = version == 1 ? one.status.saidNoValue : one.status.saysNoValue
                let vital = one.record.vital
                let quantity = part == .saturation ? vital?.main : vital?[.pulse]
                let number = quantity?.number.number
                let isPlausible =
                    part == .saturation
                    ? vital.map(Plausibility.isPlausible) ?? false
                    : number.map { Plausibility.heartRates.contains($0.approximation) } ?? false
                let value = hasNone || !isPlausible ? nil : number
                if version > 1, value != nil, one.status.saysDoubt { status = .questionable }
                samples.append(SampleSeries.Sample(milliseconds: entry.milliseconds, value: value))
            }
        }
        let mean = ExactDecimal.mean(of: samples.compactMap(\.value), places: 1)
        let (kind, name, unit): (ReadingKind, VitalValue.Part, MeasurementUnit) =
            part == .heartRate ? (.heartRate, .heartRate, .beatsPerMinute) : (.spo2, .saturation, .percent)
        let value = VitalValue(
            kind: kind, [.init(name, Quantity(mean.map(MeasuredNumber.value) ?? .notANumber, unit))],
            series: SampleSeries(samples))
        return Record(value: .vital(value), status: status, exclusion: mean == nil ? .noValue : nil)
    }
}

extension Record {
    fileprivate var vital: VitalValue? { if case .vital(let vital) = value { vital } else { nil } }
}

/// The intervals between beats that ended in one window of a recording, in runs without a gap.
///
/// `version (1) | window in seconds (LEB128) | runs`; each run is `count (LEB128) | intervals in 1/1024 s (2 each, low octet
/// first)`. The intervals stand in the blocks too: so a window's figures can be computed from it alone.
public struct RecordedWindow: Sendable, Hashable {
    static let version: UInt8 = 1

    /// How long the window is.
    public var seconds: Int
    /// The intervals, oldest first; within a run each begins where the one before it ended.
    public var runs: [[UInt16]]

    /// Makes a window.
    public init(seconds: Int, runs: [[UInt16]]) {
        self.seconds = seconds
        self.runs = runs
    }

    /// The window's octets.
    public var payload: [UInt8] {
        var octets = [Self.version]
        octets.append(leb128: UInt64(seconds))
        for run in runs {
            octets.append(leb128: UInt64(run.count))
            for interval in run {
                octets.append(UInt8(truncatingIfNeeded: interval))
                octets.append(UInt8(truncatingIfNeeded: interval >> 8))
            }
        }
        return octets
    }

    /// Reads a window.
    public init(payload: [UInt8]) throws(MalformedFrame) {
        func failure(_ expected: String, _ place: Int) -> MalformedFrame {
            MalformedFrame(subject: "recorded window", expected: expected, octet: place, in: payload)
        }
        guard payload.first == Self.version else { throw failure("version \(Self.version)", 0) }
        var place = 1
        guard let seconds = payload.leb128(at: &place), (1...86_400).contains(seconds) else {
            throw failure("1 to 86400 seconds", 1)
        }
        self.seconds = Int(seconds)
        runs = []
        while place < payload.count {
            let start = place
            guard let count = payload.leb128(at: &place), count <= UInt64((payload.count - place) / 2) else {
                throw failure("a run of intervals", start)
            }
            runs.append(
                (0..<Int(count)).map { UInt16(payload[place + 2 * $0]) | UInt16(payload[place + 2 * $0 + 1]) << 8 })
            place += 2 * Int(count)
        }
    }

    /// The reading that the window is.
    var record: Record {
        let figures = BeatVariability(runs, windowSeconds: seconds)
        func quantity(_ number: ExactDecimal?) -> Quantity {
            Quantity(number.map(MeasuredNumber.value) ?? .notANumber, .milliseconds)
        }
        let value = VitalValue(
            kind: .hrv, [.init(.rmssd, quantity(figures.rmssd)), .init(.sdnn, quantity(figures.sdnn))],
            windowSeconds: seconds, beats: .init(counted: figures.counted, leftOut: figures.leftOut))
        return Record(value: .vital(value), exclusion: figures.isSufficient ? nil : .noValue)
    }
}

extension FrameFormat {
    /// A piece of a recording (``RecordedBlock``), as the heart rates in it.
    public static let heartRateBlock = FrameFormat(rawValue: 0x1_0040)
    /// A piece of a recording of an oximeter, as the saturations in it.
    public static let saturationBlock = FrameFormat(rawValue: 0x1_0041)
    /// The intervals between beats of one window of a recording (``RecordedWindow``).
    public static let beatWindow = FrameFormat(rawValue: 0x1_0042)
}

extension DecodedFrame {
    /// What a frame of a recording says; `nil` for other frames.
    init?(recorded frame: Frame) {
        do throws(MalformedFrame) {
            switch frame.format {
            case .heartRateBlock: self = .record(try RecordedBlock(payload: frame.payload).record(of: .heartRate))
            case .saturationBlock: self = .record(try RecordedBlock(payload: frame.payload).record(of: .saturation))
            case .beatWindow: self = .record(try RecordedWindow(payload: frame.payload).record)
            default: return nil
            }
        } catch {
            self = .malformed(error)
        }
    }
}
