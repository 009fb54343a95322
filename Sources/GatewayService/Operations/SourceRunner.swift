import HealthReadings
import ReadingDelivery
import ReadingStore
import VitalDestination

extension Gateway {
    func run(_ operation: SourceOperation, json: Bool, output: any OperationOutput) async throws {
        let keeper = try requireSources()
        let user = try await store.currentUser()
        switch operation {
        case .list: break
        case .connect(let provider):
            let user = try await requireNamedUser()
            try await keeper.connect(provider, for: user)
        case .link(let provider, let wait):
            try await link(provider, wait: wait, json: json, output)
            return wakeWorkers()
        case .revoke(let provider): try await keeper.revoke(provider, of: user)
        }
        wakeWorkers()
        let sources = try await keeper.sources(of: user)
        guard !json else {
            return try await output.data(JSONValue.object(["sources": .array(sources.map(\.document))]).text)
        }
        for source in sources {
            let hold = source.hold.map { "; readings wait: \($0.words)" } ?? ""
            try await output.data("\(source.provider): \(source.status.rawValue)\(hold)")
        }
        if sources.isEmpty { try await output.note("no sources yet; the first delivery connects one") }
    }
}

extension ConnectedSource {
    var document: JSONValue {
        .object([
            "provider": .string(provider), "status": .string(status.rawValue),
            "connected_at": .optional(connectedAt?.flooredToSecond.description),
            "checked_at": .optional(checkedAt?.flooredToSecond.description), "held": .optional(hold?.rawValue),
        ])
    }
}
