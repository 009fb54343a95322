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
        /// It is stored, or was.
        case stored
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
            let known = wantsAll ? [] : try await memory.recordings(of: intake.contact, beganAt: starts)
            var failure: TransferError?
            for name in information.recordings where name.start.map(known.contains) != true {
                try Task.checkCancellation()
                if case .failed(let error) = try await read(name, into: &intake) { failure = failure ?? error }
            }
            if let failure { throw failure }
            if information.unusableNames > 0 {
                throw TransferError.refused(
                    code: "o2ring_refused",
                    description:
                        "the oximeter lists \(information.unusableNames) recordings under names that cannot be asked for"
                )
            }
            intake.finishCounting()
            return true
        }
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

    private func read(_ name: O2RingRecordingName, into intake: inout FrameIntake) async throws -> Outcome {
        var last = Outcome.stored
        for opening in 0..<Self.openings {
            let outcome: (Outcome, mayHelp: Bool)
            do {
                outcome = try await readOnce(name, skipsSettled: opening == 0 && !wantsAll, into: &intake)
            } catch {
                if case .interrupted? = error as? TransferError { throw error }
                await close(&intake)
                throw error
            }
            await close(&intake)
            last = outcome.0
            if case .stored = last { return last }
            guard outcome.mayHelp else { return last }
        }
        return last
    }

    private func readOnce(
        _ name: O2RingRecordingName, skipsSettled: Bool, into intake: inout FrameIntake
    ) async throws -> (Outcome, mayHelp: Bool) {
        let address = intake.contact.device.address
        guard let size = try await open(name, into: &intake) else {
            return (.failed(Self.failure("o2ring_refused", name, "the oximeter does not open it")), false)
        }
        guard (O2RingRecording.head...O2RingRecording.longest).contains(size) else {
            return (.failed(Self.failure("o2ring_layout", name, "no recording has \(size) octets")), true)
        }
        if skipsSettled, settled.contains(name, size, of: address) { return (.stored, false) }
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
            if !isAnother { settled.insert(name, octets.count, of: intake.contact.device.address) }
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

    private func close(_ intake: inout FrameIntake) async {
        let before = intake
        intake = await shieldedFromCancellation {
            var intake = before
            _ = try? await link.ask(.close, into: &intake, tries: 1) { $0.payload.isEmpty }
            return intake
        }
    }

    private static func failure(_ code: String, _ name: O2RingRecordingName, _ what: String) -> TransferError {
        .refused(code: code, description: "recording \(name): \(what)")
    }
}

/// Recordings that cannot be understood, and are known while the process runs: by name and size, so that one that has grown
/// is read again.
final class O2RingSettled: Sendable {
    private struct Entry: Hashable {
        var address: DeviceAddress?
        var name: O2RingRecordingName
        var size: Int
    }

    private let entries = Mutex<Set<Entry>>([])

    func contains(_ name: O2RingRecordingName, _ size: Int, of address: DeviceAddress?) -> Bool {
        entries.withLock { $0.contains(Entry(address: address, name: name, size: size)) }
    }

    func insert(_ name: O2RingRecordingName, _ size: Int, of address: DeviceAddress?) {
        entries.withLock { _ = $0.insert(Entry(address: address, name: name, size: size)) }
    }
}
