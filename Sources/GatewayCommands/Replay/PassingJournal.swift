import HealthReadings
import Synchronization

/// A journal that stores nothing and hands readings on: `replay --dry-run`.
///
/// Readings have the same identity and time as in a store that was empty before. A glucose record waits in a window of
/// ``window`` records for its context, so memory does not grow with the capture; one that comes again meanwhile is the same.
public final class PassingJournal: FrameJournal, DeviceMemory {
    /// How many records may lie between a record and its context.
    public static let window = 512

    /// What became of the frames.
    public enum Output: Sendable {
        case reading(Reading)
        case malformed(MalformedFrame, Frame)
    }

    private struct Pending {
        var window = SlidingWindow<UInt16, Output>(size: PassingJournal.window)
        var contexts: [UInt16: GlucoseContext] = [:]
        /// The time of the last record that had one.
        var preceding: Instant?
    }

    private let decoder: any FrameDecoding
    private let zone: ZoneRules
    private let emit: @Sendable ([Output]) -> Void
    private let pending = Mutex<[Int64: Pending]>([:])
    private let contacts = Mutex<Int64>(0)

    /// Makes a journal.
    ///
    /// - Parameters:
    ///   - decoder: what frames mean.
    ///   - zone: the user's zone.
    ///   - emit: takes what comes out together, in the order frames came in within a contact.
    public init(decoder: any FrameDecoding, zone: ZoneRules, emit: @escaping @Sendable ([Output]) -> Void) {
        self.decoder = decoder
        self.zone = zone
        self.emit = emit
    }

    /// Decodes frames; readings come out when their window closes.
    public func append(_ frames: [Frame], of contact: Contact) async throws -> [FrameOutcome] {
        let times = TimeResolution(zone: zone, clock: contact.clock.map { ClockComparison($0, zone: zone) })
        let ready = pending.withLock { all in
            // Taken out while it changes, so that nothing is copied.
            var own = all.removeValue(forKey: contact.id) ?? Pending()
            var ready: [Output] = []
            for frame in frames {
                if let output = take(frame, of: contact, times, into: &own) { ready.append(output) }
            }
            all[contact.id] = own
            return ready
        }
        if !ready.isEmpty { emit(ready) }
        return []
    }

    /// Takes a frame in; returns what has to leave the window for it.
    private func take(
        _ frame: Frame, of contact: Contact, _ times: TimeResolution, into pending: inout Pending
    ) -> Output? {
        switch decoder.decode(frame, model: contact.device.model) {
        // A capture of the radio holds no scan of a sensor, and nothing that a person entered.
        case .nothing, .sensor, .entry, .imported, .withdrawal, .figures: return nil
        case .malformed(let error): return pending.window.append(.malformed(error, frame), key: nil)
        case .glucoseContext(let sequence, let context):
            let isJoined = pending.window.change(sequence) { output in
                guard case .reading(var reading) = output else { return }
                reading.context = context
                reading.excluded = reading.record.exclusion(with: context) ?? reading.excluded
                output = .reading(reading)
            }
            if !isJoined, pending.contexts.count < Self.window { pending.contexts[sequence] = context }
            return nil
        case .record(let record):
            let preceding = pending.preceding
            let time = times.resolve(
                record, receivedAt: frame.receivedAt,
                byBaseTime: decoder.clockShowsBaseTime(model: contact.device.model)
            ) { preceding }
            pending.preceding = time.instant ?? preceding
            let identity = ReadingIdentity(
                of: record, epoch: contact.sequenceEpoch, frame: frame, contactStart: contact.startedAt)
            let id = identity.id(device: contact.device.address, kind: record.value.kind)
            // What its context names it by, as in a store.
            let number = decoder.passingNumber(of: frame, model: contact.device.model) ?? record.sequence
            guard !isWaiting(id, record, number, in: &pending) else { return nil }
            let context = number.flatMap { pending.contexts.removeValue(forKey: $0) }
            let reading = Reading(
                id: id, record: record,
                context: context, device: contact.device, time: time,
                excluded: record.exclusion(with: context)
                    ?? TimeResolution.exclusion(of: time, receivedAt: frame.receivedAt),
                receivedAt: frame.receivedAt)
            return pending.window.append(.reading(reading), key: number)
        }
    }

    /// Whether the record is the newest of its number in the window: sent twice.
    private func isWaiting(_ id: ReadingID, _ record: Record, _ number: UInt16?, in pending: inout Pending) -> Bool {
        guard let number else { return false }
        var isSame = false
        _ = pending.window.change(number) { output in
            if case .reading(let waiting) = output { isSame = waiting.id == id && waiting.record == record }
        }
        return isSame
    }

    /// Begins a contact.
    public func beginContact(
        with device: DeviceDescription, at start: Instant, clock: ClockReading?, batteryPercent: UInt8?
    ) async throws -> Contact {
        let number = contacts.withLock { number in
            number += 1
            return number
        }
        return Contact(id: number, device: device, startedAt: start, clock: clock)
    }

    /// Hands on what still waited for a context.
    public func endContact(_ contact: Contact, _ summary: ContactSummary) async throws {
        var left = pending.withLock { $0.removeValue(forKey: contact.id) }
        guard let outputs = left?.window.removeAll(), !outputs.isEmpty else { return }
        emit(outputs)
    }

    /// Nothing is remembered.
    public func lastRecord(of contact: Contact) async throws -> LastRecord? { nil }
    /// Nothing is remembered.
    public func beginSequenceEpoch(in contact: Contact) async throws -> Contact { contact }
}
