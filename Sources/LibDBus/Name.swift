import CDBus

/// The kinds of text that libdbus takes, each with its check: given anything else, libdbus ends the process.
enum Name {
    case bus, path, interface, member, error, signature, singleType, text

    private var expected: String {
        switch self {
        case .bus: "a bus name (org.bluez, :1.42)"
        case .path: "an object path (/org/bluez)"
        case .interface: "an interface name (org.bluez.Adapter1)"
        case .member: "a member's name (StartDiscovery)"
        case .error: "an error name (org.bluez.Error.Failed)"
        case .signature: "a signature (a{sv})"
        case .singleType: "the signature of one type (a{sv})"
        case .text: "a text without NUL"
        }
    }

    /// Whether it is one.
    func accepts(_ text: String) -> Bool {
        if text.utf8.contains(0) { return false }
        let isValid =
            switch self {
            case .bus: dbus_validate_bus_name(text, nil)
            case .path: dbus_validate_path(text, nil)
            case .interface: dbus_validate_interface(text, nil)
            case .member: dbus_validate_member(text, nil)
            case .error: dbus_validate_error_name(text, nil)
            case .signature: dbus_signature_validate(text, nil)
            case .singleType: dbus_signature_validate_single(text, nil)
            case .text: dbus_validate_utf8(text, nil)
            }
        return isValid != 0
    }

    /// - Throws: ``DBusError/invalidArgument(_:)``, with a text's beginning where it is long.
    func check(_ text: String) throws(DBusError) {
        guard accepts(text) else {
            let shown = text.unicodeScalars.prefix(80).map { $0.escaped(asASCII: true) }.joined()
            throw .invalidArgument("expected \(expected), found \"\(shown)\"")
        }
    }
}
