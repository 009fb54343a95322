import FleetDocuments
import HealthReadings

/// What a fleet's gateway tells about its program, and what applies the centre's settings.
public struct FleetSender: Sendable {
    /// The program's version.
    public var version: String
    /// What the version was built from; `nil` if the program does not know it.
    public var build: String?
    /// Seconds since the program was started.
    public var uptime: @Sendable () -> Int64
    /// Whether the machine's clock is right.
    public var clock: @Sendable () async -> FleetReport.Clock
    /// The time.
    public var now: @Sendable () -> Instant
    /// Applies the settings that the centre wants.
    public var steering: any FleetSteering

    /// Creates it.
    public init(
        version: String, build: String? = nil, uptime: @escaping @Sendable () -> Int64,
        now: @escaping @Sendable () -> Instant,
        clock: @escaping @Sendable () async -> FleetReport.Clock = { .unknown },
        steering: any FleetSteering = FleetRefusal()
    ) {
        self.version = version
        self.build = build
        self.uptime = uptime
        self.now = now
        self.clock = clock
        self.steering = steering
    }
}
