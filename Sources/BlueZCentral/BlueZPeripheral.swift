import GATTClient
import HealthReadings
import LibDBus
import Logging
import Synchronization

/// A device behind `org.bluez`, as a peripheral.
actor BlueZPeripheral: Peripheral {
    /// A connection, from the moment it is asked for to its disconnect.
    struct Session {
        let wire: PeripheralWire
        var objects: GATTObjects?
        var isBonded = false
        /// When the services were resolved: shortly after, an operation may fail without having been sent.
        var readySince = ContinuousClock.now
        /// The objects that notifications were asked of, and the daemon may keep asking.
        var subscribed: [String] = []
        /// They are not stopped before the link has gone.
        var keepsNotifying = false
        var hasGone = false
        /// The service left with it.
        var isLost = false
    }

    let context: RadioContext
    let path: String
    private nonisolated let known: Mutex<Advertisement>
    var session: Session?

    init(_ context: RadioContext, _ device: DeviceObject, seenAt: Instant) {
        self.context = context
        path = device.path
        known = Mutex(device.advertisement(at: seenAt))
    }

    deinit {
        guard let session, !session.subscribed.isEmpty else { return }
        // A reader that never disconnected: what stays subscribed would be enabled again at the next connection.
        let (wire, subscribed) = (session.wire, session.subscribed)
        Task { for path in subscribed { await Self.stopNotify(path, wire) } }
    }

    nonisolated var advertisement: Advertisement { known.withLock { $0 } }

    // MARK: The link

    func connect() async throws -> Instant {
        if session != nil { await endSession() }
        let address = try address
        let usable = try await context.link.usableAdapter()
        // The match rules follow: if all that wait here had theirs, these could be more than the bus allows.
        try await context.connecting.begin()
        defer { context.connecting.end() }
        let wire = PeripheralWire(usable.service, path: path)
        session = Session(wire: wire)
        do throws(DBusError) { try await wire.open() } catch { throw error.radioError }
        let course = LinkCourse(context: context, usable: usable, wire: wire, address: address)
        let (connectedAt, device) = try await context.discovery.hold { [context] in
            do {
                return try await course.run()
            } catch {
                // Before anybody listens again: the next that is heard of it is its coming.
                context.noteFailure(of: address)
                throw error
            }
        }
        session?.isBonded = device.isBonded
        session?.readySince = .now
        known.withLock { known in
            let seen = known
            known = device.advertisement(at: connectedAt)
            if known.name == nil { known.name = seen.name }
            if known.services.isEmpty { known.services = seen.services }
            known.rssi = known.rssi ?? seen.rssi
        }
        return connectedAt
    }

    func disconnect() async {
        await shieldedFromCancellation { await self.endSession() }
    }

    private func endSession() async {
        let session = session
        self.session = nil
        let wire: PeripheralWire
        if let session {
            wire = session.wire
        } else {
            // A link that pairing left, or none.
            guard let usable = try? await context.link.usableAdapter(trying: false) else { return }
            wire = PeripheralWire(usable.service, path: path)
            guard (try? await wire.open()) != nil else { return }
        }
        defer { wire.subscription.close() }
        let subscribed = (session?.subscribed ?? []).reversed()
        let endsFirst = session?.keepsNotifying ?? false
        if !endsFirst { for path in subscribed { await Self.stopNotify(path, wire) } }
        let left = wire.subscription.drain().count { if case .value = $0 { true } else { false } }
        if left > 0 {
            context.logger.notice("values came that nobody took", metadata: ["values": "\(left)"])
        }
        await endLink(wire)
        if endsFirst { for path in subscribed { await Self.stopNotify(path, wire) } }
    }

    private func endLink(_ wire: PeripheralWire) async {
        guard (try? await wire.look()) != nil, wire.link.isConnected else { return }
        do {
            _ = try await wire.service.connection.call(
                BlueZName.service, path, BlueZName.device, "Disconnect", timeout: context.limits.disconnect)
        } catch {
            context.logger.debug("the device could not be disconnected", metadata: ["error": "\(error)"])
        }
        let deadline = ContinuousClock.now + context.limits.disconnect
        while wire.link.isConnected {
            switch await wire.subscription.next(within: ContinuousClock.now.duration(to: deadline)) {
            case .signals, .interrupted: continue
            case .silence: return context.logger.notice("the device has not disconnected in time")
            case .ended, .cancelled: return
            }
        }
    }

    // MARK: What all operations need

    private var address: DeviceAddress {
        get throws {
            guard let address = advertisement.address else {
                throw RadioError.other(name: "no_address", message: "the service does not tell the device's address")
            }
            return address
        }
    }

    /// The session, for an operation on the link.
    func connected() throws -> Session {
        guard let session else { throw GATTError.disconnected }
        if session.isLost { throw RadioError.lost }
        if session.hasGone { throw GATTError.disconnected }
        return session
    }

    /// The daemon's answer to a call about a characteristic, asked again where the call failed without having been sent.
    ///
    /// - Parameter refusal: the ATT error where the daemon only says that something is not permitted.
    func ask(
        _ characteristic: Characteristic, _ path: String, _ member: String, _ arguments: [DBusValue] = [],
        refusal: UInt8
    ) async throws -> [DBusValue] {
        let wire = try connected().wire
        var attempt = 0
        while true {
            do {
                return try await wire.service.connection.call(
                    BlueZName.service, path, BlueZName.gattCharacteristic, member, arguments,
                    timeout: context.limits.transaction)
            } catch {
                attempt += 1
                guard attempt <= 10, isUnsent(error, wire) else {
                    throw await explain(error, characteristic, refusal: refusal, wire)
                }
                try await Task.sleep(for: context.limits.pause)
            }
        }
    }

    /// Whether a call failed before anything was sent to the device: something else is under way with the
    /// characteristic, or the daemon told of the link before it could use it.
    private func isUnsent(_ error: DBusError, _ wire: PeripheralWire) -> Bool {
        guard let remote = RemoteError(error), wire.link.isConnected, let session, session.wire === wire else {
            return false
        }
        if remote.isInProgress { return true }
        let isNew = session.readySince.duration(to: .now) < .seconds(3)
        return isNew && (remote.isNotConnected || remote.attributeError(refusal: 0) == 0x0E)
    }

    private func explain(
        _ error: DBusError, _ characteristic: Characteristic, refusal: UInt8, _ wire: PeripheralWire
    ) async -> any Error {
        if case .timedOut = error { return GATTError.timedOut }
        guard let remote = RemoteError(error) else { return error.radioError }
        if remote.isNotConnected { return goneError(wire) }
        if remote.isVanished {
            return wire.link.isConnected ? GATTError.noSuchCharacteristic(characteristic.uuid) : goneError(wire)
        }
        if let code = remote.attributeError(refusal: refusal) {
            // Insufficient authentication or encryption over a bond: the device has lost its key.
            if session?.isBonded ?? false, [0x05, 0x0F].contains(code), let address = advertisement.address {
                return RadioError.forgottenByDevice(address)
            }
            return await meansLostLink(code, wire) ? goneError(wire) : GATTError.attribute(code)
        }
        if remote.isLost || remote.isWithoutService { return RadioError.lost }
        return wire.link.isConnected ? error.radioError : goneError(wire)
    }

    /// Whether an ATT error stands for a link that was lost: what was under way then is answered with "unlikely error", by some
    /// daemons before they tell that the link has gone.
    private func meansLostLink(_ code: UInt8, _ wire: PeripheralWire) async -> Bool {
        guard code == 0x0E else { return false }
        let deadline = ContinuousClock.now + context.limits.farewell
        while wire.link.isConnected, ContinuousClock.now < deadline, !Task.isCancelled {
            try? await Task.sleep(for: .milliseconds(20))
        }
        return !wire.link.isConnected
    }

    private func goneError(_ wire: PeripheralWire) -> any Error {
        if session?.isBonded ?? false, wire.link.reason?.hasSuffix(".Authentication") ?? false,
            let address = advertisement.address
        {
            return RadioError.forgottenByDevice(address)
        }
        return GATTError.disconnected
    }

    /// Lets the daemon forget that we were subscribed: at the next connection it enables what it still knows, and a cuff
    /// then begins to send. Also where the link has gone.
    static func stopNotify(_ path: String, _ wire: PeripheralWire) async {
        _ = try? await wire.service.connection.call(
            BlueZName.service, path, BlueZName.gattCharacteristic, "StopNotify", timeout: .seconds(10))
        wire.stopNotifying(at: path)
    }
}
