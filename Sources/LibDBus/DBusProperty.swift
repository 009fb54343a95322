import CDBus

/// A property in a message, read in place: a name, and the value inside its variant.
public struct DBusProperty: ~Copyable {
    private let nameText: UnsafePointer<CChar>
    private let content: DBusMessageIter

    /// Its name.
    public var name: String { String(cString: nameText) }

    /// Whether it has this name.
    public func isNamed(_ name: StaticString) -> Bool { Optional(nameText).isText(name) }

    /// The octets of an array of bytes; nil for another type.
    public var bytes: [UInt8]? { withBytes { span in span.withUnsafeBytes { [UInt8]($0) } } }

    /// The octets of an array of bytes in place; nil, and `body` is not called, for another type.
    public func withBytes<Result, Failure: Error>(
        _ body: (RawSpan) throws(Failure) -> Result
    ) throws(Failure) -> Result? {
        var iterator = content
        guard dbus_message_iter_get_arg_type(&iterator) == WireType.array.rawValue,
            dbus_message_iter_get_element_type(&iterator) == WireType.byte.rawValue
        else { return nil }
        return try body(ValueReader.octets(at: &iterator).bytes)
    }

    /// A boolean; nil for another type.
    public var boolValue: Bool? { value?.boolValue }

    /// An integer of any width; nil for another type, or where it is too large for `Int`.
    public var intValue: Int? { value?.intValue }

    /// A string; nil for another type.
    public var stringValue: String? { value?.stringValue }

    /// The value, whatever its type; nil where it holds more than 1,048,576 values.
    public var value: DBusValue? {
        var iterator = content
        return try? ValueReader.value(at: &iterator)
    }

    /// Walks a dictionary `a{sv}`.
    static func forEach<Failure: Error>(
        in dictionary: inout DBusMessageIter, _ body: (borrowing DBusProperty) throws(Failure) -> Void
    ) throws(Failure) {
        var entries = DBusMessageIter()
        dbus_message_iter_recurse(&dictionary, &entries)
        while dbus_message_iter_get_arg_type(&entries) == WireType.dictionaryEntry.rawValue {
            var entry = DBusMessageIter()
            var content = DBusMessageIter()
            var name: UnsafePointer<CChar>?
            dbus_message_iter_recurse(&entries, &entry)
            dbus_message_iter_get_basic(&entry, &name)
            dbus_message_iter_next(&entry)
            dbus_message_iter_recurse(&entry, &content)
            if let name { try body(DBusProperty(nameText: name, content: content)) }
            dbus_message_iter_next(&entries)
        }
    }
}
