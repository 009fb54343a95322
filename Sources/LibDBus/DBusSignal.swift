import CDBus
import Glibc

/// A signal as it lies in libdbus' message, for as long as `decode` runs: nothing is copied before it is asked for.
public struct DBusSignal: ~Copyable {
    let message: OpaquePointer
    let header: MessageHeader

    init(_ message: OpaquePointer) {
        self.message = message
        header = MessageHeader(of: message)
    }

    /// Who sent it: a unique name, or `org.freedesktop.DBus`.
    public var sender: String { header.sender.map { String(cString: $0) } ?? "" }

    /// The object.
    public var path: String { header.path.map { String(cString: $0) } ?? "" }

    /// The interface.
    public var interface: String { header.interface.map { String(cString: $0) } ?? "" }

    /// The signal's name.
    public var member: String { header.member.map { String(cString: $0) } ?? "" }

    /// Whether it is this signal of this interface.
    public func isMember(_ interface: StaticString, _ member: StaticString) -> Bool {
        header.member.isText(member) && header.interface.isText(interface)
    }

    /// Whether it is `org.freedesktop.DBus.Properties.PropertiesChanged` for this interface.
    public func isChange(of interface: StaticString) -> Bool {
        guard isMember("org.freedesktop.DBus.Properties", "PropertiesChanged"),
            let first = MessageHeader.firstText(of: message), first.type == .string
        else { return false }
        return Optional(first.text).isText(interface)
    }

    /// Whether the object has this path.
    public func pathEquals(_ path: String) -> Bool {
        guard let own = header.path else { return false }
        var path = path
        return path.withUTF8 { text in
            guard strlen(own) == text.count, let start = text.baseAddress else { return false }
            return memcmp(own, start, text.count) == 0
        }
    }

    /// All arguments as values; none where they hold more than 1,048,576 values.
    public func arguments() -> [DBusValue] { (try? ValueReader.arguments(of: message)) ?? [] }

    /// The argument at a place as a value; nil where there is none.
    public func argument(_ index: Int) -> DBusValue? {
        var iterator = DBusMessageIter()
        guard index >= 0, dbus_message_iter_init(message, &iterator) != 0 else { return nil }
        for _ in 0..<index where dbus_message_iter_next(&iterator) == 0 { return nil }
        return try? ValueReader.value(at: &iterator)
    }

    /// Walks what a `PropertiesChanged` signal (`sa{sv}as`) says has changed, in place.
    ///
    /// - Returns: whether it is one: false, and nothing was walked, where its arguments have other types.
    @discardableResult
    public func forEachChangedProperty<Failure: Error>(
        _ body: (borrowing DBusProperty) throws(Failure) -> Void
    ) throws(Failure) -> Bool {
        var arguments = DBusMessageIter()
        guard dbus_message_has_signature(message, "sa{sv}as") != 0, dbus_message_iter_init(message, &arguments) != 0,
            dbus_message_iter_next(&arguments) != 0
        else { return false }
        try DBusProperty.forEach(in: &arguments, body)
        return true
    }

    /// The names of the properties a `PropertiesChanged` signal (`sa{sv}as`) says are no longer valid.
    public func invalidatedProperties() -> [String] {
        guard dbus_message_has_signature(message, "sa{sv}as") != 0 else { return [] }
        return argument(2)?.stringValues ?? []
    }
}

extension UnsafePointer<CChar>? {
    /// Whether this is the text.
    func isText(_ text: StaticString) -> Bool {
        guard let self, text.hasPointerRepresentation else { return false }
        return strcmp(
            UnsafeRawPointer(self).assumingMemoryBound(to: CChar.self),
            UnsafeRawPointer(text.utf8Start).assumingMemoryBound(to: CChar.self)) == 0
    }
}
