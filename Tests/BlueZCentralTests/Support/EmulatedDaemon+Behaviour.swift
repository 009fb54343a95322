import LibDBus

extension EmulatedDaemon {
    static let done: [DBusValue] = []

    static func error(_ name: String, _ message: String) -> DBusError {
        .remote(name: "org.bluez.Error.\(name)", message: message)
    }

    static let abortByLocal = error("Failed", "le-connection-abort-by-local")
    static let cancelled = error("Failed", "br-connection-canceled")

    /// What bluetoothd does where a test asks for nothing else.
    func behave(_ method: String, _ call: DBusMethodCall) async throws -> [DBusValue] {
        switch method {
        case "ObjectManager.GetManagedObjects": return [managedObjects]
        case "Properties.GetAll":
            guard let interface = call.arguments.first?.stringValue, let properties = objects[call.path]?[interface]
            else {
                throw DBusError.remote(name: "org.freedesktop.DBus.Error.InvalidArgs", message: "No such interface")
            }
            return [.properties(properties)]
        case "Properties.Get":
            guard let interface = call.arguments.first?.stringValue, let name = call.arguments[1].stringValue,
                let value = objects[call.path]?[interface]?[name]
            else {
                throw DBusError.remote(name: "org.freedesktop.DBus.Error.InvalidArgs", message: "No such property")
            }
            return [.variant(value.unwrapped)]
        case "Properties.Set":
            guard let interface = call.arguments.first?.stringValue, let name = call.arguments[1].stringValue else {
                throw Self.error("InvalidArguments", "Invalid arguments in method call")
            }
            try change(call.path, interface, [name: call.arguments[2].unwrapped])
            return []
        case "Adapter1.StartDiscovery":
            try change(call.path, "org.bluez.Adapter1", ["Discovering": .bool(true)])
            for (path, rssi) in onAir { try changeDevice(path, ["RSSI": .int16(rssi)]) }
            return []
        case "Adapter1.StopDiscovery":
            for (path, interfaces) in objects where interfaces["org.bluez.Device1"]?["RSSI"] != nil {
                try changeDevice(path, [:], invalidated: ["RSSI"])
            }
            try change(call.path, "org.bluez.Adapter1", ["Discovering": .bool(false)])
            return []
        case "Adapter1.RemoveDevice":
            guard let path = call.arguments.first?.objectPathValue, objects[path] != nil else {
                throw Self.error("DoesNotExist", "Does Not Exist")
            }
            try remove(path)
            return []
        case "AgentManager1.RegisterAgent":
            agent = (call.sender, call.arguments.first?.objectPathValue ?? "")
            return []
        case "AgentManager1.UnregisterAgent":
            agent = nil
            return []
        case "Device1.Connect":
            try linkUp(call.path)
            return []
        case "Device1.Disconnect":
            try linkDown(call.path)
            return []
        case "Device1.Pair":
            try changeDevice(call.path, ["Connected": .bool(true)])
            try changeDevice(
                call.path, ["ServicesResolved": .bool(true), "Bonded": .bool(true), "Paired": .bool(true)])
            return []
        case "GattCharacteristic1.ReadValue":
            let value = objects[call.path]?["org.bluez.GattCharacteristic1"]?["Value"] ?? .bytes([])
            try change(call.path, "org.bluez.GattCharacteristic1", ["Value": value])
            return [value]
        case "GattCharacteristic1.StartNotify":
            try change(call.path, "org.bluez.GattCharacteristic1", ["Notifying": .bool(true)])
            return []
        case "GattCharacteristic1.StopNotify":
            try change(call.path, "org.bluez.GattCharacteristic1", ["Notifying": .bool(false)])
            return []
        default: return []
        }
    }

    func linkUp(_ path: String) throws {
        try changeDevice(path, ["Connected": .bool(true)])
        try changeDevice(path, ["ServicesResolved": .bool(true)])
    }

    func linkDown(_ path: String) throws {
        guard objects[path] != nil else { return }
        try changeDevice(path, ["ServicesResolved": .bool(false)])
        try changeDevice(path, ["Connected": .bool(false)])
    }

    /// Asks the registered agent, as the daemon does while it pairs.
    func askAgent(_ member: String, _ arguments: [DBusValue]) async throws -> [DBusValue] {
        guard let agent else { throw Self.error("AuthenticationFailed", "no agent") }
        return try await connection.call(agent.owner, agent.path, "org.bluez.Agent1", member, arguments)
    }

    private var managedObjects: DBusValue {
        var result: [DBusValue: DBusValue] = [:]
        for (path, interfaces) in objects { result[.objectPath(path)] = Self.value(interfaces) }
        return .dictionary(result, key: "o", value: "a{sa{sv}}")
    }
}
