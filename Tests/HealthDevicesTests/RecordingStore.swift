import HealthDevices
import HealthReadings
import Synchronization

/// A store in memory by the rules of the two seams, which notes when it was asked what and can fail.
final class RecordingStore: FrameJournal, DeviceMemory, PairingMemory {
    struct Full: Error {}

    private struct Stored {
        var frame: Frame
        var epoch: Int
        var record: Record
        var device: DeviceAddress?
    }

    private struct State {
        var contacts: [(contact: Contact, summary: ContactSummary?, battery: UInt8?)] = []
        var epoch = 0
        var frames: [Frame] = []
        var readings: [ReadingID: Stored] = [:]
        var appendsUntilFull: Int?
        var isClosed = false
        var failsToEnd = false
        var pairings: [DevicePairing] = []
        var clocks: [ClockReading] = []
        var refusesClocks = false
    }

    let log: EventLog
    private let state = Mutex(State())

    init(_ log: EventLog) { self.log = log }

    /// Appending fails after so many more times.
    func failAppending(after appends: Int?) { state.withLock { $0.appendsUntilFull = appends } }
    func close() { state.withLock { $0.isClosed = true } }
    /// What a clock shows can be noted no more: this machine's is not trusted with it.
    func refuseClocks() { state.withLock { $0.refusesClocks = true } }
    func failToEnd() { state.withLock { $0.failsToEnd = true } }
    /// The program died: the last contact has no end.
    func forgetLastEnd() { state.withLock { $0.contacts[$0.contacts.count - 1].summary = nil } }

    var readingCount: Int { state.withLock { $0.readings.count } }
    var frames: [Frame] { state.withLock { $0.frames } }
    var epoch: Int { state.withLock { $0.epoch } }
    var contacts: [Contact] { state.withLock { $0.contacts.map(\.contact) } }
    var summaries: [ContactSummary?] { state.withLock { $0.contacts.map(\.summary) } }
    var batteries: [UInt8?] { state.withLock { $0.contacts.map(\.battery) } }
    /// What clocks showed in contacts that had begun.
    var clocks: [ClockReading] { state.withLock { $0.clocks } }
    /// The stored records.
    var records: [Record] { state.withLock { $0.readings.values.map(\.record) } }
    /// Number and base time of the stored glucose readings.
    var numbered: Set<NumberedRecord> {
        state.withLock { state in
            Set(
                state.readings.values.compactMap { stored in
                    stored.record.sequence.map { NumberedRecord(sequence: $0, baseTime: stored.record.baseTime) }
                })
        }
    }

    func append(_ frames: [Frame], of contact: Contact) async throws -> [FrameOutcome] {
        // As a database does: a cancelled task gets nothing written any more.
        try Task.checkCancellation()
        log.note(.append(frames.count))
        // A suspension, as a real commit has: what does not wait for it is seen in the log.
        await Task.yield()
        let outcomes: [FrameOutcome]? = state.withLock { state in
            if let left = state.appendsUntilFull {
                guard left > 0 else { return nil }
                state.appendsUntilFull = left - 1
            }
            return frames.map { Self.store($0, contact, &state) }
        }
        guard let outcomes else {
            log.note(.appendFailed)
            throw Full()
        }
        log.note(.appended(frames.count))
        return outcomes
    }

    private static func store(_ frame: Frame, _ contact: Contact, _ state: inout State) -> FrameOutcome {
        state.frames.append(frame)
        switch ModelFrameDecoder().decode(frame, model: contact.device.model) {
        case .nothing, .sensor, .entry, .imported, .withdrawal, .figures: return .nothing
        case .glucoseContext: return .waiting
        case .malformed(let error): return .malformed(error)
        case .record(let record):
            // One that comes again with the octets an earlier epoch has it with is repeated.
            let known = state.readings.first {
                record.sequence != nil && $0.value.device == contact.device.address
                    && $0.value.record.sequence == record.sequence
                    && $0.value.frame.payload == frame.payload
            }
            let id =
                known?.key
                ?? ReadingIdentity(
                    of: record, epoch: contact.sequenceEpoch, frame: frame, contactStart: contact.startedAt
                ).id(device: contact.device.address, kind: record.value.kind)
            if let stored = state.readings[id] {
                guard record.isSameRecording(as: stored.record), record.heeding(stored.record) != stored.record else {
                    return .repeated(id)
                }
                state.readings[id]?.record = record
                state.readings[id]?.frame = frame
                return .repeated(id)
            }
            state.readings[id] = Stored(
                frame: frame, epoch: contact.sequenceEpoch, record: record, device: contact.device.address)
            return .new(
                Reading(
                    id: id, record: record, device: contact.device,
                    time: ResolvedTime(instant: nil, basis: .unknown), receivedAt: frame.receivedAt))
        }
    }

    func beginContact(
        with device: DeviceDescription, at start: Instant, clock: ClockReading?, batteryPercent: UInt8?
    ) async throws -> Contact {
        await Task.yield()
        let contact: Contact? = state.withLock { state in
            guard !state.isClosed else { return nil }
            let contact = Contact(
                id: Int64(state.contacts.count), device: device, startedAt: start, sequenceEpoch: state.epoch,
                clock: clock)
            state.contacts.append((contact, nil, batteryPercent))
            return contact
        }
        guard let contact else { throw Full() }
        log.note(.began)
        return contact
    }

