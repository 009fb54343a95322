import LibDBus

extension DBusConnection {
    /// What the Bluetooth service says of the device at a path; nil where the answer is no `a{sv}`.
    func deviceProperties(at path: String) async throws(DBusError) -> [String: DBusValue]? {
        try await call(BlueZName.service, path, BlueZName.properties, "GetAll", [.string(BlueZName.device)])
            .first?.stringKeyed
    }
}

/// The objects of a service with their interfaces and properties, as `GetManagedObjects` tells them (`a{oa{sa{sv}}}`).
struct ManagedObjects: Sendable {
    typealias Interfaces = [String: [String: DBusValue]]

    /// By object path. What has another type is left out.
    let objects: [String: Interfaces]

    /// Asks the Bluetooth service for those of its objects that are wanted.
    static func of(_ connection: DBusConnection, _ wanted: DBusObjects) async throws(DBusError) -> ManagedObjects {
        try ManagedObjects(
            reply: await connection.call(
                BlueZName.service, "/", BlueZName.objectManager, "GetManagedObjects", selecting: wanted))
    }

    /// - Throws: ``DBusError/unexpectedReply(expected:found:)``.
    init(reply: [DBusValue]) throws(DBusError) {
        guard let paths = reply.first?.stringKeyed else {
            throw .unexpectedReply(expected: "a{oa{sa{sv}}}", found: reply.signature)
        }
        objects = paths.compactMapValues { Self.interfaces($0) }
    }

    /// The interfaces of one object (`a{sa{sv}}`); nil for another type.
    static func interfaces(_ value: DBusValue) -> Interfaces? {
        value.stringKeyed?.compactMapValues(\.stringKeyed)
    }

    /// The objects with an interface, and its properties.
    func with(_ interface: String) -> [(path: String, properties: [String: DBusValue])] {
        objects.compactMap { path, interfaces in interfaces[interface].map { (path, $0) } }
    }
}
