import GATTClient
import HealthReadings

/// Reads a OneTouch meter: its clock, how many records it has, then each that is not stored yet.
///
/// The newest stored record is asked for again: its time proves that the meter's numbers go on from ours. Whatever
/// cannot be proven is answered by reading everything. Each record is durable before the meter is told that it came.
///
/// An answer carries no number. Once a question had to be asked again, the last record is asked for a second time at
/// the end: it proves that no answer was taken for another's.
///
/// A meter refuses some numbers, or has records without a value at them, and may leave these out of its count (Tidepool). They
/// stop nothing: when everything is read, as many records are asked for below the lowest. What was refused is asked for again
/// at the next contact, once.
struct OneTouchTransfer: RecordTransfer {
    let link: OneTouchLink
    let wantsAll: Bool

    /// So many refusals in a row below the lowest number end the search there.
    private static let mostRefusals = 3

    /// What was asked for one after the other has brought so far.
    private struct Pass {
        /// The highest number of which a record may have been lost; `nil` if there is none.
        var highestLost: UInt16?
        var isWhole: Bool { highestLost == nil }
        /// The record that was taken last, to be proven; `nil` if what came last was no message.
        var last: (number: UInt16, octets: [UInt8])?
        /// All that was taken.
        var taken: Set<[UInt8]> = []
        /// How many numbers have no value, so that a count may leave them out.
        var holes = 0
        /// The code of the last refusal.
        var refusal: UInt8?
        /// Whether the meter was silent when it was last asked.
        var wasSilent = false

        mutating func lose(_ number: UInt16) { highestLost = max(highestLost ?? number, number) }
    }

