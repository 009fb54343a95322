import GATTClient
import LibDBus

/// An error the daemon or the bus answered with: what kind it is, across BlueZ's versions.
struct RemoteError: Sendable, Hashable {
    let name: String
    let message: String

    init?(_ error: any Error) {
        guard case .remote(let name, let message)? = error as? DBusError else { return nil }
        self.name = name
        self.message = message
    }

    private func isNamed(_ names: String...) -> Bool { names.contains(name) }

    /// The object, its interface or its method is not there (any more).
    var isVanished: Bool {
        isNamed(
            "org.freedesktop.DBus.Error.UnknownObject", "org.freedesktop.DBus.Error.UnknownMethod",
            "org.freedesktop.DBus.Error.UnknownInterface", "org.bluez.Error.DoesNotExist")
    }

    /// The object is not there, or has no such interface, which bluetoothd calls an invalid argument.
    var isWithoutInterface: Bool { isVanished || isNamed("org.freedesktop.DBus.Error.InvalidArgs") }

    /// Nobody has the service's name, and nobody starts it.
    var isWithoutService: Bool {
        isNamed("org.freedesktop.DBus.Error.ServiceUnknown", "org.freedesktop.DBus.Error.NameHasNoOwner")
            || name.hasPrefix("org.freedesktop.DBus.Error.Spawn.") || name.hasPrefix("org.freedesktop.systemd1.")
    }

    /// The service left the bus before it answered.
    var isLost: Bool { isNamed("org.freedesktop.DBus.Error.NoReply", "org.freedesktop.DBus.Error.Disconnected") }

    var isDenied: Bool {
        isNamed("org.freedesktop.DBus.Error.AccessDenied", "org.freedesktop.DBus.Error.AuthFailed")
    }

    /// The adapter is off.
    var isNotReady: Bool { isNamed("org.bluez.Error.NotReady") }

    var isBlocked: Bool { isNamed("org.bluez.Error.Blocked") || message.contains("rfkill") }

    /// Something else is being done to the same device or adapter.
    var isInProgress: Bool {
        isNamed("org.bluez.Error.InProgress", "org.bluez.Error.Busy")
            || message.contains("already in progress") || message.contains("In Progress")
    }

    /// The device has no link (any more).
    var isNotConnected: Bool {
        isNamed("org.bluez.Error.NotConnected") || message == "Not connected" || message == "Not Connected"
    }

    /// The daemon says outright that the device has lost its key (since 5.8x; before it says "abort-by-local").
    var isKeyMissing: Bool { message.contains("key-missing") || message.contains("Key Missing") }

    /// The link came and went before the daemon could use it: at the edge of reach, or because the device rejects the key
    /// (`device_remove_connection`; "br" though the link was LE, and other words before 5.62).
    var isCancelled: Bool { message.contains("connection-canceled") || message == "Disconnected early" }

    /// A connection attempt that is worth another: these pass by themselves (BlueZ, `src/error.c`, and its issues).
    var isPassing: Bool {
        isInProgress || isCancelled
            || [
                "abort-by-local", "Input/output error", "Software caused connection abort", "Connection reset by peer",
                "connection-unknown", "connection-refused", "concurrent-connection-limit", "abort-by-remote",
                "Device or resource busy", "connection-timeout", "Connection timed out", "Host is down",
                "gatt-browsing", "Operation already in progress", "Transport endpoint is not connected",
            ].contains { message.contains($0) }
            || isNamed("org.bluez.Error.ConnectionAttemptFailed")
    }

    /// The ATT error the device answered with, as far as the daemon tells (BlueZ, `create_gatt_dbus_error`).
    ///
    /// - Parameter refusal: the code where the daemon only says that the operation is not permitted.
    func attributeError(refusal: UInt8) -> UInt8? {
        switch name {
        case "org.bluez.Error.NotPermitted":
            switch message {
            case "Read not permitted": return 0x02
            case "Write not permitted": return 0x03
            // Insufficient authentication, encryption and key size are told as one.
            case "Not paired": return 0x05
            default: return refusal
            }
        case "org.bluez.Error.NotAuthorized": return 0x08
        case "org.bluez.Error.NotSupported": return 0x06
        case "org.bluez.Error.InvalidArguments":
            switch message {
            case "Invalid offset": return 0x07
            case "Invalid Length": return 0x0D
            // The daemon did not ask the device.
            default: return nil
            }
        case "org.bluez.Error.ImproperlyConfigured": return 0xFD
        case "org.bluez.Error.Failed":
            let marker = "ATT error: 0x"
            guard let range = message.firstRange(of: marker) else { return nil }
            return UInt8(message[range.upperBound...].prefix { $0.isHexDigit }, radix: 16)
        default: return nil
        }
    }
}

extension DBusError {
    /// What it means for the radio where nothing more is known of the call.
    var radioError: any Error {
        switch self {
        case .cannotConnect(let why): return RadioError.noBus(why)
        case .disconnected: return RadioError.lost
        case .cancelled: return CancellationError()
        case .timedOut(let what): return RadioError.other(name: "timeout", message: what)
        case .invalidArgument(let what): return RadioError.other(name: "invalid_argument", message: what)
        case .unexpectedReply: return RadioError.other(name: "unexpected_reply", message: description)
        case .remote(let name, let message):
            guard let remote = RemoteError(self) else { return RadioError.other(name: name, message: message) }
            if remote.isWithoutService { return RadioError.noService }
            if remote.isLost { return RadioError.lost }
            if remote.isDenied { return RadioError.notPermitted(message) }
            return RadioError.other(name: name, message: message)
        }
    }
}
