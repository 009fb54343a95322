import GATTClient
import HealthReadings
import Logging

/// Follows devices for one of the radio's streams: while it runs it listens, and it ends by naming why it cannot.
struct DeviceStream {
    let context: RadioContext
    /// Nil for every device.
    let addresses: Set<DeviceAddress>?

    /// Follows devices with discovery until the task is cancelled.
    ///
    /// - Parameter take: what happened, and for how long discovery has run by then; false ends it.
    /// - Throws: ``RadioError``.
    func listen(_ take: ([DeviceWatch.Change], Duration) async throws -> Bool) async throws {
        let discovery = context.discovery
        let usable = try await discovery.begin()
        do {
            try await follow(usable, take)
        } catch {
            await discovery.end()
            throw error
        }
        await discovery.end()
    }

    /// Follows devices without discovery until the task is cancelled.
    func follow(
        _ usable: ServiceLink.UsableAdapter, _ take: ([DeviceWatch.Change], Duration) async throws -> Bool
    ) async throws {
        do {
            try await watch(usable, take)
        } catch RadioError.noService {
            // There was one.
            throw RadioError.lost
        }
    }

    private func watch(
        _ usable: ServiceLink.UsableAdapter, _ take: ([DeviceWatch.Change], Duration) async throws -> Bool
    ) async throws {
        let (link, discovery) = (context.link, context.discovery)
        let watch = DeviceWatch(usable, addresses: addresses, context)
        var bondChanges = context.bondChanges
        // Before the first look, so that nothing falls between.
        let changes = await link.changes()
        let sentry = Task { [watch = watch.interruption] in
            for await _ in changes {
                await discovery.check()
                watch()
            }
        }
        defer { sentry.cancel() }
        guard try await take(watch.begin(), discovery.listeningTime) else { return }
        while true {
            try Task.checkCancellation()
            let changes = try await watch.next()
            if changes.isEmpty {
                if let fault = await link.fault(of: usable) { throw fault }
                if context.bondChanges != bondChanges {
                    bondChanges = context.bondChanges
                    guard try await take(watch.reload(), discovery.listeningTime) else { return }
                }
                continue
            }
            guard try await take(changes, discovery.listeningTime) else { return }
        }
    }
}
