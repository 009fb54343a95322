import GATTClient
import HealthReadings

/// Requests to a BP2, and its answers.
///
/// What is written to a monitor is a ``ViatomRequest``, and nothing else.
struct ViatomLink {
    /// How long the next piece of an answer may take, and how often it is asked for: together the 30 s that a silent device
    /// is given.
    static let (patience, tries): (Duration, Int) = (.seconds(10), 3)
    /// The silence that ends an answer.
    private static let quiet: Duration = .milliseconds(200)
    /// What fits any link.
    private static let shortestWrite = 20
    /// Pieces that are taken between a request and its answer, at most.
    private static let mostPieces = 300

    /// What came of a request.
    enum Reply {
        /// The answer, with the message as it came.
        case answered([UInt8], message: [UInt8], at: Instant)
        /// The monitor refuses, with its code.
        case refused(UInt8, message: [UInt8], at: Instant)
        /// What came was no message, again and again.
        case malformed(MalformedFrame, message: [UInt8], at: Instant)
    }

    /// Counts the messages of a connection.
    struct Course: Sendable {
        fileprivate var number: UInt8 = 0
        /// The numbers of those before: what answers one of them answers no other, whether it comes late or twice.
        fileprivate var earlier: Set<UInt8> = []
        fileprivate var pieces = ViatomPieces()
    }

    let peripheral: any Peripheral
    let answers: Characteristic
    private let requests: Characteristic

    init?(_ peripheral: any Peripheral, _ characteristics: [Characteristic]) {
        func find(_ uuid: BluetoothUUID) -> Characteristic? { characteristics.first { $0.uuid == uuid } }
        guard let answers = find(Viatom.answers), let requests = find(Viatom.requests) else { return nil }
        (self.peripheral, self.answers, self.requests) = (peripheral, answers, requests)
    }

    /// Asks until there is an answer.
    ///
    /// - Throws: ``TransferError`` where the monitor leaves or is silent; ``GATTError``.
    func ask(
        _ request: ViatomRequest, _ course: inout Course, received: Int, tries: Int = ViatomLink.tries
    ) async throws -> Reply {
        var malformed: Reply?
        for _ in 0..<tries {
            try Task.checkCancellation()
            course.number = course.number == 254 ? 1 : course.number + 1
            course.earlier.remove(course.number)
            course.pieces.clear()
            let frame = request.frame(number: course.number)
            defer { course.earlier.insert(frame.number) }
            try await write(frame, received)
            if let reply = try await reply(to: frame, &course, received, &malformed) { return reply }
        }
        if let malformed { return malformed }
        throw TransferError.timedOut(received: received)
    }

    /// Takes what comes until the answer is whole; `nil` after a silence, or where what came is no message.
    private func reply(
        to request: ViatomFrame, _ course: inout Course, _ received: Int, _ malformed: inout Reply?
    ) async throws -> Reply? {
        var left = Self.mostPieces
        while left > 0 {
            switch try await peripheral.nextValues(within: Self.patience) {
            case .silence: return nil
            case .disconnected: throw TransferError.interrupted(received: received)
            case .values(let values):
                for value in values where value.uuid == answers.uuid {
                    left -= 1
                    for message in course.pieces.take(value.octets) {
                        let frame: ViatomFrame
                        do throws(MalformedFrame) {
                            frame = try ViatomFrame(decoding: message)
                        } catch {
                            malformed = .malformed(error, message: message, at: value.receivedAt)
                            try await peripheral.drain(until: Self.quiet, most: Self.mostPieces)
                            return nil
                        }
                        // Curves that are sent unasked while the monitor measures, and answers to questions before.
                        guard frame.command == request.command, !course.earlier.contains(frame.number) else {
                            continue
                        }
                        return frame.direction == ViatomFrame.fromDevice
                            ? .answered(frame.payload, message: message, at: value.receivedAt)
                            : .refused(frame.direction, message: message, at: value.receivedAt)
                    }
                }
            }
        }
        return nil
    }

    /// The one place at which something is written to a monitor's own service.
    private func write(_ frame: ViatomFrame, _ received: Int) async throws {
        let octets = frame.encoded
        do {
            // Monitors of this family do not answer writes that want a response.
            do {
                try await peripheral.write(octets, to: requests, expectingResponse: false)
            } catch RadioError.other where octets.count > Self.shortestWrite {
                // BlueZ does not write what is longer than the link's packets. The maker's kit divides it there too.
                for piece in octets.pieces(of: Self.shortestWrite) {
                    try await peripheral.write(piece, to: requests, expectingResponse: false)
                }
            }
        } catch GATTError.disconnected {
            throw TransferError.interrupted(received: received)
        }
    }
}
