/// What kind of octets a frame holds, so that it can be decoded again years later.
public struct FrameFormat: RawRepresentable, Sendable, Hashable {
    /// For a value of a standard GATT characteristic its 16-bit assigned number; other formats count from 0x10000.
    public let rawValue: UInt32

    /// Makes a format of its stored number.
    public init(rawValue: UInt32) { self.rawValue = rawValue }

    /// One scan of a FreeStyle Libre 1: the UID as on the air (8 octets, low octet first), the count of octets of patch
    /// information, that, and the memory (344 octets).
    public static let libre1Scan = FrameFormat(rawValue: 0x1_0000)

    /// A record of a vendor's cloud, and which part of it.
    public static let cloudRecord = FrameFormat(rawValue: 0x1_0050)

    /// A recording of an O2Ring with its name, as the saturations in it. One that has gone on since it was read has
    /// more octets.
    public static let o2ringSaturations = FrameFormat(rawValue: 0x1_0061)

    /// The value of a characteristic with a 16-bit assigned number.
    public init(characteristic: UInt16) { rawValue = UInt32(characteristic) }
}

/// Octets from a device, as they came: what is made durable before anything else happens to the device.
public struct Frame: Sendable, Hashable {
    /// What the octets are.
    public var format: FrameFormat
    /// The octets.
    public var payload: [UInt8]
    /// When they were received; in a replay, the packet's time.
    public var receivedAt: Instant
    /// The frame's place among the frames of its format in its contact, from 0: part of the identity of records that
    /// carry no time.
    public var ordinal: Int
    /// When they were received by the time since the machine began; `nil` where that is not known, as in a replay.
    package var bootTime: BootTime?

    /// Makes a frame.
    public init(format: FrameFormat, payload: [UInt8], receivedAt: Instant, ordinal: Int) {
        self.format = format
        self.payload = payload
        self.receivedAt = receivedAt
        self.ordinal = ordinal
    }
}

/// What a frame says, decoded without any state: the same frame gives the same answer for ever.
public enum DecodedFrame: Sendable, Hashable {
    /// A record.
    case record(Record)
    /// The context of the glucose record with this sequence number, which may come before or after it.
    case glucoseContext(sequence: UInt16, GlucoseContext)
    /// A scan of a sensor: many records at once.
    case sensor(SensorScan)
    /// What a person entered.
    case entry(ManualEntry)
    /// A sample out of another program's data.
    case imported(ImportedSample)
    /// The withdrawal of what a person entered.
    case withdrawal(EntryWithdrawal)
    /// That a person leaves a reading out of figures, or takes it back in.
    case figures(FigureDecision)
    /// A frame that is understood and is neither: nothing follows from it.
    case nothing
    /// A frame that is no record: kept as it is, and reported.
    case malformed(MalformedFrame)
}

/// Why a frame was refused: what was expected, at which octet, and what was found.
public struct MalformedFrame: Error, Sendable, Hashable, CustomStringConvertible {
    /// What was being read: `Glucose Measurement (2A18)`.
    public var subject: String
    /// What was expected there.
    public var expected: String
    /// The octet, counted from 0, at which the expectation failed.
    public var octet: Int
    /// What was found.
    public var found: String

    /// Makes an error.
    public init(subject: String, expected: String, octet: Int, found: String) {
        self.subject = subject
        self.expected = expected
        self.octet = octet
        self.found = found
    }

    /// Makes an error that tells which of these octets was found there, or their end.
    package init(subject: String, expected: String, octet: Int, in octets: [UInt8]) {
        self.init(
            subject: subject, expected: expected, octet: octet,
            found: octet < octets.count
                ? "0x" + octets[octet].hexadecimal(uppercase: true) : "the end after \(octets.count) octets")
    }

    /// One line for people.
    public var description: String { "\(subject): expected \(expected) at octet \(octet), found \(found)" }
}

/// Decodes a device's frames. Pure: depends on the frame and the model alone.
public protocol FrameDecoding: Sendable {
    /// Decodes one frame of a device of this model (a catalogue id; nil for an unknown one).
    func decode(_ frame: Frame, model: String?) -> DecodedFrame

    /// Whether the clock that can be read on a device of this model shows base time, so that its records' time is
    /// corrected from their base time and not from what their user saw.
    func clockShowsBaseTime(model: String?) -> Bool

    /// Whether the contexts of devices of this model may say that their records are none of the kind they look like.
    func contextsDecide(model: String?) -> Bool

    /// Whether this record's context may say so, so that it is not to be delivered before that has come.
    func awaitsContext(_ frame: Frame, model: String?) -> Bool

    /// The number by which a record and its context find each other, where it is none of the record's own but changes from
    /// one contact to the next; nil where it stays, or there is none.
    func passingNumber(of frame: Frame, model: String?) -> UInt16?

    /// The rules, beyond the octets' own, by which records of this model are excluded, in one line; empty where there are none.
    /// Where they change, or the model of a device is found only later, stored records are judged again.
    func rules(model: String?) -> String

    /// A sample out of another program's data with its exclusion: what decoding its frame gives, without its octets.
    func judged(_ sample: ImportedSample) -> ImportedSample

    /// Whether a device of this model sends one record by two protocols, which do not say the same of it: the one leaves
    /// out the mean pressure.
    func comesByTwoProtocols(model: String?) -> Bool

    /// Whether whose record a frame is, or that it is one at all, follows from the model alone: it says where the record stands
    /// in the device's memory.
    func isPlacedByModel(_ frame: Frame) -> Bool

    /// What of a frame's octets stays when the device sends it in another contact: all, or all but a passing number.
    func lastingOctets(of frame: Frame, model: String?) -> [UInt8]
}

extension FrameDecoding {
    /// What decoding its frame gives.
    public func judged(_ sample: ImportedSample) -> ImportedSample {
        let frame = sample.frame(receivedAt: Instant(seconds: 0))
        guard case .imported(let judged) = decode(frame, model: ImportedSample.model) else { return sample }
        return judged
    }

    /// It shows what the user sees.
    public func clockShowsBaseTime(model: String?) -> Bool { false }

    /// They do not.
    public func contextsDecide(model: String?) -> Bool { false }

    /// It says nothing of the kind.
    public func awaitsContext(_ frame: Frame, model: String?) -> Bool { false }

    /// It stays.
    public func passingNumber(of frame: Frame, model: String?) -> UInt16? { nil }

    /// None.
    public func rules(model: String?) -> String { "" }

    /// It does not.
    public func comesByTwoProtocols(model: String?) -> Bool { false }

    /// It does not.
    public func isPlacedByModel(_ frame: Frame) -> Bool { false }

    /// All.
    public func lastingOctets(of frame: Frame, model: String?) -> [UInt8] { frame.payload }
}
