import Foundation
import GatewayCommands
import GatewaySettings
import GuardedServer
import HealthReadings
import Hummingbird
import LocalAccess

/// `/api/v1/settings`: what is set where, and changes of what the gateway itself may set.
struct SettingsRoutes {
    private static let route = "/api/v1/settings"

    let gateway: Gateway
    let door: AccessPoint

    func add(to routes: GuardedRoutes) {
        routes.get(Self.route, .owner) { _, _, _ in Response.json(try SettingsDesk(gateway).document()) }
        routes.patch(Self.route, .owner) { request, context, _ in
            let body = try await request.object()
            try body.requireOnly(["set", "secrets", "unset", "digest"])
            let change = SettingsChange(
                set: try body.settingValues("set"), secrets: try body.textsByName("secrets"),
                unset: try body.texts("unset"), digest: try body.text("digest"))
            guard !change.keys.isEmpty else { throw APIRefusal.malformed("expected set, secrets or unset") }
            let outcome = try await SettingsDesk(gateway).change(change)
            note("settings_changed", context)
            return Response.json(outcome.document)
        }
        routes.post(Self.route + "/reload", .owner) { _, context, _ in
            let outcome = try await SettingsDesk(gateway).reload()
            note("settings_reloaded", context)
            return Response.json(outcome.document)
        }
    }

    private func note(_ event: String, _ context: APIContext) {
        door.audit.note(
            AuditEntry(
                at: Date(), event: event, client: context.caller.client?.number, route: Self.route, status: 200))
    }
}
