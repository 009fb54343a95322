import LibDBus

extension DBusConnection {
    /// What the Bluetooth service says of the device at a path; nil where the answer is no `a{sv}`.
    func deviceProperties(at path: String) async throws(DBusError) -> [String: DBusValue]? {
        try await call(BlueZName.service, path, BlueZName.properties, "GetAll", [.string(BlueZName.device)])
            .first?.stringKeyed
    }

    /// The properties that the Bluetooth service's object at a path has of an interface; nil where it hasn't that.
    fileprivate func properties(of interface: String, at path: String) async throws(DBusError) -> [String: DBusValue]? {
        let reply: [DBusValue]
        do throws(DBusError) {
            reply = try await call(BlueZName.service, path, BlueZName.properties, "GetAll", [.string(interface)])
        } catch {
            guard RemoteError(error)?.isWithoutInterface ?? false else { throw error }
            return nil
        }
        guard let properties = reply.first?.stringKeyed else {
            throw .unexpectedReply(expected: "a{sv}", found: reply.signature)
        }
        return properties
    }

    /// The paths of the Bluetooth service's objects right below a path, as introspection tells them.
    fileprivate func children(of path: String) async throws(DBusError) -> [String] {
        let reply = try await call(BlueZName.service, path, BlueZName.introspectable, "Introspect")
        guard let text = reply.first?.stringValue else {
            throw .unexpectedReply(expected: "s", found: reply.signature)
        }
        return Self.childNames(in: text).map { "\(path)/\($0)" }
    }

    /// The names of an object's children in an answer of `Introspect` (D-Bus Specification, "Introspection Data Format"),
    /// as the daemon writes it.
    static func childNames(in text: String) -> [Substring] {
        text.split(separator: #"<node name=""#).dropFirst().compactMap { rest in
            rest.firstIndex(of: #"""#).map { rest[..<$0] }
        }
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

    /// Asks for the attributes of one device, object by object.
    ///
    /// The answer to `GetManagedObjects` has every object of the daemon: of a thousand bonded meters it is megabytes, which
    /// would be built, sent and looked through in each contact.
    static func attributes(
        of device: String, _ connection: DBusConnection
    ) async throws(DBusError) -> ManagedObjects {
        var objects: [String: Interfaces] = [:]
        func note(_ path: String, _ interface: String) async throws(DBusError) -> Bool {
            guard let properties = try await connection.properties(of: interface, at: path) else { return false }
            objects[path, default: [:]][interface] = properties
            return true
        }
        _ = try await note(device, BlueZName.battery)
        for service in try await connection.children(of: device) {
            guard try await note(service, BlueZName.gattService) else { continue }
            for characteristic in try await connection.children(of: service) {
                _ = try await note(characteristic, BlueZName.gattCharacteristic)
            }
        }
        return ManagedObjects(objects: objects)
    }

    private init(objects: [String: Interfaces]) { self.objects = objects }

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
