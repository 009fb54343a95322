import GATTClient
import LibDBus
import Logging

/// A device's attribute table as the daemon shows it: `GattService1`, `GattCharacteristic1` and `Battery1` below its path.
struct GATTObjects: Sendable {
    static let batteryService: BluetoothUUID = 0x180F
    static let batteryLevel: BluetoothUUID = 0x2A19
    /// What stands for a battery level that the daemon reads itself: no attribute has this handle.
    static let batteryHandle: UInt16 = 0

    /// By their value handles, which are in the order of the device's own table.
    private(set) var characteristics: [Characteristic] = []
    private var paths: [UInt16: String] = [:]

    init(of device: String, in objects: ManagedObjects, logger: Logger) {
        let prefix = device + "/"
        var services: [String: BluetoothUUID] = [:]
        for (path, properties) in objects.with(BlueZName.gattService) where path.hasPrefix(prefix) {
            let reader = PropertyReader(interface: BlueZName.gattService, values: properties, logger: logger)
            services[path] = reader.string("UUID").flatMap { BluetoothUUID($0) }
        }
        for (path, properties) in objects.with(BlueZName.gattCharacteristic) where path.hasPrefix(prefix) {
            let reader = PropertyReader(interface: BlueZName.gattCharacteristic, values: properties, logger: logger)
            guard let uuid = reader.string("UUID").flatMap({ BluetoothUUID($0) }),
                let handle = Self.valueHandle(path, reader.integer("Handle", in: 1...0xFFFF))
            else { continue }
            let service = reader.objectPath("Service").flatMap { services[$0] }
            characteristics.append(
                Characteristic(
                    uuid: uuid, service: service, valueHandle: handle,
                    properties: reader.strings("Flags").map(CharacteristicProperties.init(flags:))))
            paths[handle] = path
        }
        characteristics.sort { $0.valueHandle < $1.valueHandle }
        // The daemon claims the battery service of many devices, and then shows its level alone.
        if !characteristics.contains(where: { $0.uuid == Self.batteryLevel }),
            objects.objects[device]?[BlueZName.battery]?["Percentage"]?.intValue != nil
        {
            characteristics.append(
                Characteristic(
                    uuid: Self.batteryLevel, service: Self.batteryService, valueHandle: Self.batteryHandle))
        }
    }

    /// The object of a characteristic; nil for the one that stands for the battery, and for another device's.
    func path(of characteristic: Characteristic) -> String? { paths[characteristic.valueHandle] }

    /// The value's handle: told by the daemon, or right behind the declaration's, which the path ends with
    /// (`char001c`; Core Specification, Vol 3, Part G, 3.3.2).
    private static func valueHandle(_ path: String, _ told: Int?) -> UInt16? {
        let declaration = path.split(separator: "/").last.flatMap { name -> UInt16? in
            name.hasPrefix("char") ? UInt16(name.dropFirst(4), radix: 16) : nil
        }
        if let told = told.map({ UInt16($0) }), told != declaration { return told }
        guard let declaration, declaration < 0xFFFF else { return nil }
        return declaration + 1
    }
}

extension CharacteristicProperties {
    /// The properties among the daemon's flags, which also say what else an access needs (`encrypt-read`).
    init(flags: [String]) {
        self = Self.names.reduce(into: []) { found, each in if flags.contains(each.name) { found.insert(each.property) }
        }
    }
}
