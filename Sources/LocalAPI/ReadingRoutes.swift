import GatewayCommands
import GuardedServer
import HealthReadings
import Hummingbird
import NIOCore
import ReadingStore

/// `/api/v1/readings`: readings by page, newest first by (time, id), those without a time last.
struct ReadingRoutes {
    let store: ReadingStore
    let consents: ConsentRules
    let isLocked: @Sendable () -> Bool

    func add(to routes: GuardedRoutes) {
        routes.get("/api/v1/readings", .read) { request, _, audience in
            try requireUnlocked()
            return try await page(request, audience)
        }
        routes.get("/api/v1/readings/{id}", .read) { _, context, audience in
            try requireUnlocked()
            let text = try context.parameters.require("id")
            guard let id = ReadingID(text), let reading = try await store.reading(id, of: audience.key) else {
                throw APIRefusal(.notFound, "no_such_reading", "there is no such reading")
            }
            let allowed = try await consents.kinds(of: audience.key)
            guard allowed.contains(reading.kind) else { throw ConsentRules.refusal }
            return Response.json(reading.shown(where: allowed).document)
        }
    }

    private func requireUnlocked() throws { try Self.requireUnlocked(isLocked()) }

    /// Refuses what needs the store's key while it is missing.
    static func requireUnlocked(_ isLocked: Bool) throws {
        guard isLocked else { return }
        throw APIRefusal(
            .init(code: 423, reasonPhrase: "Locked"), "store_locked_away", "the store is locked: its key is missing")
    }

    private func page(_ request: Request, _ audience: Audience) async throws -> Response {
        try request.requireParameters(
            among: ["limit", "cursor", "types", "from", "to", "latest", "series", "person", "user"])
        let parameters = request.uri.queryParameters
        func text(_ name: String) -> String? { parameters[name[...]].map(String.init) }
        var query = ReadingQuery()
        if let limit = text("limit") {
            guard let number = Int(limit), ReadingQuery.limits.contains(number) else {
                throw APIRefusal.malformed("limit: expected a whole number from 1 to 10000")
            }
            query.limit = number
        }
        if let latest = text("latest") {
            guard ["true", "false"].contains(latest) else {
                throw APIRefusal.malformed("latest: expected true or false")
            }
            query.latest = latest == "true"
        }
        let series = text("series") ?? "true"
        guard ["true", "false"].contains(series) else {
            throw APIRefusal.malformed("series: expected true or false")
        }
        query.cursor = text("cursor")
        query.user = audience.key
        let current = try await store.currentUser()
        guard let zone = ZoneRules.named((audience.user ?? current).timeZone) else {
            throw StoreError.unknownTimeZone(current.timeZone)
        }
        query.from = try text("from").map { try InstantArgument.instant($0, "from", end: .start, zone: zone) }
        query.to = try text("to").map { try InstantArgument.instant($0, "to", end: .end, zone: zone) }
        let allowed = try await consents.kinds(of: audience.key)
        if let types = text("types") {
            let wanted = try Set(types.split(separator: ",").map { try Self.kind(String($0)) })
            guard !wanted.isEmpty else { throw APIRefusal.malformed("types: expected at least one") }
            guard wanted.isSubset(of: allowed) else { throw ConsentRules.refusal }
            query.kinds = wanted
        } else {
            guard !allowed.isEmpty else { throw ConsentRules.refusal }
            query.kinds = allowed.count == ReadingKind.allCases.count ? nil : allowed
        }
        let (mayWeigh, hasSeries) = (allowed.contains(.weight), series == "true")
        return Self.response(
            try await store.gather(query) { each in
                var pieces: [ByteBuffer] = []
                var writer = ReadingWriter(capacity: Self.pieceSize + 4096)
                try each { reading in
                    let shown = hasSeries ? reading : reading.withoutSeries
                    if mayWeigh { writer.append(shown) } else { writer.append(shown.withholdingWeight) }
                    if writer.count >= Self.pieceSize { pieces.append(writer.take(ByteBuffer.init(bytes:))) }
                }
                if writer.count > 0 { pieces.append(writer.take(ByteBuffer.init(bytes:))) }
                return pieces
            })
    }

    private static func kind(_ name: String) throws -> ReadingKind {
        guard let kind = ReadingKind(rawValue: name) else {
            throw APIRefusal.malformed(
                "types: expected \(ReadingKind.allCases.map(\.rawValue).joined(separator: " or "))")
        }
        return kind
    }

    /// `{readings, more, cursor}`; the readings' JSON is in pieces.
    static func response(_ page: GatheredPage<[ByteBuffer]>) -> Response {
        let cursor = JSONValue.optional(page.more ? page.cursor : nil).text
        let tail = "],\"more\":\(page.more),\"cursor\":\(cursor)}"
        return Response(
            status: .ok, headers: [.contentType: "application/json"],
            body: ResponseBody { writer in
                try await writer.write(ByteBuffer(string: #"{"readings":["#))
                for piece in page.contents { try await writer.write(piece) }
                try await writer.write(ByteBuffer(string: tail))
                try await writer.finish(nil)
            })
    }

    /// How much is handed to the network at a time.
    private static let pieceSize = 256 << 10
}

/// Which kinds of readings may be shown.
struct ConsentRules: Sendable {
    let store: ReadingStore

    /// What a person has consented to; nil: what everybody has.
    func kinds(of user: UserKey?) async throws -> Set<ReadingKind> { try await store.consentedKinds(of: user) }

    /// Readings whose own kinds may be shown, as they may be shown.
    func shown(_ readings: [Reading], of user: UserKey?) async throws -> [Reading] {
        let allowed = try await kinds(of: user)
        return readings.map { $0.shown(where: allowed) }
    }

    static let refusal = APIRefusal(
        .forbidden, "no_consent", "there is no consent to show readings of this kind",
        hint: "`healthrelay consent grant KIND`")
}

extension Reading {
    /// The reading as it may be shown where these kinds may be: without consent for weight, a composition has none.
    fileprivate func shown(where allowed: Set<ReadingKind>) -> Reading {
        allowed.contains(.weight) ? self : withholdingWeight
    }
}

extension Request {
    /// Refuses parameters of other names, and one that is given twice.
    func requireParameters(among known: [String]) throws {
        let parameters = uri.queryParameters
        if let stray = parameters.first(where: { !known.contains(String($0.key)) }) {
            throw APIRefusal.malformed("there is no parameter '\(stray.key.prefix(40))'")
        }
        guard Set(parameters.map(\.key)).count == parameters.count else {
            throw APIRefusal.malformed("a parameter is given twice")
        }
    }
}
