import CDBus

/// The fields of a message's header, where they lie in the message: valid for as long as that is.
struct MessageHeader {
    let sender: UnsafePointer<CChar>?
    let path: UnsafePointer<CChar>?
    let interface: UnsafePointer<CChar>?
    let member: UnsafePointer<CChar>?

    init(of message: OpaquePointer) {
        sender = dbus_message_get_sender(message)
        path = dbus_message_get_path(message)
        interface = dbus_message_get_interface(message)
        member = dbus_message_get_member(message)
    }

    /// The message's first argument, where it is a string (`s`), or an object path (`o`).
    static func firstText(of message: OpaquePointer) -> (type: WireType, text: UnsafePointer<CChar>)? {
        var iterator = DBusMessageIter()
        guard dbus_message_iter_init(message, &iterator) != 0,
            let type = WireType(rawValue: dbus_message_iter_get_arg_type(&iterator)),
            type == .string || type == .objectPath
        else { return nil }
        var text: UnsafePointer<CChar>?
        dbus_message_iter_get_basic(&iterator, &text)
        return text.map { (type, $0) }
    }
}
