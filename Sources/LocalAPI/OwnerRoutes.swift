import Foundation
import GatewayCommands
import GatewaySettings
import GuardedServer
import HTTPTypes
import HealthReadings
import Hummingbird
import LocalAccess
import ReadingStore
import Synchronization

/// What an owner does once: what the steps of the first run ask of the gateway beside its settings and pairings.
struct OwnerRoutes {
    let gateway: Gateway
    let door: AccessPoint

    func add(to routes: GuardedRoutes) {
        routes.get("/api/v1/setup", .owner) { _, _, _ in Response.json(try await steps()) }
        routes.post("/api/v1/consent", .owner) { request, context, _ in
            let body = try await request.object()
            try body.requireOnly(["kinds", "granted", "person", "destination"])
            guard let granted = try body.flag("granted") else {
                throw APIRefusal.malformed("granted: expected true or false")
            }
            let change = ConsentOperation.set(
                kinds: try body.requiredTexts("kinds"), granted: granted, user: try body.text("person"),
                destination: try body.text("destination"))
            let answer = try await answer(.consent(change))
            note("consent_changed", context)
            return answer
        }
        routes.post("/api/v1/destinations/{name}/test", .owner) { _, context, _ in
            try await answer(.destination(.test(try context.parameters.require("name"))))
        }
        routes.post("/api/v1/backups", .owner) { _, context, _ in
            let backup = try await gateway.backUp()
            note("backup_made", context)
            let trial = try await gateway.tryRestoring(backup)
            return Response.json(
                .object([
                    "name": .string(backup.name), "time": .string(backup.time.description),
                    "octets": .integer(backup.octets),
                    "restored": .object([
                        "readings": .integer(Int64(trial.readings.values.reduce(0, +))),
                        "devices": .integer(Int64(trial.devices)),
                    ]),
                ]))
        }
        routes.post("/api/v1/restart", .owner) { _, context, _ in
            guard gateway.requestRestart() else { throw Self.cannotRestart }
            note("restarted", context)
            return Response(status: .accepted)
        }
    }

    static let cannotRestart = APIRefusal(
        .conflict, "cannot_restart", "this gateway cannot start anew by itself",
        hint: "restart it on its machine: `systemctl restart healthrelay`")

    /// What the steps have come to, from the store and the settings: nothing else remembers them.
    private func steps() async throws -> JSONValue {
        let store = gateway.store
        let settings = gateway.settings
        let user = try await store.currentUser()
        let (consents, imported) = (try await store.consents(of: user.key), try await store.importedAt())
        let unconfirmed = try await store.unconfirmedConsents(of: user.key)
        let newestBackup = settings.backup == nil ? nil : try? await gateway.newestBackup()
        return .object([
            "person": .optional(user.clientUserID.nonEmpty),
            "time_zone": .string(user.timeZone),
            "people": .array(
                try await store.users().compactMap { $0.clientUserID.isEmpty ? nil : .string($0.clientUserID) }),
            "devices": .array(
                try await store.devices().map { device in
                    .object([
                        "address": .optional(device.description.address?.description),
                        "model": .optional(device.description.model), "name": .optional(device.description.name),
                    ])
                }),
            "destinations": .array(
                settings.hasImpliedDestination ? [] : settings.destinations.map { .string($0.name) }),
            "kinds": .array(
                consents.map { consent -> JSONValue in
                    // What was withdrawn after the backup was made is granted in it: the person is asked anew.
                    let isFromBackup =
                        unconfirmed.contains(consent.kind)
                        || imported.flatMap { imported in consent.at.map { $0 <= imported } } ?? false
                    return .object([
                        "kind": .string(consent.kind.rawValue), "granted": .bool(consent.isGranted),
                        "decided": .bool(consent.at != nil && !isFromBackup), "from_backup": .bool(isFromBackup),
                    ])
                }),
            "backups": .optional(settings.backup?.directory),
            "newest_backup": .optional(newestBackup?.time.description),
            "restore": try await gateway.restores.document, "address": .string(door.pageAddress),
            "after_restart": .array(gateway.keysThatNeedRestart.map(JSONValue.string)),
        ])
    }

    /// Does what a command does, and answers with its document.
    private func answer(_ operation: GatewayCommands.Operation) async throws -> Response {
        let output = Document()
        do {
            try await gateway.run(OperationRequest(operation, json: true), output: output)
        } catch let problem as Problem where problem.code == "checks_failed" {
            // The document says which.
        }
        return Response.octetsResponse(Array(output.text.utf8), "application/json")
    }

    private func note(_ event: String, _ context: APIContext) {
        door.audit.note(
            AuditEntry(
                at: Date(), event: event, client: context.caller.client?.number,
                route: context.endpointPath ?? "unknown", status: 200))
    }
}

/// Keeps an operation's document.
private final class Document: OperationOutput {
    private let last = Mutex("{}")
    var text: String { last.withLock(\.self) }
    func data(_ line: String) { last.withLock { $0 = line } }
    func note(_ line: String) {}
}
