import Foundation
import GatewayCommands
import GuardedServer
import HealthReadings
import Hummingbird
import LocalAccess
import ReadingStore

/// The routes of the iOS Health Sync app, so that its published client works with the gateway as it is.
///
/// The app has no glucose in its published client, which refuses an answer with a type it does not know: the type
/// `bloodGlucose` is named to those only who ask with `?include=bloodGlucose`. It is served to all who ask for it.
struct HealthSyncRoutes {
    /// The largest offset that is looked for from the newest reading on.
    static let largestOffset = 20_000
    /// How many readings one request looks through by default.
    static let mostReadings = 20_000

    let store: ReadingStore
    let door: AccessPoint
    let places = HealthSyncPlaces()
    let consents: ConsentRules
    let isLocked: @Sendable () -> Bool
    /// How many readings one request looks through.
    var mostReadings = Self.mostReadings

    func add(to routes: GuardedRoutes) {
        // The code is what lets a program in here.
        routes.post("/api/v1/pair", .open) { request, context, _ in try await pair(request, from: context.client) }
        routes.get("/api/v1/status", .program) { request, _, audience in
            Response.json(
                .object([
                    "status": "ok", "version": "1", "deviceName": .string(AccessPoint.hostName),
                    "enabledTypes": .array(try await enabledTypes(request, audience)),
                    "serverTime": .string(Instant.systemClock.flooredToSecond.description),
                ]))
        }
        routes.get("/api/v1/health/types", .program) { request, _, audience in
            Response.json(.object(["enabledTypes": .array(try await enabledTypes(request, audience))]))
        }
        routes.post("/api/v1/health/data", .program) { request, context, audience in
            try await data(request, audience, of: context.caller.client)
        }
    }

    private func pair(_ request: Request, from peer: PeerAddress) async throws -> Response {
        let body = try await request.object()
        let (code, name) = (try body.requiredText("code"), try body.requiredText("clientName"))
        let now = Date()
        let invitation: PairingDesk.Invitation
        do {
            invitation = try door.desk.redeem(code, from: peer.guest)
        } catch {
            door.audit.note(AuditEntry(at: now, event: "pair_refused", route: "/api/v1/pair", status: 400))
            throw APIRefusal(error)
        }
        let begin = await door.time()
        let (token, client) = try await door.clients.admit(
            invitation.name ?? name, as: .client, for: invitation.grant, now: begin,
            expiresAt: door.tokenEnd(now: begin))
        door.audit.note(
            AuditEntry(at: now, event: "pair", client: client.number, route: "/api/v1/pair", status: 200))
        return Response.json(
            .object([
                "token": .string(token.text), "expiresAt": .string(client.expiresAt.instant.description),
            ]))
    }

    private func enabledTypes(_ request: Request, _ audience: Audience) async throws -> [JSONValue] {
        let kinds = try await consents.kinds(of: audience.key)
        let wantsGlucose = request.uri.queryParameters["include"].map(String.init) == "bloodGlucose"
        return HealthSyncType.allCases.filter {
            !kinds.isDisjoint(with: $0.kinds) && ($0 != .bloodGlucose || wantsGlucose)
        }
        .map { .string($0.rawValue) }
    }

