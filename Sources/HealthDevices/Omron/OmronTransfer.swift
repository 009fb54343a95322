import GATTClient
import HealthReadings

/// What is known of the secret that a device was given when it was paired.
enum DeviceSecret: Sendable, Hashable {
    /// Nobody keeps secrets here: a replay.
    case unknown
    /// None is kept.
    case none
    case known([UInt8])
}

/// Reads an Omron monitor's memory: where each user's newest record stands, then backwards from there.
///
/// Reading ends at a record that is stored already, if the contact before brought everything. Slots in which nothing was recorded
/// end it only where the whole ring was looked at: rings of some models are shorter than public sources say.
///
/// Each user's newest record is asked for at each contact, though the index says what it said before: once a memory is full,
/// some monitors (HEM-7380T1) move each record down a slot, and the newest is always in the last.
///
/// Each message is durable before the next is asked for. Nothing is written to the memory.
struct OmronTransfer: RecordTransfer {
    let link: OmronLink
    let memory: OmronMemory
    /// The model that it is paired as.
    let model: DeviceModel
    /// What the device has: some say in their device information which model they are.
    let characteristics: [Characteristic]
    let secret: DeviceSecret
    let wantsAll: Bool

    /// Records have no numbers.
    var hasGaps: Bool { false }

    /// So many records of a user that are none, and not one that is, prove that the model is another.
    private static let mostFailures = 8

    /// Takes what is new on the monitor.
    ///
    /// - Returns: whether everything came that the monitor has.
    /// - Throws: ``TransferError``, ``GATTError``, `CancellationError`, or an error of the journal or the memory. What
    ///   came before is durable.
    func run(into intake: inout FrameIntake, memory: any DeviceMemory) async throws -> Bool {
        // Asked first: under another model's layout, records would be readings that nobody has measured.
        let stated = try await OmronModelNumber.read(from: link.peripheral, characteristics)
        if let refusal = stated?.refusal(of: model) { throw refusal }
        // Asked before anything is enabled, for a store that does not answer.
        let previous = try await memory.previousSummary(before: intake.contact)
        let key = try key()
        let wasWhole = previous.map { $0.isComplete && $0.announced != nil } ?? false
        var course = Course(transfer: self, wasWhole: wasWhole)
        let isWhole = try await link.peripheral.whileNotifying(link.notifying, farewell: link.farewell) {
            try await link.rest()
            try await link.unlock(key)
            return try await link.inSession { try await course.run(into: &intake, memory: memory) }
        }
        if isWhole { intake.finishCounting() }
        return isWhole
    }

    private func key() throws(TransferError) -> OmronKey? {
        guard link.stack == .key else { return nil }
        switch secret {
        case .unknown: return nil
        case .known(let octets):
            if let key = OmronKey(octets) { return key }
            fallthrough
        case .none:
            throw .refused(
                code: "omron_key_missing",
                description: "no key of this monitor is kept here; hold its Bluetooth button until P blinks, and pair "
                    + "it again")
        }
    }

    /// One reading of the memory.
    private struct Course {
        let transfer: OmronTransfer
        /// Whether the contact before this one brought the whole memory.
        let wasWhole: Bool
        /// Whether every request was answered with a message.
        private var isWhole = true
        /// Whether a record came that was not stored.
        private var hasNews = false

        private var layout: OmronRecordLayout { transfer.memory.layout }

        init(transfer: OmronTransfer, wasWhole: Bool) {
            self.transfer = transfer
            self.wasWhole = wasWhole
        }

        mutating func run(into intake: inout FrameIntake, memory: any DeviceMemory) async throws -> Bool {
            let map = transfer.memory
            let index = try await octets(OmronIndex.length, at: map.settings, into: &intake)
            let isPlausible = index.map { contradiction.isPlausible($0.octets) } ?? true
            if intake.contact.clock == nil || !isPlausible {
                let clock = try await octets(map.clock.count, at: map.settings + map.clock.lowerBound, into: &intake)
                let time = clock.flatMap { map.wallTime($0.octets) }
                if intake.contact.clock == nil, let clock, let time {
                    try await intake.note(ClockReading(deviceTime: time, readAt: clock.at), in: memory)
                }
                if let index, !isPlausible {
                    try await judge(index.octets, hasClock: time != nil, into: &intake)
                }
            }
            await intake.beginCounting(announced: nil)
            var withoutRecords: [Int] = []
            for user in map.users.indices {
                let position = index.map { map.position(of: user, in: $0.octets) } ?? .unknown
                if position == .empty, !transfer.wantsAll {
                    withoutRecords.append(user)
                } else {
                    try await read(user, from: position, into: &intake)
                }
            }
            // A model whose index stands elsewhere would hide a user for good. So the first slots are looked at, where every
            // user begins, unless the contact has shown what it was for.
            if !wasWhole || !hasNews {
                for user in withoutRecords where try await !isBlank(user, into: &intake) {
                    try await read(user, from: .unknown, into: &intake)
                }
            }
            return isWhole
        }

