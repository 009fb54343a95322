import GATTClient
import HealthReadings

/// Reads a OneTouch meter: its clock, how many records it has, then each that is not stored yet.
///
/// The newest stored record is asked for again: its time proves that the meter's numbers go on from ours. Whatever
/// cannot be proven is answered by reading everything. Each record is durable before the meter is told that it came.
///
/// An answer carries no number. Once a question had to be asked again, the last record is asked for a second time at
/// the end: it proves that no answer was taken for another's.
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
            var course = OneTouchLink.Course()
            if let clock = try await link.clock(received: 0, &course) { try await intake.note(clock, in: memory) }
            let numbers = try await numbers(&course)
            guard let last else { return try await read(numbers, into: &intake, &course, isSecondTry: false) }
            return try await readNew(numbers, after: last, into: &intake, &course, memory)
        }
    }

    /// The numbers of the records there are; nil where there is none.
    private func numbers(_ course: inout OneTouchLink.Course) async throws -> ClosedRange<UInt16>? {
        let newest = try await number(.newest, &course)
        let count = try await number(.count, &course)
        guard count > 0 else { return nil }
        guard let highest = UInt16(exactly: newest), count <= UInt32(highest) + 1 else {
            throw TransferError.refused(
                code: "onetouch_numbers",
                description: "the meter reports \(count) records up to number \(newest), which is impossible")
        }
        return UInt16(newest - count + 1)...highest
    }

    private func number(_ question: OneTouchQuestion, _ course: inout OneTouchLink.Course) async throws -> UInt32 {
        switch try await link.ask(question, received: 0, &course) {
        case .answer(let octets, _):
            try await link.acknowledge(0)
            return OneTouch.word(octets[...])
        case .malformed(_, let error): throw TransferError(malformed: error)
        }
    }

    private func readNew(
        _ numbers: ClosedRange<UInt16>?, after last: LastRecord, into intake: inout FrameIntake,
        _ course: inout OneTouchLink.Course, _ memory: any DeviceMemory
    ) async throws -> Bool {
        let isSecondTry = !last.followsCompleteTransfer
        guard let numbers else { return true }
        // Its oldest records may have gone; a newest one that is older than ours can only be another's.
        guard numbers.upperBound >= last.sequence else {
            try await intake.beginSequenceEpoch(in: memory)
            return try await read(numbers, into: &intake, &course, isSecondTry: false)
        }
        guard numbers.contains(last.sequence), let ours = last.baseTime,
            case .answer(let octets, let message) = try await link.ask(.record(last.sequence), received: 0, &course)
        else { return try await read(numbers, into: &intake, &course, isSecondTry: isSecondTry) }
        guard OneTouchRecord.baseTime(octets) == ours else {
            try await intake.beginSequenceEpoch(in: memory)
            return try await read(numbers, into: &intake, &course, isSecondTry: false)
        }
        try await intake.take(oneTouch: message, number: last.sequence)
        try await link.acknowledge(0)
        if wantsAll || isSecondTry { return try await read(numbers, into: &intake, &course, isSecondTry: isSecondTry) }
        guard last.sequence < numbers.upperBound else { return true }
        return try await read(
            (last.sequence + 1)...numbers.upperBound, into: &intake, &course, isSecondTry: false)
    }

    private func read(
        _ numbers: ClosedRange<UInt16>?, into intake: inout FrameIntake, _ course: inout OneTouchLink.Course,
        isSecondTry: Bool
    ) async throws -> Bool {
        let storedBefore = intake.stored
        await intake.beginCounting(announced: numbers?.count ?? 0)
        guard let numbers else { return true }
        var isWhole = true
        var newest: [UInt8]?
        for number in numbers {
            try Task.checkCancellation()
            switch try await link.ask(.record(number), received: intake.received, &course) {
            case .answer(let octets, let message):
                try await intake.take(oneTouch: message, number: number)
                newest = octets
            case .malformed(let message, _):
                try await intake.take(oneTouch: message, number: number)
                (isWhole, newest) = (false, nil)
            }
            try await link.acknowledge(intake.received)
        }
        if let newest, course.hasRetried,
            try await !isProven(newest, numbers.upperBound, received: intake.received, &course)
        {
            return false
        }
        // What a second full transfer does not bring either, the meter does not have. A replay repeats the first one.
        let isConfirmed = isSecondTry && link.peripheral.answerSource == .device && intake.stored == storedBefore
        return isWhole || isConfirmed
    }

    /// Whether a record that was taken comes again when it is asked for again.
    private func isProven(
        _ octets: [UInt8], _ number: UInt16, received: Int, _ course: inout OneTouchLink.Course
    ) async throws -> Bool {
        // A copy of the answer that was taken proves nothing.
        course.mayBeLate = true
        guard case .answer(let again, _) = try await link.ask(.record(number), received: received, &course) else {
            return false
        }
        try await link.acknowledge(received)
        return again == octets
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
