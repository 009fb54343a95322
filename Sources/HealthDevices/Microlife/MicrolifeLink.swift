import GATTClient
import HealthReadings

/// Requests to a Microlife monitor, and its answers.
///
/// What is written to a monitor is a ``MicrolifeRequest``, and nothing else.
struct MicrolifeLink {
    /// How long the next piece of an answer may take, and how often it is asked for: together the 30 s that a silent device
    /// is given.
    static let (patience, tries): (Duration, Int) = (.seconds(10), 3)
    /// The silence that ends an answer.
    private static let quiet: Duration = .milliseconds(200)
    /// Pieces that are taken between a request and its answer, at most: the longest message has 130.
    private static let mostPieces = 300

    /// What came of a request.
    enum Reply {
        /// The answer, with the message as it came.
        case answered(MicrolifeFrame, message: [UInt8], at: Instant)
        /// The monitor does not do it.
        case refused(message: [UInt8], at: Instant)
        /// What came was no message, again and again.
        case malformed(MalformedFrame, message: [UInt8], at: Instant)
    }

    let peripheral: any Peripheral
    let answers: Characteristic
    private let requests: Characteristic

    init?(_ peripheral: any Peripheral, _ characteristics: [Characteristic]) {
        func find(_ uuid: BluetoothUUID) -> Characteristic? {
            characteristics.first { $0.uuid == uuid && ($0.service == nil || $0.service == Microlife.service) }
        }
        guard let answers = find(Microlife.answers), let requests = find(Microlife.requests) else { return nil }
        (self.peripheral, self.answers, self.requests) = (peripheral, answers, requests)
    }

    /// Asks until there is an answer.
    ///
    /// - Throws: ``TransferError`` where the monitor leaves or is silent; ``GATTError``.
    func ask(_ request: MicrolifeRequest, received: Int, tries: Int = MicrolifeLink.tries) async throws -> Reply {
        var malformed: Reply?
        for _ in 0..<tries {
            try Task.checkCancellation()
            try await write(request, received)
            if let reply = try await reply(to: request, received, &malformed) { return reply }
        }
        if let malformed { return malformed }
        throw TransferError.timedOut(received: received)
    }

    /// Takes what comes until the answer is whole; `nil` after a silence, or where what came is no message.
    private func reply(
        to request: MicrolifeRequest, _ received: Int, _ malformed: inout Reply?
    ) async throws -> Reply? {
        var pieces = MicrolifePieces()
        var left = Self.mostPieces
        while left > 0 {
            switch try await peripheral.nextValues(within: Self.patience) {
            case .silence: return nil
            case .disconnected: throw TransferError.interrupted(received: received)
            case .values(let values):
                for value in values where value.uuid == answers.uuid {
                    left -= 1
                    guard let message = pieces.take(value.octets) else { continue }
                    let frame: MicrolifeFrame
                    do throws(MalformedFrame) {
                        frame = try MicrolifeFrame(decoding: message)
                    } catch {
                        malformed = .malformed(error, message: message, at: value.receivedAt)
                        try await peripheral.drain(until: Self.quiet, most: Self.mostPieces)
                        return nil
                    }
                    if frame.command == MicrolifeFrame.Command.notDone.rawValue {
                        return .refused(message: message, at: value.receivedAt)
                    }
                    guard frame.command == request.frame.command else { continue }
                    return .answered(frame, message: message, at: value.receivedAt)
                }
            }
        }
        return nil
    }

    /// Tells the monitor that nothing more is asked. That it leaves instead of answering is what it is told to do.
    func end() async { await shieldedFromCancellation { try? await write(.disconnect, 0) } }

    /// The one place at which something is written to a monitor's own service.
    private func write(_ request: MicrolifeRequest, _ received: Int) async throws {
        let octets = request.frame.encoded
        do {
            do {
                try await peripheral.write(octets, to: requests, expectingResponse: true)
            } catch GATTError.attribute(0x03), GATTError.attribute(0x06) {
                // Which of the two ways to write a model has is not public.
                try await peripheral.write(octets, to: requests, expectingResponse: false)
            }
        } catch GATTError.disconnected {
            throw TransferError.interrupted(received: received)
        }
    }
}
