import GATTClient
import HealthReadings
import Synchronization

/// Reads what an O2Ring has recorded: which recordings it has, then each that isn't stored, piece by piece.
///
/// Each piece is durable before the next is asked for, and a recording's readings are durable with its last piece. A recording
/// is closed again whatever comes of it. One that cannot be read ends no contact: the others are read first.
struct O2RingTransfer: RecordTransfer {
    let link: O2RingLink
    let wantsAll: Bool
    let settled: O2RingSettled

    /// Records have no numbers.
    var hasGaps: Bool { false }

    /// How often a recording is opened in a contact that turns out to be another, or not whole.
    private static let openings = 2

    /// What became of a recording.
    private enum Outcome {
        /// It is stored now.
        case stored
        /// It was stored before, and has not gone on since.
        case unchanged
        /// It cannot be read, which was told before.
        case passedOver
        case failed(TransferError)
    }

    /// Takes what is new on the oximeter.
    ///
    /// - Returns: whether everything came that the oximeter has.
    /// - Throws: ``TransferError``, ``GATTError``, `CancellationError`, or an error of the journal or the memory. What
    ///   came before is durable.
    func run(into intake: inout FrameIntake, memory: any DeviceMemory) async throws -> Bool {
        try await link.peripheral.whileNotifying([link.answers]) {
            let information = try await information(into: &intake, memory: memory)
            await intake.beginCounting(announced: nil)
            let starts = information.recordings.compactMap(\.start)
            let stored = wantsAll ? [:] : try await memory.recordings(of: intake.contact, beganAt: starts)
            var failure: TransferError?
            for name in information.recordings {
                try Task.checkCancellation()
                let lengths = name.start.flatMap { stored[$0] }
                // Rings list the newest last, unless their clock was set back.
                let mayGoOn = name == information.recordings.last || name.start == starts.max()
                let mayHaveGrown = mayGoOn || !settled.contains(.ended(name), of: intake.contact.device.address)
                // Of one that was pruned only its start is known.
                guard lengths.map({ !$0.isEmpty && mayHaveGrown }) ?? true else { continue }
                switch try await read(name, storedAs: lengths, into: &intake) {
                case .failed(let error): failure = failure ?? error
                case .unchanged where !mayGoOn:
                    settled.insert(.ended(name), of: intake.contact.device.address)
                case .stored, .unchanged, .passedOver: continue
                }
            }
            if let failure { throw failure }
            if let refusal = refusal(of: information, intake.contact) { throw refusal }
            intake.finishCounting()
            return true
        }
    }

    /// Names what the list has that cannot be asked for, once while the process runs.
    private func refusal(of information: O2RingInformation, _ contact: Contact) -> TransferError? {
        let number = information.unusableNames
        let isNews = number > 0 && settled.insert(.unusable(number), of: contact.device.address)
        guard number > 0, isNews || wantsAll else { return nil }
        return .refused(
            code: "o2ring_refused",
            description: "the oximeter lists \(number) recordings under names that cannot be asked for")
    }

    private func information(
        into intake: inout FrameIntake, memory: any DeviceMemory
    ) async throws -> O2RingInformation {
        let reply = try await link.ask(.information, into: &intake) { answer in
            (try? O2RingInformation(answer.payload)) != nil
        }
        guard case .answered(let payload, let message, let instant) = reply else {
            throw TransferError.refused(
                code: "o2ring_no_list", description: "the oximeter does not say which recordings it has")
        }
        try await intake.take(message, as: .o2ringMessage, isRecord: false, receivedAt: instant)
        let information = try O2RingInformation(payload)
        if intake.contact.clock == nil, let time = information.time {
            try await intake.note(ClockReading(deviceTime: time, readAt: instant), in: memory)
        }
        return information
    }

    /// Reads a recording, and closes it again.
    ///
    /// - Parameter lengths: the lengths of the frames that it is stored with; `nil` if it is not stored.
    private func read(
        _ name: O2RingRecordingName, storedAs lengths: Set<Int>?, into intake: inout FrameIntake
    ) async throws -> Outcome {
        var last = Outcome.stored
        for opening in 0..<Self.openings {
            let outcome: (Outcome, mayHelp: Bool)
            do {
                outcome = try await readOnce(name, storedAs: lengths, isFirst: opening == 0, into: &intake)
            } catch TransferError.timedOut {
                // One that is not answered hides no other, unless the oximeter answers nothing any more.
                guard await close(&intake) else { throw TransferError.timedOut(received: intake.received) }
                return .failed(Self.failure("o2ring_incomplete", name, "the oximeter does not answer"))
            } catch {
                if case .interrupted? = error as? TransferError { throw error }
                await close(&intake)
                throw error
            }
            await close(&intake)
            last = outcome.0
            guard outcome.mayHelp else { return last }
        }
        return last
    }

