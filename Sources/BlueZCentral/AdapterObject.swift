import GATTClient
import HealthReadings
import LibDBus
import Logging

/// `org.bluez.Adapter1`: an adapter's properties.
struct AdapterObject: Sendable, Hashable {
    let path: String
    var address: DeviceAddress?
    var isPowered = false
    var isDiscovering = false
    /// `PowerState`: on, off, off-enabling, on-disabling or off-blocked; nil where the daemon does not tell (before 5.66).
    var powerState: String?

    /// The system's name: what the path ends with, `hci0`.
    var name: String { path.split(separator: "/").last.map(String.init) ?? path }

    /// The number in the name, to put adapters in order.
    var number: Int { Int(name.drop { !$0.isNumber }) ?? .max }

    var adapter: Adapter { Adapter(name: name, address: address, isDiscovering: isDiscovering) }

    init(path: String, _ properties: [String: DBusValue], logger: Logger) {
        self.path = path
        apply(PropertyChange(changed: properties), logger: logger)
    }

    mutating func apply(_ change: PropertyChange, logger: Logger) {
        let reader = PropertyReader(interface: BlueZName.adapter, values: change.changed, logger: logger)
        if let text = reader.string("Address") {
            let kind = reader.string("AddressType").flatMap(DeviceAddress.Kind.init(rawValue:)) ?? .public
            address = DeviceAddress(text, kind: kind)
        }
        if let value = reader.bool("Powered") { isPowered = value }
        if let value = reader.bool("Discovering") { isDiscovering = value }
        if let value = reader.string("PowerState") { powerState = value }
    }

    /// Whether it is the one that is named, by its name or its address.
    func isNamed(_ wanted: String) -> Bool {
        name == wanted || address.map { $0.bits == DeviceAddress(wanted)?.bits } ?? false
    }
}
