import GATTClient
import HealthReadings
import LibDBus
import Synchronization

/// What the wire says of one device: its link, and the values of its characteristics that notify.
///
/// Written by the event loop as signals come, so that it is never behind an answer that came after them.
final class PeripheralWire: Sendable {
    /// What may have to be waited for, in the order it was on the wire.
    enum Signal: Sendable {
        case value(CharacteristicValue, handle: UInt16)
        /// The link or the services have changed: ``PeripheralWire/link`` says how.
        case changed
        /// The link has gone; what follows belongs to another.
        case disconnected
        /// The service has left the bus.
        case lost
    }

    struct Link: Sendable {
        var isConnected = false
        var areServicesResolved = false
        /// When the link came.
        var connectedAt: Instant?
        /// How often a link came.
        var connections = 0
        /// Why it went, of daemons that tell (5.83 and later): `org.bluez.Reason.Authentication`.
        var reason: String?
        fileprivate var connectedSignals = 0
        fileprivate var resolvedSignals = 0
    }

    private let record: WireRecord
    let subscription: DBusSubscription<Signal>
    let service: ServiceLink.Service
    let path: String

    init(_ service: ServiceLink.Service, path: String) {
        self.service = service
        self.path = path
        let record = WireRecord(path: path)
        self.record = record
        subscription = DBusSubscription(service.connection, decode: record.take)
    }

    var link: Link { record.state.withLock(\.link) }

    /// Puts the rules for the link on the bus.
    func open() async throws(DBusError) {
        try await subscription.add(
            changes(of: path),
            DBusMatch(sender: BlueZName.service, path: path, interface: BlueZName.device, member: "Disconnected"),
            DBusMatch(
                sender: BlueZName.service, interface: BlueZName.objectManager, member: "InterfacesRemoved",
                arg0Path: path),
            DBusMatch(
                sender: BlueZName.bus, interface: BlueZName.bus, member: "NameOwnerChanged", arg0: BlueZName.service))
    }

    /// What the daemon answers of the device now.
    ///
    /// - Returns: its properties; nil where it has gone.
    func look() async throws -> [String: DBusValue]? {
        let before = link
        do {
            let reply = try await service.connection.call(
                BlueZName.service, path, BlueZName.properties, "GetAll", [.string(BlueZName.device)])
            guard let properties = reply.first?.stringKeyed else {
                throw DBusError.unexpectedReply(expected: "a{sv}", found: reply.signature)
            }
            record.state.withLock { state in
                // Of what changed meanwhile the wire knows better.
                if state.link.connectedSignals == before.connectedSignals,
                    let isConnected = properties["Connected"]?.boolValue
                {
                    if isConnected, !state.link.isConnected { state.link.connectedAt = .systemClock }
                    state.link.isConnected = isConnected
                }
                if state.link.resolvedSignals == before.resolvedSignals,
                    let areResolved = properties["ServicesResolved"]?.boolValue
                {
                    state.link.areServicesResolved = areResolved
                }
            }
            return properties
        } catch let error as DBusError {
            guard RemoteError(error)?.isVanished ?? false else { throw error.radioError }
            _ = record.noteLink(isConnected: false)
            return nil
        }
    }

    /// Ends the link, and the daemon's own attempts to make it again, at a moment when none of them is under way.
    ///
    /// An attempt that is cancelled while the adapter completes it leaves a link that the kernel (6.1) knows nothing of: nobody
    /// ends it, and the device isn't heard again. After a link was lost, the daemon makes one more attempt by itself.
    func endReconnecting(_ limits: RadioLimits) async {
        for _ in 0..<5 {
            let isQuiet = await !connects(within: limits.reconnecting)
            // This disables auto-connection as well, until the daemon is asked to connect.
            _ = try? await service.connection.call(
                BlueZName.service, path, BlueZName.device, "Disconnect", timeout: limits.disconnect)
            if isQuiet { return }
        }
    }

    /// Whether there is a link, or one comes within a time.
    private func connects(within time: Duration) async -> Bool {
        let deadline = ContinuousClock.now + time
        while !link.isConnected {
            guard case .signals = await subscription.next(within: ContinuousClock.now.duration(to: deadline)) else {
                return false
            }
        }
        return true
    }

    /// Waits until the link has gone, where there is one.
    func awaitEnd(within time: Duration) async {
        let deadline = ContinuousClock.now + time
        while link.isConnected {
            guard case .signals = await subscription.next(within: ContinuousClock.now.duration(to: deadline)) else {
                return
            }
        }
    }

