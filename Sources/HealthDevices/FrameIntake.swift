import GATTClient
import GATTProfiles
import HealthReadings

/// Turns a device's values into durable frames, counting as they come.
///
/// The one place frames enter the journal from: whatever arrived together commits together, and nothing is asked of the
/// device before that.
struct FrameIntake: Sendable {
    private(set) var contact: Contact
    /// How many records came since ``beginCounting(announced:)``; one that a meter sends twice in a row counts once.
    private(set) var received = 0
    /// How many the meter said it would send.
    private(set) var announced: Int?
    /// How many of all that came were not stored before, as far as the journal says.
    private(set) var stored = 0
    /// Empty records that came behind others, where the meter sends such (``Quirk/emptyPartners``).
    private(set) var partners = 0
    /// How many different sequence numbers they have.
    var distinct: Int { counted.count }
    /// Sequence numbers missing between the ones that came in this contact.
    var gaps: [ClosedRange<UInt16>] { sequences.gaps }

    private let journal: any FrameJournal
    private let report: @Sendable (TransferEvent) async -> Void
    private let hasPartners: Bool
    private var ordinals: [(format: FrameFormat, next: Int)] = []
    private var previous: [UInt8] = []
    private var sequences = SequenceSet()
    private var counted = SequenceSet()
    private var session: ContinuousGlucoseSession?
    private var joiner = HealthObservationJoiner()
    private var compositions = CompositionJoiner()
    /// Octets that were told to be malformed. They may come again, or be read as two kinds, and are told once.
    private var told: Set<[UInt8]> = []

    init(
        contact: Contact, journal: any FrameJournal, hasPartners: Bool = false,
        report: @escaping @Sendable (TransferEvent) async -> Void
    ) {
        self.contact = contact
        self.journal = journal
        self.hasPartners = hasPartners
        self.report = report
    }

    /// A transfer begins anew: what came before was a question, or will come again.
    mutating func beginCounting(announced: Int?) async {
        self.announced = announced
        received = 0
        previous = []
        partners = 0
        counted = SequenceSet()
        if let announced { await report(.progress(received: 0, of: announced)) }
    }

    /// Frames from here on belong to a new sequence epoch.
    mutating func beginSequenceEpoch(in memory: any DeviceMemory) async throws {
        contact = try await memory.beginSequenceEpoch(in: contact)
    }

    /// Values of a continuous sensor from here on belong to this session.
    mutating func beginSession(_ session: ContinuousGlucoseSession) { self.session = session }

    /// Notes what the device's clock shows, where it can be asked only once a contact has begun.
    mutating func note(_ clock: ClockReading, in memory: any DeviceMemory) async throws {
        contact = try await memory.noteClock(clock, in: contact)
    }

    /// Makes the values of the records' characteristics durable, and of those beside them.
    mutating func take(_ values: [CharacteristicValue], of streams: RecordStreams) async throws {
        var frames: [Frame] = []
        frames.reserveCapacity(values.count)
        var came = 0
        for value in values {
            let isRecord = streams.records.contains(value.uuid)
            if isRecord, let session {
                for record in session.records(in: value.octets) {
                    frames.append(
                        Frame(
                            format: .continuousGlucoseRecord, payload: record.payload, receivedAt: value.receivedAt,
                            ordinal: nextOrdinal(of: .continuousGlucoseRecord)))
                    if record.value != previous { came += 1 }
                    previous = record.value
                    if let measurement = try? record.measurement() { count(measurement.timeOffset) }
                }
                continue
            }
            guard isRecord || streams.others.contains(value.uuid), let number = value.uuid.assignedNumber else {
                continue
            }
            let format = FrameFormat(characteristic: number)
            let part = isRecord ? compositions.take(value) : .whole
            let own = part == .whole ? format : .bodyCompositionPart
            frames.append(
                Frame(
                    format: own, payload: value.octets, receivedAt: value.receivedAt, ordinal: nextOrdinal(of: own)))
            guard isRecord, part != .packet else { continue }
            if case .last(let whole) = part { frames.append(frame(of: whole, receivedAt: value.receivedAt)) }
            if value.uuid == HealthObservationSegment.uuid {
                guard let segment = try? HealthObservationSegment(decoding: value.octets) else { continue }
                if let whole = joiner.take(segment) {
                    // The segments are durable as they came; what they are together is read from a frame of its own.
                    frames.append(
                        Frame(
                            format: format, payload: whole.encoded, receivedAt: value.receivedAt,
                            ordinal: nextOrdinal(of: format)))
                } else if !segment.isWhole {
                    continue
                }
            }
            if hasPartners, GlucoseMeasurement.isEmptyPartner(value.octets) {
                partners += 1
                continue
            }
            if value.octets != previous { came += 1 }
            previous = value.octets
            if value.uuid == GlucoseTransfer.measurement, value.octets.count >= 3 {
                count(UInt16(value.octets[1]) | UInt16(value.octets[2]) << 8)
            }
        }
        try await store(frames, records: came)
    }

