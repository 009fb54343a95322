import GATTClient
import HealthReadings

/// Reads a OneTouch meter: its clock, how many records it has, then each that is not stored yet.
///
/// The newest stored record is asked for again: its time proves that the meter's numbers go on from ours. Whatever
/// cannot be proven is answered by reading everything. Each record is durable before the meter is told that it came.
struct OneTouchTransfer: RecordTransfer {
    let link: OneTouchLink
    let wantsAll: Bool

    /// Takes what is new on the meter.
    ///
    /// - Returns: whether everything came that the meter has.
    /// - Throws: ``TransferError``, ``GATTError``, `CancellationError`, or an error of the journal or the memory. What
    ///   came before is durable.
    func run(into intake: inout FrameIntake, memory: any DeviceMemory) async throws -> Bool {
        // Asked first, so that nothing is enabled where the store does not answer.
        let last = try await memory.lastRecord(of: intake.contact)
        return try await link.peripheral.whileNotifying([link.answers]) {
            if let clock = try await link.clock(received: 0) { try await intake.note(clock, in: memory) }
            let numbers = try await numbers()
            guard let last else { return try await read(numbers, into: &intake, isSecondTry: false) }
            return try await readNew(numbers, after: last, into: &intake, memory)
        }
    }

    /// The numbers of the records there are; nil where there is none.
    private func numbers() async throws -> ClosedRange<UInt16>? {
        let newest = try await number(.newest)
        let count = try await number(.count)
        guard count > 0 else { return nil }
        guard let highest = UInt16(exactly: newest), count <= UInt32(highest) + 1 else {
            throw TransferError.refused(
                code: "onetouch_numbers",
                description: "the meter reports \(count) records up to number \(newest), which is impossible")
        }
        return UInt16(newest - count + 1)...highest
    }

    private func number(_ question: OneTouchQuestion) async throws -> UInt32 {
        switch try await link.ask(question, received: 0) {
        case .answer(let octets, _):
            try await link.acknowledge(0)
            return OneTouch.word(octets[...])
        case .malformed(_, let error):
            throw TransferError.refused(code: "onetouch_malformed", description: error.description)
        }
    }

    private func readNew(
        _ numbers: ClosedRange<UInt16>?, after last: LastRecord, into intake: inout FrameIntake,
        _ memory: any DeviceMemory
    ) async throws -> Bool {
        let isSecondTry = !last.followsCompleteTransfer
        guard let numbers else { return true }
        // Its oldest records may have gone; a newest one that is older than ours can only be another's.
        guard numbers.upperBound >= last.sequence else {
            try await intake.beginSequenceEpoch(in: memory)
            return try await read(numbers, into: &intake, isSecondTry: false)
        }
        guard numbers.contains(last.sequence), let ours = last.baseTime,
            case .answer(let octets, let message) = try await link.ask(.record(last.sequence), received: 0)
        else { return try await read(numbers, into: &intake, isSecondTry: isSecondTry) }
        guard OneTouchRecord.baseTime(octets) == ours else {
            try await intake.beginSequenceEpoch(in: memory)
            return try await read(numbers, into: &intake, isSecondTry: false)
        }
        try await intake.take(oneTouch: message, number: last.sequence)
        try await link.acknowledge(0)
        if wantsAll || isSecondTry { return try await read(numbers, into: &intake, isSecondTry: isSecondTry) }
        guard last.sequence < numbers.upperBound else { return true }
        return try await read((last.sequence + 1)...numbers.upperBound, into: &intake, isSecondTry: false)
    }

    private func read(
        _ numbers: ClosedRange<UInt16>?, into intake: inout FrameIntake, isSecondTry: Bool
    ) async throws -> Bool {
        let storedBefore = intake.stored
        await intake.beginCounting(announced: numbers?.count ?? 0)
        guard let numbers else { return true }
        var isWhole = true
        for number in numbers {
            try Task.checkCancellation()
            switch try await link.ask(.record(number), received: intake.received) {
            case .answer(_, let message): try await intake.take(oneTouch: message, number: number)
            case .malformed(let message, _):
                try await intake.take(oneTouch: message, number: number)
                isWhole = false
            }
            try await link.acknowledge(intake.received)
        }
        // What a second full transfer does not bring either, the meter does not have. A replay repeats the first one.
        let isConfirmed = isSecondTry && link.peripheral.answerSource == .device && intake.stored == storedBefore
        return isWhole || isConfirmed
    }
}

extension FrameIntake {
    /// Makes a meter's answer durable, with the number that was asked for.
    fileprivate mutating func take(oneTouch message: CharacteristicValue, number: UInt16) async throws {
        let payload = [UInt8(truncatingIfNeeded: number), UInt8(truncatingIfNeeded: number >> 8)] + message.octets
        try await take(
            payload, as: .oneTouchRecord, number: number, receivedAt: message.receivedAt)
    }
}