        /// Whether nothing was recorded in a user's first slots.
        private mutating func isBlank(_ user: Int, into intake: inout FrameIntake) async throws -> Bool {
            let size = min(transfer.memory.slotsARead, transfer.memory.count)
            return try await read(size, from: 0, of: user, into: &intake).isEmpty
        }

        private var contradiction: OmronContradiction { OmronContradiction(transfer.memory) }

        /// Refuses a monitor whose memory is certainly laid out as another model's.
        ///
        /// - Parameters:
        ///   - index: the index, which makes no sense.
        ///   - hasClock: whether a clock runs where the layout has it.
        private mutating func judge(
            _ index: [UInt8], hasClock: Bool, into intake: inout FrameIntake
        ) async throws {
            var models: [DeviceModel] = []
            if hasClock {
                for (candidate, newest) in contradiction.withLongerRings(index)
                where try await hasRecord(at: newest, of: candidate.memory, into: &intake) {
                    models.append(candidate.model)
                }
            } else {
                models = try await modelsWithSettingsElsewhere(into: &intake)
            }
            guard models.isEmpty else {
                throw OmronContradiction.refusal(of: transfer.model, explainedBy: models)
            }
        }

        /// The models whose index makes sense, and whose clock runs, where they have them.
        private mutating func modelsWithSettingsElsewhere(into intake: inout FrameIntake) async throws -> [DeviceModel]
        {
            var found: [DeviceModel] = []
            let others = contradiction.candidates.filter { $0.memory.settings != transfer.memory.settings }
            for settings in Set(others.map(\.memory.settings)).sorted() {
                guard let index = try await octets(OmronIndex.length, at: settings, into: &intake)?.octets else {
                    continue
                }
                let explaining = others.filter {
                    $0.memory.settings == settings && OmronContradiction.explains(index, $0.memory)
                }
                for place in Set(explaining.map(\.memory.clock)).sorted(by: { $0.lowerBound < $1.lowerBound }) {
                    let clock = try await octets(place.count, at: settings + place.lowerBound, into: &intake)?.octets
                    for candidate in explaining where candidate.memory.clock == place {
                        guard let clock, candidate.memory.wallTime(clock) != nil else { continue }
                        for slot in contradiction.proofs(of: candidate.memory, index)
                        where try await hasRecord(at: slot, of: candidate.memory, into: &intake) {
                            found.append(candidate.model)
                            break
                        }
                    }
                }
            }
            return found
        }

        private mutating func hasRecord(
            at address: UInt16, of other: OmronMemory, into intake: inout FrameIntake
        ) async throws -> Bool {
            guard let octets = try await octets(other.layout.length, at: address, into: &intake)?.octets else {
                return false
            }
            return (try? other.layout.record(octets)) != nil
        }

        /// Octets beside the records; `nil` where the monitor does not show them.
        private func octets(
            _ count: Int, at address: UInt16, into intake: inout FrameIntake
        ) async throws -> (octets: [UInt8], at: Instant)? {
            guard let request = OmronRequest.read(count, at: address) else { return nil }
            switch try await transfer.link.ask(request, received: intake.received) {
            case .answered(let octets, let message, let instant):
                _ = try await intake.take(omron: message, slots: [], receivedAt: instant)
                return (octets, instant)
            case .refused(_, let message, let instant), .malformed(_, let message, let instant):
                _ = try await intake.take(omron: message, slots: [], receivedAt: instant)
                return nil
            case .ended(let code, let message, let instant):
                _ = try await intake.take(omron: message, slots: [], receivedAt: instant)
                throw Self.ended(code)
            }
        }

        /// What a monitor did not show is not known to be blank.
        private static func ended(_ code: UInt8) -> TransferError {
            .refused(
                code: "omron_session_ended",
                description: "the monitor ended the session (code \(code)) too early; the next contact "
                    + "reads everything again")
        }

        /// What a block of slots has brought.
        private struct Block {
            /// Whether nothing was recorded in it.
            var isEmpty = true
            /// Whether a record of it was stored before.
            var isKnown = false
            /// Whether the monitor refuses to show it.
            var isRefused = false
            var records = 0
            var failures = 0
        }

