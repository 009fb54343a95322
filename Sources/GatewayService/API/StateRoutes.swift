import HealthReadings
import Hummingbird
import ReadingStore

/// How the gateway stands: devices, sources, delivery, and the whole at a glance.
struct StateRoutes {
    let gateway: Gateway
    let started: Instant

    func add(to group: RouterGroup<APIContext>) {
        group.get("/api/v1/devices") { _, _ in Response.json(try await devices()) }
        group.get("/api/v1/sources") { _, _ in Response.json(try await sources()) }
        group.get("/api/v1/sync") { _, _ in Response.json(try await gateway.syncDocument()) }
        group.get("/api/v1/consent") { _, _ in Response.json(try await gateway.consentDocument()) }
        group.get("/api/v1/gateway") { _, _ in Response.json(try await overview()) }
    }

    /// The devices as `devices --json` shows them, each with its latest contact.
    private func devices() async throws -> JSONValue {
        let contacts = try await gateway.store.latestContacts()
        let devices = try await gateway.knownDevices().map { device in
            JSONValue.object(
                device.members + [.init("last_contact", contacts[device.stored.description]?.document ?? .null)])
        }
        return .object(["devices": .array(devices)])
    }

    /// The current user's sources, as the store knows them: the server is not asked.
    private func sources() async throws -> JSONValue {
        let user = try await gateway.store.currentUser()
        let sources = try await gateway.store.sources(user: user.key)
        return .object(["sources": .array(sources.map(\.document))])
    }

    /// What a person sees first.
    private func overview() async throws -> JSONValue {
        let statistics = try await gateway.store.statistics()
        let user = try await gateway.store.currentUser()
        let devices = try await gateway.knownDevices()
        return .object([
            "version": .string(GatewayVersion.current),
            "time": .string(Instant.systemClock.flooredToSecond.description),
            "started": .string(started.flooredToSecond.description), "time_zone": .string(user.timeZone),
            "user": .optional(user.clientUserID.isEmpty ? nil : user.clientUserID),
            "readings": .object(
                ReadingKind.allCases.map { .init($0.rawValue, .integer(Int64(statistics.readings[$0] ?? 0))) }),
            "devices": .integer(Int64(devices.count)), "waiting": .integer(Int64(statistics.waiting)),
            "refused": .integer(Int64(statistics.refused)), "delivered": .integer(Int64(statistics.delivered)),
            "last_delivery": .optional(statistics.lastDelivery?.flooredToSecond.description),
            "delivers": .bool(gateway.worker != nil),
            "consent": .array(
                try await gateway.store.consentedKinds(of: nil).map(\.rawValue).sorted().map(JSONValue.string)),
        ])
    }
}