    func noteClock(_ clock: ClockReading, in contact: Contact) async throws -> Contact {
        let isRefused = state.withLock { state in
            if !state.refusesClocks { state.clocks.append(clock) }
            return state.refusesClocks
        }
        if isRefused { throw ContactFailure(code: "clock_not_trusted", description: "this machine's clock is wrong") }
        var contact = contact
        contact.clock = clock
        return contact
    }

    func lastRecord(of contact: Contact) async throws -> LastRecord? {
        log.note(.askedForLast)
        return state.withLock { state in
            let ours = state.readings.values.filter {
                $0.epoch == contact.sequenceEpoch && $0.record.sequence != nil && $0.device == contact.device.address
            }
            guard let newest = ours.max(by: { ($0.record.sequence ?? 0) < ($1.record.sequence ?? 0) }) else {
                return nil
            }
            // By the clock of the contact that it came in, which is the last where no other has begun.
            let time = newest.record.baseTime.flatMap { base in
                state.clocks.last.map {
                    Instant(
                        seconds: base.secondsSinceEpoch + $0.readAt.seconds - $0.deviceTime.secondsSinceEpoch)
                }
            }
            return LastRecord(
                sequence: newest.record.sequence ?? 0, baseTime: newest.record.baseTime, time: time, count: ours.count,
                followsCompleteTransfer: state.contacts.last {
                    $0.contact.id < contact.id && $0.contact.device.address == contact.device.address
                }?.summary?.isComplete == true)
        }
    }

    func previousSummary(before contact: Contact) async throws -> ContactSummary? {
        state.withLock { state in
            let earlier = state.contacts.filter {
                $0.contact.id < contact.id && $0.contact.device.address == contact.device.address
            }
            let newest = earlier.map(\.contact.startedAt).max()
            guard let last = earlier.last, last.contact.startedAt == newest, var summary = last.summary else {
                return nil
            }
            if last.contact.device.model != contact.device.model { summary.announced = nil }
            return summary
        }
    }

    func recordings(of contact: Contact, beganAt starts: [WallTime]) async throws -> [WallTime: Set<Int>] {
        state.withLock { state in
            var known: [WallTime: Set<Int>] = [:]
            for stored in state.readings.values
            where stored.device == contact.device.address && stored.record.value.kind == .spo2 {
                guard let start = stored.record.baseTime, starts.contains(start) else { continue }
                known[start, default: []].insert(stored.frame.payload.count)
            }
            return known
        }
    }

    func beginSequenceEpoch(in contact: Contact) async throws -> Contact {
        let epoch = state.withLock { state in
            state.epoch += 1
            return state.epoch
        }
        log.note(.epoch(epoch))
        var renewed = contact
        renewed.sequenceEpoch = epoch
        return renewed
    }

    func endContact(_ contact: Contact, _ summary: ContactSummary) async throws {
        try Task.checkCancellation()
        log.note(.ended(summary))
        let fails = state.withLock { state in
            state.contacts[Int(contact.id)].summary = summary
            return state.failsToEnd
        }
        if fails { throw Full() }
    }

    // MARK: Bonds

    /// How a device stands; nil for one that is not known.
    func pairing(_ address: DeviceAddress) -> PairingState? {
        state.withLock { state in state.pairings.first { $0.addresses.contains(address) }?.state }
    }

    func serial(of address: DeviceAddress) -> String? {
        state.withLock { state in state.pairings.first { $0.addresses.contains(address) }?.device.serial }
    }

    func pairings() async throws -> [DevicePairing] { state.withLock { $0.pairings } }

    func notePairing(of device: DeviceDescription, as pairing: PairingState) async throws {
        try await note(device, as: pairing, isAdmitted: false)
    }

    func admit(_ device: DeviceDescription, as pairing: PairingState) async throws {
        try await note(device, as: pairing, isAdmitted: true)
    }

    /// Bars a device, as erasing its person does.
    func bar(_ address: DeviceAddress) {
        state.withLock { state in
            for index in state.pairings.indices where state.pairings[index].addresses.contains(address) {
                state.pairings[index].isBarred = true
                state.pairings[index].state = .unpaired
            }
        }
    }

    private func note(_ device: DeviceDescription, as pairing: PairingState, isAdmitted: Bool) async throws {
        try Task.checkCancellation()
        state.withLock { state in
            guard
                let index = state.pairings.firstIndex(where: { known in
                    device.address.map(known.addresses.contains) ?? false
                        || device.serial != nil && known.device.serial == device.serial
                })
            else {
                state.pairings.append(
                    DevicePairing(device: device, addresses: device.address.map { [$0] } ?? [], state: pairing))
                return
            }
            if isAdmitted { state.pairings[index].isBarred = false }
            if !state.pairings[index].isBarred || !pairing.isPaired { state.pairings[index].state = pairing }
            if let address = device.address, !state.pairings[index].addresses.contains(address) {
                state.pairings[index].addresses.append(address)
            }
            state.pairings[index].device.model = device.model ?? state.pairings[index].device.model
            state.pairings[index].device.serial = device.serial ?? state.pairings[index].device.serial
        }
        log.note(.paired(pairing))
    }
}

struct NumberedRecord: Hashable {
    var sequence: UInt16
    var baseTime: WallTime?
}
