import CDBus

/// A message of libdbus with one owner.
struct OwnedMessage: ~Copyable {
    let pointer: OpaquePointer

    deinit { dbus_message_unref(pointer) }

    /// Takes over a reference.
    init?(owning pointer: OpaquePointer?) {
        guard let pointer else { return nil }
        self.pointer = pointer
    }

    /// The signature of its arguments.
    var signature: String { dbus_message_get_signature(pointer).map { String(cString: $0) } ?? "" }

    /// libdbus keeps a path and an interface for itself; the bus ends a connection that uses them.
    private static func check(_ path: String, _ interface: String, _ member: String) throws(DBusError) {
        try Name.path.check(path)
        try Name.interface.check(interface)
        try Name.member.check(member)
        guard path != DBUS_PATH_LOCAL, interface != DBUS_INTERFACE_LOCAL else {
            throw .invalidArgument("expected a path and an interface that may be sent, found libdbus' own")
        }
    }

    private static func new(_ pointer: OpaquePointer?) throws(DBusError) -> OwnedMessage {
        guard let message = OwnedMessage(owning: pointer) else {
            throw .invalidArgument("the system has no memory left")
        }
        return message
    }

    /// A call of a method.
    static func call(
        _ destination: String, _ path: String, _ interface: String, _ member: String, _ arguments: [DBusValue]
    ) throws(DBusError) -> OwnedMessage {
        try Name.bus.check(destination)
        try check(path, interface, member)
        let message = try new(dbus_message_new_method_call(destination, path, interface, member))
        try ValueWriter.append(arguments, to: message.pointer)
        return message
    }

    /// A signal, to one peer or to all.
    static func signal(
        _ path: String, _ interface: String, _ member: String, _ arguments: [DBusValue], to destination: String?
    ) throws(DBusError) -> OwnedMessage {
        try check(path, interface, member)
        let message = try new(dbus_message_new_signal(path, interface, member))
        if let destination {
            try Name.bus.check(destination)
            dbus_message_set_destination(message.pointer, destination)
        }
        try ValueWriter.append(arguments, to: message.pointer)
        return message
    }

    /// The answer to a call.
    static func reply(to address: ReplyAddress, _ arguments: [DBusValue]) throws(DBusError) -> OwnedMessage {
        let message = try new(dbus_message_new(DBUS_MESSAGE_TYPE_METHOD_RETURN))
        address.write(to: message.pointer)
        try ValueWriter.append(arguments, to: message.pointer)
        return message
    }

    /// An error as the answer to a call. A name that is none becomes `org.freedesktop.DBus.Error.Failed`, and of a text
    /// with a NUL the part before it is sent.
    static func error(_ name: String, _ text: String, to address: ReplyAddress) throws(DBusError) -> OwnedMessage {
        let message = try new(dbus_message_new(DBUS_MESSAGE_TYPE_ERROR))
        dbus_message_set_error_name(message.pointer, Name.error.accepts(name) ? name : DBUS_ERROR_FAILED)
        address.write(to: message.pointer)
        let shown = String(text.prefix { $0 != "\0" }.prefix(4096))
        try ValueWriter.append([.string(Name.text.accepts(shown) ? shown : "")], to: message.pointer)
        return message
    }
}

/// Where the answer to a call goes.
struct ReplyAddress: Sendable, Hashable {
    /// The caller's unique name.
    var sender: String
    /// The call's serial number.
    var serial: UInt32

    func write(to message: OpaquePointer) {
        dbus_message_set_no_reply(message, 1)
        dbus_message_set_reply_serial(message, serial)
        if Name.bus.accepts(sender) { dbus_message_set_destination(message, sender) }
    }
}
