/// The arguments of `healthsync`.
public enum HealthSyncOperation: Codable, Sendable, Hashable {
    /// Looks for phones for so many seconds.
    case discover(seconds: Double)
    /// Pairs with a phone.
    case pair(PhoneInvitation)
    /// The phones that are paired.
    case list
    /// Forgets a phone's token.
    case forget(String)
    /// What a phone says of itself.
    case status(PhoneChoice)
    /// What a phone shares.
    case types(PhoneChoice)
    /// A phone's samples.
    case fetch(SampleRequest)

    /// How long phones are looked for unless somebody says otherwise, in seconds.
    public static let usualSearch = 5.0
}

/// What somebody has of a phone that wants to pair: the text of its QR code, or its parts.
public struct PhoneInvitation: Codable, Sendable, Hashable {
    /// The QR code's JSON.
    public var payload: String?
    /// The phone's address.
    public var host: String?
    /// The phone's port.
    public var port: Int?
    /// The pairing code.
    public var code: String?
    /// The SHA-256 of the phone's certificate.
    public var fingerprint: String?
    /// What to call the phone here; `nil`: as it calls itself.
    public var name: String?

    /// Makes an empty one.
    public init() {}
}

/// Which phone, and where it is now.
public struct PhoneChoice: Codable, Sendable, Hashable {
    /// What it is called here; `nil`: the only one there is.
    public var name: String?
    /// Where it is now, if it isn't where it was last.
    public var host: String?
    /// The port that the app shows now.
    public var port: Int?

    /// The only phone there is.
    public init() {}
}

/// The arguments of `healthsync fetch`; instants are still text, because a date means the person's zone, which the store knows.
public struct SampleRequest: Codable, Sendable, Hashable {
    /// How samples are printed.
    public enum Format: String, Codable, Sendable, CaseIterable {
        case csv, json, ndjson
    }

    /// Which phone.
    public var phone = PhoneChoice()
    /// Types by the app's names; empty: all that the phone shares.
    public var types: [String] = []
    /// RFC 3339 or a date, inclusive.
    public var from: String?
    /// RFC 3339 or a date, inclusive.
    public var to: String?
    /// How samples are printed.
    public var format = Format.csv
    /// Whether samples go into the store instead of being printed.
    public var stores = false
    /// The client's id of the person whose samples they are, if they are stored; `nil`: the current user.
    public var person: String?

    /// All types of the last week.
    public init() {}
}
