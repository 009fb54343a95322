import LocalAccess
import ReadingStore

/// What a route asks of its callers. ``GuardedRoutes`` takes no route that states none.
enum Permission: Sendable, Hashable, CaseIterable {
    /// Nothing: the route shows nothing of anybody.
    case open
    /// Any scope. The answer holds what belongs to the caller's person.
    case read
    /// Any scope, and read-only links: one person's figures and newest values.
    case view
    /// Any scope, but no person: the answer tells of the whole household.
    case readHousehold
    /// `write` or `owner`.
    case write
    /// `owner`.
    case owner
    /// Any scope, of a program with a bearer token: the routes of the Health Sync app.
    case program
    /// `owner`, or any caller on this machine that does not say who it is.
    case metrics

    /// The least scope that a caller needs; `nil`: none.
    var scope: AccessScope? {
        switch self {
        case .open: nil
        case .read, .view, .readHousehold, .program: .read
        case .write: .write
        case .metrics, .owner: .owner
        }
    }

    /// Whether the answer can be about one person alone.
    var servesOnePerson: Bool {
        switch self {
        case .open, .read, .view, .write, .program: true
        case .readHousehold, .metrics, .owner: false
        }
    }
}

/// Whose data the answer to a request may hold.
///
/// A route gets its audience from ``GuardedRoutes`` and hands it to the store's queries.
enum Audience: Sendable, Hashable {
    /// Everybody's.
    case household
    /// One person's alone.
    case person(StoreUser)

    /// The person; `nil` for the household.
    var user: StoreUser? {
        switch self {
        case .household: nil
        case .person(let user): user
        }
    }

    /// The person's key in the store; `nil` for the household.
    var key: UserKey? { user?.key }
}
