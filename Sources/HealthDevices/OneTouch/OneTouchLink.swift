import GATTClient
import HealthReadings

/// Questions and answers with a OneTouch meter whose answers are notified.
struct OneTouchLink {
    /// How long an answer may take, and how often it is asked for: together the 30 s a silent device is given.
    static let (patience, tries): (Duration, Int) = (.seconds(10), 3)
    /// What comes unasked for between a question and its answer, at most: a meter that never stops cannot hold us.
    private static let mostStrays = 32

    /// What came of a question.
    enum Reply {
        /// The answer, in the octets that came and behind the meter's "06".
        case answer(octets: [UInt8], message: CharacteristicValue)
        /// It came again and again as no message.
        case malformed(CharacteristicValue, MalformedFrame)
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
    /// - Throws: ``TransferError`` where the meter refuses, leaves or is silent; ``GATTError``.
    func ask(_ question: OneTouchQuestion, received: Int) async throws -> Reply {
        var malformed: (CharacteristicValue, MalformedFrame)?
        for _ in 0..<Self.tries {
            try Task.checkCancellation()
            try await write(OneTouchFrame(payload: question.payload).encoded, received)
            switch try await answer(to: question, received, &malformed) {
            case .some(let reply): return reply
            case nil: continue
            }
        }
        if let (message, error) = malformed { return .malformed(message, error) }
        throw TransferError.timedOut(received: received)
    }

    /// Takes what comes until the answer is there; nil after a silence, or where what came is no message.
    private func answer(
        to question: OneTouchQuestion, _ received: Int, _ malformed: inout (CharacteristicValue, MalformedFrame)?
    ) async throws -> Reply? {
        var strays = 0
        while strays < Self.mostStrays {
            switch try await peripheral.nextValues(within: Self.patience) {
            case .silence: return nil
            case .disconnected: throw TransferError.interrupted(received: received)
            case .values(let values):
                for value in values where value.uuid == OneTouch.answers && value.octets != OneTouch.acknowledgement {
                    strays += 1
                    let frame: OneTouchFrame
                    do throws(MalformedFrame) {
                        frame = try OneTouchFrame(decoding: value.octets)
                    } catch {
                        malformed = (value, error)
                        return nil
                    }
                    switch OneTouchAnswer(frame) {
                    case .answer(let octets) where octets.count == question.answerLength && question.accepts(octets):
                        return .answer(octets: octets, message: value)
                    // The answer to an earlier question, asked twice.
                    case .answer: continue
                    case .refused(let code): throw TransferError(oneTouch: code)
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
    func clock(received: Int) async throws -> ClockReading? {
        guard case .answer(let octets, let message) = try await ask(.time, received: received) else { return nil }
        try await acknowledge(received)
        return OneTouch.wallTime(OneTouch.word(octets[0..<4])).map {
            ClockReading(deviceTime: $0, readAt: message.receivedAt)
        }
    }
}

extension TransferError {
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
