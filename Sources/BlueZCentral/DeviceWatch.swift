import GATTClient
import HealthReadings
import LibDBus
import Logging
import Synchronization

/// Devices of one adapter as they appear, change and go: all of them, or those with certain addresses.
///
/// Of a few addresses the bus sends what belongs to their own objects and nothing of strangers but that they came and
/// went. Of many it sends the changes of every device, and the event loop drops those of strangers. Used by one task.
final class DeviceWatch {
    /// How many devices have a match rule each. A system bus allows 512 rules for all watches of a connection together.
    static let mostRules = 64

    /// What happened to a device.
    struct Change: Sendable {
        enum Kind: Sendable, Hashable {
            /// It was there, or has come. The daemon has heard it where there is an RSSI.
            case present
            /// The daemon heard it.
            case heard
            /// Something else it says.
            case changed
            /// The daemon has forgotten it.
            case gone
        }

        var kind: Kind
        /// As it is after the change; for one that is gone, as it was.
        var device: DeviceObject
        var at: Instant
    }

    private enum Signal: Sendable {
        case added(String, [String: DBusValue], Instant)
        case removed(String, Instant)
        case changed(String, PropertyChange, Instant)
    }

    private let usable: ServiceLink.UsableAdapter
    /// Their 48 bits: who types an address does not know its type.
    private let addresses: Set<UInt64>?
    /// Whether one match rule brings the changes of every device.
    private let hasCommonRule: Bool
    private let context: RadioContext
    private let subscription: DBusSubscription<Signal>
    private var devices: [String: DeviceObject] = [:]
    /// The paths of the devices that are watched, for the event loop to look at.
    private let paths: Paths
    /// The paths whose changes the bus sends; the rule stays there when the object goes, and may come again.
    private var ruled: Set<String> = []

    private var connection: DBusConnection { usable.service.connection }

    /// - Parameter addresses: nil for every device.
    init(_ usable: ServiceLink.UsableAdapter, addresses: Set<DeviceAddress>?, _ context: RadioContext) {
        let logger = context.logger
        let bits = addresses.map { Set($0.map(\.bits)) }
        let (prefix, paths) = (usable.adapter.path + "/", Paths())
        self.usable = usable
        self.addresses = bits
        hasCommonRule = bits.map { $0.count > Self.mostRules } ?? true
        self.context = context
        self.paths = paths
        subscription = DBusSubscription(usable.service.connection) { signal in
            if signal.isMember("org.freedesktop.DBus.Properties", "PropertiesChanged") {
                // Under a common rule strangers' changes come, too: not even a value is built of them.
                let path = signal.path
                guard bits == nil || paths.contains(path) else { return nil }
                return PropertyChange(signal).map { .changed(path, $0, .systemClock) }
            }
            guard let path = signal.argument(0)?.objectPathValue, path.hasPrefix(prefix) else { return nil }
            if signal.isMember("org.freedesktop.DBus.ObjectManager", "InterfacesRemoved") {
                guard bits == nil || paths.contains(path),
                    signal.argument(1)?.stringValues?.contains(BlueZName.device) ?? false
                else { return nil }
                paths.remove(path)
                return .removed(path, .systemClock)
            }
            guard let properties = signal.argument(1).flatMap(ManagedObjects.interfaces)?[BlueZName.device] else {
                return nil
            }
            if let bits {
                let address = DeviceObject(path: path, properties, logger: logger).address
                guard let address, bits.contains(address.bits) else { return nil }
                // Here, so that no change behind this signal is taken for a stranger's.
                paths.insert(path)
            }
            return .added(path, properties, .systemClock)
        }
    }

