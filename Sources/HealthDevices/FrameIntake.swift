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
    /// The lowest number that one of those has, 0 for a record without one; `nil` if there are none.
    private(set) var lowestStored: UInt16?
    /// Empty records that came behind others, where the meter sends such (``Quirk/emptyPartners``).
    private(set) var partners = 0
    /// How many different sequence numbers they have.
    var distinct: Int { counted.count }
    /// Whether a record said that its context follows, and that has not come.
    var awaitsContexts: Bool { !announcedContexts.isSubset(of: contexts) }
    /// Sequence numbers missing between the ones that came in this contact.
    var gaps: [ClosedRange<UInt16>] { sequences.gaps }

    private let journal: any FrameJournal
    private let report: @Sendable (TransferEvent) async -> Void
    private let hasPartners: Bool
    private let sendsWhatItKeeps: Bool
    private var ordinals: [(format: FrameFormat, next: Int)] = []
    private var previous: [UInt8] = []
    private var sequences = SequenceSet()
    private var counted = SequenceSet()
    /// The numbers of the records of this contact that have a context, and of the contexts that have come.
    private var (announcedContexts, contexts): (Set<UInt16>, Set<UInt16>) = ([], [])
    private var session: ContinuousGlucoseSession?
    private var joiner = HealthObservationJoiner()
    private var compositions: CompositionJoiner
    /// Octets that were told to be malformed. They may come again, or be read as two kinds, and are told once.
    private var told: Set<[UInt8]> = []
    /// How many equal values the device has recalled.
    private var recalled: [Recalled: UInt8] = [:]

    /// What equal values share. What a device sends unasked may come again when it is asked.
    private struct Recalled: Hashable {
        let record: Record
        let wasAskedFor: Bool
    }

    init(
        contact: Contact, journal: any FrameJournal, hasPartners: Bool = false, hasWeights: Bool = false,
        sendsWhatItKeeps: Bool = false,
        report: @escaping @Sendable (TransferEvent) async -> Void
    ) {
        self.contact = contact
        self.journal = journal
        self.hasPartners = hasPartners
        compositions = CompositionJoiner(hasWeights: hasWeights)
        self.sendsWhatItKeeps = sendsWhatItKeeps
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
    ///
    /// - Parameter asked: how many of the values, from the first, came while the device sent the stored records that it was
    ///   asked for.
    mutating func take(_ values: [CharacteristicValue], of streams: RecordStreams, asked: Int = 0) async throws {
        var frames: [Frame] = []
        frames.reserveCapacity(values.count)
        var came = 0
        for (place, value) in values.enumerated() {
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
            let taken = isRecord ? compositions.take(value) : CompositionJoiner.Taken()
            let recalled = isRecord ? recall(value.octets, of: number, wasAskedFor: place < asked) : nil
            let whole = taken.whole.map(Self.frame)
            let own: FrameFormat = recalled != nil ? .recalledValue : taken.isPart ? .bodyCompositionPart : format
            // What came before it stands in front of it.
            if !taken.isPart { frames += whole }
            // A recalled value counts among those that were measured just now: it has been one of them for earlier versions,
            // and what comes behind it keeps its number.
            let ordinal = taken.ordinal ?? nextOrdinal(of: taken.isPart ? own : format)
            frames.append(
                Frame(
                    format: own, payload: recalled ?? value.octets, receivedAt: value.receivedAt, ordinal: ordinal))
            if taken.isPart { frames += whole }
            if value.uuid == GlucoseMeasurementContext.uuid, value.octets.count >= 3 {
                contexts.insert(UInt16(value.octets[1]) | UInt16(value.octets[2]) << 8)
            }
            for each in whole where isOther(each.payload) { came += 1 }
            guard isRecord, !taken.isPart else { continue }
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
            if isOther(value.octets) { came += 1 }
            if value.uuid == GlucoseTransfer.measurement, value.octets.count >= 3 {
                let number = UInt16(value.octets[1]) | UInt16(value.octets[2]) << 8
                count(number)
                if (try? GlucoseMeasurement(decoding: value.octets))?.hasContext == true {
                    announcedContexts.insert(number)
                }
            }
        }
        try await keepOpenCompositions()
        try await store(frames, records: came)
    }

    /// Whether a record is not the one before it, sent a second time.
    private mutating func isOther(_ octets: [UInt8]) -> Bool {
        defer { previous = octets }
        return octets != previous
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

    /// The octets of the frame of a value that the device has recalled, numbered among its equals; `nil` for other values.
    private mutating func recall(_ octets: [UInt8], of characteristic: UInt16, wasAskedFor: Bool) -> [UInt8]? {
        guard
            let value = RecalledValue(characteristic, octets, wasAskedFor: wasAskedFor, isKept: sendsWhatItKeeps)
        else { return nil }
        let key = Recalled(record: value.record, wasAskedFor: wasAskedFor)
        let occurrence = recalled[key] ?? 0
        recalled[key] = occurrence &+ 1
        return value.payload(occurrence: occurrence)
    }

    private mutating func count(_ sequence: UInt16) {
        sequences.insert(sequence)
        counted.insert(sequence)
    }

    @discardableResult
    private mutating func store(_ frames: [Frame], records came: Int) async throws -> [FrameOutcome] {
        guard !frames.isEmpty else { return [] }
        let outcomes = try await append(frames)
        received += came
        for case .new(let reading) in outcomes {
            stored += 1
            lowestStored = min(lowestStored ?? .max, reading.record.sequence ?? 0)
        }
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
    ///
    /// - Parameter wasAskedFor: whether the device has not said yet that it has sent the stored records that it was asked for.
    mutating func takeWhatHasCome(
        from peripheral: any Peripheral, of streams: RecordStreams, wasAskedFor: Bool
    ) async throws {
        let before = self
        self = try await shieldedFromCancellation {
            var intake = before
            while case .values(let values)? = try? await peripheral.nextValues(within: .zero) {
                try await intake.take(values, of: streams, asked: wasAskedFor ? values.count : 0)
            }
            try await intake.finishCompositions()
            return intake
        }
    }

    /// Has what has come of a composition read when the journal is opened again, should the program end while the
    /// composition waits for its second packet or for the end of the contact.
    private mutating func keepOpenCompositions() async throws {
        for open in compositions.takeOpen() {
            let (journal, contact, frame) = (journal, contact, Self.frame(of: open))
            try await shieldedFromCancellation { try await journal.keep(frame, of: contact) }
        }
    }

    /// Makes the compositions durable that have waited for a second packet, or for the end of the contact.
    private mutating func finishCompositions() async throws {
        let frames = compositions.finish(clockIsKnown: contact.clock != nil).map(Self.frame)
        try await store(frames, records: frames.count)
    }

    private static func frame(of composition: CompositionJoiner.Composition) -> Frame {
        Frame(
            format: FrameFormat(characteristic: BodyCompositionMeasurement.assignedNumber),
            payload: composition.measurement.encoded, receivedAt: composition.receivedAt, ordinal: composition.ordinal)
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
