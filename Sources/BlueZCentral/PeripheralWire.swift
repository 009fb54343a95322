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
        /// Why it went, of daemons that tell (5.82 and later): `org.bluez.Reason.Authentication`.
        var reason: String?
        fileprivate var connectedSignals = 0
        fileprivate var resolvedSignals = 0
    }

    private struct State {
        var link = Link()
        var notifying: [String: Characteristic] = [:]
    }

    private let state = Mutex(State())
    let funnel = SignalFunnel<Signal>()
    let service: ServiceLink.Service
    let path: String

    init(_ service: ServiceLink.Service, path: String) {
        self.service = service
        self.path = path
    }

    deinit { funnel.close() }

    var link: Link { state.withLock(\.link) }

    /// Puts the rules on the bus: one for everything below the device, so that the order of its values is the wire's.
    func open() async throws(DBusError) {
        let connection = service.connection
        try await funnel.add(
            DBusMatch(
                sender: BlueZName.service, pathNamespace: path, interface: BlueZName.properties,
                member: "PropertiesChanged"), on: connection
        ) { [weak self] signal in self?.takeChange(signal) }
        try await funnel.add(
            DBusMatch(sender: BlueZName.service, path: path, interface: BlueZName.device, member: "Disconnected"),
            on: connection
        ) { [weak self] signal in
            self?.state.withLock { $0.link.reason = signal.argument(0)?.stringValue }
            return .changed
        }
        try await funnel.add(
            DBusMatch(
                sender: BlueZName.service, interface: BlueZName.objectManager, member: "InterfacesRemoved",
                arg0Path: path), on: connection
        ) { [weak self] signal in
            guard let self, signal.argument(0)?.objectPathValue == self.path,
                signal.argument(1)?.stringValues?.contains(BlueZName.device) ?? false
            else { return nil }
            return noteLink(isConnected: false)
        }
        try await funnel.add(
            DBusMatch(
                sender: BlueZName.bus, interface: BlueZName.bus, member: "NameOwnerChanged", arg0: BlueZName.service),
            on: connection
        ) { [weak self] _ in
            _ = self?.noteLink(isConnected: false)
            return .lost
        }
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
            state.withLock { state in
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
            _ = noteLink(isConnected: false)
            return nil
        }
    }

    /// From now on the values of this characteristic count. What else changes them (a read, another program's
    /// notifications) does not.
    func notify(_ characteristic: Characteristic, at path: String) {
        state.withLock { $0.notifying[path] = characteristic }
    }

    func stopNotifying(at path: String) { _ = state.withLock { $0.notifying.removeValue(forKey: path) } }

    /// A read changes a characteristic's value, too: where it notifies, the daemon's signal of that is no notification.
    /// It comes right before the answer, so it is the last of these octets.
    func removeEcho(of value: [UInt8], handle: UInt16) {
        funnel.removeLast { signal in
            guard case .value(let other, handle) = signal else { return false }
            return other.octets == value
        }
    }

    // MARK: On the event loop

    private func takeChange(_ signal: borrowing DBusSignal) -> Signal? {
        if signal.isChange(of: "org.bluez.GattCharacteristic1") { return takeValue(signal) }
        guard signal.isChange(of: "org.bluez.Device1"), signal.pathEquals(path) else { return nil }
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

    private func takeValue(_ signal: borrowing DBusSignal) -> Signal? {
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

    private func noteLink(isConnected: Bool) -> Signal {
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
