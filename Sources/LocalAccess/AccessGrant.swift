/// What a client of the local API may do.
public enum AccessScope: String, Sendable, Hashable, CaseIterable, Comparable {
    /// Reads readings and events, and how devices and sources stand.
    case read
    /// Also scans for meters and pairs them.
    case write
    /// Everything the local API offers, what concerns nobody in particular included.
    case owner

    /// Each scope allows all that the ones before it allow.
    public static func < (lhs: AccessScope, rhs: AccessScope) -> Bool { lhs.rank < rhs.rank }

    private var rank: Int {
        switch self {
        case .read: 0
        case .write: 1
        case .owner: 2
        }
    }
}

/// For whom a client uses the local API, and for what.
public struct AccessGrant: Sendable, Hashable {
    /// What the client may do.
    public let scope: AccessScope
    /// The `client_user_id` of the only person whose data the client gets; `nil` for every person of the household.
    ///
    /// It is empty once that person was removed; such a client is revoked.
    public let person: String?

    /// Everything, for every person.
    public static let owner = AccessGrant(unchecked: .owner, nil)

    /// Makes a grant; `nil` for an owner with a person: what an owner may do concerns everybody.
    public init?(_ scope: AccessScope, person: String?) {
        guard scope != .owner || person == nil else { return nil }
        self.init(unchecked: scope, person)
    }

    private init(unchecked scope: AccessScope, _ person: String?) {
        self.scope = scope
        self.person = person
    }
}
