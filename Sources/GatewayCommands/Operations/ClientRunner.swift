import Foundation
import GatewaySettings
import HealthReadings
import LocalAccess
import ReadingStore

/// The arguments of `client`.
public enum ClientOperation: Codable, Sendable, Hashable {
    /// Makes a pairing code.
    case invite(InviteOperation)
    /// Who may come in.
    case list
    /// Puts one out, by its number; nil: everybody.
    case revoke(Int64?)
    /// What was done over the network, the newest first.
    case audit(limit: Int)
}

/// The arguments of `client invite`.
public struct InviteOperation: Codable, Sendable, Hashable {
    /// The `client_user_id` of the person the client is for; `nil` for every person.
    public var person: String?
    /// `read`, `write` or `owner`; `nil`: `read` with a person, else `owner`.
    public var scope: String?
    /// What the client is called in the list; `nil` for what it calls itself.
    public var name: String?

    /// Makes them.
    public init(person: String? = nil, scope: String? = nil, name: String? = nil) {
        self.person = person
        self.scope = scope
        self.name = name
    }
}

extension InviteOperation {
    /// The scopes there are.
    public static let scopes = AccessScope.allCases.map(\.rawValue)

    /// What the client is let in for.
    func grant() throws(Problem) -> AccessGrant {
        guard let scope = AccessScope(rawValue: scope ?? (person == nil ? "owner" : "read")) else {
            throw Problem.usage("--scope: expected read, write or owner, found '\((scope ?? "").prefix(40))'")
        }
        guard let grant = AccessGrant(scope, person: person) else {
            throw Problem(
                "owner_has_no_person", .usage,
                "an owner acts for everybody, so --scope owner and --person cannot be used together",
                hint: "leave out --person, or use --scope read or --scope write")
        }
        return grant
    }
}

/// `client`: who may use the gateway over the network.
struct ClientRunner {
    let gateway: Gateway
    let json: Bool
    let output: any OperationOutput

    private var clients: ClientList { ClientList(gateway: gateway) }

    func run(_ operation: ClientOperation) async throws {
        switch operation {
        case .invite(let invitation): try await invite(invitation)
        case .list: try await clients.using { try await list($0) }
        case .revoke(let number): try await clients.using { try await revoke(number, $0) }
        case .audit(let limit):
            let entries =
                if let door = gateway.door { try await door.audit.newest(limit) } else {
                    try await clients.using { try await AuditLog($0, logger: gateway.logger).newest(limit) }
                }
            try await audit(entries)
        }
    }

    private func invite(_ operation: InviteOperation) async throws {
        let grant = try operation.grant()
        if let person = grant.person {
            guard !person.isEmpty, try await gateway.store.user(person) != nil else {
                throw Problem(
                    "no_such_user", .noInput, "the store knows no user '\(person)'",
                    hint: "name them under `users` in the settings, or make them with `healthrelay user create`")
            }
        }
        guard let door = gateway.door else {
            throw Problem(
                "not_running", .unavailable, "no gateway is running, so no client can be paired",
                hint: "start it: `healthrelay run`, or `systemctl start healthrelay`")
        }
        try await door.claim(by: "invite")
        let certificate = door.certificates?.certificate
        let invitation = door.desk.invite(for: grant, name: operation.name, now: await door.time())
        // Clients put an address between `https://` and the port as it is.
        let host = door.advertisedHost.contains(":") ? "[\(door.advertisedHost)]" : door.advertisedHost
        var members: [JSONValue.Member] = [
            .init("version", "1"), .init("host", .string(host)), .init("port", .integer(Int64(door.port))),
            .init("code", .string(invitation.code)),
            .init("expiresAt", .string(invitation.expiresAt.instant.description)),
            .init("certificateFingerprint", .optional(certificate?.fingerprint)),
        ]
        // The code stands for person and scope, so that a client learns of them only once it is let in.
        let payload = JSONValue.object(members)
        guard !json else {
            members += grant.members + [.init("name", .optional(operation.name))]
            return try await output.data(JSONValue.object(members).text)
        }
        // Another device cannot reach loopback, so that there is nothing for its camera to read.
        if certificate != nil, let code = QRCode(payload.text) {
            for line in code.lines { try await output.data(line) }
        }
        try await output.data("Pairing code: \(invitation.code)  (good once, until \(invitation.expiresAt.instant))")
        try await output.data("For:          \(grant.words)")
        try await output.data("Page:         \(door.scheme)://\(host):\(door.port)/")
        guard let certificate else {
            return try await output.note(
                "Only programs on this machine can reach \(door.listen.host). To let others in, set "
                    + "`http.listen: \"0.0.0.0:\(door.listen.port)\"` and restart the gateway.")
        }
        try await output.data("Fingerprint:  \(certificate.fingerprint)")
    }

