import GATTClient
import HealthReadings
import LibDBus
import TestBus
import Testing

@testable import BlueZCentral

/// `org.bluez` on a test's bus: objects, signals and errors as bluetoothd 5.66 has them, and what it cannot be made to
/// do in the lab. Everything that libdbus and the bus do is real.
actor EmulatedDaemon {
    typealias Properties = [String: DBusValue]
    typealias Handler = @Sendable (EmulatedDaemon, DBusMethodCall) async throws -> [DBusValue]

    static let adapter = "/org/bluez/hci0"

    let connection: DBusConnection
    /// The bus's own thread, so that what it sends is sent in the order of its code.
    nonisolated var unownedExecutor: UnownedSerialExecutor { connection.unownedExecutor }

    private(set) var objects: [String: [String: Properties]] = [:]
    /// What was called, in order: `hci0 Adapter1.StartDiscovery`.
    private(set) var log: [String] = []
    /// What takes a method's place: `Device1.Connect`, for any object.
    private var handlers: [String: Handler] = [:]
    private var exported: Set<String> = []
    var agent: (owner: String, path: String)?
    /// Devices on the air, with the signal at which each discovery hears them.
    private(set) var onAir: [String: Int16] = [:]

    private init(_ connection: DBusConnection) { self.connection = connection }

    /// - Parameters:
    ///   - powered: whether its adapter is on; nil for none.
    static func start(on bus: TestBus, powered: Bool? = true) async throws -> EmulatedDaemon {
        let daemon = EmulatedDaemon(try await bus.connect())
        try await daemon.export("/", ["org.freedesktop.DBus.ObjectManager"])
        try await daemon.add("/org/bluez", ["org.bluez.AgentManager1": [:]])
        if let powered { try await daemon.addAdapter(powered: powered) }
        let reply = try await daemon.connection.call(
            "org.freedesktop.DBus", "/org/freedesktop/DBus", "org.freedesktop.DBus", "RequestName",
            [.string("org.bluez"), .uint32(4)])
        try #require(reply == [.uint32(1)])
        return daemon
    }

    /// As if it were killed.
    func stop() async { await connection.close() }

    // MARK: Objects

    func addAdapter(_ path: String = adapter, powered: Bool = true, _ more: Properties = [:]) throws {
        let properties: Properties = [
            "Address": .string("AA:BB:CC:00:00:01"), "AddressType": .string("public"), "Name": .string("lab"),
            "Powered": .bool(powered), "Discovering": .bool(false),
        ]
        try add(path, ["org.bluez.Adapter1": properties.merging(more) { $1 }])
    }

    /// A device as discovery finds it.
    func addDevice(
        _ address: String, name: String? = "Meter", rssi: Int16? = -50, near host: String = EmulatedDaemon.adapter,
        _ more: Properties = [:]
    ) throws -> String {
        let path = host + "/dev_" + address.split(separator: ":").joined(separator: "_")
        var properties: Properties = [
            "Address": .string(address), "AddressType": .string("random"), "Alias": .string(name ?? address),
            "Paired": .bool(false), "Bonded": .bool(false), "Trusted": .bool(false), "Connected": .bool(false),
            "ServicesResolved": .bool(false),
            "UUIDs": .array([.string("00001808-0000-1000-8000-00805f9b34fb")], of: "s"),
            "Adapter": .objectPath(host),
        ]
        if let name { properties["Name"] = .string(name) }
        if let rssi {
            properties["RSSI"] = .int16(rssi)
            onAir[path] = rssi
        }
        try add(path, ["org.bluez.Device1": properties.merging(more) { $1 }])
        return path
    }

    /// A service of a device with its characteristics, declared two handles apart.
    func addService(_ uuid: UInt16, of device: String, at handle: UInt16, _ characteristics: [UInt16]) throws {
        func hex(_ value: UInt16) -> String {
            let text = String(value, radix: 16)
            return String(repeating: "0", count: 4 - text.count) + text
        }
        func full(_ uuid: UInt16) -> DBusValue { .string("0000\(hex(uuid))-0000-1000-8000-00805f9b34fb") }
        let service = "\(device)/service\(hex(handle))"
        try add(service, ["org.bluez.GattService1": ["UUID": full(uuid), "Device": .objectPath(device)]])
        for (index, uuid) in characteristics.enumerated() {
            try add(
                "\(service)/char\(hex(handle + 1 + 3 * UInt16(index)))",
                [
                    "org.bluez.GattCharacteristic1": [
                        "UUID": full(uuid), "Service": .objectPath(service), "Value": .bytes([]),
                        "Notifying": .bool(false), "Flags": .array([], of: "s"),
                    ]
                ])
        }
    }

    func add(_ path: String, _ interfaces: [String: Properties]) throws {
        try export(path, Set(interfaces.keys))
        objects[path, default: [:]].merge(interfaces) { $1 }
        try emit(
            "/", "org.freedesktop.DBus.ObjectManager", "InterfacesAdded", [.objectPath(path), Self.value(interfaces)])
    }

    /// An object goes, with all below it.
    func remove(_ path: String) throws {
        for path in objects.keys.filter({ $0 == path || $0.hasPrefix(path + "/") }).sorted(by: >) {
            guard let interfaces = objects.removeValue(forKey: path) else { continue }
            onAir[path] = nil
            exported = exported.filter { !$0.hasPrefix(path + " ") }
            connection.assumeIsolated { $0.unexport(path) }
            let names = interfaces.keys.sorted() + ["org.freedesktop.DBus.Properties"]
            try emit(
                "/", "org.freedesktop.DBus.ObjectManager", "InterfacesRemoved",
                [.objectPath(path), .array(names.map { .string($0) }, of: "s")])
        }
    }

    func change(_ path: String, _ interface: String, _ changes: Properties, invalidated: [String] = []) throws {
        for (name, value) in changes { objects[path]?[interface]?[name] = value }
        for name in invalidated { objects[path]?[interface]?[name] = nil }
        try emit(
            path, "org.freedesktop.DBus.Properties", "PropertiesChanged",
            [.string(interface), .properties(changes), .array(invalidated.map { .string($0) }, of: "s")])
    }

    func changeDevice(_ path: String, _ changes: Properties, invalidated: [String] = []) throws {
        try change(path, "org.bluez.Device1", changes, invalidated: invalidated)
    }

    func changeAdapter(_ changes: Properties) throws { try change(Self.adapter, "org.bluez.Adapter1", changes) }

    /// A notification or indication.
    func notify(_ path: String, _ octets: [UInt8]) throws {
        try change(path, "org.bluez.GattCharacteristic1", ["Value": .bytes(octets)])
    }

    func emit(_ path: String, _ interface: String, _ member: String, _ arguments: [DBusValue]) throws {
        try connection.assumeIsolated { try $0.emitSignal(path, interface, member, arguments) }
    }

    // MARK: Calls

    func on(_ method: String, _ handler: @escaping Handler) { handlers[method] = handler }

    func count(_ call: String) -> Int { log.count { $0 == call } }

    private func export(_ path: String, _ interfaces: Set<String>) throws {
        for interface in interfaces.union(["org.freedesktop.DBus.Properties"])
        where exported.insert("\(path) \(interface)").inserted {
            try connection.assumeIsolated { connection in
                try connection.export(path, interface: interface) { [weak self] call in
                    guard let self else { throw DBusError.disconnected }
                    return try await self.answer(call)
                }
            }
        }
    }

    private func answer(_ call: DBusMethodCall) async throws -> [DBusValue] {
        let object = call.path.split(separator: "/").last.map(String.init) ?? "/"
        let interface = call.interface.split(separator: ".").last.map(String.init) ?? ""
        let method = "\(interface).\(call.member)"
        log.append("\(object) \(method)")
        if let handler = handlers[method] { return try await handler(self, call) }
        return try await behave(method, call)
    }

    static func value(_ interfaces: [String: Properties]) -> DBusValue {
        .dictionary(
            Dictionary(uniqueKeysWithValues: interfaces.map { (.string($0.key), .properties($0.value)) }), key: "s",
            value: "a{sv}")
    }
}
