/// The newest numbered record that is stored of a device's current sequence epoch.
public struct LastRecord: Sendable, Hashable {
    /// Its number.
    public var sequence: UInt16
    /// Its base time.
    public var baseTime: WallTime?
    /// When it was measured, to the second; nil where that is unknown.
    public var time: Instant?
    /// How many records of the epoch are stored.
    public var count: Int
    /// Whether the device's latest contact before this one ended, and ended complete.
    ///
    /// Only then is everything older than this record stored as well: a transfer that was cut may have brought the
    /// newest records first, and a contact without an end (a crash) counts as cut. Where it is false the device is read
    /// from its first record. False unless it is known.
    public var followsCompleteTransfer: Bool

    /// Makes a last record.
    public init(
        sequence: UInt16, baseTime: WallTime?, time: Instant? = nil, count: Int, followsCompleteTransfer: Bool = false
    ) {
        self.sequence = sequence
        self.baseTime = baseTime
        self.time = time
        self.count = count
        self.followsCompleteTransfer = followsCompleteTransfer
    }
}

/// How a contact ended.
public struct ContactSummary: Sendable, Hashable {
    /// Whether everything the device offered came. Without an error it is false where fewer records came than the
    /// device announced, or numbers are missing that no announcement explains: the next contact reads all again.
    public var isComplete: Bool
    /// The error that ended it early, in the published snake_case names; nil where it ended well.
    public var error: String?
    /// What the device refused, in one line for people, where the error's name does not say it: which model it says that it
    /// is. Not remembered with the contact.
    public var errorDetail: String?
    /// How many records the device said it would send, where it can count.
    public var announced: Int?
    /// How many records came.
    public var received: Int
    /// Sequence numbers missing between records that came.
    public var gaps: [ClosedRange<UInt16>]

    /// Makes a summary.
    public init(
        isComplete: Bool, error: String? = nil, errorDetail: String? = nil, announced: Int? = nil, received: Int,
        gaps: [ClosedRange<UInt16>] = []
    ) {
        self.isComplete = isComplete
        self.error = error
        self.errorDetail = errorDetail
        self.announced = announced
        self.received = received
        self.gaps = gaps
    }
}

/// What is remembered of devices between contacts: the second seam between reading devices and the store.
public protocol DeviceMemory: Sendable {
    /// Begins a contact: remembers the device, what it says of itself, its battery (per cent, 0 … 100) and its clock.
    ///
    /// - Throws: where it cannot be remembered; the device must then be left alone.
    func beginContact(
        with device: DeviceDescription, at start: Instant, clock: ClockReading?, batteryPercent: UInt8?
    ) async throws -> Contact

    /// Notes what the device's clock shows in a contact that goes on: where it can be asked only then, or was set.
    /// Records that come from here on are placed by it.
    func noteClock(_ clock: ClockReading, in contact: Contact) async throws -> Contact

    /// The newest stored record of the contact's sequence epoch; nil where none is.
    func lastRecord(of contact: Contact) async throws -> LastRecord?

    /// How the device's contact before this one ended; `nil` where there was none, or it never ended. An older contact that
    /// is replayed says nothing of what came since: `nil` too.
    func previousSummary(before contact: Contact) async throws -> ContactSummary?

    /// Which of these recordings of the contact's device are stored, so that they need not be read again, and how many octets
    /// the frames have that they are stored with: a recording that has gone on since has more.
    ///
    /// - Parameters:
    ///   - contact: the contact with the device.
    ///   - starts: when recordings of saturations began, as the device's clock showed it.
    /// - Returns: the lengths of each one's frames; none of one that was pruned. A recording that is stored without its
    ///   frames is left out, like one that is not stored.
    func recordings(of contact: Contact, beganAt starts: [WallTime]) async throws -> [WallTime: Set<Int>]

    /// Begins a new sequence epoch: the device has restarted or wrapped its numbers.
    ///
    /// The device is then read from its first record, and may still hold records of the epochs before: one that comes
    /// again with the octets it is stored with there is repeated, not new. In an older contact, which is replayed after a
    /// later one, none begins, and the contact comes back as it is: its numbers are those that the device had then.
    func beginSequenceEpoch(in contact: Contact) async throws -> Contact

    /// Ends a contact.
    func endContact(_ contact: Contact, _ summary: ContactSummary) async throws
}

extension DeviceMemory {
    /// What ``lastRecord(of:)`` says of it: whether it was complete. `nil` where no record with a number is stored.
    ///
    /// A contact that was cut, or never ended, can't be told from one that brought fewer records than were announced.
    public func previousSummary(before contact: Contact) async throws -> ContactSummary? {
        try await lastRecord(of: contact).map {
            ContactSummary(isComplete: $0.followsCompleteTransfer, received: $0.count)
        }
    }

    /// None is known: each is read again.
    public func recordings(of contact: Contact, beganAt starts: [WallTime]) async throws -> [WallTime: Set<Int>] { [:] }

    /// The contact alone remembers it.
    public func noteClock(_ clock: ClockReading, in contact: Contact) async throws -> Contact {
        var contact = contact
        contact.clock = clock
        return contact
    }
}
