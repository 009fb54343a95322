/// What is known of the device a frame or reading came from.
public struct DeviceDescription: Sendable, Hashable {
    /// The identity address; nil where a capture does not show it.
    public var address: DeviceAddress?
    /// The catalogue's id of the model: `accuchek_guide`.
    public var model: String?
    /// The serial number (2A25), which joins two addresses of one device.
    public var serial: String?
    /// The name the device advertises.
    public var name: String?
    /// The slug of the server's provider for this model: `accuchek_ble`.
    public var provider: String

    /// Makes a description.
    public init(
        address: DeviceAddress?, model: String? = nil, serial: String? = nil, name: String? = nil,
        provider: String = "manual"
    ) {
        self.address = address
        self.model = model
        self.serial = serial
        self.name = name
        self.provider = provider
    }
}

/// A device's clock as it was read, beside the gateway's.
public struct ClockReading: Sendable, Hashable {
    /// What the device's clock showed (2A2B, or 2A08).
    public var deviceTime: WallTime
    /// The gateway's time at which the value was received; in a replay, the packet's.
    public var readAt: Instant

    /// Makes a clock reading.
    public init(deviceTime: WallTime, readAt: Instant) {
        self.deviceTime = deviceTime
        self.readAt = readAt
    }
}

/// How a device's clock differs from the gateway's, in the zone of the user.
public struct ClockComparison: Sendable, Hashable {
    /// Device minus gateway, in seconds: positive where the device's clock is fast.
    public var differenceSeconds: Int64
    /// When the clock was read.
    public var readAt: Instant

    /// Makes a comparison; a difference beyond what wall times can have stays at their limit.
    public init(differenceSeconds: Int64, readAt: Instant) {
        self.differenceSeconds = min(max(differenceSeconds, -WallTime.limit), WallTime.limit)
        self.readAt = readAt
    }

    /// The difference that corrects a record's time: whole minutes, half away from zero; under two minutes is none.
    public var correctionSeconds: Int64 {
        guard differenceSeconds.magnitude >= 120 else { return 0 }
        return (differenceSeconds + (differenceSeconds < 0 ? -30 : 30)) / 60 * 60
    }
}
