/// One contact with a device: from connection to disconnect, or one scan of a sensor.
public struct Contact: Sendable, Hashable {
    /// The store's number of the contact.
    public var id: Int64
    /// The device, with what is known of it at the start of the contact.
    public var device: DeviceDescription
    /// When the connection was made; in a capture, its first packet.
    public var startedAt: Instant
    /// The sequence epoch records of this contact belong to.
    public var sequenceEpoch: Int
    /// The device's clock as read in this contact.
    public var clock: ClockReading?

    /// Makes a contact.
    public init(
        id: Int64, device: DeviceDescription, startedAt: Instant, sequenceEpoch: Int = 0, clock: ClockReading? = nil
    ) {
        self.id = id
        self.device = device
        self.startedAt = startedAt
        self.sequenceEpoch = sequenceEpoch
        self.clock = clock
    }
}

/// What became of a frame.
public enum FrameOutcome: Sendable, Hashable {
    /// A reading not seen before.
    case new(Reading)
    /// A reading seen before whose content differs now (a context that came, a status that changed): same id.
    case revised(Reading)
    /// A reading with the key of another and a different value: both are kept.
    case clash(Reading, with: ReadingID)
    /// A reading seen before, unchanged: nothing happened.
    case repeated(ReadingID)
    /// A context whose record has not come yet: kept until it does.
    case waiting
    /// A frame that says nothing by itself.
    case nothing
    /// A frame that is no record: kept, and this is why.
    case malformed(MalformedFrame)
}

/// Where frames become durable: the seam between reading devices and keeping what they sent.
public protocol FrameJournal: Sendable {
    /// Appends frames of one contact that arrived together, in order; they commit together.
    ///
    /// Returns when they are durable, with what became of each, and of each record where a frame holds many. Before it returns, nothing may be asked of the device.
    /// - Throws: the journal's error where they could not be made durable: the transfer must then stop, notifications
    ///   first, so that the device keeps what it has.
    func append(_ frames: [Frame], of contact: Contact) async throws -> [FrameOutcome]

    /// Makes a frame durable that is to grow, so that a program that is killed loses no more than what came since. Nothing
    /// follows from it until ``append(_:of:)`` has it whole, with the same format and ordinal, or a journal that is opened again
    /// finds that nobody will add to it.
    ///
    /// - Throws: the journal's error where it could not be made durable; what was kept of the frame before stays.
    func keep(_ growing: Frame, of contact: Contact) async throws
}

extension FrameJournal {
    /// Keeps nothing: for a journal in which nothing outlasts the process. One that hands frames on to another journal has to hand
    /// these on too.
    public func keep(_ growing: Frame, of contact: Contact) async throws {}
}
