import GatewayCommands
import GatewaySettings
import GuardedServer
import HealthReadings
import Hummingbird
import ReadingStore

/// `POST /api/v1/readings/move`: readings that another person measured.
struct MoveRoutes {
    let gateway: Gateway
    let isLocked: @Sendable () -> Bool

    func add(to routes: GuardedRoutes) {
        routes.post("/api/v1/readings/move", .owner) { request, _, _ in
            guard !isLocked() else {
                throw APIRefusal(
                    .init(code: 423, reasonPhrase: "Locked"), "store_locked_away",
                    "the store is locked: its key is missing")
            }
            let body = try await request.object()
            let names: Set = try body.text("device") == nil ? ["ids"] : ["slot", "from", "to", "person"]
            try body.requireOnly(names.union(["device", "to_person"]))
            let slot = try body.whole("slot").map { number in
                guard let slot = UInt8(exactly: number) else { throw APIRefusal.malformed("slot: expected 0 to 255") }
                return slot
            }
            let device = try body.text("device")
            let operation = MoveOperation(
                ids: device == nil ? try body.requiredTexts("ids") : [], device: device, slot: slot,
                from: try body.text("from"), to: try body.text("to"), person: try body.text("person"),
                toPerson: try body.requiredText("to_person"), confirmed: true)
            do {
                let desk = MoveDesk(gateway)
                let (selection, person) = try await desk.selection(operation)
                let move = try await desk.move(selection, to: person)
                return Response.json(move.document(to: operation.toPerson))
            } catch let error as MoveError {
                throw APIRefusal(.notFound, error.code, error.description, hint: error.hint)
            } catch let problem as Problem {
                throw APIRefusal(
                    problem.status == .noInput ? .notFound : .badRequest,
                    problem.status == .noInput ? problem.code : "bad_request", problem.message, hint: problem.hint)
            }
        }
    }
}
