/// A method of an exported object, for who asks what it can do and to check what it is called with.
public struct DBusMethodDescription: Sendable, Hashable {
    /// Its name.
    public var name: String
    /// The signature of its arguments: `ou`.
    public var arguments: String
    /// The signature of its results.
    public var results: String

    /// Makes a description.
    public init(_ name: String, arguments: String = "", results: String = "") {
        self.name = name
        self.arguments = arguments
        self.results = results
    }
}

/// Answers a call of an exported object's method.
public typealias DBusMethodHandler =
    nonisolated(nonsending) @Sendable (DBusMethodCall) async throws -> [DBusValue]

/// The objects a connection exports, by path and interface.
struct ExportedObjects {
    struct Interface {
        var methods: [DBusMethodDescription]
        var handler: DBusMethodHandler
    }

    private var objects: [String: [String: Interface]] = [:]

    subscript(path: String) -> [String: Interface]? { objects[path] }

    mutating func add(_ interface: Interface, _ name: String, at path: String) {
        objects[path, default: [:]][name] = interface
    }

    mutating func remove(_ path: String) { objects[path] = nil }

    /// Whether an object is at this path or below it.
    func isNode(_ path: String) -> Bool { objects[path] != nil || !children(of: path).isEmpty }

    private func children(of path: String) -> [String] {
        let prefix = path == "/" ? "/" : path + "/"
        let names = objects.keys.compactMap { other -> String? in
            guard other != path, other.hasPrefix(prefix) else { return nil }
            return other.dropFirst(prefix.count).split(separator: "/").first.map(String.init)
        }
        return Set(names).sorted()
    }

    /// What is at a path, as `org.freedesktop.DBus.Introspectable` answers it. Names, paths and signatures, which were
    /// all checked, need no escaping.
    func introspection(of path: String) -> String {
        var lines = [
            #"<!DOCTYPE node PUBLIC "-//freedesktop//DTD D-BUS Object Introspection 1.0//EN""#,
            #" "http://www.freedesktop.org/standards/dbus/1.0/introspect.dtd">"#, "<node>",
        ]
        for (name, interface) in (objects[path] ?? [:]).sorted(by: { $0.key < $1.key }) {
            lines.append(#" <interface name="\#(name)">"#)
            for method in interface.methods {
                lines.append(#"  <method name="\#(method.name)">"#)
                lines += Self.arguments(method.arguments, "in") + Self.arguments(method.results, "out")
                lines.append("  </method>")
            }
            lines.append(" </interface>")
        }
        lines += [
            #" <interface name="org.freedesktop.DBus.Introspectable">"#,
            #"  <method name="Introspect"><arg type="s" direction="out"/></method>"#, " </interface>",
            #" <interface name="org.freedesktop.DBus.Peer">"#, #"  <method name="Ping"/>"#,
            #"  <method name="GetMachineId"><arg type="s" direction="out"/></method>"#, " </interface>",
        ]
        lines += children(of: path).map { #" <node name="\#($0)"/>"# }
        return (lines + ["</node>", ""]).joined(separator: "\n")
    }

    private static func arguments(_ signature: String, _ direction: String) -> [String] {
        Name.singleTypes(of: signature).map { #"   <arg type="\#($0)" direction="\#(direction)"/>"# }
    }
}

extension Name {
    /// A signature's types one by one: `a{sv}`, `o`; of one that was checked.
    static func singleTypes(of signature: String) -> [String] {
        var types: [String] = []
        var type = ""
        for letter in signature {
            type.append(letter)
            if singleType.accepts(type) {
                types.append(type)
                type = ""
            }
        }
        return types
    }
}
