/// What a sandbox server is to be: where it listens, where it keeps its data, which keys it takes, and its limits.
public struct SandboxConfiguration: Sendable {
    /// Where the sandbox keeps users, sources and samples.
    public enum Storage: Sendable, Equatable {
        /// Forgotten when the server object goes.
        case inMemory
        /// A folder, created (0700) when absent, holding `sandbox.sqlite`.
        case directory(String)
    }

    /// The TCP port on 127.0.0.1; 0 takes any free one, see ``SandboxServer/address()``.
    public var port: Int
    /// Where the data is kept.
    public var storage: Storage
    /// The API keys accepted; nil accepts ``fixedKey`` and anything shaped like a key (`sk_us_…`, `pk_eu_…`).
    public var apiKeys: Set<String>?
    /// The most octets of a request body as it comes over the wire; more answers 413. Default 4 MiB.
    public var maximumBodyOctets: Int
    /// The most octets of a request body once inflated; more answers 413. Default 16 MiB.
    public var maximumInflatedOctets: Int
    /// The most items of one time-series post; more answers 422. Default 10,000.
    public var maximumItems: Int
    /// Samples on a page of grouped reading. Default 1000.
    public var pageSize: Int
    /// How many seconds a link token can be used. Default 3600, as the API's documentation says.
    public var linkLifetime: Int64
    /// How many seconds an access token of a session can be used. Default 3600.
    public var accessTokenLifetime: Int64
    /// A folder into which every request body is written as `<schema-name>-<number>.json`, for a checker that is
    /// neither client nor sandbox; nil writes none.
    public var recordBodies: String?
    /// Where events go; nil sends none.
    public var webhook: SandboxWebhook?
    /// Faults to order; nil orders none.
    public var faults: FaultPlan?

    /// The key that always works while ``apiKeys`` is nil.
    public static let fixedKey = "sk_us_sandbox"

    /// A sandbox with the limits above.
    public init(port: Int = 0, storage: Storage = .inMemory, apiKeys: Set<String>? = nil) {
        self.port = port
        self.storage = storage
        self.apiKeys = apiKeys
        self.maximumBodyOctets = 4 << 20
        self.maximumInflatedOctets = 16 << 20
        self.maximumItems = 10_000
        self.pageSize = 1000
        self.linkLifetime = 3600
        self.accessTokenLifetime = 3600
        self.recordBodies = nil
        self.webhook = nil
        self.faults = nil
    }
}
