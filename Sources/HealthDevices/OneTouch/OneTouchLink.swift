import GATTClient
import HealthReadings

/// Questions and answers with a OneTouch meter whose answers are notified.
struct OneTouchLink {
    /// How long an answer may take, and how often it is asked for: together the 30 s a silent device is given.
    static let (patience, tries): (Duration, Int) = (.seconds(10), 3)
    /// How long the answer may take once another record's has come in its place.
    private static let quiet: Duration = .seconds(1)
    /// What comes unasked for between a question and its answer, at most: a meter that never stops cannot hold us.
    private static let mostStrays = 32

    /// What came of a question.
    enum Reply {
        /// The answer, in the octets that came and behind the meter's "06".
        case answer(octets: [UInt8], message: CharacteristicValue)
        /// It came again and again as no message.
        case malformed(CharacteristicValue, MalformedFrame)
        /// The meter doesn't show the record, with its code: it has none of this number.
        case refused(UInt8)
        /// The meter says nothing of the record, however often it is asked.
        case silence
    }

    /// What was asked in a contact, and what came.
    struct Course {
        /// Whether a question had to be asked again, so that an answer may have come twice.
        private(set) var hasRetried = false
        /// Whether answers to earlier questions may still come.
        var mayBeLate = false
        /// Whether a count is asked for so that what is late comes in front of it.
        fileprivate var isCatchingUp = false
        /// The numbers of the records that came, by their octets: an answer carries no number.
        private var numbers: [[UInt8]: UInt16] = [:]

        fileprivate mutating func noteRetry() { (hasRetried, mayBeLate) = (true, true) }

        /// Notes what answered a question.
        fileprivate mutating func note(_ octets: [UInt8], _ question: OneTouchQuestion) {
            if case .record(let number) = question { numbers[octets] = number }
        }

        /// Whether the octets have answered the question for another record.
        fileprivate func isCopy(_ octets: [UInt8], for question: OneTouchQuestion) -> Bool {
            guard case .record(let number) = question, let known = numbers[octets] else { return false }
            return known != number
        }
    }

    /// What the tries of one question have brought so far.
    private struct Tries {
        /// What came last as no message.
        var malformed: (CharacteristicValue, MalformedFrame)?
        /// Whether the answer of another record came.
        var hasSeenCopy = false
        /// Whether the meter has answered another question since: what looks like a copy is a record that is equal.
        var hasCaughtUp = false
    }

    let peripheral: any Peripheral
    let questions: Characteristic
    let answers: Characteristic

    init?(_ peripheral: any Peripheral, _ characteristics: [Characteristic]) {
        guard let questions = characteristics.first(where: { $0.uuid == OneTouch.questions }),
            let answers = characteristics.first(where: { $0.uuid == OneTouch.answers })
        else { return nil }
        (self.peripheral, self.questions, self.answers) = (peripheral, questions, answers)
    }

    /// Asks until there is an answer.
    ///
    /// The answer of another record, sent again, is never taken. A record with the same octets as another is taken only
    /// after the meter has answered a different question in between.
    ///
    /// - Returns: ``Reply/refused(_:)`` and ``Reply/silence`` only for a record.
    /// - Throws: ``TransferError`` where the meter permits nothing, leaves, or refuses or is silent when it is asked for anything
    ///   but a record; ``GATTError``.
    func ask(_ question: OneTouchQuestion, received: Int, _ course: inout Course) async throws -> Reply {
        if case .record = question, course.mayBeLate { try await catchUp(received, &course) }
        var tries = Tries()
        for attempt in 0..<Self.tries {
            try Task.checkCancellation()
            if attempt > 0 { course.noteRetry() }
            if tries.hasSeenCopy {
                try await catchUp(received, &course)
                tries.hasCaughtUp = true
            }
            try await write(OneTouchFrame(payload: question.payload).encoded, received)
            if let reply = try await answer(to: question, received, &tries, &course) { return reply }
        }
        if let (message, error) = tries.malformed { return .malformed(message, error) }
        if case .record = question { return .silence }
        throw TransferError.timedOut(received: received)
    }

