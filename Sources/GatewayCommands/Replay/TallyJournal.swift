import HealthReadings
import Synchronization

/// A journal that keeps nothing but totals: `replay --count`.
///
/// Frames take the same way through central, reader and decoder as they do into the store.
public final class TallyJournal: FrameJournal, DeviceMemory {
    /// What came.
    public struct Totals: Sendable, Hashable {
        /// Contacts with devices.
        public var contacts = 0
        /// Frames of any kind.
        public var frames = 0
        /// Records by kind, glucose first.
        public var records: [ReadingKind: Int] = [:]
        /// Records that are never delivered.
        public var excluded = 0
        /// Glucose contexts.
        public var contexts = 0
        /// Frames that are no record.
        public var malformed = 0
    }

    private let decoder: any FrameDecoding
    private let state = Mutex(Totals())

    /// Makes a journal that decodes with `decoder`.
    public init(decoder: any FrameDecoding) { self.decoder = decoder }

    /// What came so far.
    public var totals: Totals { state.withLock { $0 } }

    /// Counts frames.
    public func append(_ frames: [Frame], of contact: Contact) async throws -> [FrameOutcome] {
        var (glucose, pressure, excluded, contexts, malformed) = (0, 0, 0, 0, 0)
        var vitals: [ReadingKind: Int] = [:]
        for frame in frames {
            switch decoder.decode(frame, model: contact.device.model) {
            case .record(let record):
                switch record.value {
                case .glucose: glucose += 1
                case .bloodPressure: pressure += 1
                case .vital, .kept: vitals[record.value.kind, default: 0] += 1
                }
                if record.exclusion != nil { excluded += 1 }
            case .glucoseContext: contexts += 1
            case .malformed: malformed += 1
            case .nothing, .sensor, .entry, .imported, .withdrawal, .figures: break
            }
        }
        state.withLock { totals in
            totals.frames += frames.count
            totals.records[.glucose, default: 0] += glucose
            totals.records[.bloodPressure, default: 0] += pressure
            totals.records.merge(vitals, uniquingKeysWith: +)
            totals.excluded += excluded
            totals.contexts += contexts
            totals.malformed += malformed
        }
        return []
    }

    /// Counts a contact.
    public func beginContact(
        with device: DeviceDescription, at start: Instant, clock: ClockReading?, batteryPercent: UInt8?
    ) async throws -> Contact {
        let number = state.withLock { totals in
            totals.contacts += 1
            return totals.contacts
        }
        return Contact(id: Int64(number), device: device, startedAt: start, clock: clock)
    }

    /// Nothing is remembered.
    public func lastRecord(of contact: Contact) async throws -> LastRecord? { nil }
    /// Nothing is remembered.
    public func beginSequenceEpoch(in contact: Contact) async throws -> Contact { contact }
    /// Nothing is remembered.
    public func endContact(_ contact: Contact, _ summary: ContactSummary) async throws {}
}
