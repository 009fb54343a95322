import GATTClient
import HealthReadings
import LibDBus
import Logging

/// How a device is paired: an agent for as long as it takes, `Pair`, trust; and nothing half-bonded where it fails.
struct PairingCourse {
    let context: RadioContext
    let usable: ServiceLink.UsableAdapter
    let device: DeviceObject
    let address: DeviceAddress
    let agent: AgentObject
    let wire: PeripheralWire

    private var service: ServiceLink.Service { usable.service }

    init(
        _ context: RadioContext, _ usable: ServiceLink.UsableAdapter, _ device: DeviceObject, _ address: DeviceAddress,
        agent: any PairingAgent
    ) {
        self.context = context
        self.usable = usable
        self.device = device
        self.address = address
        wire = PeripheralWire(usable.service, path: device.path)
        self.agent = AgentObject(
            agent, for: device.advertisement(at: .systemClock), at: device.path, serviceOwner: usable.service.owner,
            limit: context.limits.person, logger: context.logger)
    }

    /// - Throws: ``RadioError``, `CancellationError`.
    func run() async throws -> Bond {
        do throws(DBusError) { try await wire.open() } catch { throw error.radioError }
        defer { wire.subscription.close() }
        do {
            try await registerAgent()
            try await pairWithRetries()
            let bond = try await confirm()
            await unregisterAgent()
            await context.noteBondChange()
            return bond
        } catch {
            await shieldedFromCancellation {
                await unregisterAgent()
                await cleanUp()
                await context.noteBondChange()
            }
            throw error
        }
    }

    // MARK: Pairing

    private func pairWithRetries() async throws {
        let deadline = ContinuousClock.now + context.limits.connectAltogether
        var pause = context.limits.pause
        while true {
            do {
                return try await pair()
            } catch let error as DBusError {
                try Task.checkCancellation()
                guard let remote = RemoteError(error), isWorthAnother(remote), ContinuousClock.now + pause < deadline
                else { throw await meaning(of: error) }
                context.logger.debug("pairing once more", metadata: ["error": "\(remote.name)"])
            }
            try await Task.sleep(for: pause)
            pause = min(pause * 2, .seconds(5))
        }
    }

    /// Calls `Pair`; other links may be made as soon as this one is there, for people take their time.
    private func pair() async throws {
        try await context.connecting.begin()
        await context.discovery.hold()
        let (connecting, discovery) = (context.connecting, context.discovery)
        let release = Once {
            connecting.end()
            Task { await discovery.release() }
        }
        defer { release.run() }
        let watcher = Task { [wire] in
            while !wire.link.isConnected {
                switch await wire.subscription.next() {
                case .signals, .interrupted: continue
                case .silence, .ended, .cancelled: return
                }
            }
            release.run()
        }
        defer { watcher.cancel() }
        _ = try await service.connection.call(
            BlueZName.service, device.path, BlueZName.device, "Pair", timeout: context.limits.pair)
    }

    /// Whether the attempt failed before the device was asked anything.
    private func isWorthAnother(_ remote: RemoteError) -> Bool {
        if agent.course.wasAsked { return false }
        return remote.isInProgress || remote.name == "org.bluez.Error.ConnectionAttemptFailed"
            || (remote.name == "org.bluez.Error.Failed" && remote.isPassing)
    }

    private func meaning(of error: DBusError) async -> any Error {
        let course = agent.course
        if case .timedOut = error { return RadioError.pairing(.timedOut) }
        guard let remote = RemoteError(error) else { return error.radioError }
        if remote.isLost || remote.isDenied || remote.isWithoutService { return error.radioError }
        if course.wasRejected { return RadioError.pairing(.rejectedHere) }
        if course.ranOutOfTime { return RadioError.pairing(.timedOut) }
        switch remote.name {
        case "org.bluez.Error.AuthenticationFailed":
            return RadioError.pairing(course.usedPasskey ? .wrongPasskey : .rejectedByDevice)
        case "org.bluez.Error.AuthenticationRejected": return RadioError.pairing(.rejectedByDevice)
        case "org.bluez.Error.AuthenticationCanceled": return RadioError.pairing(.disconnected)
        case "org.bluez.Error.AuthenticationTimeout": return RadioError.pairing(.timedOut)
        case "org.bluez.Error.ConnectionAttemptFailed": return RadioError.notConnected(address, remote.message)
        default: break
        }
        if remote.isVanished { return RadioError.notConnected(address, "the service has forgotten it") }
        if let fault = await context.link.fault(of: usable) { return fault }
        if remote.isNotReady { return RadioError.poweredOff(usable.adapter.name) }
        if remote.isPassing { return RadioError.notConnected(address, remote.message) }
        return error.radioError
    }

