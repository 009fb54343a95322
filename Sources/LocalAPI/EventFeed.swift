import GATTClient
import GatewayCommands
import HealthDevices
import HealthReadings
import ReadingDelivery
import ReadingStore
import ServiceLifecycle

/// Brings what happens in the store and in delivery to the streams of events.
package struct EventFeed: Service {
    let hub: APIEventHub
    let store: ReadingStore
    let workers: [OutboxWorker]

    package init(hub: APIEventHub, store: ReadingStore, workers: [OutboxWorker]) {
        self.hub = hub
        self.store = store
        self.workers = workers
    }

    package func run() async throws {
        let readings = store.committedReadings()
        let deliveries = workers.map { ($0.destination.name, $0.events()) }
        await cancelWhenGracefulShutdown {
            await withTaskGroup(of: Void.self) { group in
                group.addTask {
                    for await batch in readings { await post(batch) }
                }
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

    private func post(_ batch: [Reading]) async {
        var batch = batch
        let erasures = store.erasures
        if batch.isEmpty || erasures != hub.erasures {
            // Some of a batch may have been erased since it was committed.
            var present: [Reading] = []
            for reading in batch where (try? await store.reading(reading.id)) ?? nil != nil { present.append(reading) }
            batch = present
            hub.forget(erasures: erasures)
            hub.post("erased", .object([:]))
        }
        // Without an owner only the household's clients get it.
        let owners = (try? await store.owners(of: batch.map(\.id))) ?? [:]
        for reading in batch {
            let withheld = reading.withholdingWeight
            hub.post(
                "reading", kind: reading.kind, to: owners[reading.id].map(APIEventHub.Recipient.person) ?? .household,
                reading.document, withoutWeight: withheld == reading ? nil : withheld.document)
        }
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
