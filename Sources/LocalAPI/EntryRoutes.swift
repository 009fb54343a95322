import GatewayCommands
import GuardedServer
import HealthReadings
import Hummingbird
import LocalAccess
import ReadingStore

/// `POST /api/v1/readings`, and the correction and withdrawal of what was entered there.
struct EntryRoutes {
    let gateway: Gateway
    let consents: ConsentRules
    let isLocked: @Sendable () -> Bool

    func add(to routes: GuardedRoutes) {
        routes.post("/api/v1/readings", .write) { request, context, audience in
            try requireUnlocked()
            let body = try await request.object()
            try body.requireOnly(["kind", "value", "unit", "pulse", "time", "meal", "note", "person", "confirm"])
            let text = EntryText(
                kind: try body.requiredText("kind"), value: try Self.required(body, "value"),
                unit: try body.requiredText("unit"), pulse: try body.numeral("pulse"),
                // An entry without a time could not be sent again without being another.
                time: try body.requiredText("time"), meal: try body.text("meal"), note: try body.text("note"))
            let person = try await person(body.text("person"), audience, context)
            let result = try await Self.telling {
                try await EntryDesk(gateway).add(text, of: person, confirm: Self.confirmation(body.flag("confirm")))
            }
            return try await answer(result, audience)
        }
        routes.patch("/api/v1/readings/{id}", .write) { request, context, audience in
            try requireUnlocked()
            let body = try await request.object()
            try body.requireOnly(["value", "unit", "pulse", "time", "meal", "note", "confirm"])
            var change = EntryChange()
            change.value = try body.numeral("value")
            change.unit = try body.text("unit")
            change.pulse = try body.numeral("pulse")
            change.time = try body.text("time")
            change.meal = try body.text("meal")
            change.note = try body.text("note")
            guard !change.isEmpty else { throw APIRefusal.malformed("expected a value, time, pulse, meal or note") }
            let (reading, made) = (try await reading(context, audience), change)
            let result = try await Self.telling {
                try await EntryDesk(gateway).correct(
                    reading, with: made, confirm: Self.confirmation(body.flag("confirm")))
            }
            return try await answer(result, audience)
        }
        routes.delete("/api/v1/readings/{id}", .write) { _, context, audience in
            try requireUnlocked()
            let reading = try await reading(context, audience)
            let result = try await Self.telling { try await EntryDesk(gateway).withdraw(reading.id) }
            return try await answer(result, audience)
        }
    }

    private func answer(_ result: EntryResult, _ audience: Audience) async throws -> Response {
        var result = result
        // What is withdrawn may be a composition that was imported.
        if let reading = result.reading {
            result.reading = try await consents.shown([reading], of: audience.key).first
        }
        return Response.json(result.document, status: result.outcome == .added ? .created : .ok)
    }

    private func requireUnlocked() throws {
        guard isLocked() else { return }
        throw APIRefusal(
            .init(code: 423, reasonPhrase: "Locked"), "store_locked_away", "the store is locked: its key is missing")
    }

    private static func required(_ body: JSONObject, _ key: String) throws -> String {
        guard let text = try body.numeral(key) else {
            throw APIRefusal.malformed("\(key): expected a number, found nothing")
        }
        return text
    }

    /// Whose reading it is: a client's own person, or for the household the current user. Only the owner may name others.
    private func person(_ name: String?, _ audience: Audience, _ context: APIContext) async throws -> StoreUser {
        let own: StoreUser
        if let user = audience.user { own = user } else { own = try await gateway.store.currentUser() }
        try await requireOwn(own.clientUserID, context)
        guard let name, name != own.clientUserID else { return own }
        guard audience == .household, context.caller.grant?.scope == .owner else { throw Self.otherPerson }
        guard !name.isEmpty, let user = try await gateway.store.user(name) else {
            throw APIRefusal(.notFound, "no_such_user", "there is no such user")
        }
        return user
    }

    /// A reading that the caller may see and change.
    private func reading(_ context: APIContext, _ audience: Audience) async throws -> Reading {
        guard let id = ReadingID(try context.parameters.require("id")) else { throw Self.noSuchReading }
        return try await reading(id, context, audience)
    }

    private static let noSuchReading = APIRefusal(.notFound, "no_such_reading", "there is no such reading")

    /// A reading that the caller may see and change.
    func reading(_ id: ReadingID, _ context: APIContext, _ audience: Audience) async throws -> Reading {
        guard let reading = try await gateway.store.reading(id, of: audience.key) else { throw Self.noSuchReading }
        try await requireOwn(reading.person ?? "", context)
        guard try await consents.kinds(of: audience.key).contains(reading.kind) else { throw ConsentRules.refusal }
        return reading
    }

    /// Keeps a client of the household to the current user's readings, whichever person it asks for. The owner's may change
    /// everybody's.
    private func requireOwn(_ person: String, _ context: APIContext) async throws {
        let grant = context.caller.grant
        guard grant?.person == nil, grant?.scope != .owner else { return }
        guard try await gateway.store.currentUser().clientUserID == person else { throw Self.otherPerson }
    }

    private static let otherPerson = APIRefusal(
        .forbidden, "other_person", "this client may not change another person's readings")

    /// An entry that is unusual has to be sent again, confirmed.
    private static func confirmation(_ isConfirmed: Bool?) -> EntryDesk.Confirmation {
        { doubts in
            guard isConfirmed != true else { return }
            throw APIRefusal(
                .unprocessableContent, "unusual_entry", doubts.map(\.description).joined(separator: "; "),
                hint: #"check it; if it is right, send it again with "confirm": true"#)
        }
    }

    /// Runs what may be refused, and tells so with the API's statuses.
    private static func telling(_ body: () async throws -> EntryResult) async throws -> EntryResult {
        do {
            return try await body()
        } catch let error as EntryError {
            throw APIRefusal(.badRequest, "invalid_entry", error.description)
        } catch let error as EntryChangeError {
            throw APIRefusal(.conflict, error.code, error.description, hint: error.hint)
        }
    }
}