    private func readOnce(
        _ name: O2RingRecordingName, storedAs lengths: Set<Int>?, isFirst: Bool, into intake: inout FrameIntake
    ) async throws -> (Outcome, mayHelp: Bool) {
        guard let size = try await open(name, into: &intake) else {
            return fail("o2ring_refused", name, 0, "the oximeter does not open it", mayHelp: false, intake)
        }
        guard (O2RingRecording.head...O2RingRecording.longest).contains(size) else {
            return fail("o2ring_layout", name, size, "no recording has \(size) octets", mayHelp: isFirst, intake)
        }
        if lengths?.contains(O2RingRecording.lengthOfPayload(size, named: name)) == true { return (.unchanged, false) }
        if isFirst, !wantsAll, settled.contains(.bad(name, size: size), of: intake.contact.device.address) {
            return (.passedOver, false)
        }
        var octets: [UInt8] = []
        var number: UInt16 = 0
        while octets.count < size {
            try Task.checkCancellation()
            let left = size - octets.count
            let reply = try await link.ask(.piece(number), into: &intake) { [number] answer in
                answer.block == number && (1...left).contains(answer.payload.count)
                    && !(number == 0 && Self.mayAnswerAnother(answer.payload))
            }
            guard case .answered(let payload, let message, let instant) = reply else {
                return (.failed(Self.failure("o2ring_incomplete", name, "piece \(number) does not come whole")), true)
            }
            octets += payload
            guard octets.count == size else {
                try await intake.take(message, as: .o2ringMessage, isRecord: false, receivedAt: instant)
                guard number < UInt16.max else {
                    return (.failed(Self.failure("o2ring_layout", name, "it has too many pieces")), false)
                }
                number += 1
                continue
            }
            return try await finish(name, octets, with: message, at: instant, into: &intake)
        }
        return (.stored, false)
    }

    /// Octets of a size.
    private static let sizeLength = 4

    /// Whether an answer without a number may be a late one to another question: a size, the values that an oximeter shows,
    /// or what it says of itself.
    private static func mayAnswerAnother(_ payload: [UInt8]) -> Bool {
        [sizeLength, 12, 13].contains(payload.count) || payload.first == UInt8(ascii: "{")
    }

    /// Makes a recording durable with the message that completes it.
    private func finish(
        _ name: O2RingRecordingName, _ octets: [UInt8], with message: [UInt8], at instant: Instant,
        into intake: inout FrameIntake
    ) async throws -> (Outcome, mayHelp: Bool) {
        let payload = O2RingRecording.payload(octets, named: name)
        let outcomes = try await intake.take(
            message, as: .o2ringMessage, records: [(.o2ringSaturations, payload), (.o2ringPulses, payload)],
            receivedAt: instant)
        for case .malformed(let error) in outcomes {
            // Another recording than the one that was asked for, or a part of it, may be whole at the next opening.
            let isAnother = (try? O2RingRecording.start(of: octets, named: name)) == nil
            if !isAnother { settled.insert(.bad(name, size: octets.count), of: intake.contact.device.address) }
            let failure = Self.failure("o2ring_layout", name, "\(error); it is kept as octets")
            return (.failed(failure), isAnother || !O2RingRecording.isWhole(octets))
        }
        return (.stored, false)
    }

    /// Opens a recording; `nil` where the oximeter does not.
    private func open(_ name: O2RingRecordingName, into intake: inout FrameIntake) async throws -> Int? {
        let reply = try await link.ask(.open(name), into: &intake) {
            $0.block == 0 && $0.payload.count == Self.sizeLength
        }
        guard case .answered(let payload, let message, let instant) = reply else { return nil }
        try await intake.take(message, as: .o2ringMessage, isRecord: false, receivedAt: instant)
        return payload.reversed().reduce(0) { $0 << 8 | Int($1) }
    }

    /// Closes what is open.
    ///
    /// - Returns: whether the oximeter has answered.
    @discardableResult private func close(_ intake: inout FrameIntake) async -> Bool {
        let before = intake
        let (after, hasAnswered) = await shieldedFromCancellation {
            var intake = before
            let reply = try? await link.ask(.close, into: &intake, tries: 1) { $0.payload.isEmpty }
            return (intake, reply != nil)
        }
        intake = after
        return hasAnswered
    }

    /// Fails for a reason that stays. It is told once while the process runs, or each time that all recordings are asked for: what
    /// cannot be read must not look like a contact that went wrong, which is soon made again.
    private func fail(
        _ code: String, _ name: O2RingRecordingName, _ size: Int, _ what: String, mayHelp: Bool, _ intake: FrameIntake
    ) -> (Outcome, mayHelp: Bool) {
        let (fact, address) = (O2RingSettled.Fact.bad(name, size: size), intake.contact.device.address)
        if !wantsAll, settled.contains(fact, of: address) { return (.passedOver, false) }
        if !mayHelp { settled.insert(fact, of: address) }
        return (.failed(Self.failure(code, name, what)), mayHelp)
    }

    private static func failure(_ code: String, _ name: O2RingRecordingName, _ what: String) -> TransferError {
        .refused(code: code, description: "recording \(name): \(what)")
    }
}

/// What is known of recordings while the process runs.
final class O2RingSettled: Sendable {
    /// Something that was found out once.
    enum Fact: Hashable {
        /// A recording cannot be read as long as it has this size; one that has grown is read again.
        case bad(O2RingRecordingName, size: Int)
        /// A stored recording has not gone on since, and there is a newer one.
        case ended(O2RingRecordingName)
        /// So many names of the list are none.
        case unusable(Int)
    }

    private struct Entry: Hashable {
        var address: DeviceAddress?
        var fact: Fact
    }

    private let entries = Mutex<Set<Entry>>([])

    func contains(_ fact: Fact, of address: DeviceAddress?) -> Bool {
        entries.withLock { $0.contains(Entry(address: address, fact: fact)) }
    }

    /// - Returns: whether it was not known.
    @discardableResult func insert(_ fact: Fact, of address: DeviceAddress?) -> Bool {
        entries.withLock { $0.insert(Entry(address: address, fact: fact)).inserted }
    }
}