    private func list(_ clients: AccessStore) async throws {
        let (clients, now) = (try await clients.clients(), await self.clients.time())
        guard !json else {
            return try await output.data(
                JSONValue.object(["clients": .array(clients.map { $0.document(now: now) })]).text)
        }
        for client in clients {
            let state = client.revokedAt != nil ? "revoked" : now < client.expiresAt ? "welcome" : "expired"
            let seen = client.lastSeen.map { "last seen \($0.instant)" } ?? "never seen"
            let who = "\(client.number)  \(client.name)  \(client.kind.rawValue)  \(client.grant.words)"
            try await output.data("\(who)  \(state) until \(client.expiresAt.instant)  \(seen)")
        }
        if clients.isEmpty { try await output.note("no clients yet; invite one with `healthrelay client invite`") }
    }

    private func revoke(_ number: Int64?, _ clients: AccessStore)
        async throws
    {
        let now = await self.clients.time()
        let count: Int
        if let number {
            guard try await clients.revoke(number, now: now) else {
                throw Problem(
                    "no_such_client", .noInput, "there is no client \(number)",
                    hint: "see `healthrelay client list`")
            }
            count = 1
        } else {
            count = try await clients.revokeAll(now: now)
        }
        gateway.door?.audit.note(AuditEntry(at: now, event: "revoked", client: number, count: count))
        guard !json else {
            return try await output.data(JSONValue.object(["revoked": .integer(Int64(count))]).text)
        }
        try await output.data("\(count) client\(count == 1 ? "" : "s") put out")
    }

    private func audit(_ entries: [AuditEntry]) async throws {
        guard !json else {
            return try await output.data(
                JSONValue.object([
                    "entries": .array(
                        entries.map { entry in
                            .object([
                                "at": .string(entry.at.instant.description),
                                "last_at": .string(entry.lastAt.instant.description), "event": .string(entry.event),
                                "client": .optional(entry.client), "person": .optional(entry.grant?.person),
                                "scope": .optional(entry.grant?.scope.rawValue), "route": .optional(entry.route),
                                "status": .optional(entry.status), "count": .integer(Int64(entry.count)),
                            ])
                        })
                ]).text)
        }
        for entry in entries {
            let parts = [
                entry.at.instant.description, entry.event, entry.client.map { "client \($0)" }, entry.grant?.words,
                entry.route,
                entry.status.map(String.init),
                entry.count > 1 ? "× \(entry.count), the last at \(entry.lastAt.instant)" : nil,
            ]
            try await output.data(parts.compactMap(\.self).joined(separator: "  "))
        }
        if entries.isEmpty { try await output.note("the audit log is empty") }
    }
}

extension AccessClient {
    fileprivate func document(now: Date) -> JSONValue {
        .object([
            "number": .integer(number), "name": .string(name), "kind": .string(kind.rawValue),
            "person": .optional(grant.person), "scope": .string(grant.scope.rawValue),
            "welcome": .bool(isWelcome(at: now)), "created_at": .string(createdAt.instant.description),
            "expires_at": .string(expiresAt.instant.description), "last_seen": .optional(lastSeen?.instant.description),
            "revoked_at": .optional(revokedAt?.instant.description),
        ])
    }
}

extension AccessGrant {
    /// `person` and `scope`.
    fileprivate var members: [JSONValue.Member] {
        [.init("person", .optional(person)), .init("scope", .string(scope.rawValue))]
    }

    /// For whom and for what, on a line for people: `white_bear (read)`.
    fileprivate var words: String {
        "\(person.map { $0.isEmpty ? "a person who was removed" : $0 } ?? "everybody") (\(scope.rawValue))"
    }
}