    private func data(
        _ request: Request, _ audience: Audience, of client: AccessClient?
    ) async throws -> Response {
        let body = try await request.object()
        let (start, end) = (try body.requiredInstant("startDate"), try body.requiredInstant("endDate"))
        let names = try body.requiredTexts("types")
        guard !names.isEmpty else { throw APIRefusal.malformed("types: expected at least one type") }
        if let stray = names.first(where: { HealthSyncType(rawValue: $0) == nil && !HealthSyncType.known.contains($0) })
        {
            throw APIRefusal.malformed("types: '\(stray.prefix(40))' is not a type of this API")
        }
        guard start <= end else { throw APIRefusal.malformed("endDate: it is before startDate") }
        let limit = min(try body.whole("limit") ?? 1000, 10_000)
        guard limit > 0 else { throw APIRefusal.malformed("limit: expected 1 to 10000") }
        let offset = max(try body.whole("offset") ?? 0, 0)
        let consented = try await consents.kinds(of: audience.key)
        let types = Set(names.compactMap(HealthSyncType.init))
        let window = HealthSyncPlaces.Window(
            client: client?.number, person: audience.key, types: types,
            kinds: Set(types.flatMap(\.kinds)).intersection(consented), start: start, end: end)
        guard offset <= Self.largestOffset || places.knows(window, offset) else {
            throw APIRefusal(
                .badRequest, "offset_out_of_range",
                "offset: \(offset) is more than \(Self.largestOffset), and no recent page ended there",
                hint: "ask page by page, or for a narrower range of dates")
        }
        guard types.count == Set(names).count, types.allSatisfy({ !consented.isDisjoint(with: $0.kinds) }) else {
            throw APIRefusal(.forbidden, "type_not_enabled", "Requested data types are not enabled")
        }
        guard !isLocked() else {
            return Response.json(
                Self.document(status: "locked", [], message: "The gateway's store is locked", hasMore: false),
                status: .init(code: 423, reasonPhrase: "Locked"))
        }
        let (samples, hasMore) = try await samples(window, limit: limit, offset: offset)
        let message = hasMore ? "There are more: repeat the request with offset \(offset + samples.count)" : nil
        return Response.json(Self.document(status: "ok", samples.map(\.document), message: message, hasMore: hasMore))
    }

    private static func document(
        status: String, _ samples: [JSONValue], message: String?, hasMore: Bool
    ) -> JSONValue {
        .object([
            "status": .string(status), "samples": .array(samples), "message": .optional(message),
            "hasMore": .bool(hasMore), "returnedCount": .integer(Int64(samples.count)),
        ])
    }

    /// Newest first, both ends included; a reading's samples in the order of ``HealthSyncSample/samples(of:_:)``.
    ///
    /// Looks through ``mostReadings`` readings at most; `hasMore` then says that the next page goes on behind them.
    private func samples(
        _ window: HealthSyncPlaces.Window, limit: Int, offset: Int
    ) async throws -> (samples: [HealthSyncSample], hasMore: Bool) {
        var place = places.place(window, offset) ?? HealthSyncPlaces.Place(skip: offset)
        var samples: [HealthSyncSample] = []
        func end() -> (samples: [HealthSyncSample], hasMore: Bool) {
            places.remember(place, window, offset + samples.count)
            return (samples, true)
        }
        if let cut = place.cut {
            let rest = try await store.reading(cut.id, of: window.person).map { cut.rest(of: $0, window) } ?? []
            samples += rest.prefix(limit)
            place.cut = nil
            if rest.count > limit {
                place.cut = cut
                place.cut?.sent.formUnion(samples.map(\.type))
                return end()
            }
        }
        let most = min(limit + 1, 1000)
        var query = ReadingQuery(
            kinds: window.kinds, from: window.start, to: window.end, limit: most, user: window.person)
        var (examined, isNarrowed) = (0, false)
        while true {
            query.cursor = place.cursor
            let page = try await store.query(query)
            let part = HealthSyncPart(page.readings, window.types, passingOver: place.skip, room: limit - samples.count)
            if part.isFull, part.readings < page.readings.count {
                guard part.readings > 0 else { return end() }
                // Only where a page of the store ends is there a cursor, which no reading that comes or goes moves.
                query.limit = part.readings
                isNarrowed = true
                continue
            }
            samples += part.samples
            if let cursor = page.cursor {
                place = HealthSyncPlaces.Place(cursor: cursor, skip: part.skip, cut: part.cut)
            }
            guard !part.isFull else { return end() }
            guard page.more else { return (samples, false) }
            examined += page.readings.count
            guard examined < mostReadings, !isNarrowed || samples.count < limit else { return end() }
            query.limit = most
        }
    }
}
