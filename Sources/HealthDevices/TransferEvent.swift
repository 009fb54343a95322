import HealthReadings

/// What happens while a device is read.
public enum TransferEvent: Sendable, Hashable {
    /// The device is connected and remembered.
    case began(Contact)
    /// How many records have come, of how many where the device can count.
    case progress(received: Int, of: Int?)
    /// Frames became durable; this is what became of them.
    case stored([FrameOutcome])
    /// The contact is over.
    case ended(ContactSummary)
}

/// Why a device could not be read to the end. What had come by then is kept.
public enum TransferError: Error, Sendable, Hashable {
    /// The device offers no service the gateway reads.
    case nothingToRead
    /// The link went away in the middle.
    case interrupted(received: Int)
    /// The device ended the procedure with a code of its own; the published snake_case name.
    case refused(code: String, description: String)
    /// Nothing came for the profile's 30 seconds, and abort was asked.
    case timedOut(received: Int)
}

extension TransferError: CustomStringConvertible {
    /// The published snake_case code.
    public var code: String {
        switch self {
        case .nothingToRead: "nothing_to_read"
        case .interrupted: "transfer_interrupted"
        case .refused(let code, _): code
        case .timedOut: "timeout"
        }
    }

    /// One line for people.
    public var description: String {
        switch self {
        case .nothingToRead: "the device offers no service that the gateway reads"
        case .interrupted(let received):
            "the device disconnected during the transfer, after \(received) records; they are kept"
        case .refused(_, let description): description
        case .timedOut(let received): "the device sent nothing for 30 seconds, after \(received) records; they are kept"
        }
    }
}
