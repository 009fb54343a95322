import GatewayCommands
import GuardedServer
import HealthDevices
import HealthReadings
import Hummingbird
import ReadingStore

/// How the gateway stands: devices, sources, delivery, and the whole at a glance.
struct StateRoutes {
    let gateway: Gateway
    let started: Instant

    func add(to routes: GuardedRoutes) {
        routes.get("/api/v1/devices", .read) { _, _, audience in Response.json(try await devices(audience)) }
        routes.get("/api/v1/sources", .read) { _, _, audience in Response.json(try await sources(audience)) }
        // What waits and what the server said is told for all people at once.
        routes.get("/api/v1/sync", .readHousehold) { _, _, _ in Response.json(try await gateway.destinations.document())
        }
        routes.get("/api/v1/consent", .read) { _, _, audience in
            Response.json(try await Consent.document(of: person(audience), in: gateway.store))
        }
        routes.get("/api/v1/gateway", .read) { _, _, audience in Response.json(try await overview(audience)) }
    }

    /// The person whose sources and consent are shown: to the household the current user's.
    private func person(_ audience: Audience) async throws -> StoreUser {
        if let user = audience.user { return user }
        return try await gateway.store.currentUser()
    }

    /// The devices as `devices --json` shows them, each with its latest contact.
    private func devices(_ audience: Audience) async throws -> JSONValue {
        if let user = audience.user { return try await devices(of: user) }
        let contacts = try await gateway.store.latestContacts()
        let devices = try await KnownDevice.all(in: gateway.store).map { device in
            JSONValue.object(
                device.members + [.init("last_contact", contacts[device.stored.description]?.document ?? .null)])
        }
        return .object(["devices": .array(devices)])
    }

    /// The devices that one person uses; of those that others use too, nothing that counts or shows the others' readings.
    private func devices(of user: StoreUser) async throws -> JSONValue {
        let contacts = try await gateway.store.latestContacts()
        let devices = try await gateway.store.devices(of: user.key).map { personal in
            var device = KnownDevice(personal.device, currentUser: nil)
            device.user = personal.isOwn ? user.clientUserID.nonEmpty : nil
            let contact = contacts[personal.device.description]?.document(countsRecords: !personal.isShared)
            return JSONValue.object(device.members + [.init("last_contact", contact ?? .null)])
        }
        return .object(["devices": .array(devices)])
    }

    /// A person's sources, as the store knows them: the server is not asked.
    private func sources(_ audience: Audience) async throws -> JSONValue {
        let user = try await person(audience)
        let sources = try await gateway.store.sources(user: user.key, at: gateway.destinations.primaryPlace())
        return .object(["sources": .array(sources.map(\.document))])
    }

    /// A person as the page lets one choose among the household's.
    private func person(_ user: StoreUser) -> JSONValue {
        .object(["id": .optional(user.clientUserID.nonEmpty), "time_zone": .string(user.timeZone)])
    }

    /// Why no meter can be read by radio now: `{code, began_at}`; null while the radio works, or the settings disable it. The
    /// code alone: it is told to clients of one person, too, and an error's words may name somebody else's device.
    private var radioFault: JSONValue {
        let faults = (try? gateway.requireManager())?.standingFaults ?? []
        guard let fault = faults.first(where: { $0.subject == .radio }) else { return .null }
        return .object([
            "code": .string(fault.failure.code), "began_at": .string(fault.began.flooredToSecond.description),
        ])
    }

    /// Why no device is read at all now, `{code, reason}`: the gateway does not trust its machine's clock; null while it does.
    ///
    /// The page asks often, so what the last look at the clock has found counts.
    private func clockFault() async -> JSONValue {
        guard let doubt = await gateway.clock.recentDoubt() else { return .null }
        return .object(["code": "clock_not_trusted", "reason": .string(doubt.name)])
    }

    /// What a person sees first, with their own readings and devices alone; to the household those of everybody.
    private func overview(_ audience: Audience) async throws -> JSONValue {
        let store = gateway.store
        let user = try await person(audience)
        let people: [StoreUser]
        let devices: Int
        let counts: (readings: [ReadingKind: Int], waiting: Int, refused: Int, delivered: Int, last: Instant?)
        if audience.user != nil {
            let own = try await store.counts(of: user.key)
            counts = (own.readings, own.waiting, own.refused, own.delivered, own.lastDelivery)
            people = [user]
            devices = try await store.devices(of: user.key).count
        } else {
            let all = try await store.statistics()
            counts = (all.readings, all.waiting, all.refused, all.delivered, all.lastDelivery)
            people = try await store.users()
            devices = try await KnownDevice.all(in: store).count
        }
        return .object([
            "id": .string(try await store.gatewayID()), "version": .string(GatewayVersion.current),
            "time": .string(Instant.systemClock.flooredToSecond.description),
            "started": .string(started.flooredToSecond.description), "time_zone": .string(user.timeZone),
            "user": .optional(user.clientUserID.nonEmpty), "people": .array(people.map(person)),
            "readings": .object(
                ReadingKind.allCases.map { .init($0.rawValue, .integer(Int64(counts.readings[$0] ?? 0))) }),
            "devices": .integer(Int64(devices)), "waiting": .integer(Int64(counts.waiting)),
            "refused": .integer(Int64(counts.refused)), "delivered": .integer(Int64(counts.delivered)),
            "last_delivery": .optional(counts.last?.flooredToSecond.description),
            "units": PersonUnits(of: user, gateway.settings).document,
            "delivers": .bool(!gateway.destinations.workers.isEmpty), "radio_fault": radioFault,
            "clock_fault": await clockFault(),
            "consent": .array(
                try await store.consentedKinds(of: audience.user?.key).map(\.rawValue).sorted().map(JSONValue.string)),
        ])
    }
}
