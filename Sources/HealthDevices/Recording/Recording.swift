import GATTProfiles
import HealthReadings

/// How a recording is made.
public struct RecordingOptions: Sendable, Hashable {
    /// The seconds that a kept heart-rate variability covers, 30 to 3600. Five minutes is the usual short-term recording.
    public var variabilityWindowSeconds: Int

    /// - Parameter variabilityWindowSeconds: the seconds that a kept variability covers, 30 to 3600.
    public init(variabilityWindowSeconds: Int = 300) {
        self.variabilityWindowSeconds = min(max(variabilityWindowSeconds, 30), 3600)
    }
}

/// What happens while devices are recorded.
public enum RecordingEvent: Sendable, Hashable {
    /// A device is connected and remembered.
    case began(Contact)
    /// What it sends now, as it is shown live.
    case live(LiveReading)
    /// Frames became durable; this is what became of them.
    case stored([FrameOutcome])
    /// What is recorded cannot be stored now. It is kept in memory and tried again, for two hours at most.
    case notStored(ContactFailure)
    /// The contact with a device is over; the recording goes on when the device is heard again.
    case ended(Contact, ContactSummary)
    /// Nothing of this device may be kept, because its person does not consent to it, or no longer.
    case notConsented(DeviceAddress)
    /// A device could not be recorded. After a pause it is tried again when it is heard.
    case failed(DeviceAddress, ContactFailure)
}

/// Collects what one device sends in one contact into blocks, and makes them durable.
///
/// A block ends after a minute. Until then it is written every quarter of a minute as far as it has come, so that a program
/// that is killed loses no more than that. A device that sends its heart rate and its saturation, each by its own
/// characteristic, has a block of each at a time; the pulse beside a saturation is then the same heart rate, and not kept twice.
/// It is kept while the heart rates are none, as of a strap that nobody wears.
struct Recorder {
    /// How long a block may last.
    static let blockSeconds: Int64 = 60
    /// After how long what has come is made durable.
    static let keepSeconds: Int64 = 15
    /// How late an interval may come that ended in a window.
    private static let latestBeat: Int64 = 5
    /// By how much a notification may seem to come before the one before it.
    private static let jitter: Int64 = 1_000_000
    /// How many frames wait in memory while the journal takes none: two hours of an oximeter.
    private static let mostWaiting = 240
    /// How many notifications that cannot be understood are kept of a contact.
    private static let mostMalformed = 16

    private struct Block {
        var content: RecordedBlock
        let begin: Instant
        let ordinal: Int
        var lastAt: Instant
        var keptAt: Instant
        /// What of it was made durable, by its format.
        var kept: [FrameFormat: Frame] = [:]
        /// Formats of which no more is taken: consent was withdrawn, or the device sends the same by another characteristic.
        var closed: Set<FrameFormat> = []
        /// Whether one of its heart rates is a person's.
        var hasRate = false

        var formats: [FrameFormat] {
            content.characteristic == PulseOximeterContinuous.assignedNumber
                ? [.heartRateBlock, .saturationBlock] : [.heartRateBlock]
        }

        func frame(_ format: FrameFormat) -> Frame {
            Frame(format: format, payload: content.payload, receivedAt: begin, ordinal: ordinal)
        }

        /// Leaves the heart rate to the characteristic that the device sends it by, unless it was made durable already.
        mutating func leaveRate() {
            guard content.characteristic == PulseOximeterContinuous.assignedNumber, kept[.heartRateBlock] == nil
            else { return }
            closed.insert(.heartRateBlock)
        }
    }

    private let contact: Contact
    private let journal: any FrameJournal
    private let permitted: @Sendable () async throws -> Set<ReadingKind>
    private let report: @Sendable (RecordingEvent) async -> Void
    private(set) var window: HeartBeatWindow
    /// The block that goes on of each characteristic.
    private var blocks: [UInt16: Block] = [:]
    private var nextOrdinal = 0
    private var windows = 0
    private var malformed = 0
    private var waiting: [Frame] = []
    private var isFailing = false
    /// How many blocks and windows became durable.
    private(set) var received = 0

    init(
        contact: Contact, journal: any FrameJournal, window: HeartBeatWindow,
        permitted: @escaping @Sendable () async throws -> Set<ReadingKind>,
        report: @escaping @Sendable (RecordingEvent) async -> Void
    ) {
        self.contact = contact
        self.journal = journal
        self.window = window
        self.permitted = permitted
        self.report = report
    }

    /// Nothing more may be recorded.
    struct ConsentWithdrawn: Error {}

    /// Takes a notification.
    ///
    /// - Throws: ``ConsentWithdrawn``; the journal's error where nothing could be stored for two hours.
    mutating func take(_ characteristic: UInt16, _ octets: [UInt8], at instant: Instant) async throws {
        guard Self.isUnderstood(characteristic, octets) else {
            malformed += 1
            guard malformed <= Self.mostMalformed else { return }
            waiting.append(
                Frame(
                    format: FrameFormat(characteristic: characteristic), payload: octets, receivedAt: instant,
                    ordinal: malformed - 1))
            return
        }
        // Also one of another characteristic, by which nothing may come any more.
        let over = blocks.filter { key, block in
            Self.isOver(block, at: instant) || key == characteristic && instant < block.begin
        }
        if !over.isEmpty { try await close(Set(over.keys)) }
        // Taken out while it grows: it is not copied then.
        var open = blocks.removeValue(forKey: characteristic) ?? newBlock(of: characteristic, at: instant)
        open.content.add(octets, atMilliseconds: Int((instant.microseconds - open.begin.microseconds) / 1000))
        open.lastAt = max(open.lastAt, instant)
        let measurement =
            characteristic == HeartRateMeasurement.assignedNumber ? (try? HeartRateMeasurement(decoding: octets)) : nil
        if let measurement, measurement.hasContact != false, measurement.record.exclusion == nil {
            open.hasRate = true
        }
        blocks[characteristic] = open
        if open.hasRate { blocks[PulseOximeterContinuous.assignedNumber]?.leaveRate() }
        if let measurement {
            for (begin, whole) in window.add(
                measurement.intervals, at: instant, hasContact: measurement.hasContact, lateBy: Self.latestBeat)
            {
                addWindow(whole, begin)
            }
        }
        if let block = blocks[characteristic], instant >= block.keptAt.advanced(bySeconds: Self.keepSeconds) {
            try await keep(characteristic)
        }
    }

