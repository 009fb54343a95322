import HealthReadings
import ReadingDelivery
import ReadingStore
import VitalDestination

/// `source`: the current user's connected sources at the server.
struct SourceRunner {
    let gateway: Gateway
    let json: Bool
    let output: any OperationOutput

    func run(_ operation: SourceOperation) async throws {
        let keeper = try await gateway.destinations.requireSources()
        let user = try await gateway.store.currentUser()
        switch operation {
        case .list: break
        case .connect(let provider):
            let user = try await gateway.requireNamedUser()
            try await keeper.connect(provider, for: user)
        case .link(let provider, let wait):
            try await LinkRunner(gateway: gateway, json: json, output: output).run(provider, wait: wait)
            return gateway.destinations.wake()
        case .revoke(let provider): try await keeper.revoke(provider, of: user)
        }
        gateway.destinations.wake()
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
    package var document: JSONValue {
        .object([
            "provider": .string(provider), "status": .string(status.rawValue),
            "connected_at": .optional(connectedAt?.flooredToSecond.description),
            "checked_at": .optional(checkedAt?.flooredToSecond.description), "held": .optional(hold?.rawValue),
        ])
    }
}
