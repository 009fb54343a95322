/// Which message bus a connection is made to.
public enum DBusAddress: Sendable, Hashable {
    /// The system's bus, or the one `DBUS_SYSTEM_BUS_ADDRESS` names.
    case system
    /// The bus of the user's session: `DBUS_SESSION_BUS_ADDRESS`.
    case session
    /// A bus at an address: `unix:path=/run/dbus/system_bus_socket` (D-Bus Specification, "Server Addresses").
    case address(String)
}
