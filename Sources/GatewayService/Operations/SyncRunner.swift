import HealthReadings
import ReadingStore
import ReadingSync

extension Gateway {
    func run(_ operation: SyncOperation, json: Bool, output: any OperationOutput) async throws {
        switch operation {
        case .enable, .disable:
            try await store.setSyncEnabled(operation == .enable)
            if operation == .enable { worker?.wake() }
            try await status(json: json, output)
        case .status: try await status(json: json, output)
        case .now:
            try await requireWorker().syncOnce()
            try await status(json: json, output)
        case .watch:
            for await event in try requireWorker().events() {
                try await output.data(json ? event.document.text : event.line)
            }
        }
    }

    private func status(json: Bool, _ output: any OperationOutput) async throws {
        let waiting = try await store.groupsWaiting()
        let refused = try await store.refused()
        let delivered = try await store.deliveredCount()
        let last = try await store.lastDelivery()
        let next = worker?.nextAttempt
        guard !json else {
            return try await output.data(
                JSONValue.object([
                    "waiting": .array(
                        waiting.map { group in
                            .object([
                                "provider": .string(group.provider), "kind": .string(group.resource.rawValue),
                                "count": .integer(Int64(group.count)),
                                "oldest": .string(group.oldest.flooredToSecond.description),
                                "held": .optional(group.held?.rawValue),
                            ])
                        }),
                    "delivered": .integer(Int64(delivered)),
                    "refused": .array(
                        refused.map {
                            .object(["id": .string($0.id.description), "server_said": .string($0.serverSaid)])
                        }),
                    "last_success": .optional(last?.flooredToSecond.description),
                    "next_attempt": .optional(next?.flooredToSecond.description),
                ]).text)
        }
        for group in waiting {
            let reason = group.held.map { ", held: \($0.words)" } ?? ""
            try await output.data(
                "\(group.count) \(group.resource.rawValue) for \(group.provider) wait since \(group.oldest)\(reason)")
        }
        if waiting.isEmpty { try await output.data("nothing waits") }
        for reading in refused { try await output.data("refused: \(reading.id): the server said: \(reading.serverSaid)") }
        try await output.data("delivered: \(delivered)" + (last.map { ", last at \($0.flooredToSecond)" } ?? ""))
    }
}
