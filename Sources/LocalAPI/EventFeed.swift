import GATTClient
import GatewayCommands
import HealthDevices
import HealthReadings
import ReadingDelivery
import ReadingStore
import ServiceLifecycle

/// Brings what happens in the store and in delivery to the streams of events.
package struct EventFeed: Service {
    /// How many changes are read from the store at a time.
    private static let atOnce = 128

    let hub: APIEventHub
    let store: ReadingStore
    let workers: [OutboxWorker]
    let manager: DevicesManager?

    /// - Parameter manager: whose faults are told of; `nil`: nobody's.
    package init(hub: APIEventHub, store: ReadingStore, workers: [OutboxWorker], manager: DevicesManager? = nil) {
        self.hub = hub
        self.store = store
        self.workers = workers
        self.manager = manager
    }

    package func run() async throws {
        let changes = store.changeRings()
        let deliveries = workers.map { ($0.destination.name, $0.events()) }
        await cancelWhenGracefulShutdown {
            await withTaskGroup(of: Void.self) { group in
                group.addTask {
                    // What cannot be read now is read at the next change; streams read the store until then.
                    for await _ in changes { try? await post() }
                }
                if let faults = manager?.faults() { group.addTask { for await fault in faults { hub.post(fault) } } }
                for (destination, events) in deliveries {
                    group.addTask {
                        for await event in events {
                            if let document = event.document(of: destination) { hub.post("sync", document) }
                        }
                    }
                }
                await group.waitForAll()
            }
        }
        hub.finish()
    }

    private func post() async throws {
        let erasures = store.erasures
        if erasures != hub.erasures { hub.forget(erasures: erasures) }
        // Nobody would take it from the ring. A stream that begins reads the store first.
        guard hub.hasListeners, var end = hub.changesEnd else { return hub.resume(at: try await store.newestChange()) }
        var scope = ChangeScope.everything
        scope.includesDepartures = true
        while let page = try await store.changePage(after: end, of: scope, limit: Self.atOnce) {
            hub.post(page.changes.map { ($0.position.number, $0.content) }, upTo: page.position)
            guard !page.isLast else { return }
            end = page.position
        }
    }
}

extension ReadingChange {
    /// The change as clients get it.
    var content: APIEventHub.Content {
        let updated = JSONValue.Member("last_updated", .string(lastUpdated.description))
        let recipient = owner.map(APIEventHub.Recipient.person) ?? .household
        switch event {
        case .added(let reading), .revised(let reading):
            let more = [updated, .init("revision", .integer(Int64(revision)))]
            let withheld = reading.withholdingWeight
            return .init(
                "reading", kind: reading.kind, to: recipient, reading.document(with: more),
                withoutWeight: withheld == reading ? nil : withheld.document(with: more))
        case .left(let id, let kind):
            return .init(
                "left", kind: kind, to: owner.map(APIEventHub.Recipient.former) ?? .household,
                .object([.init("id", .string(id.description)), .init("kind", .string(kind.rawValue)), updated]))
        case .pruned: return .init("pruned", to: recipient, .object([updated]))
        case .erased: return .init("erased", to: .household, .object([updated]))
        case .unreadable: return .init("unreadable", to: recipient, .object([updated]))
        }
    }
}

extension Reading {
    /// The document with more members behind its own.
    fileprivate func document(with more: [JSONValue.Member]) -> JSONValue {
        guard case .object(let members) = document else { return document }
        return .object(members + more)
    }
}

extension APIEventHub {
    /// Tells of meters coming and going.
    package func post(_ event: ScheduleEvent) {
        switch event {
        case .transfer(let address, .began): post(address, isConnected: true, error: nil)
        case .transfer(let address, .ended(let summary)): post(address, isConnected: false, error: summary.error)
        case .failed(let address, let failure, _): post(address, isConnected: false, error: failure.code)
        case .adapter, .appeared, .transfer: break
        }
    }

    private func post(_ address: DeviceAddress, isConnected: Bool, error: String?) {
        post(
            "connection", to: .device(address),
            .object([
                "address": .string(address.description), "connected": .bool(isConnected),
                "at": .string(Instant.systemClock.flooredToSecond.description), "error": .optional(error),
            ]))
    }
}