    /// Drops the answers to earlier questions that may still come.
    ///
    /// The meter answers in order, and a count is shorter than a record: when the count has come, so have they.
    private func catchUp(_ received: Int, _ course: inout Course) async throws {
        course.isCatchingUp = true
        defer { course.isCatchingUp = false }
        _ = try await octets(of: .count, received: received, &course)
        course.mayBeLate = false
    }

    /// Asks until there is an answer to a question for anything but a record, and acknowledges it.
    func octets(
        of question: OneTouchQuestion, received: Int, _ course: inout Course
    ) async throws -> [UInt8] {
        switch try await ask(question, received: received, &course) {
        case .answer(let octets, _):
            try await acknowledge(received)
            return octets
        case .malformed(_, let error): throw TransferError(malformed: error)
        case .refused(let code): throw TransferError(oneTouch: code)
        case .silence: throw TransferError.timedOut(received: received)
        }
    }

    /// Takes what comes until the answer is there; nil after a silence, or where what came is no message.
    private func answer(
        to question: OneTouchQuestion, _ received: Int, _ tries: inout Tries, _ course: inout Course
    ) async throws -> Reply? {
        var strays = 0
        while strays < Self.mostStrays {
            let isDoubtful = tries.hasSeenCopy && !tries.hasCaughtUp
            switch try await peripheral.nextValues(within: isDoubtful ? Self.quiet : Self.patience) {
            case .silence: return nil
            case .disconnected: throw TransferError.interrupted(received: received)
            case .values(let values):
                for value in values where value.uuid == OneTouch.answers && value.octets != OneTouch.acknowledgement {
                    strays += 1
                    let frame: OneTouchFrame
                    do throws(MalformedFrame) {
                        frame = try OneTouchFrame(decoding: value.octets)
                    } catch {
                        tries.malformed = (value, error)
                        return nil
                    }
                    switch OneTouchAnswer(frame) {
                    case .answer(let octets) where octets.count == question.answerLength && question.accepts(octets):
                        guard tries.hasCaughtUp || !course.isCopy(octets, for: question) else {
                            tries.hasSeenCopy = true
                            continue
                        }
                        course.note(octets, question)
                        return .answer(octets: octets, message: value)
                    // The answer to an earlier question, asked twice.
                    case .answer: continue
                    case .refused(OneTouchAnswer.notAllowed):
                        throw TransferError(oneTouch: OneTouchAnswer.notAllowed)
                    case .refused(let code):
                        if case .record = question {
                            // A refusal that comes twice must not stand for the next record's.
                            course.mayBeLate = true
                            return .refused(code)
                        }
                        // It is late, and some record's.
                        guard course.isCatchingUp else { throw TransferError(oneTouch: code) }
                    }
                }
            }
        }
        return nil
    }

    /// Tells the meter that its answer has come, and is safe.
    func acknowledge(_ received: Int) async throws { try await write(OneTouch.acknowledgement, received) }

    private func write(_ octets: [UInt8], _ received: Int) async throws {
        do {
            try await peripheral.write(octets, to: questions, expectingResponse: false)
        } catch GATTError.disconnected {
            throw TransferError.interrupted(received: received)
        }
    }

    /// Asks what the meter's clock shows; nil where it was never set, or says nothing that makes sense.
    func clock(_ course: inout Course) async throws -> ClockReading? {
        guard case .answer(let octets, let message) = try await ask(.time, received: 0, &course) else {
            return nil
        }
        try await acknowledge(0)
        return OneTouch.wallTime(OneTouch.word(octets[0..<4])).map {
            ClockReading(deviceTime: $0, readAt: message.receivedAt)
        }
    }
}

extension TransferError {
    /// The meter's answer came again and again as no message.
    init(malformed error: MalformedFrame) {
        self = .refused(code: "onetouch_malformed", description: error.description)
    }

    /// The meter's codes: 07 not allowed, 08 not supported, 09 not understood.
    init(oneTouch code: UInt8) {
        self =
            switch code {
            case 0x07:
                .refused(
                    code: "onetouch_not_allowed",
                    description: "the meter does not permit the request; check that it is paired with this gateway")
            case 0x08:
                .refused(code: "onetouch_not_supported", description: "the meter does not support the request")
            case 0x09:
                .refused(code: "onetouch_not_understood", description: "the meter did not understand the request")
            default:
                .refused(code: "onetouch_refused", description: "the meter refused the request with code \(code)")
            }
    }
}