        /// Reads the slots of a user backwards, from the newest record all around.
        private mutating func read(
            _ user: Int, from position: OmronIndex.Position, into intake: inout FrameIntake
        ) async throws {
            let count = transfer.memory.count
            var (slot, mayEnd) = (count - 1, false)
            // From the newest record down to the first slot there is one in each; in a ring that has come round, in all.
            var (isRecorded, isFull) = (false, false)
            if case .newest(let newest, let hasWrapped) = position {
                // The first time every slot is looked at: what the index hides then, it would hide for good.
                (slot, mayEnd, isRecorded, isFull) = (newest, wasWhole && !transfer.wantsAll, true, hasWrapped)
            }
            var (left, most, hasCome, wasRefused) = (count, transfer.memory.slotsARead, false, false)
            var isShown = false
            var (records, failures) = (0, 0)
            while left > 0 {
                try Task.checkCancellation()
                let size = min(most, left, slot + 1)
                let block = try await read(size, from: slot - size + 1, of: user, into: &intake)
                if block.isRefused {
                    if size > 1 {
                        // Some monitors show one record at a time.
                        most = 1
                        continue
                    }
                    wasRefused.toggle()
                    // A record is asked for once more; a slot that may be blank is taken to be so.
                    if isRecorded {
                        if wasRefused { continue }
                        isWhole = false
                    }
                }
                isShown = isShown || !block.isRefused
                wasRefused = false
                records += block.records
                failures += block.failures
                if records == 0, failures >= OmronTransfer.mostFailures {
                    throw TransferError.refused(
                        code: "omron_wrong_model",
                        description: "what stands in the monitor's memory are no records of \(transfer.model.id), "
                            + "\(transfer.model.name), which it is paired as")
                }
                if block.isKnown, mayEnd { return }
                // A record that is not shown does not end those before it.
                if block.isEmpty, mayEnd, !(block.isRefused && isRecorded) {
                    // The newest record is not where the index says: it is not followed. Where it is, and nothing stored was met, the
                    // ring may have come round below its last slots, which it doesn't have.
                    if !hasCome { (mayEnd, isRecorded, isFull) = (false, false, false) }
                }
                hasCome = hasCome || !block.isEmpty
                left -= size
                if slot < size { isRecorded = isRecorded && isFull }
                slot = slot - size < 0 ? count - 1 : slot - size
            }
            // A monitor that shows no slot is not one without records.
            if !isShown { isWhole = false }
        }

        private mutating func read(
            _ size: Int, from first: Int, of user: Int, into intake: inout FrameIntake
        ) async throws -> Block {
            let address = transfer.memory.address(first, of: user)
            var block = Block()
            guard let request = OmronRequest.read(size * layout.length, at: address) else { return block }
            switch try await transfer.link.ask(request, received: intake.received) {
            case .refused(_, let message, let instant):
                _ = try await intake.take(omron: message, slots: [], receivedAt: instant)
                block.isRefused = true
            case .ended(let code, let message, let instant):
                _ = try await intake.take(omron: message, slots: [], receivedAt: instant)
                throw Self.ended(code)
            case .malformed(_, let message, let instant):
                _ = try await intake.take(omron: message, slots: [], receivedAt: instant)
                isWhole = false
                block.isEmpty = false
            case .answered(let octets, let message, let instant):
                let slots = (0..<size).compactMap { place -> (address: UInt16, octets: [UInt8])? in
                    let record = Array(octets[(place * layout.length)..<((place + 1) * layout.length)])
                    guard !OmronRecordLayout.isEmpty(record) else { return nil }
                    return (address + UInt16(place * layout.length), record)
                }
                for outcome in try await intake.take(omron: message, slots: slots, receivedAt: instant) {
                    switch outcome {
                    case .repeated, .revised: (block.isKnown, block.records) = (true, block.records + 1)
                    case .new, .clash: (hasNews, block.records) = (true, block.records + 1)
                    case .malformed: block.failures += 1
                    case .waiting, .nothing: break
                    }
                }
                block.isEmpty = slots.isEmpty
            }
            return block
        }
    }
}

extension FrameIntake {
    /// Makes a monitor's message durable, with the records that it brought.
    ///
    /// - Returns: what became of the records.
    fileprivate mutating func take(
        omron message: [UInt8], slots: [(address: UInt16, octets: [UInt8])], receivedAt: Instant
    ) async throws -> [FrameOutcome] {
        let records = slots.map { slot in
            [UInt8(slot.address >> 8), UInt8(truncatingIfNeeded: slot.address)] + slot.octets
        }
        return Array(
            try await take(message, as: .omronMessage, records: records, as: .omronRecord, receivedAt: receivedAt)
                .dropFirst())
    }
}
