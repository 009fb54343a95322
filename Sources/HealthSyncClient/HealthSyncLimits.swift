/// What a phone may take, and how often a request is repeated.
public struct HealthSyncLimits: Sendable, Hashable {
    /// How long a connection, with TLS, may take to come about.
    public var connecting: Duration = .seconds(10)
    /// How long a whole exchange may take.
    public var call: Duration = .seconds(60)
    /// How long an answer may be, in octets. A page of 10,000 samples has 2 to 4 MB.
    public var responseBytes = 16 << 20
    /// How many samples are asked for at once; the app gives 10,000 at most.
    public var pageSize = 10_000
    /// How often a request is repeated if the connection breaks or no answer comes.
    public var retries = 3
    /// How long to wait before the first repetition; twice as long before each further one.
    public var pause: Duration = .seconds(1)
    /// How long to wait if the phone allows no more requests and doesn't say for how long: the app counts 60 a minute.
    public var rateWindow: Duration = .seconds(60)
    /// How often to wait for that in one request.
    public var rateWaits = 3
    /// The longest wait that a phone may ask for; it ends the fetch if it asks for more.
    public var longestWait: Duration = .seconds(300)

    /// The limits that the commands use.
    public init() {}
}
