import MQTTLink
import ReadingDelivery
import ReadingStore

/// A connection to a broker with what belongs to it.
protocol BrokerLink: AnyObject {
    var connection: MQTTConnection { get }
    /// Whether the broker says that the gateway is gone when the connection is lost.
    var hasWill: Bool { get }
}

/// A destination behind a broker: one connection at a time, kept while the destination runs, opened for a delivery otherwise.
protocol BrokerDestination: Actor, Destination {
    associatedtype Link: BrokerLink

    var store: ReadingStore { get }
    /// Whether the connection is kept between deliveries: only then does the gateway count as being there.
    var isKept: Bool { get set }
    var link: Link? { get set }
    /// The attempt that is under way.
    var opening: Task<DeliveryFailure?, Never>? { get set }

    /// Opens ``link`` and makes it ready; a former one is closed.
    func open() async throws
}

extension BrokerDestination {
    /// The store's number of this destination.
    func key() async throws -> DestinationKey { try await store.key(ofDestination: name) }

    /// Whether the destination is switched off or has moved: it is not even connected to then.
    func isHeld() async throws -> Bool { try await store.standingHold(at: try await key()) != nil }

    /// The connection, opened and made ready if there is none. Whoever asks meanwhile waits for the same attempt.
    func linked() async throws(DeliveryFailure) -> Link {
        // While it is made ready it is open already, and not known yet what the broker keeps.
        if opening == nil, let link, link.connection.isOpen, link.hasWill == isKept { return link }
        let task: Task<DeliveryFailure?, Never>
        if let opening {
            task = opening
        } else {
            task = Task { await self.attempt() }
            opening = task
        }
        let failure = await task.value
        if opening == task { opening = nil }
        if let failure { throw failure }
        guard let link else { throw DeliveryFailure(.lost) }
        return link
    }

    /// Opens ``link``.
    ///
    /// - Returns: why that failed.
    private func attempt() async -> DeliveryFailure? {
        do {
            try await open()
            guard let connection = link?.connection else { return DeliveryFailure(.lost) }
            return connection.isOpen ? nil : DeliveryFailure(await connection.ended())
        } catch let error as MQTTError {
            link = nil
            return DeliveryFailure(error)
        } catch {
            link = nil
            return DeliveryFailure(error)
        }
    }

    /// Keeps the connection until it is lost, a piece of work beside it ends, or the task is cancelled.
    ///
    /// - Parameters:
    ///   - context: is told once the connection is there.
    ///   - work: what is done beside it.
    ///   - lost: called when the connection that was kept is still ``link``.
    /// - Throws: a `DeliveryFailure` unless the task is cancelled.
    func keep(
        _ context: DestinationContext, beside work: [@Sendable () async -> Void], lost: () -> Void = {}
    ) async throws {
        isKept = true
        while try await isHeld() { try await Task.sleep(for: .seconds(5)) }
        let connection = try await linked().connection
        context.wake()
        let ending = await withTaskGroup(of: MQTTError?.self) { group in
            group.addTask { await connection.ended() }
            for each in work {
                group.addTask {
                    await each()
                    return nil
                }
            }
            let first = await group.next() ?? nil
            group.cancelAll()
            return first
        }
        // A delivery may have opened the next one meanwhile.
        if link?.connection === connection {
            link = nil
            lost()
        }
        // Whoever waits for a gateway learns at once that it is gone.
        await connection.close(publishesWill: true)
        if Task.isCancelled {
            isKept = false
            return
        }
        throw DeliveryFailure(ending ?? .lost)
    }
}