    /// Closes what is open.
    mutating func finish() async throws {
        // A window that is nearly whole stands for itself; otherwise what comes after a short absence may fill it.
        if let (begin, whole) = window.takeIfSufficient() { addWindow(whole, begin) }
        try await close(Set(blocks.keys))
    }

    private mutating func newBlock(of characteristic: UInt16, at instant: Instant) -> Block {
        var block = Block(
            content: RecordedBlock(characteristic: characteristic), begin: instant, ordinal: nextOrdinal,
            lastAt: instant, keptAt: instant)
        nextOrdinal += 1
        if blocks[HeartRateMeasurement.assignedNumber]?.hasRate == true { block.leaveRate() }
        return block
    }

    private mutating func addWindow(_ whole: RecordedWindow, _ begin: Instant) {
        waiting.append(Frame(format: .beatWindow, payload: whole.payload, receivedAt: begin, ordinal: windows))
        windows += 1
    }

    private static func isUnderstood(_ characteristic: UInt16, _ octets: [UInt8]) -> Bool {
        characteristic == HeartRateMeasurement.assignedNumber
            ? (try? HeartRateMeasurement(decoding: octets)) != nil
            : (try? PulseOximeterContinuous(decoding: octets)) != nil
    }

    /// Whether a block's minute is over, or the clock was set back since.
    private static func isOver(_ block: Block, at instant: Instant) -> Bool {
        instant >= block.begin.advanced(bySeconds: blockSeconds)
            || instant.microseconds < block.lastAt.microseconds - jitter
    }

    // MARK: The journal

    /// Looks whether what is recorded may be kept, and closes what may not.
    private mutating func heedConsent() async throws {
        let kinds = try await permitted()
        waiting.removeAll { $0.format == .beatWindow && !kinds.contains(.hrv) }
        guard !blocks.isEmpty else { return }
        for (characteristic, block) in blocks.sorted(by: { $0.key < $1.key }) {
            var open = block
            for format in open.formats where !kinds.contains(format.recordedKind) && !open.closed.contains(format) {
                open.closed.insert(format)
                // It came while it was consented to.
                if let kept = open.kept[format] { waiting.append(kept) }
            }
            blocks[characteristic] = open
        }
        let mayGoOn = blocks.contains { characteristic, block in
            block.formats.contains { kinds.contains($0.recordedKind) }
                || kinds.contains(.hrv) && characteristic == HeartRateMeasurement.assignedNumber
        }
        guard !mayGoOn else { return }
        blocks = [:]
        try await store()
        throw ConsentWithdrawn()
    }

    /// Makes durable what has come of a block.
    private mutating func keep(_ characteristic: UInt16) async throws {
        try await heedConsent()
        try await store()
        guard let open = blocks[characteristic] else { return }
        blocks[characteristic]?.keptAt = open.lastAt
        for format in open.formats where !open.closed.contains(format) {
            let (journal, contact, frame) = (journal, contact, open.frame(format))
            do {
                try await shieldedFromCancellation { try await journal.keep(frame, of: contact) }
                blocks[characteristic]?.kept[format] = frame
            } catch {
                try await noteFailure(error)
            }
        }
    }

    /// Ends the blocks of these characteristics.
    private mutating func close(_ characteristics: Set<UInt16>) async throws {
        try await heedConsent()
        for characteristic in characteristics.sorted() {
            guard let open = blocks.removeValue(forKey: characteristic) else { continue }
            waiting += open.formats.filter { !open.closed.contains($0) }.map(open.frame)
        }
        try await store()
    }

    /// Stores what waits.
    private mutating func store() async throws {
        guard !waiting.isEmpty else { return }
        let (journal, contact, frames) = (journal, contact, waiting)
        do {
            let outcomes = try await shieldedFromCancellation { try await journal.append(frames, of: contact) }
            waiting = []
            isFailing = false
            received += frames.count
            await report(.stored(outcomes))
        } catch {
            try await noteFailure(error)
        }
    }

    private mutating func noteFailure(_ error: any Error) async throws {
        guard waiting.count < Self.mostWaiting else { throw error }
        guard !isFailing else { return }
        isFailing = true
        await report(.notStored(ContactFailure(error)))
    }

    /// Whether something could not be stored.
    var hasUnstored: Bool { !waiting.isEmpty }
}

extension FrameFormat {
    /// The kind of reading that a frame of a recording is.
    fileprivate var recordedKind: ReadingKind {
        switch self {
        case .saturationBlock: .spo2
        case .beatWindow: .hrv
        default: .heartRate
        }
    }
}