    // MARK: Afterwards

    /// The bond as it is kept, with the identity address, trusted.
    private func confirm() async throws -> Bond {
        guard var bonded = try await lookForBond() else { throw RadioError.pairing(.rejectedByDevice) }
        do {
            guard try await agent.allowsUnasked() else { throw RadioError.pairing(.rejectedHere) }
        } catch let error as DBusError {
            guard RemoteError(error)?.name == "org.bluez.Error.Canceled" else {
                throw RadioError.pairing(.rejectedHere)
            }
            try Task.checkCancellation()
            throw RadioError.pairing(.timedOut)
        }
        do {
            _ = try await service.connection.call(
                BlueZName.service, device.path, BlueZName.properties, "Set",
                [.string(BlueZName.device), .string("Trusted"), .variant(.bool(true))])
            bonded.isTrusted = true
        } catch {
            context.logger.warning("the device could not be trusted", metadata: ["error": "\(error)"])
        }
        guard let bond = bonded.bond else { throw RadioError.pairing(.rejectedByDevice) }
        return bond
    }

    /// Looks until there is a bond, and an address that does not change; the address is told in place.
    private func lookForBond() async throws -> DeviceObject? {
        let deadline = ContinuousClock.now + context.limits.identity
        var found: DeviceObject?
        repeat {
            guard let properties = try await wire.look() else { return nil }
            let now = DeviceObject(path: device.path, properties, logger: context.logger)
            if now.isBonded {
                found = now
                if !(now.address?.isResolvablePrivate ?? true) { return now }
            }
            try await Task.sleep(for: .milliseconds(100))
        } while ContinuousClock.now < deadline
        return found
    }

    /// Ends what is under way and leaves nothing half-bonded: the next pairing begins as the first.
    private func cleanUp() async {
        let connection = service.connection
        _ = try? await connection.call(
            BlueZName.service, device.path, BlueZName.device, "CancelPairing", timeout: .seconds(5))
        guard let properties = try? await wire.look() else { return }
        let now = DeviceObject(path: device.path, properties, logger: context.logger)
        if now.isBonded, agent.course.wasAsked, !agent.course.wasRejected { return }
        _ = try? await connection.call(
            BlueZName.service, usable.adapter.path, BlueZName.adapter, "RemoveDevice", [.objectPath(device.path)],
            timeout: .seconds(10))
    }

    // MARK: The agent

    private func registerAgent() async throws {
        let connection = service.connection
        let agent = agent
        do {
            try await connection.export(AgentObject.path, interface: BlueZName.agent, methods: AgentObject.methods) {
                try await agent.answer($0)
            }
            do {
                try await callAgentManager("RegisterAgent", [.string("KeyboardDisplay")])
            } catch  where RemoteError(error)?.name == "org.bluez.Error.AlreadyExists" {
                // One of ours whose end the daemon has not heard.
                try await callAgentManager("UnregisterAgent")
                try await callAgentManager("RegisterAgent", [.string("KeyboardDisplay")])
            }
        } catch {
            throw error.radioError
        }
        do {
            try await callAgentManager("RequestDefaultAgent")
        } catch {
            // The daemon asks the agent of whoever calls Pair in any case.
            context.logger.debug("not the default agent", metadata: ["error": "\(error)"])
        }
    }

    private func unregisterAgent() async {
        agent.end()
        try? await callAgentManager("UnregisterAgent")
        await service.connection.unexport(AgentObject.path)
    }

    private func callAgentManager(_ method: String, _ more: [DBusValue] = []) async throws(DBusError) {
        _ = try await service.connection.call(
            BlueZName.service, BlueZName.root, BlueZName.agentManager, method,
            [.objectPath(AgentObject.path)] + more, timeout: .seconds(10))
    }
}