    /// What a number has brought.
    private enum Found {
        /// A record, of a value or of none.
        case record(hasValue: Bool)
        /// No record.
        case nothing
        /// Not even a refusal.
        case silence
    }

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
            if let clock = try await link.clock(&course) { try await intake.note(clock, in: memory) }
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
        // In this order: the first record may have the number 0.
        return UInt16(newest + 1 - count)...highest
    }

    private func number(_ question: OneTouchQuestion, _ course: inout OneTouchLink.Course) async throws -> UInt32 {
        OneTouch.word(try await link.octets(of: question, received: 0, &course)[...])
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
        else {
            return try await read(
                numbers, into: &intake, &course, isSecondTry: isSecondTry, after: last, stored: last.sequence)
        }
        guard OneTouchRecord.baseTime(octets) == ours else {
            try await intake.beginSequenceEpoch(in: memory)
            return try await read(numbers, into: &intake, &course, isSecondTry: false)
        }
        try await intake.take(oneTouch: message, number: last.sequence)
        try await link.acknowledge(0)
        if wantsAll || isSecondTry {
            return try await read(numbers, into: &intake, &course, isSecondTry: isSecondTry, after: last)
        }
        guard last.sequence < numbers.upperBound else { return true }
        let news = (last.sequence + 1)...numbers.upperBound
        await intake.beginCounting(announced: news.count)
        var pass = Pass()
        for number in news {
            _ = try await read(number, into: &intake, &course, &pass)
        }
        return try await isProven(pass, received: intake.received, &course) && pass.isWhole
    }

    /// Reads every record that the meter has.
    ///
    /// - Parameters:
    ///   - last: the newest record that was stored before, if the meter's numbers go on from it.
    ///   - stored: a number whose record is stored here, so that its refusal loses nothing.
    private func read(
        _ numbers: ClosedRange<UInt16>?, into intake: inout FrameIntake, _ course: inout OneTouchLink.Course,
        isSecondTry: Bool, after last: LastRecord? = nil, stored: UInt16? = nil
    ) async throws -> Bool {
        let storedBefore = intake.stored
        await intake.beginCounting(announced: numbers?.count ?? 0)
        guard let numbers else { return true }
        var pass = Pass()
        for number in numbers { _ = try await read(number, into: &intake, &course, &pass, stored: stored) }
        // A meter that shows no record at all refuses for a reason of its own.
        if pass.taken.isEmpty, let code = pass.refusal { throw TransferError(oneTouch: code) }
        guard try await isProven(pass, received: intake.received, &course) else { return false }
        do {
            guard try await readBelow(numbers.lowerBound, into: &intake, &course, &pass) else { return false }
        } catch let error as TransferError where link.peripheral.answerSource != .device {
            // The recorded host has asked for no more.
            guard error.isSilence else { throw error }
        }
        // What a second full transfer does not bring either, the meter does not have. A replay repeats the first one.
        let isConfirmed =
            isSecondTry && link.peripheral.answerSource == .device
            && (intake.stored == storedBefore || lacksOnlyOld(pass, after: last, intake))
        return pass.isWhole || isConfirmed
    }

    /// Whether all that did not come was asked for before, too, and only records came that were measured since then.
    private func lacksOnlyOld(_ pass: Pass, after last: LastRecord?, _ intake: FrameIntake) -> Bool {
        guard let last, let lowest = intake.lowestStored, let lost = pass.highestLost else { return false }
        // An older record that came only now was lost on the way then, and another may have been lost now.
        return lowest > last.sequence && lost <= last.sequence
    }

    /// Reads the records that a count has left out: as many as numbers above have no value.
    ///
    /// - Returns: whether what came is proven.
    private func readBelow(
        _ lowest: UInt16, into intake: inout FrameIntake, _ course: inout OneTouchLink.Course, _ pass: inout Pass
    ) async throws -> Bool {
        var (left, number, refusals) = (pass.holes, lowest, 0)
        pass.last = nil
        while left > 0, number > 0, refusals < Self.mostRefusals {
            number -= 1
            switch try await read(number, into: &intake, &course, &pass, isBelow: true) {
            case .record(let hasValue): (left, refusals) = (hasValue ? left - 1 : left, 0)
            case .nothing: refusals += 1
            case .silence: left = 0
            }
        }
        return try await isProven(pass, received: intake.received, &course)
    }

    /// Reads the record of a number, if the meter has one.
    ///
    /// - Parameters:
    ///   - stored: a number whose record is stored here.
    ///   - isBelow: whether the number is below those that the meter counts. That it has none there is no loss, and it may send
    ///     the record that stands in its place now, which is taken already.
    private func read(
        _ number: UInt16, into intake: inout FrameIntake, _ course: inout OneTouchLink.Course, _ pass: inout Pass,
        stored: UInt16? = nil, isBelow: Bool = false
    ) async throws -> Found {
        try Task.checkCancellation()
        let wasSilent = pass.wasSilent
        pass.wasSilent = false
        switch try await link.ask(.record(number), received: intake.received, &course) {
        case .answer(let octets, let message):
            if isBelow, pass.taken.contains(octets) {
                try await link.acknowledge(intake.received)
                return .nothing
            }
            try await intake.take(oneTouch: message, number: number)
            try await link.acknowledge(intake.received)
            pass.last = (number, octets)
            pass.taken.insert(octets)
            let hasValue = OneTouchRecord.hasValue(octets)
            if !hasValue { pass.holes += 1 }
            return .record(hasValue: hasValue)
        case .malformed(let message, _):
            try await intake.take(oneTouch: message, number: number)
            try await link.acknowledge(intake.received)
            pass.lose(number)
            pass.last = nil
            return .record(hasValue: true)
        case .refused(let code):
            pass.refusal = code
            pass.holes += 1
            if number != stored, !isBelow { pass.lose(number) }
            return .nothing
        case .silence where isBelow: return .silence
        case .silence:
            // One record may be unreadable; a meter that says nothing of the next either has gone.
            if wasSilent { throw TransferError.timedOut(received: intake.received) }
            pass.holes += 1
            pass.lose(number)
            pass.wasSilent = true
            return .silence
        }
    }

    /// Whether the record that was taken last comes again when it is asked for again, if that must be proven.
    private func isProven(
        _ pass: Pass, received: Int, _ course: inout OneTouchLink.Course
    ) async throws -> Bool {
        guard let last = pass.last, course.hasRetried else { return true }
        // A copy of the answer that was taken proves nothing.
        course.mayBeLate = true
        guard case .answer(let again, _) = try await link.ask(.record(last.number), received: received, &course)
        else { return false }
        try await link.acknowledge(received)
        return again == last.octets
    }
}

extension TransferError {
    /// Whether the device has said no more.
    fileprivate var isSilence: Bool {
        switch self {
        case .timedOut, .interrupted: true
        case .refused, .nothingToRead: false
        }
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
