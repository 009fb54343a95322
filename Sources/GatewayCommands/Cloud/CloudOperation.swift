import CloudSources

/// The arguments of `cloud`.
public enum CloudOperation: Codable, Sendable, Hashable {
    /// Connects a person's account, on the vendor's page.
    case connect(CloudConnection)
    /// The accounts that are connected.
    case status
    /// Forgets an account.
    case disconnect(CloudVendor)
    /// Fetches what is new.
    case fetch(CloudRequest)
}

/// The arguments of `cloud connect`.
public struct CloudConnection: Codable, Sendable, Hashable {
    /// Whose cloud.
    public var vendor: CloudVendor
    /// The client's id of the person whose account it is; `nil`: the current user.
    public var person: String?
    /// How many seconds to wait for the person, 1 … 86,400.
    public var wait: Int

    /// Makes it.
    public init(_ vendor: CloudVendor, person: String? = nil, wait: Int = 300) {
        self.vendor = vendor
        self.person = person
        self.wait = wait
    }
}

/// The arguments of `cloud fetch`.
public struct CloudRequest: Codable, Sendable, Hashable {
    /// Whose cloud; `nil`: all that are connected.
    public var vendor: CloudVendor?
    /// Where to begin, RFC 3339 or a date, which means a day of the account's person; `nil`: 15 days before the last fetch.
    public var from: String?

    /// Makes it.
    public init(_ vendor: CloudVendor? = nil, from: String? = nil) {
        self.vendor = vendor
        self.from = from
    }
}
