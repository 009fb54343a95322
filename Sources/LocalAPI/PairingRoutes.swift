import Foundation
import GatewayCommands
import GatewaySettings
import GuardedServer
import HTTPTypes
import HealthReadings
import Hummingbird
import LocalAccess
import NIOCore
import ReadingStore
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

    func add(to routes: GuardedRoutes) {
        routes.post("/api/v1/scan", .write) { [self] request, _, audience in try await scan(request, audience) }
        routes.get("/api/v1/models", .write) { [self] _, _, _ in Response.json(gateway.modelChoices) }
        routes.post("/api/v1/pairings", .write) { [self] request, context, audience in
            try await begin(request, context, audience)
        }
        routes.get("/api/v1/pairings/{id}", .write) { [self] _, context, audience in
            Response.json(try pairing(context, audience).document)
        }
        routes.post("/api/v1/pairings/{id}/answer", .write) { [self] request, context, audience in
            let pairing = try pairing(context, audience)
            guard pairing.answer(try Self.answer(await request.object())) else {
                throw APIRefusal(.conflict, "nothing_asked", "no question is waiting for this answer")
            }
            return Response(status: .noContent)
        }
        routes.delete("/api/v1/pairings/{id}", .write) { [self] _, context, audience in
            try pairing(context, audience).cancel()
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

    private func begin(_ request: Request, _ context: APIContext, _ audience: Audience) async throws -> Response {
        let body = try await request.object()
        try body.requireOnly(["address", "repair", "model"])
        let address = try DeviceAddress.argument(try body.requiredText("address"))
        let repair = try body.flag("repair") ?? false
        let model = try body.text("model")
        try await requirePairable(address, audience)
        let pairing = MeterPairing(address, person: audience.key)
        let isBegun = pairings.withLock { pairings in
            guard !pairings.contains(where: { !$0.isOver }) else { return false }
            pairings.append(pairing)
            if pairings.count > Self.capacity { pairings.removeFirst() }
            return true
        }
        guard isBegun else { throw APIRefusal(.conflict, "pairing_goes_on", "another meter is being paired") }
        pairing.start(gateway, repair: repair, model: model)
        door.audit.note(
            AuditEntry(
                at: Date(), event: "meter_pairing", client: context.caller.client?.number, route: "/api/v1/pairings",
                status: 202))
        return Response.json(pairing.document, status: .accepted)
    }

    /// Refuses to pair for one person a meter whose readings would be another's.
    private func requirePairable(_ address: DeviceAddress, _ audience: Audience) async throws {
        guard let key = audience.key else { return }
        guard try await gateway.store.currentUser().key == key else {
            throw APIRefusal(
                .conflict, "not_the_current_user",
                "a meter that is paired measures the gateway's current user, who is somebody else",
                hint: "pair it as the owner, and name it under `users` in the settings")
        }
        // Who sends an address doesn't know its type.
        guard try await !hidden(from: key).contains(where: { $0.bits == address.bits }) else {
            throw APIRefusal(.forbidden, "other_person", "this meter cannot be paired by this client")
        }
    }

    /// The addresses of the devices that the store knows and that are none of a person's.
    private func hidden(from person: UserKey) async throws -> Set<DeviceAddress> {
        let seen = Set(try await gateway.store.devices(of: person).flatMap(\.device.addresses))
        return Set(try await gateway.store.devices().flatMap(\.addresses)).subtracting(seen)
    }

    private func pairing(_ context: APIContext, _ audience: Audience) throws -> MeterPairing {
        let id = try context.parameters.require("id")
        guard let pairing = pairings.withLock({ $0.first { $0.id == id } }),
            audience == .household || pairing.person == audience.key
        else {
            throw APIRefusal(.notFound, "no_such_pairing", "there is no such pairing")
        }
        return pairing
    }

    /// What is near, a line for each, for some seconds.
    private func scan(_ request: Request, _ audience: Audience) async throws -> Response {
        let seconds = try await request.object().whole("seconds") ?? 10
        guard (1...60).contains(seconds) else { throw APIRefusal.malformed("seconds: expected 1 to 60") }
        let gateway = gateway
        var hidden: [String] = []
        if let key = audience.key {
            hidden = try await self.hidden(from: key).map { JSONValue.string($0.description).text }
        }
        let unseen = hidden
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
                    for await text in lines where !unseen.contains(where: text.contains) {
                        try await writer.write(ByteBuffer(string: text + "\n"))
                    }
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
