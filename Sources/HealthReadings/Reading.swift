/// A reading: a record with its identity, its device and its place in time.
public struct Reading: Sendable, Hashable, Identifiable {
    /// The stable identity; see ``ReadingIdentity``.
    public var id: ReadingID
    /// What the device sent.
    public var record: Record
    /// The meal, medication and so on that the person told the meter.
    public var context: GlucoseContext?
    /// Where it came from.
    public var device: DeviceDescription
    /// When the measurement was made and how that was found.
    public var time: ResolvedTime
    /// The client's id of the person whose reading it is (`client_user_id`); `nil` where nobody has said.
    public var person: String?
    /// Why it is never delivered.
    public var excluded: Exclusion?
    /// That a person leaves it out of figures, though it is stored, shown and delivered; `nil` for most readings.
    public var leftOut: FigureOmission?
    /// How it stands with each destination that may get it; empty if it is ``excluded``.
    public var deliveries: [DestinationDelivery]
    /// When its first frame was received.
    public var receivedAt: Instant

    /// Makes a reading.
    public init(
        id: ReadingID, record: Record, context: GlucoseContext? = nil, device: DeviceDescription, time: ResolvedTime,
        person: String? = nil, excluded: Exclusion? = nil, deliveries: [DestinationDelivery] = [], receivedAt: Instant
    ) {
        self.id = id
        self.record = record
        self.context = context
        self.device = device
        self.time = time
        self.person = person
        self.excluded = excluded
        self.deliveries = deliveries
        self.receivedAt = receivedAt
    }

    /// The kind of reading.
    public var kind: ReadingKind { record.value.kind }
}

/// How a reading's time was found.
public enum TimeBasis: String, Sendable, Hashable, CaseIterable {
    /// The device's time, shifted by the difference its readable clock showed.
    case corrected
    /// The device's time, taken to be in the user's zone: its clock cannot be read.
    case assumedZone = "assumed_zone"
    /// The device sent no time: when its frame was received.
    case reception
    /// A sensor's start and the record's minute.
    case sensorStart = "sensor_start"
    /// No instant is known.
    case unknown
}

/// A reading's place in time.
public struct ResolvedTime: Sendable, Hashable {
    /// The instant, whole seconds; nil where unknown.
    public var instant: Instant?
    /// How it was found.
    public var basis: TimeBasis
    /// How far off it can be, in minutes, where that is known to matter (a repeated or missing hour: 60).
    public var uncertaintyMinutes: Int?
    /// The comparison of clocks that the instant rests on.
    public var clock: ClockComparison?

    /// Makes a resolved time.
    public init(
        instant: Instant?, basis: TimeBasis, uncertaintyMinutes: Int? = nil, clock: ClockComparison? = nil
    ) {
        self.instant = instant
        self.basis = basis
        self.uncertaintyMinutes = uncertaintyMinutes
        self.clock = clock
    }
}
