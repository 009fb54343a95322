import GATTClient
import HealthReadings

/// Questions to an O2Ring about what it has recorded, and its answers.
///
/// What is written to an oximeter is an ``O2RingQuestion``, and nothing else. An answer doesn't say which question it
/// belongs to; so the caller says which one fits, and any other is kept and passed over.
struct O2RingLink {
    /// How long the next piece of an answer may take, and how often it is asked for: together the 30 s that a silent device
    /// is given.
    static let (patience, tries): (Duration, Int) = (.seconds(5), 6)
    /// The silence that ends a damaged answer.
    private static let quiet: Duration = .milliseconds(300)
    /// What fits any link; the maker's kit divides its questions so.
    private static let longestWrite = 20
    /// Notifications that are taken between a question and its answer, at most.
    private static let mostPieces = 400

    /// What came of a question.
    enum Reply {
        case answered([UInt8], message: [UInt8], at: Instant)
        /// The oximeter refuses, with its code.
        case refused(UInt8)
        /// What came was damaged, or answered something else, again and again.
        case malformed
    }

    /// What has come since a question was asked first.
    private struct Arrival {
        var pieces = O2RingPieces(longest: O2RingAnswer.longestPayload)
        /// When something came last.
        var lastAt: Instant?
    }

    let peripheral: any Peripheral
    let answers: Characteristic
    private let requests: Characteristic

    init?(_ peripheral: any Peripheral, _ characteristics: [Characteristic]) {
        func find(_ uuid: BluetoothUUID) -> Characteristic? {
            characteristics.first { $0.uuid == uuid && $0.service == Viatom.service }
        }
        guard let answers = find(Viatom.answers), let requests = find(Viatom.requests) else { return nil }
        (self.peripheral, self.answers, self.requests) = (peripheral, answers, requests)
    }

    /// Asks until there is an answer. What came besides is durable before it is asked again.
    ///
    /// - Parameter fits: whether an answer is one to this question.
    /// - Throws: ``TransferError`` where the oximeter leaves or is silent; ``GATTError``; an error of the journal.
    func ask(
        _ question: O2RingQuestion, into intake: inout FrameIntake, tries: Int = O2RingLink.tries,
        fits: (O2RingAnswer) -> Bool
    ) async throws -> Reply {
        var arrival = Arrival()
        for _ in 0..<tries {
            try Task.checkCancellation()
            try await write(question.octets, received: intake.received)
            if let reply = try await reply(&arrival, into: &intake, fits) { return reply }
            let rest = arrival.pieces.takeRefused()
            if !rest.isEmpty, let instant = arrival.lastAt {
                try await intake.take(rest, as: .o2ringMessage, isRecord: false, receivedAt: instant)
            }
        }
        if arrival.lastAt != nil { return .malformed }
        throw TransferError.timedOut(received: intake.received)
    }

    /// Takes what comes until the answer is whole; `nil` after a silence, or where what came is damaged.
    private func reply(
        _ arrival: inout Arrival, into intake: inout FrameIntake, _ fits: (O2RingAnswer) -> Bool
    ) async throws -> Reply? {
        for _ in 0..<Self.mostPieces {
            // Behind a damaged piece the rest of the answer comes at once, or never.
            switch try await peripheral.nextValues(within: arrival.pieces.hasRefused ? Self.quiet : Self.patience) {
            case .silence: return nil
            case .disconnected: throw TransferError.interrupted(received: intake.received)
            case .values(let values):
                for value in values where value.uuid == answers.uuid {
                    arrival.lastAt = value.receivedAt
                    for answer in arrival.pieces.take(value.octets) {
                        // Only what fits is an answer: others are late, come twice, or show live values.
                        if answer.status == 0, fits(answer) {
                            return .answered(answer.payload, message: answer.encoded, at: value.receivedAt)
                        }
                        try await intake.take(
                            answer.encoded, as: .o2ringMessage, isRecord: false, receivedAt: value.receivedAt)
                        if answer.status != 0 { return .refused(answer.status) }
                    }
                }
            }
        }
        return nil
    }

    /// The one place at which something is written to an oximeter about its recordings.
    private func write(_ octets: [UInt8], received: Int) async throws {
        // Public programs differ in which of the two they write; BlueZ refuses what isn't declared.
        let expectsResponse =
            requests.properties.map { $0.contains(.write) && !$0.contains(.writeWithoutResponse) } ?? false
        do {
            for piece in octets.pieces(of: Self.longestWrite) {
                try await peripheral.write(piece, to: requests, expectingResponse: expectsResponse)
            }
        } catch GATTError.disconnected {
            throw TransferError.interrupted(received: received)
        }
    }
}
