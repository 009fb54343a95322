import GatewayCommands
import GatewaySettings
import GuardedServer
import HealthReadings
import Hummingbird
import LocalAccess
import ReadingStore

/// `POST /api/v1/readings/figures`: which readings count in figures.
struct FigureRoutes {
    let gateway: Gateway
    let consents: ConsentRules
    let isLocked: @Sendable () -> Bool

    func add(to routes: GuardedRoutes) {
        routes.post("/api/v1/readings/figures", .write) { request, context, audience in
            try ReadingRoutes.requireUnlocked(isLocked())
            let body = try await request.object()
            try body.requireOnly(["ids", "left_out", "reason", "expected"])
            guard let isLeftOut = try body.flag("left_out") else {
                throw APIRefusal.malformed("left_out: expected true or false, found nothing")
            }
            let reason = try body.text("reason")
            guard isLeftOut || reason == nil else {
                throw APIRefusal.malformed("reason: only a reading that is left out has one")
            }
            let expected = try body.text("expected")
            guard expected == nil || isLeftOut && expected == "counted" else {
                throw APIRefusal.malformed("expected: only \"counted\", and only to leave readings out")
            }
            let desk = FigureDesk(gateway)
            do {
                let ids = try desk.identifiers(body.requiredTexts("ids"))
                guard ids.count <= ReadingStore.mostDecisions else {
                    throw FigureDecisionError.tooMany(ids.count)
                }
                let rules = EntryRoutes(gateway: gateway, consents: consents, isLocked: isLocked)
                for id in ids { _ = try await rules.reading(id, context, audience) }
                let by = Self.name(of: context.caller)
                var result =
                    try await isLeftOut
                    ? desk.leaveOut(ids, reason: reason, by: by, replaces: expected == nil) : desk.include(ids, by: by)
                result.readings = try await consents.shown(result.readings, of: audience.key)
                return Response.json(result.document)
            } catch let error as EntryError {
                throw APIRefusal(.badRequest, "invalid_reason", error.description)
            } catch let error as FigureDecisionError {
                switch error {
                case .noSuchReading: throw APIRefusal(.notFound, error.code, error.description, hint: error.hint)
                case .tooMany: throw APIRefusal.malformed(error.description)
                case .leftOutMeanwhile:
                    throw APIRefusal(.conflict, error.code, error.description, hint: error.hint)
                }
            } catch let problem as Problem where problem.status == .usage {
                throw APIRefusal.malformed(problem.message)
            }
        }
    }

    /// Who says so, as the reading shows it.
    private static func name(of caller: Caller) -> String {
        guard let client = caller.client else { return "this machine" }
        return client.name.isEmpty ? "client \(client.number)" : client.name
    }
}
