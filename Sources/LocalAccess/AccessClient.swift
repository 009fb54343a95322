import Foundation
import HealthReadings

/// A program or a browser that may use the gateway over the network.
public struct AccessClient: Sendable, Hashable {
    /// How it came in.
    public enum Kind: String, Sendable, Hashable, CaseIterable {
        /// A program with a bearer token.
        case client
        /// A browser with a session.
        case page
        /// Whoever has a read-only link to one person's figures.
        case link
    }

    /// Its number in the list.
    public var number: Int64
    /// What it calls itself.
    public var name: String
    /// How it came in.
    public var kind: Kind
    /// For whom it was let in, and for what.
    public var grant: AccessGrant
    /// When it was paired.
    public var createdAt: Date
    /// When its token ends to be good.
    public var expiresAt: Date
    /// When it was last here, to the minute.
    public var lastSeen: Date?
    /// When somebody put it out.
    public var revokedAt: Date?
    /// Of a link: how many days up to today it shows; `nil` for others.
    public var days: Int?

    /// Whether its token is good.
    public func isWelcome(at now: Date) -> Bool { revokedAt == nil && now < expiresAt }

    /// A name fit for a list: no control characters, at most 64 characters and 256 octets.
    static func cleaned(_ name: String) -> String {
        let printable = name.unicodeScalars.filter { !$0.properties.isDefaultIgnorableCodePoint && $0.value >= 0x20 }
            .filter {
                ![.control, .format, .lineSeparator, .paragraphSeparator].contains($0.properties.generalCategory)
            }
        var text = String(String.UnicodeScalarView(printable)).trimmingCharacters(in: .whitespaces)
        text = String(text.prefix(64)).cut(toOctets: 256)
        return text.isEmpty ? "unnamed" : text
    }
}

/// Something that was done, or tried, over the network: what and when, never a value.
public struct AuditEntry: Sendable, Hashable {
    /// How entries of an event are kept.
    enum Retention: Int, Sendable, CaseIterable {
        /// Somebody was let in or put out: a row each.
        case grant
        /// A code was refused: a row each, up to a number a minute.
        case refusal
        /// A request: counted by the hour.
        case traffic
    }

    /// What is counted together.
    struct Bucket: Sendable, Hashable {
        var hour: Int
        var event: String
        var client: Int64?
        var route: String?
        var status: Int?
    }

    /// When; of several, the first.
    public var at: Date
    /// When the last of them was.
    public var lastAt: Date
    /// What: `pair`, `pair_refused`, `sign_in`, `sign_in_refused`, `sign_out`, `revoked`, `meter_pairing`,
    /// `link_made`, `link_opened`, `request`,
    /// `unauthorized`, `forbidden`, `refused`, `rate_limited`, `more_refused`.
    public var event: String
    /// Which client; nil: none that is known.
    public var client: Int64?
    /// The route, without its parameters.
    public var route: String?
    /// The answer's status.
    public var status: Int?
    /// How many times, where many were taken together.
    public var count: Int
    /// What the client was let in for; `nil` for an entry without a client that is still listed.
    public var grant: AccessGrant?

    /// Makes an entry.
    ///
    /// - Parameters:
    ///   - at: when it happened first.
    ///   - lastAt: when the last of several was; nil: there is one.
    ///   - event: what happened.
    ///   - client: the client's number; `nil` if there is none.
    ///   - route: the route that was asked for.
    ///   - status: the HTTP status of the answer.
    ///   - count: how many times it happened.
    ///   - grant: what the client was let in for.
    public init(
        at: Date, lastAt: Date? = nil, event: String, client: Int64? = nil, route: String? = nil, status: Int? = nil,
        count: Int = 1, grant: AccessGrant? = nil
    ) {
        self.grant = grant
        self.at = at
        self.lastAt = lastAt ?? at
        self.event = event
        self.client = client
        self.route = route
        self.status = status
        self.count = count
    }

    /// How it is kept. An event that is not named here is counted, so that no new one can fill the disk.
    var retention: Retention {
        switch event {
        case "pair", "sign_in", "sign_out", "revoked", "meter_pairing", "link_made", "settings_changed", "claimed":
            .grant
        case "pair_refused", "sign_in_refused", "claim_refused": .refusal
        default: .traffic
        }
    }

    /// What it is counted with.
    var bucket: Bucket {
        Bucket(
            hour: Int((at.timeIntervalSince1970 / 3600).rounded(.down)), event: event, client: client, route: route,
            status: status)
    }
}
