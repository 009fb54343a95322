import HealthReadings

/// Puts together the messages that a monitor sends on several channels, 16 octets on each, in any order.
///
/// A monitor with one channel sends each message in one piece.
struct OmronChannels: Sendable {
    /// Octets of a channel's piece.
    static let piece = 16

    private var pieces: [[UInt8]?]

    /// - Parameter count: 1 or 4.
    init(count: Int) { pieces = Array(repeating: nil, count: count) }

    /// Forgets what has come, at each new request: what belongs to an earlier one must not be joined with its answer.
    mutating func clear() { for channel in pieces.indices { pieces[channel] = nil } }

    /// Takes a piece.
    ///
    /// - Returns: the message, where it is whole; it may still be none.
    mutating func take(_ octets: [UInt8], on channel: Int) -> [UInt8]? {
        guard pieces.indices.contains(channel) else { return nil }
        guard pieces.count > 1 else { return octets }
        pieces[channel] = octets
        guard let first = pieces[0], let length = first.first.map(Int.init) else { return nil }
        guard (OmronFrame.overhead...OmronFrame.longest).contains(length) else {
            // The head of no message. Whoever waits asks again.
            clear()
            return first
        }
        var message: [UInt8] = []
        for piece in pieces.prefix((length + Self.piece - 1) / Self.piece) {
            guard let piece else { return nil }
            message += piece.prefix(Self.piece)
            // A short piece that is not the last would move what follows.
            guard piece.count >= Self.piece || message.count >= length else {
                clear()
                return message
            }
        }
        clear()
        return message
    }
}

/// One request to a monitor's memory and what comes of it, without any connection.
struct OmronExchange: Sendable {
    /// What a piece has brought.
    enum Step: Sendable, Hashable {
        /// The answer is not whole yet, or what came answers another request.
        case waiting
        /// The answer, with its octets as they came.
        case answered(OmronFrame, [UInt8])
        /// The monitor refuses, with its code.
        case refused(UInt8, [UInt8])
        /// The monitor has ended the session by itself, with its code.
        case ended(UInt8, [UInt8])
        /// What came is no message.
        case malformed(MalformedFrame, [UInt8])
    }

    let request: OmronRequest
    private var channels: OmronChannels

    init(_ request: OmronRequest, channels: Int) {
        self.request = request
        self.channels = OmronChannels(count: channels)
    }

    /// The request is made once more.
    mutating func restart() { channels.clear() }

    /// Takes a piece of what the monitor sends.
    mutating func take(_ octets: [UInt8], on channel: Int) -> Step {
        guard let message = channels.take(octets, on: channel) else { return .waiting }
        let frame: OmronFrame
        do throws(MalformedFrame) {
            frame = try OmronFrame(decoding: message)
        } catch {
            return .malformed(error, message)
        }
        guard request.isAnswered(by: frame) else {
            // A session that the monitor ends by itself answers whatever was asked.
            let isEnded = frame.kind == OmronFrame.Kind.ended.rawValue && frame.status != 0
            return isEnded ? .ended(frame.status, message) : .waiting
        }
        guard frame.kind == OmronFrame.Kind.hasRead.rawValue else {
            return frame.status == 0 ? .answered(frame, message) : .refused(frame.status, message)
        }
        guard frame.count == request.octets[5] else { return .waiting }
        if frame.status == 0, frame.data.count == Int(frame.count) { return .answered(frame, message) }
        guard frame.data.isEmpty else {
            return .malformed(
                MalformedFrame(
                    subject: "Omron message", expected: "\(frame.count) octets of memory", octet: 6,
                    found: "\(frame.data.count), with status \(frame.status)"), message)
        }
        return .refused(frame.status, message)
    }
}
