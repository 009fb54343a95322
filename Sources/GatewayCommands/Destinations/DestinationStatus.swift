import GatewaySettings
import HealthDevices
import HealthReadings
import Logging
import ReadingDelivery
import ReadingStore
import VitalClient
import VitalDestination

/// How delivery to one destination stands.
package struct DestinationStatus: Sendable {
    package var name: String
    package var kind: String
    /// Where it is; `nil` if nothing says so.
    package var address: String?
    package var isEnabled: Bool
    package var isManual: Bool
    /// Why it is paused until its settings are another; `nil` if they can be used.
    package var refusal: Problem?
    /// Whether its address has changed and nobody has accepted the new one.
    package var isMoved: Bool
    package var waiting: [OutboxGroup]
    /// Readings that were handed over and have no receipt yet: a broker has them, and nobody has said that they are stored.
    package var handedOver: Int
    package var delivered: Int
    /// The newest of what it refused; none while the store is locked.
    package var refused: [RefusedReading]
    package var refusedCount: Int
    /// Readings that it is asked to take back.
    package var retracting: Int
    /// Readings that it has, that do not count any more here, and that it cannot take back.
    package var leftBehindCount: Int
    /// The newest of these that are still stored; none while the store is locked.
    package var leftBehind: [Reading]
    /// Kinds of readings that stay here, with how many there are and why.
    package var notDelivered: [(kind: ReadingKind, count: Int, reason: String)]
    package var lastSuccess: Instant?
    /// What failed last; `nil` if nothing has since it last took something.
    package var failure: DeliveryFailure?
    /// What is wrong there although readings are delivered.
    package var warnings: [String] = []
    /// When the next attempt follows; `nil` if nothing failed, or if no process waits for it.
    package var nextAttempt: Instant?

    /// Why nothing is delivered until a person does something.
    package var paused: String? {
        refusal?.message
            ?? (isMoved
                ? "its address has changed; `healthrelay destination accept \(name)` delivers to the new one" : nil)
    }

    /// `{name, kind, enabled, waiting, handed_over, delivered, refused, retracting, left_behind, not_delivered, last_success,
    /// next_attempt, failure, warnings}`.
    package var document: JSONValue {
        .object([
            "name": .string(name), "kind": .string(kind), "enabled": .bool(isEnabled),
            "waiting": .array(waiting.map(\.document)), "handed_over": .integer(Int64(handedOver)),
            "delivered": .integer(Int64(delivered)),
            "refused": .array(
                refused.map { .object(["id": .string($0.id.description), "server_said": .string($0.serverSaid)]) }),
            "retracting": .integer(Int64(retracting)),
            "left_behind": .object([
                "count": .integer(Int64(leftBehindCount)),
                "readings": .array(
                    leftBehind.map {
                        .object(["id": .string($0.id.description), "excluded": .optional($0.excluded?.rawValue)])
                    }),
            ]),
            "not_delivered": .array(
                notDelivered.map {
                    .object([
                        "kind": .string($0.kind.rawValue), "count": .integer(Int64($0.count)),
                        "reason": .string($0.reason),
                    ])
                }),
            "last_success": .optional(lastSuccess?.flooredToSecond.description),
            "next_attempt": .optional(nextAttempt?.flooredToSecond.description),
            "failure": failure.map {
                .object(["code": .string($0.code), "message": .string($0.message)])
            } ?? .null,
            "warnings": .array(warnings.map(JSONValue.string)),
        ])
    }

    /// The status for people.
    package var lines: [String] {
        var lines = ["\(name) (\(kind))" + (address.map { ": \($0)" } ?? "") + (isEnabled ? "" : ", switched off")]
        if let paused { lines.append("  delivery is paused: \(paused)") }
        for group in waiting {
            let reason = group.heldWords.map { ", held: \($0)" } ?? ""
            lines.append(
                "  \(group.count) \(group.resource.rawValue) for \(group.provider) wait since \(group.oldest)\(reason)")
        }
        if waiting.isEmpty { lines.append("  nothing waits") }
        if handedOver > 0 { lines.append("  \(handedOver) handed over, without a receipt yet") }
        if let failure {
            let waits = failure.isRetryable ? "the last attempt failed" : "delivery waits for a person"
            let next = nextAttempt.map { "; next attempt at \($0.flooredToSecond)" } ?? ""
            lines.append("  \(waits): \(failure.message)\(next)")
        }
        lines += warnings.map { "  warning: \($0)" }
        let said = kind == DestinationKind.vital.name ? "the server said: " : ""
        lines += refused.map { "  refused: \($0.id): \(said)\($0.serverSaid)" }
        if retracting > 0 { lines.append("  \(retracting) to be taken back with the next delivery") }
        if leftBehindCount > 0 {
            lines.append("  \(leftBehindCount) that were excluded, replaced or erased here, and cannot be taken back")
        }
        lines += leftBehind.map { "  still there: \($0.id)" + ($0.excluded.map { ": \($0.rawValue)" } ?? "") }
        lines += notDelivered.filter { $0.count > 0 }.map { "  \($0.count) \($0.kind.rawValue): \($0.reason)" }
        let last = lastSuccess.map { ", last at \($0.flooredToSecond)" } ?? ""
        return lines + ["  delivered: \(delivered)\(last)"]
    }
}

extension OutboxGroup {
    /// `{provider, kind, count, oldest, held}`.
    fileprivate var document: JSONValue {
        .object([
            "provider": .string(provider), "kind": .string(resource.rawValue), "count": .integer(Int64(count)),
            "oldest": .string(oldest.flooredToSecond.description), "held": .optional(held?.rawValue),
        ])
    }
}
