import GATTClient
import GATTProfiles
import HealthReadings

/// Turns a device's values into durable frames, counting as they come.
///
/// The one place frames enter the journal from: whatever arrived together commits together, and nothing is asked of the
/// device before that.
struct FrameIntake {
    /// How the meter's newest record stands to the newest one that is stored.
    enum Newest: Sendable, Hashable {
        case unseen, same, later, restarted
    }

    private(set) var contact: Contact
    private(set) var received = 0
    private(set) var newest = Newest.unseen

    private let journal: any FrameJournal
    private let report: @Sendable (TransferEvent) async -> Void
    private var announced: Int?
    private var last: LastRecord?
    private var ordinals: [UInt16: Int] = [:]
    private var sequences = SequenceSet()

    init(contact: Contact, journal: any FrameJournal, report: @escaping @Sendable (TransferEvent) async -> Void) {
        self.contact = contact
        self.journal = journal
        self.report = report
    }

    /// Sequence numbers missing between the ones that came, and between them and what was stored before.
    var gaps: [ClosedRange<UInt16>] { sequences.gaps }

    /// The transfer proper begins: what came before was a question.
    mutating func beginCounting(announced: Int?) {
        received = 0
        self.announced = announced
    }

    /// The device was read before, up to this record.
    mutating func continues(after last: LastRecord) { self.last = last }

    /// Compares records with what is stored, before they are: where the device restarted its numbers, an epoch begins.
    mutating func compare(_ values: [CharacteristicValue], memory: any DeviceMemory) async throws {
        guard let last else { return }
        for value in values where value.uuid == GlucoseTransfer.measurement {
            guard let record = try? GlucoseMeasurement(decoding: value.octets) else { continue }
            if record.sequenceNumber == last.sequence, record.baseTime.wallTime == last.baseTime {
                newest = .same
            } else if record.sequenceNumber > last.sequence {
                newest = .later
                sequences.insert(last.sequence)
            } else {
                newest = .restarted
                contact = try await memory.beginSequenceEpoch(in: contact)
            }
        }
    }

    /// Makes the values of these characteristics durable, the first of which carries the records to count.
    mutating func take(
        _ values: [CharacteristicValue], records: BluetoothUUID, others: Set<BluetoothUUID>
    ) async throws {
        var frames: [Frame] = []
        frames.reserveCapacity(values.count)
        var came = 0
        for value in values {
            let isRecord = value.uuid == records
            guard isRecord || others.contains(value.uuid), let number = value.uuid.assignedNumber else { continue }
            frames.append(
                Frame(
                    format: FrameFormat(characteristic: number), payload: value.octets, receivedAt: value.receivedAt,
                    ordinal: ordinals[number, default: 0]))
            ordinals[number, default: 0] += 1
            guard isRecord else { continue }
            came += 1
            if records == GlucoseTransfer.measurement, value.octets.count >= 3 {
                sequences.insert(UInt16(value.octets[1]) | UInt16(value.octets[2]) << 8)
            }
        }
        guard !frames.isEmpty else { return }
        let outcomes = try await journal.append(frames, of: contact)
        received += came
        await report(.stored(outcomes))
        if came > 0 { await report(.progress(received: received, of: announced)) }
    }
}
