import FleetDocuments
import FleetStore
import HealthReadings

/// The gateways as the command line lists them.
package struct GatewayList: Sendable {
    private let gateways: [GatewayRecord]
    private let metrics: CollectorMetrics

    package init(_ gateways: [GatewayRecord], metrics: CollectorMetrics) {
        self.gateways = gateways
        self.metrics = metrics
    }

    /// `{"gateways":[…]}`, every key always there.
    package var document: JSONValue {
        .object([
            "gateways": .array(
                gateways.map { gateway in
                    .object([
                        "gateway": .string(gateway.gateway), "last_heard": .optional(gateway.heard?.description),
                        "silent": .bool(metrics.isSilent(gateway)), "version": .optional(gateway.version),
                        "backlog": .optional(gateway.backlog),
                        "oldest_waiting": .optional(gateway.oldest?.description),
                        "stored": .integer(gateway.stored), "highest_batch": .optional(gateway.highestBatch),
                        "wanted_configuration": .optional(gateway.wantedVersion),
                        "configuration": gateway.configuration.map { .written(Array($0.utf8)) } ?? .null,
                        "status": gateway.status.map { .written(Array($0.utf8)) } ?? .null,
                    ])
                })
        ])
    }

    /// A table for people.
    package var lines: [String] {
        guard !gateways.isEmpty else { return ["no gateway yet; `healthrelay-collector token GATEWAY` lets one in"] }
        let rows =
            [["GATEWAY", "LAST HEARD", "VERSION", "STORED", "BACKLOG", "SETTINGS"]]
            + gateways.map { gateway in
                [
                    gateway.gateway,
                    (gateway.heard?.flooredToSecond.description ?? "never")
                        + (metrics.isSilent(gateway) ? " (silent)" : ""),
                    gateway.version ?? "-", String(gateway.stored), gateway.backlog.map { String($0) } ?? "-",
                    settings(of: gateway),
                ]
            }
        let widths = (0..<6).map { column in rows.map { $0[column].count }.max() ?? 0 }
        return rows.map { row in
            let padded = zip(row, widths).map { $0 + String(repeating: " ", count: $1 - $0.count) }
            return String(padded.joined(separator: "  ").reversed().drop { $0 == " " }.reversed())
        }
    }

    /// What the gateway says of the settings that it shall have; `nil` if it hasn't heard of them.
    private func said(_ gateway: GatewayRecord) -> FleetConfigurationState? {
        let state = gateway.configuration.flatMap { try? FleetConfigurationState(Array($0.utf8)) }
        return state.flatMap { $0.version == gateway.wantedVersion && $0.state != .none ? $0 : nil }
    }

    /// `applied`, `refused`, `rolled_back` or `waiting`; `nil` if nobody has set anything.
    func state(of gateway: GatewayRecord) -> String? {
        gateway.wantedVersion.map { _ in said(gateway)?.state.rawValue ?? "waiting" }
    }

    /// What became of the settings that a gateway shall have, for people.
    func settings(of gateway: GatewayRecord) -> String {
        guard let wanted = gateway.wantedVersion else { return "-" }
        guard let state = said(gateway) else { return "\(wanted) waits for the gateway" }
        switch state.state {
        case .none, .applied: return "\(wanted) applied"
        case .rolledBack: return "\(wanted) rolled back: \(state.reason ?? "no reason given")"
        case .refused:
            return "\(wanted) refused: " + state.refused.map { "\($0.key): \($0.reason)" }.joined(separator: "; ")
        }
    }
}
