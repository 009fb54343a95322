import Foundation
import HTTPTypes
import HealthReadings
import Hummingbird
import LocalAccess
import NIOCore
import ServiceLifecycle
import Synchronization

/// Finding and pairing meters from the page.
final class PairingRoutes: Sendable {
    /// How many pairings are remembered.
    private static let capacity = 8

    private let gateway: Gateway
    private let door: AccessPoint
    private let pairings = Mutex<[MeterPairing]>([])

    init(gateway: Gateway, door: AccessPoint) {
        self.gateway = gateway
        self.door = door
    }

    func add(to group: RouterGroup<APIContext>) {
        group.post("/api/v1/scan") { [self] request, _ in try await scan(request) }
        group.post("/api/v1/pairings") { [self] request, context in try await begin(request, context) }
        group.get("/api/v1/pairings/{id}") { [self] _, context in Response.json(try pairing(context).document) }
        group.post("/api/v1/pairings/{id}/answer") { [self] request, context in
            let pairing = try pairing(context)
            guard pairing.answer(try Self.answer(await request.object())) else {
                throw APIRefusal(.conflict, "nothing_asked", "nothing is asked that this answers")
            }
            return Response(status: .noContent)
        }
        group.delete("/api/v1/pairings/{id}") { [self] _, context in
            try pairing(context).cancel()
            return Response(status: .noContent)
        }
    }

    private static func answer(_ body: JSONObject) throws -> Answer {
        if let text = try body.text("passkey") {
            guard let passkey = Passkey(text) else { throw APIRefusal.malformed("passkey: expected six digits") }
            return .passkey(passkey)
        }
        guard let flag = try body.flag("confirmed") else {
            throw APIRefusal.malformed("expected a passkey of six digits, or confirmed")
        }
        return .confirmation(flag)
    }

    private func begin(_ request: Request, _ context: APIContext) async throws -> Response {
        let body = try await request.object()
        let address = try DeviceAddress.argument(try body.requiredText("address"))
        let repair = try body.flag("repair") ?? false
        let pairing = MeterPairing(address)
        let isBegun = pairings.withLock { pairings in
            guard !pairings.contains(where: { !$0.isOver }) else { return false }
            pairings.append(pairing)
            if pairings.count > Self.capacity { pairings.removeFirst() }
            return true
        }
        guard isBegun else { throw APIRefusal(.conflict, "pairing_goes_on", "another meter is being paired") }
        pairing.start(gateway, repair: repair)
        door.audit.note(
            AuditEntry(
                at: Date(), event: "meter_pairing", client: context.caller.client?.number, route: "/api/v1/pairings",
                status: 202))
        return Response.json(pairing.document, status: .accepted)
    }

    private func pairing(_ context: APIContext) throws -> MeterPairing {
        let id = try context.parameters.require("id")
        guard let pairing = pairings.withLock({ $0.first { $0.id == id } }) else {
            throw APIRefusal(.notFound, "no_such_pairing", "there is no such pairing")
        }
        return pairing
    }

    /// What is near, a line for each, for some seconds.
    private func scan(_ request: Request) async throws -> Response {
        let seconds = try await request.object().whole("seconds") ?? 10
        guard (1...60).contains(seconds) else { throw APIRefusal.malformed("seconds: expected 1 to 60") }
        let gateway = gateway
        return Response(
            status: .ok, headers: [.contentType: "application/x-ndjson"],
            body: ResponseBody { writer in
                let (lines, line) = AsyncStream<String>.makeStream(bufferingPolicy: .bufferingNewest(1024))
                let output = LineOutput { line.yield($0) }
                try await withThrowingTaskGroup(of: Void.self) { group in
                    group.addTask {
                        defer { line.finish() }
                        let operation = Operation.device(.scan(ScanOperation(seconds: Double(seconds))))
                        do {
                            try await cancelWhenGracefulShutdown {
                                try await gateway.run(OperationRequest(operation, json: true), output: output)
                            }
                        } catch {
                            line.yield(APIRefusal(describing: error).problem.document.text)
                        }
                    }
                    for await text in lines { try await writer.write(ByteBuffer(string: text + "\n")) }
                    group.cancelAll()
                }
                try await writer.finish(nil)
            })
    }
}

/// Hands on an operation's data.
private struct LineOutput: OperationOutput {
    let take: @Sendable (String) -> Void
    func data(_ line: String) { take(line) }
    func note(_ line: String) {}
}
