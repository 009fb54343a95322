import HealthReadings

/// What `ca list` prints.
package struct AuthorityList: Sendable {
    private let gateways: [AuthorityStore.Gateway]
    private let hasBroker: Bool
    private let list: RevocationList?
    private let now: Instant

    package init(_ gateways: [AuthorityStore.Gateway], hasBroker: Bool, list: RevocationList?, at now: Instant) {
        self.gateways = gateways
        self.hasBroker = hasBroker
        self.list = list
        self.now = now
    }

    package var document: JSONValue {
        .object([
            "gateways": .array(
                gateways.map { gateway in
                    .object([
                        "gateway": .string(gateway.id), "state": .string(state(gateway)),
                        "serial": .optional(gateway.serial), "not_after": .optional(gateway.until?.description),
                        "token_until": .optional(gateway.tokenUntil?.description),
                        "revoked": .optional(gateway.revoked?.description), "broker": .string(broker(gateway)),
                        "broker_error": .optional(gateway.brokerError),
                    ])
                }), "revocation_list_until": .optional(list?.expires.description),
        ])
    }

    package var lines: [String] {
        gateways.map { gateway in
            var line = "\(gateway.id)  \(state(gateway))"
            switch state(gateway) {
            case "revoked":
                line += gateway.revoked.map { " at \($0)" } ?? ""
                if let end = gateway.until, end > now { line += ", certificate until \(end)" }
            case "enrolled", "expired": line += gateway.until.map { ", certificate until \($0)" } ?? ""
            default: break
            }
            if let end = gateway.tokenUntil { line += ", token until \(end)" }
            if hasBroker { line += ", broker: \(broker(gateway))" }
            if let error = gateway.brokerError { line += " (\(error))" }
            return line
        }
    }

    private func state(_ gateway: AuthorityStore.Gateway) -> String {
        if gateway.revoked != nil { return "revoked" }
        guard let until = gateway.until else { return gateway.tokenUntil == nil ? "not_enrolled" : "invited" }
        return until > now ? "enrolled" : "expired"
    }

    private func broker(_ gateway: AuthorityStore.Gateway) -> String {
        guard hasBroker else { return "none" }
        guard gateway.isSettledAtBroker else { return "pending" }
        return gateway.isWantedAtBroker ? "present" : "absent"
    }
}