    /// From now on the values of this characteristic count. What else changes them (a read, another program's
    /// notifications) does not.
    func notify(_ characteristic: Characteristic, at path: String) async throws(DBusError) {
        let isNew = record.state.withLock { state in
            state.notifying[path] = characteristic
            return state.ruled.insert(path).inserted
        }
        guard isNew else { return }
        do {
            try await subscription.add(changes(of: path))
        } catch {
            record.state.withLock { _ = $0.ruled.remove(path) }
            throw error
        }
    }

    /// A rule for each object, and never one for all below the device: dbus-daemon (1.14) does not look at the path of a
    /// rule with `path_namespace` when it removes one. The end of one device's rule would take another's away, and its
    /// values would be lost.
    private func changes(of path: String) -> DBusMatch {
        DBusMatch(
            sender: BlueZName.service, path: path, interface: BlueZName.properties, member: "PropertiesChanged")
    }

    func stopNotifying(at path: String) { _ = record.state.withLock { $0.notifying.removeValue(forKey: path) } }

    /// A read changes a characteristic's value, too: where it notifies, the daemon's signal of that is no notification.
    /// It comes right before the answer, so it is the last of these octets.
    func removeEcho(of value: [UInt8], handle: UInt16) {
        subscription.removeLast { signal in
            guard case .value(let other, handle) = signal else { return false }
            return other.octets == value
        }
    }
}

/// What the event loop knows of a device; its signals are decoded here.
private final class WireRecord: Sendable {
    struct State {
        var link = PeripheralWire.Link()
        var notifying: [String: Characteristic] = [:]
        /// The objects whose values' rule is on the bus.
        var ruled: Set<String> = []
    }

    let state = Mutex(State())
    private let path: String

    init(path: String) { self.path = path }

    /// Decodes a signal that meets one of the wire's rules: a characteristic's new value, as nearly all are, or
    /// something else.
    func take(_ signal: borrowing DBusSignal) -> PeripheralWire.Signal? {
        guard signal.isChange(of: "org.bluez.GattCharacteristic1") else { return takeOther(signal) }
        let path = signal.path
        guard let characteristic = state.withLock({ $0.notifying[path] }) else { return nil }
        var octets: [UInt8]?
        signal.forEachChangedProperty { property in
            if property.isNamed("Value") { octets = property.bytes }
        }
        guard let octets else { return nil }
        return .value(
            CharacteristicValue(uuid: characteristic.uuid, octets: octets, receivedAt: .systemClock),
            handle: characteristic.valueHandle)
    }

    /// What happens to the link, its device and the service.
    private func takeOther(_ signal: borrowing DBusSignal) -> PeripheralWire.Signal? {
        if signal.isChange(of: "org.bluez.Device1") { return takeChange(signal) }
        if signal.isMember("org.bluez.Device1", "Disconnected") {
            state.withLock { $0.link.reason = signal.argument(0)?.stringValue }
            return .changed
        }
        if signal.isMember("org.freedesktop.DBus.ObjectManager", "InterfacesRemoved") {
            guard signal.argument(0)?.objectPathValue == path,
                signal.argument(1)?.stringValues?.contains(BlueZName.device) ?? false
            else { return nil }
            return noteLink(isConnected: false)
        }
        if signal.isMember("org.freedesktop.DBus", "NameOwnerChanged") {
            _ = noteLink(isConnected: false)
            return .lost
        }
        return nil
    }

    private func takeChange(_ signal: borrowing DBusSignal) -> PeripheralWire.Signal? {
        // A characteristic's object may not speak for the device.
        guard signal.pathEquals(path) else { return nil }
        var connected: Bool?
        var resolved: Bool?
        signal.forEachChangedProperty { property in
            if property.isNamed("Connected") {
                connected = property.boolValue
            } else if property.isNamed("ServicesResolved") {
                resolved = property.boolValue
            }
        }
        if let resolved {
            state.withLock { state in
                state.link.areServicesResolved = resolved
                state.link.resolvedSignals += 1
            }
        }
        if let connected { return noteLink(isConnected: connected) }
        return resolved == nil ? nil : .changed
    }

    func noteLink(isConnected: Bool) -> PeripheralWire.Signal {
        state.withLock { state in
            state.link.connectedSignals += 1
            state.link.isConnected = isConnected
            if isConnected {
                state.link.connectedAt = .systemClock
                state.link.connections += 1
                state.link.reason = nil
            } else {
                state.link.areServicesResolved = false
                state.link.resolvedSignals += 1
            }
        }
        return isConnected ? .changed : .disconnected
    }
}