    /// Makes a record durable that is no value of a standard characteristic.
    ///
    /// - Parameter number: its number in the device.
    mutating func take(
        _ payload: [UInt8], as format: FrameFormat, number: UInt16, receivedAt: Instant
    ) async throws {
        let frame = Frame(format: format, payload: payload, receivedAt: receivedAt, ordinal: nextOrdinal(of: format))
        count(number)
        try await store([frame], records: 1)
    }

    /// Makes a frame durable that has no number.
    ///
    /// - Parameter isRecord: whether it counts as a record that came.
    /// - Returns: what became of it.
    @discardableResult
    mutating func take(
        _ payload: [UInt8], as format: FrameFormat, isRecord: Bool, receivedAt: Instant
    ) async throws -> FrameOutcome? {
        let frame = Frame(format: format, payload: payload, receivedAt: receivedAt, ordinal: nextOrdinal(of: format))
        return try await store([frame], records: isRecord ? 1 : 0).last
    }

    /// Makes a message durable, and the records without numbers that it is made of.
    ///
    /// - Returns: what became of the message, then of each record.
    mutating func take(
        _ message: [UInt8], as format: FrameFormat, records: [[UInt8]], as recordFormat: FrameFormat,
        receivedAt: Instant
    ) async throws -> [FrameOutcome] {
        try await take(message, as: format, records: records.map { (recordFormat, $0) }, receivedAt: receivedAt)
    }

    /// Makes a message durable, and the records without numbers that it completes, each of its format.
    ///
    /// - Returns: what became of the message, then of each record.
    mutating func take(
        _ message: [UInt8], as format: FrameFormat, records: [(format: FrameFormat, octets: [UInt8])],
        receivedAt: Instant
    ) async throws -> [FrameOutcome] {
        var frames = [
            Frame(format: format, payload: message, receivedAt: receivedAt, ordinal: nextOrdinal(of: format))
        ]
        for record in records {
            frames.append(
                Frame(
                    format: record.format, payload: record.octets, receivedAt: receivedAt,
                    ordinal: nextOrdinal(of: record.format)))
        }
        return try await store(frames, records: records.count)
    }

    /// Everything came: as many records as the device has.
    mutating func finishCounting() { announced = received }

    private mutating func count(_ sequence: UInt16) {
        sequences.insert(sequence)
        counted.insert(sequence)
    }

    @discardableResult
    private mutating func store(_ frames: [Frame], records came: Int) async throws -> [FrameOutcome] {
        guard !frames.isEmpty else { return [] }
        let outcomes = try await append(frames)
        received += came
        for case .new in outcomes { stored += 1 }
        await report(.stored(untold(outcomes, of: frames)))
        if came > 0 { await report(.progress(received: received, of: announced)) }
        return outcomes
    }

    /// What is to be told of these frames.
    private mutating func untold(_ outcomes: [FrameOutcome], of frames: [Frame]) -> [FrameOutcome] {
        guard outcomes.count == frames.count else { return outcomes }
        return zip(outcomes, frames).compactMap { outcome, frame in
            guard case .malformed = outcome else { return outcome }
            return told.insert(frame.payload).inserted ? outcome : nil
        }
    }

    /// Takes what has come and was not looked at, and ends: what a cuff sent before it was stopped is confirmed, and
    /// may be deleted there.
    mutating func takeWhatHasCome(from peripheral: any Peripheral, of streams: RecordStreams) async throws {
        let before = self
        self = try await shieldedFromCancellation {
            var intake = before
            while case .values(let values)? = try? await peripheral.nextValues(within: .zero) {
                try await intake.take(values, of: streams)
            }
            try await intake.finishCompositions()
            return intake
        }
    }

    /// Makes the compositions durable whose second packets did not come.
    private mutating func finishCompositions() async throws {
        let frames = compositions.finish().map { frame(of: $0.measurement, receivedAt: $0.receivedAt) }
        try await store(frames, records: frames.count)
    }

    private mutating func frame(of composition: BodyCompositionMeasurement, receivedAt: Instant) -> Frame {
        let format = FrameFormat(characteristic: BodyCompositionMeasurement.assignedNumber)
        return Frame(
            format: format, payload: composition.encoded, receivedAt: receivedAt, ordinal: nextOrdinal(of: format))
    }

    /// What a device has sent, and may have deleted, is kept where the reading is cancelled.
    private func append(_ frames: [Frame]) async throws -> [FrameOutcome] {
        let (journal, contact) = (journal, contact)
        return try await shieldedFromCancellation { try await journal.append(frames, of: contact) }
    }

    private mutating func nextOrdinal(of format: FrameFormat) -> Int {
        guard let place = ordinals.firstIndex(where: { $0.format == format }) else {
            ordinals.append((format, 1))
            return 0
        }
        defer { ordinals[place].next += 1 }
        return ordinals[place].next
    }
}