    /// Begins to watch.
    ///
    /// - Returns: the devices there are now.
    func begin() async throws -> [Change] {
        let objects = DBusMatch(sender: BlueZName.service, interface: BlueZName.objectManager)
        do throws(DBusError) {
            if hasCommonRule {
                // By no path namespace: see PeripheralWire.
                try await subscription.add(
                    objects,
                    DBusMatch(
                        sender: BlueZName.service, interface: BlueZName.properties, member: "PropertiesChanged",
                        arg0: BlueZName.device))
            } else {
                try await subscription.add(objects)
            }
        } catch {
            throw error.radioError
        }
        return try await reload()
    }

    /// Looks at all objects anew; what is new among them is returned.
    func reload() async throws -> [Change] {
        do throws(DBusError) {
            let objects = try await ManagedObjects.of(connection, .children(of: usable.adapter.path))
            let now = Instant.systemClock
            var changes: [Change] = []
            let devices = objects.with(BlueZName.device)
            context.noteDevices(devices.count)
            for (path, properties) in devices {
                if let change = try await add(path, properties, now) { changes.append(change) }
            }
            return changes
        } catch {
            throw error.radioError
        }
    }

    /// Makes ``next()`` return, from any task.
    var interruption: @Sendable () -> Void { { [subscription] in subscription.interrupt() } }

    /// What happens next, by the burst; empty where the burst held nothing of interest, or after an interruption.
    ///
    /// - Throws: ``RadioError/lost`` when the bus is gone, `CancellationError`.
    func next() async throws -> [Change] {
        switch await subscription.next() {
        case .silence, .interrupted: return []
        case .ended: throw RadioError.lost
        case .cancelled: throw CancellationError()
        case .signals(let signals):
            var changes: [Change] = []
            changes.reserveCapacity(signals.count)
            for signal in signals {
                do throws(DBusError) {
                    if let change = try await take(signal) { changes.append(change) }
                } catch {
                    throw error.radioError
                }
            }
            return changes
        }
    }

    private func take(_ signal: Signal) async throws(DBusError) -> Change? {
        switch signal {
        case .added(let path, let properties, let instant): return try await add(path, properties, instant)
        case .removed(let path, let instant):
            return devices.removeValue(forKey: path).map { Change(kind: .gone, device: $0, at: instant) }
        case .changed(let path, let change, let instant):
            guard var device = devices[path] else { return nil }
            device.apply(change, logger: context.logger)
            devices[path] = device
            return Change(kind: change.changed["RSSI"] == nil ? .changed : .heard, device: device, at: instant)
        }
    }

    private func add(_ path: String, _ properties: [String: DBusValue], _ instant: Instant) async throws(DBusError)
        -> Change?
    {
        var device = DeviceObject(path: path, properties, logger: context.logger)
        guard let addresses else {
            let isNew = devices.updateValue(device, forKey: path) == nil
            return Change(kind: isNew ? .present : .changed, device: device, at: instant)
        }
        guard let address = device.address, addresses.contains(address.bits) else { return nil }
        if devices[path] != nil {
            devices[path] = device
            return Change(kind: .changed, device: device, at: instant)
        }
        paths.insert(path)
        if ruled.insert(path).inserted {
            if !hasCommonRule {
                try await subscription.add(
                    DBusMatch(
                        sender: BlueZName.service, path: path, interface: BlueZName.properties,
                        member: "PropertiesChanged", arg0: BlueZName.device))
            }
            // What it said before its changes were let through.
            // There is none where the device has gone meanwhile.
            if let current = try? await connection.deviceProperties(at: path) {
                device.apply(PropertyChange(changed: current), logger: context.logger)
            }
        }
        devices[path] = device
        return Change(kind: .present, device: device, at: instant)
    }
}

/// A set of object paths, changed by a watch and by the event loop, which looks at it.
private final class Paths: Sendable {
    private let paths = Mutex<Set<String>>([])

    func contains(_ path: String) -> Bool { paths.withLock { $0.contains(path) } }
    func insert(_ path: String) { _ = paths.withLock { $0.insert(path) } }
    func remove(_ path: String) { _ = paths.withLock { $0.remove(path) } }
}
