import GatewaySettings
import HealthReadings
import ReadingDelivery
import ReadingStore
import VitalClient
import VitalDestination

extension Doctor {
    /// Whether the servers answer and take their keys. With several, each is named.
    func serverCheck() async -> DoctorCheck {
        guard !servers.isEmpty else {
            let names = settings.destinations.map(\.name).joined(separator: ", ")
            return .good("server", "no destination is a server; readings go to \(names)")
        }
        var checks: [DoctorCheck] = []
        for server in servers {
            var check = await serverCheck(server.connection)
            if servers.count > 1 { check.found = "\(server.name): \(check.found)" }
            checks.append(check)
        }
        guard let worst = checks.first(where: { !$0.ok }) ?? checks.first else { return checks[0] }
        var check = worst
        check.found = checks.map(\.found).joined(separator: "; ")
        if check.ok { check.mend = checks.compactMap(\.mend).first }
        return check
    }

    /// Whether a server answers and takes the key, as `destination test` finds out.
    private func serverCheck(_ connection: Result<VitalConnection?, Problem>) async -> DoctorCheck {
        switch connection {
        case .failure(let problem): return .bad("server", problem)
        case .success(nil):
            return .bad(
                "server", .configuration, "no key for a server is set, so nothing is delivered; readings are kept",
                mend: "put the key into a file (mode 0600) and name it: `api_key_file` of the destination")
        case .success(let connection?):
            let api = VitalAPI(
                server: connection.server, credentials: connection.credentials, authorities: connection.authorities,
                logger: logger)
            let findings = await VitalDestination.test(api, person: settings["user.client_user_id"])
            if let bad = findings.map(DestinationFinding.init).first(where: { $0.ok == false }) {
                return .bad("server", bad.status ?? .unavailable, bad.found, mend: bad.mend)
            }
            let proof = if case .session = connection.credentials { "the sign-in token" } else { "the key" }
            let found = "\(connection.server.host) answers and accepts \(proof)"
            // What it may drop without a word; nothing is to be done about what just can't be proven.
            guard let last = findings.last, let mend = last.mend else { return .good("server", found) }
            return .good("server", "\(found); \(last.found)", mend: mend)
        }
    }

    /// Whether each other destination can be used, answers and takes its credentials, as `destination test` finds out.
    func destinationChecks() async -> [DoctorCheck] {
        await withTaskGroup(of: (Int, DoctorCheck).self) { group in
            for (place, link) in others.enumerated() {
                group.addTask {
                    let findings = await DestinationRunner.findings(of: link)
                    let title = "\(link.name) (\(link.setting.kind.name)): "
                    if let bad = findings.first(where: { $0.ok == false }) {
                        return (
                            place,
                            .bad("destination", bad.status ?? .unavailable, title + bad.found, mend: bad.mend)
                        )
                    }
                    return (place, .good("destination", title + (findings.last?.found ?? "can be used")))
                }
            }
            var checks: [(Int, DoctorCheck)] = []
            for await check in group { checks.append(check) }
            return checks.sorted { $0.0 < $1.0 }.map(\.1)
        }
    }

    /// Whether readings that wait may go, as far as the store knows.
    func sourceCheck() async -> DoctorCheck {
        guard case .success(let store?) = store else { return .good("source", "no store, so no sources yet") }
        do {
            let user = try await store.currentUser()
            var (sources, groups): ([String], [OutboxGroup]) = ([], [])
            let destinations = try await store.destinations().filter { $0.state != .removed }
            for destination in destinations {
                let place = destinations.count > 1 ? " at \(destination.name)" : ""
                sources += try await store.sources(user: user.key, at: destination.key).filter { $0.status != .absent }
                    .map { "\($0.provider) is \($0.status.rawValue)\(place)" }
                groups += try await store.groupsWaiting(at: destination.key)
            }
            if let moved = destinations.first(where: { $0.state == .moved }) {
                return .bad(
                    "source", .configuration, "the address of \(moved.name) has changed, and its readings wait",
                    mend: "if the new address is meant: `healthrelay destination accept \(moved.name)`")
            }
            if let unconfirmed = try await UnconfirmedConsents(of: store) {
                let finding = try await unconfirmed.finding(in: store)
                return .bad("source", .configuration, finding.found, mend: finding.mend)
            }
            let held = groups.filter { $0.held.map(needsAPerson) ?? false }
            if let group = held.first(where: { $0.isUnknownToServer || $0.isRefusedWhole }) {
                return .bad(
                    "source", .configuration,
                    "\(group.count) \(group.resource.rawValue) for \(group.provider) wait: \(group.heldWords ?? "")",
                    mend: "is `base_url` of the destination the server's? once it is: `healthrelay sync retry`")
            }
            if let group = held.first {
                let others = held.count > 1 ? ", and others" : ""
                return .bad(
                    "source", .configuration,
                    "\(group.count) \(group.resource.rawValue) for \(group.provider) wait: "
                        + "\(group.held?.words ?? "")\(others)",
                    mend: "connect it: `healthrelay source connect \(group.provider)`")
            }
            let unwanted = groups.filter { $0.held == .noConsent }
            if !unwanted.isEmpty {
                let kinds = Set(unwanted.map(\.resource.rawValue)).sorted().joined(separator: " ")
                return .good(
                    "source", "\(unwanted.reduce(0) { $0 + $1.count }) readings wait for consent: \(kinds)",
                    mend: "if the person agrees: `healthrelay consent grant \(kinds)`")
            }
            if try await !store.isSyncEnabled() {
                return .good("source", "delivery is switched off", mend: "switch it on: `healthrelay sync enable`")
            }
            guard !sources.isEmpty else { return .good("source", "none yet; the first delivery connects one") }
            return .good("source", sources.joined(separator: ", "))
        } catch {
            return .bad("source", Problem(describing: error) ?? .unexpected(error))
        }
    }

    /// Whether what waits for this goes on waiting until somebody does something at the server.
    private func needsAPerson(_ hold: Hold) -> Bool {
        switch hold {
        case .sourceRevoked, .sourcePaused, .sourceError: true
        // Under the other policy, the first delivery connects it.
        case .noSource: settings["sources.policy"] == "require"
        default: false
        }
    }
}
