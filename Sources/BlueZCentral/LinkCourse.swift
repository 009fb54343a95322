import GATTClient
import HealthReadings
import LibDBus
import Logging

/// How a link is made: asked for, asked for again where the failure is one that passes, and waited for until the
/// services are resolved; given up after a bounded time, with nothing left half-made.
struct LinkCourse {
    /// Links that came and went before anything could be asked over them, until a bonded device counts as having lost
    /// its key: BlueZ up to 5.82 does not say why they went. One that may have been out of reach does not count.
    static let lossesToForget = 3
    /// Links that a bonded device may lose so that nobody knows whether it has lost its key, until it is left alone. Others
    /// wait for their turn to be connected meanwhile.
    static let lossesToLeave = 3

    private static let leftAtOnce = "the device disconnected at once"

    let context: RadioContext
    let usable: ServiceLink.UsableAdapter
    let wire: PeripheralWire
    let address: DeviceAddress

    private var limits: RadioLimits { context.limits }

    /// - Returns: the moment of the connection, and the device as it then is.
    func run() async throws -> (Instant, DeviceObject) {
        let deadline = ContinuousClock.now + limits.connectAltogether
        var pause = limits.pause
        var (losses, unexplained) = (0, 0)
        while true {
            try Task.checkCancellation()
            guard let properties = try await wire.look() else {
                throw RadioError.notConnected(address, "the service has forgotten it")
            }
            let device = DeviceObject(path: wire.path, properties, logger: context.logger)
            let connections = wire.link.connections
            var why: String
            var isCancelled = false
            do {
                if !wire.link.isConnected { try await ask() }
                why = try await resolve()
                if why.isEmpty {
                    let connectedAt = wire.link.connectedAt ?? .systemClock
                    let connected = try await describe(device)
                    // Links that came and went before this one are not to be taken for its end.
                    _ = wire.subscription.drain()
                    if wire.link.isConnected { return (connectedAt, connected) }
                    why = Self.leftAtOnce
                }
            } catch let error as DBusError {
                why = try await judge(error, device)
                isCancelled = RemoteError(error)?.isCancelled ?? false
            } catch {
                await abandon()
                throw error
            }
            if device.isBonded {
                let link = wire.link
                if link.connections != connections, !(link.reason?.hasSuffix(".Timeout") ?? false) {
                    // The kernel has no reason for a link over which nothing was heard.
                    if isCancelled, link.reason?.hasSuffix(".Unknown") ?? true { unexplained += 1 } else { losses += 1 }
                }
                if isAuthenticationLost || losses == Self.lossesToForget { throw await forgotten() }
            }
            guard unexplained < Self.lossesToLeave, ContinuousClock.now + pause < deadline else {
                await abandon()
                throw RadioError.notConnected(address, why)
            }
            context.logger.debug("connecting once more", metadata: ["error": "\(why)"])
            try await Task.sleep(for: pause)
            pause = min(pause * 2, .seconds(5))
        }
    }

    private func ask() async throws {
        do {
            _ = try await wire.service.connection.call(
                BlueZName.service, wire.path, BlueZName.device, "Connect", timeout: limits.connect)
        } catch {
            if RemoteError(error)?.name == "org.bluez.Error.AlreadyConnected" { return }
            throw error
        }
    }

    /// Waits for the services.
    ///
    /// - Returns: nothing when they are resolved, else why not yet.
    private func resolve() async throws -> String {
        let deadline = ContinuousClock.now + limits.resolve
        while true {
            let link = wire.link
            if !link.isConnected { return Self.leftAtOnce }
            if link.areServicesResolved { return "" }
            switch await wire.subscription.next(within: ContinuousClock.now.duration(to: deadline)) {
            case .signals(let signals):
                for case .lost in signals { throw RadioError.lost }
            case .interrupted: continue
            case .silence: throw RadioError.notConnected(address, "its services were not resolved in time")
            case .ended: throw RadioError.lost
            case .cancelled: throw CancellationError()
            }
        }
    }

    /// What follows from an attempt that failed.
    ///
    /// - Returns: why, where another attempt is worth making.
    private func judge(_ error: DBusError, _ device: DeviceObject) async throws -> String {
        guard let remote = RemoteError(error) else {
            await abandon()
            if case .timedOut = error { throw RadioError.notConnected(address, "no answer in time") }
            throw error.radioError
        }
        if device.isBonded, remote.isKeyMissing { throw await forgotten() }
        if remote.isVanished { throw RadioError.notConnected(address, "the service has forgotten it") }
        if let fault = await context.link.fault(of: usable) { throw fault }
        if remote.isNotReady { throw RadioError.poweredOff(usable.adapter.name) }
        if remote.isLost || remote.isDenied || remote.isWithoutService { throw error.radioError }
        guard remote.isPassing else {
            throw RadioError.notConnected(address, remote.message.isEmpty ? remote.name : remote.message)
        }
        // The daemon answers before it tells that the link has gone, and why. What is in progress may make one that stays.
        if !remote.isInProgress { await wire.awaitEnd(within: limits.farewell) }
        return remote.message
    }

    private var isAuthenticationLost: Bool { wire.link.reason?.hasSuffix(".Authentication") ?? false }

    /// The device after its services were resolved: bonded by then, or known by its identity address.
    private func describe(_ before: DeviceObject) async throws -> DeviceObject {
        guard let properties = try await wire.look() else { return before }
        return DeviceObject(path: wire.path, properties, logger: context.logger)
    }

    /// Ends the daemon's own attempts as well: they would fail like ours, until the device's battery is empty.
    private func forgotten() async -> RadioError {
        await shieldedFromCancellation { [wire, limits] in await wire.endReconnecting(limits) }
        return .forgottenByDevice(address)
    }

    /// Ends an attempt that may still be under way.
    private func abandon() async {
        let (service, path, limit) = (wire.service, wire.path, limits.disconnect)
        await shieldedFromCancellation {
            _ = try? await service.connection.call(
                BlueZName.service, path, BlueZName.device, "Disconnect", timeout: limit)
        }
    }
}
