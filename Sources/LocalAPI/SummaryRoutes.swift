import GatewayCommands
import GatewaySettings
import GuardedServer
import HealthFigures
import HealthReadings
import Hummingbird
import ReadingStore

/// `/api/v1/summaries/body`: what was measured on one of a person's days.
struct SummaryRoutes {
    let gateway: Gateway
    let consents: ConsentRules
    let isLocked: @Sendable () -> Bool

    func add(to routes: GuardedRoutes) {
        routes.get("/api/v1/summaries/body", .read) { request, _, audience in
            try ReadingRoutes.requireUnlocked(isLocked())
            return try await summary(request, audience)
        }
    }

    private func summary(_ request: Request, _ audience: Audience) async throws -> Response {
        try request.requireParameters(among: ["date", "format", "samples", "person", "user"])
        let parameters = request.uri.queryParameters
        let samples = parameters["samples"].map(String.init) ?? "true"
        guard ["true", "false"].contains(samples) else {
            throw APIRefusal.malformed("samples: expected true or false")
        }
        // Asked for by the household, a summary is the current user's: a day belongs to one person.
        let person =
            if let user = audience.user { user } else { try await gateway.store.currentUser() }
        let allowed = try await consents.kinds(of: person.key)
        guard !allowed.isEmpty else { throw ConsentRules.refusal }
        let desk = try await SummaryDesk(
            gateway.store, person, kinds: allowed.count == ReadingKind.allCases.count ? nil : allowed)
        let now = Instant.systemClock
        let day: PersonDay
        do {
            day = try desk.day(parameters["date"].map(String.init), "date", now: now)
        } catch {
            throw APIRefusal.malformed(error.message)
        }
        switch parameters["format"].map(String.init) ?? "json" {
        case "json":
            return Response.json(
                try await desk.summary(of: day).document(
                    person: person.clientUserID, now: now, showsSamples: samples == "true"))
        case "terra": return Self.response(try await desk.terra(day, gateway.catalogue))
        case "rook":
            do {
                return Self.response(try await desk.rook(day, clientUUID: gateway.rookAccount, gateway.catalogue))
            } catch let problem as Problem {
                throw APIRefusal(.conflict, problem.code, problem.message, hint: problem.hint)
            }
        default: throw APIRefusal.malformed("format: expected json, terra or rook")
        }
    }

    /// 204 for a day without anything that the format has a place for, as these services answer.
    private static func response(_ document: JSONValue?) -> Response {
        document.map { Response.json($0) } ?? Response(status: .noContent)
    }
}
