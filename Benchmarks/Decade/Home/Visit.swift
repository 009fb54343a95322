import HealthReadings

/// One contact of the gateway with a device of the home, with everything that the device sends in it.
public struct Visit: Sendable {
    /// The device.
    public var device: DeviceDescription
    /// When the contact begins.
    public var start: Instant
    /// When it ends.
    public var end: Instant
    /// What the device's clock shows; `nil` if the device has no clock that can be read.
    public var clock: ClockReading?
    /// Whether the device counts its records anew from here on.
    public var beginsEpoch = false
    /// What arrives together, and is committed together.
    public var commits: [Commit]

    /// What the gateway makes durable at once.
    public struct Commit: Sendable {
        /// When the last of it arrives.
        public var at: Instant
        /// The frames.
        public var frames: [Frame]
        /// Whether the frame grows further: its reading is made when it's whole.
        public var isGrowing = false
    }

    /// How many readings the visit makes.
    public var readings: Int { commits.reduce(0) { $0 + ($1.isGrowing ? 0 : $1.frames.count) } }
}

/// Something that a person types in, and whether they withdraw it an hour later.
public struct TypedEntry: Sendable {
    /// When.
    public var at: Instant
    /// What.
    public var entry: EntryText
    /// Whether the person withdraws it.
    public var isWithdrawn: Bool
}
