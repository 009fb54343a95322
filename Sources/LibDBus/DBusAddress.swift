import CDBus
import Glibc

/// Which message bus a connection is made to.
public enum DBusAddress: Sendable, Hashable {
    /// The system's bus, or the one `DBUS_SYSTEM_BUS_ADDRESS` names.
    case system
    /// The bus of the user's session: `DBUS_SESSION_BUS_ADDRESS`.
    case session
    /// A bus at an address: `unix:path=/run/dbus/system_bus_socket` (D-Bus Specification, "Server Addresses").
    case address(String)
}

extension DBusAddress {
    /// The address itself (D-Bus Specification, "Well-known Message Bus Instances").
    ///
    /// - Throws: ``DBusError/cannotConnect(_:)`` where the environment tells of no session.
    func text() throws(DBusError) -> String {
        switch self {
        case .address(let text): return text
        case .system: return Self.environment("DBUS_SYSTEM_BUS_ADDRESS") ?? "unix:path=/var/run/dbus/system_bus_socket"
        case .session:
            if let text = Self.environment("DBUS_SESSION_BUS_ADDRESS") { return text }
            guard let folder = Self.environment("XDG_RUNTIME_DIR"),
                let escaped = dbus_address_escape_value(folder + "/bus")
            else { throw .cannotConnect("neither DBUS_SESSION_BUS_ADDRESS nor XDG_RUNTIME_DIR is set") }
            defer { dbus_free(escaped) }
            return "unix:path=" + String(cString: escaped)
        }
    }

    private static func environment(_ name: String) -> String? {
        getenv(name).map { String(cString: $0) }.flatMap { $0.isEmpty ? nil : $0 }
    }
}
