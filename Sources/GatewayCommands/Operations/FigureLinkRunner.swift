import Foundation
import GatewaySettings
import HealthReadings
import LocalAccess
import ReadingStore

/// The arguments of `link`.
public enum FigureLinkOperation: Codable, Sendable, Hashable {
    /// Makes a read-only link to one person's figures.
    case create(FigureLinkCreation)
    /// Which links there are.
    case list
    /// Ends one, by its number.
    case revoke(Int64)
}

/// The arguments of `link create`.
public struct FigureLinkCreation: Codable, Sendable, Hashable {
    /// How many days a link shows unless somebody says otherwise.
    public static let usualPeriod = "14d"
    /// How long a link is good at most, in days.
    public static let longestLife = 366

    /// The `client_user_id` of the person.
    public var person: String
    /// How many days up to today it shows: `14d`.
    public var period: String
    /// When it ends: RFC 3339, or a date, which means its end.
    public var until: String
    /// What `link list` calls it.
    public var name: String?

    /// Makes them.
    public init(person: String, period: String = Self.usualPeriod, until: String, name: String? = nil) {
        (self.person, self.period, self.until, self.name) = (person, period, until, name)
    }

    /// How many days it shows.
    func days() throws(Problem) -> Int {
        guard period.hasSuffix("d"), let days = Int(period.dropLast()), (1...3660).contains(days) else {
            throw Problem.usage("--period: expected days from 1d to 3660d, found '\(period.prefix(64))'")
        }
        return days
    }
}

/// `link`: read-only links to one person's figures.
struct FigureLinkRunner {
    let gateway: Gateway
    let json: Bool
    let output: any OperationOutput

    private var clients: ClientList { ClientList(gateway: gateway) }

    func run(_ operation: FigureLinkOperation) async throws {
        switch operation {
        case .create(let creation): try await create(creation)
        case .list: try await clients.using { try await list($0) }
        case .revoke(let number): try await clients.using { try await revoke(number, $0) }
        }
    }

    private func create(_ creation: FigureLinkCreation) async throws {
        let days = try creation.days()
        guard !creation.person.isEmpty, let user = try await gateway.store.user(creation.person) else {
            throw Problem(
                "no_such_user", .noInput, "the store knows no user '\(creation.person.prefix(64))'",
                hint: "name them under `users` in the settings, or make them with `healthrelay user create`")
        }
        guard let zone = ZoneRules.named(user.timeZone) else { throw StoreError.unknownTimeZone(user.timeZone) }
        guard let door = gateway.door else {
            throw Problem(
                "not_running", .unavailable, "no gateway is running, so there is nothing to link to",
                hint: "start it: `healthrelay run`, or `systemctl start healthrelay`")
        }
        let now = await door.time()
        let end = try InstantArgument.instant(creation.until, "--until", end: .end, zone: zone)
        let life = Double(end.seconds) - now.timeIntervalSince1970
        guard life > 0, life <= Double(FigureLinkCreation.longestLife) * 86_400 else {
            throw Problem.usage(
                "--until: expected a time in the future, at most \(FigureLinkCreation.longestLife) days ahead, found \(end)"
            )
        }
        guard let grant = AccessGrant(.read, person: creation.person) else {
            throw Problem("unexpected", .ourFault, "a link has no grant")
        }
        try await door.claim(by: "link")
        let (token, client) = try await door.clients.admit(
            creation.name ?? "link", as: .link, for: grant, now: now,
            expiresAt: Date(timeIntervalSince1970: TimeInterval(end.flooredToSecond.seconds)), days: days)
        door.audit.note(AuditEntry(at: Date(), event: "link_made", client: client.number))
        // What is behind the # stays in the browser: it is in no request, no log and no referrer.
        let (page, wall) = (door.pageAddress + "#" + token.text, door.pageAddress + "wall#" + token.text)
        guard !json else {
            return try await output.data(
                JSONValue.object([
                    "number": .integer(client.number), "url": .string(page), "wall_url": .string(wall),
                    "person": .string(creation.person), "days": .integer(Int64(days)),
                    "until": .string(client.expiresAt.instant.description), "name": .string(client.name),
                ]).text)
        }
        try await output.data("Figures:       \(page)")
        try await output.data("Wall display:  \(wall)")
        try await output.data(
            "Shows:         \(creation.person), the last \(days) days, until \(client.expiresAt.instant)")
        try await output.note(
            "Whoever has the link sees these figures. It is not shown again; `healthrelay link revoke \(client.number)` ends it."
        )
        guard door.certificates != nil else {
            return try await output.note(
                "Only browsers on this machine can open it. To let others in, set "
                    + "`http.listen: \"0.0.0.0:\(door.listen.port)\"` and restart the gateway.")
        }
    }

    private func list(_ clients: AccessStore) async throws {
        let (links, now) = (try await clients.clients().filter { $0.kind == .link }, await self.clients.time())
        guard !json else {
            return try await output.data(
                JSONValue.object(["links": .array(links.map { $0.linkDocument(now: now) })]).text)
        }
        for link in links {
            let state = link.revokedAt != nil ? "revoked" : now < link.expiresAt ? "open" : "ended"
            let person = link.grant.person.map { $0.isEmpty ? "a person who was removed" : $0 } ?? ""
            let seen = link.lastSeen.map { "last used \($0.instant)" } ?? "never used"
            try await output.data(
                "\(link.number)  \(link.name)  \(person), the last \(link.days ?? 0) days  \(state) until \(link.expiresAt.instant)  \(seen)"
            )
        }
        if links.isEmpty { try await output.note("no links yet; make one with `healthrelay link create`") }
    }

    private func revoke(_ number: Int64, _ clients: AccessStore) async throws {
        let now = await self.clients.time()
        let isLink = try await clients.clients().contains { $0.number == number && $0.kind == .link }
        guard isLink, try await clients.revoke(number, now: now) else {
            throw Problem(
                "no_such_link", .noInput, "there is no link \(number) that could be revoked",
                hint: "see `healthrelay link list`")
        }
        gateway.door?.audit.note(AuditEntry(at: now, event: "revoked", client: number))
        guard !json else { return try await output.data(#"{"revoked":1}"#) }
        try await output.data("link \(number) is revoked")
    }
}

extension AccessClient {
    fileprivate func linkDocument(now: Date) -> JSONValue {
        .object([
            "number": .integer(number), "name": .string(name), "person": .optional(grant.person),
            "days": .optional(days), "open": .bool(isWelcome(at: now)),
            "created_at": .string(createdAt.instant.description), "until": .string(expiresAt.instant.description),
            "last_used": .optional(lastSeen?.instant.description),
            "revoked_at": .optional(revokedAt?.instant.description),
        ])
    }
}
