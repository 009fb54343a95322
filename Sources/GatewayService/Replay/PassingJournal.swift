import HealthReadings
import Synchronization

/// A journal that stores nothing and hands readings on: `replay --dry-run`.
///
/// Readings have the same identity and time as in a store that was empty before. A glucose record waits in a window of
/// ``window`` records for its context, so memory does not grow with the capture.
public final class PassingJournal: FrameJournal, DeviceMemory {
    /// How many records may lie between a record and its context.
    public static let window = 512

    /// What became of the frames.
    public enum Output: Sendable {
        case reading(Reading)
        case malformed(MalformedFrame, Frame)
    }

    private struct Pending {
        var outputs: [Output] = []
        var contexts: [UInt16: GlucoseContext] = [:]
    }

    private let decoder: any FrameDecoding
    private let zone: ZoneRules
    private let emit: @Sendable (Output) -> Void
    private let pending = Mutex<[Int64: Pending]>([:])
    private let contacts = Mutex<Int64>(0)

    /// Makes a journal.
    ///
    /// - Parameters:
    ///   - zone: the user's zone.
    ///   - emit: takes what comes out, in the order frames came in within a contact.
    public init(decoder: any FrameDecoding, zone: ZoneRules, emit: @escaping @Sendable (Output) -> Void) {
        self.decoder = decoder
        self.zone = zone
        self.emit = emit
    }

    /// Decodes frames; readings come out when their window closes.
    public func append(_ frames: [Frame], of contact: Contact) async throws -> [FrameOutcome] {
        let times = TimeResolution(zone: zone, clock: contact.clock.map { ClockComparison($0, zone: zone) })
        let ready = pending.withLock { all in
            for frame in frames { take(frame, of: contact, times, into: &all[contact.id, default: Pending()]) }
            guard let excess = all[contact.id].map({ $0.outputs.count - Self.window }), excess > 0 else {
                return [Output]()
            }
            let ready = all[contact.id]?.outputs.prefix(excess).map(\.self) ?? []
            all[contact.id]?.outputs.removeFirst(excess)
            return ready
        }
        ready.forEach(emit)
        return []
    }

    private func take(_ frame: Frame, of contact: Contact, _ times: TimeResolution, into pending: inout Pending) {
        switch decoder.decode(frame, model: contact.device.model) {
        case .nothing: break
        case .malformed(let error): pending.outputs.append(.malformed(error, frame))
        case .glucoseContext(let sequence, let context):
            for index in pending.outputs.indices.reversed() {
                guard case .reading(var reading) = pending.outputs[index], reading.record.sequence == sequence else {
                    continue
                }
                reading.context = context
                pending.outputs[index] = .reading(reading)
                return
            }
            if pending.contexts.count < Self.window { pending.contexts[sequence] = context }
        case .record(let record):
            let preceding = pending.outputs.reversed().lazy.compactMap { output -> Instant? in
                if case .reading(let reading) = output { reading.time.instant } else { nil }
            }
            let time = times.resolve(record, receivedAt: frame.receivedAt) { preceding.first }
            let identity = ReadingIdentity(
                of: record, epoch: contact.sequenceEpoch, frame: frame, contactStart: contact.startedAt)
            let reading = Reading(
                id: identity.id(device: contact.device.address, kind: record.value.kind), record: record,
                context: record.sequence.flatMap { pending.contexts.removeValue(forKey: $0) }, device: contact.device,
                time: time,
                excluded: record.exclusion ?? TimeResolution.exclusion(of: time, receivedAt: frame.receivedAt),
                receivedAt: frame.receivedAt)
            pending.outputs.append(.reading(reading))
        }
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
        pending.withLock { $0.removeValue(forKey: contact.id)?.outputs ?? [] }.forEach(emit)
    }

    /// Nothing is remembered.
    public func lastRecord(of contact: Contact) async throws -> LastRecord? { nil }
    /// Nothing is remembered.
    public func beginSequenceEpoch(in contact: Contact) async throws -> Contact { contact }
}
