import CDBus

/// Writes values into a message.
enum ValueWriter {
    private typealias Iterator = UnsafeMutablePointer<DBusMessageIter>

    /// Appends arguments.
    ///
    /// - Throws: ``DBusError/invalidArgument(_:)``; the message is then of no use.
    static func append(_ values: [DBusValue], to message: OpaquePointer) throws(DBusError) {
        if values.isEmpty { return }
        try WireCheck.check(values)
        var iterator = DBusMessageIter()
        dbus_message_iter_init_append(message, &iterator)
        let isWhole = withUnsafeMutablePointer(to: &iterator) { iterator in
            values.allSatisfy { append($0, to: iterator) }
        }
        // What is left after the check: no memory, or no file descriptor for a duplicate.
        guard isWhole else { throw .invalidArgument("the system has no memory or no file descriptor left") }
    }

    private static func append(_ value: DBusValue, to iterator: Iterator) -> Bool {
        switch value {
        case .byte(let value): basic(.byte, value, iterator)
        case .bool(let value): basic(.bool, dbus_bool_t(value ? 1 : 0), iterator)
        case .int16(let value): basic(.int16, value, iterator)
        case .uint16(let value): basic(.uint16, value, iterator)
        case .int32(let value): basic(.int32, value, iterator)
        case .uint32(let value): basic(.uint32, value, iterator)
        case .int64(let value): basic(.int64, value, iterator)
        case .uint64(let value): basic(.uint64, value, iterator)
        case .double(let value): basic(.double, value, iterator)
        case .string(let text): text.withCString { basic(.string, $0, iterator) }
        case .objectPath(let path): path.withCString { basic(.objectPath, $0, iterator) }
        case .signature(let signature): signature.withCString { basic(.signature, $0, iterator) }
        case .unixFD(let descriptor): basic(.unixFD, descriptor.rawValue, iterator)
        case .bytes(let octets):
            container(.array, "y", iterator) { inside in
                if octets.isEmpty { return true }
                return octets.withUnsafeBufferPointer { octets in
                    var start = octets.baseAddress
                    return dbus_message_iter_append_fixed_array(
                        inside, WireType.byte.rawValue, &start, Int32(octets.count)) != 0
                }
            }
        case .array(let elements, let type):
            container(.array, type, iterator) { inside in elements.allSatisfy { append($0, to: inside) } }
        case .structure(let members):
            container(.structure, nil, iterator) { inside in members.allSatisfy { append($0, to: inside) } }
        case .dictionary(let entries, let key, let type):
            container(.array, "{\(key)\(type)}", iterator) { inside in
                entries.allSatisfy { key, value in
                    container(.dictionaryEntry, nil, inside) { append(key, to: $0) && append(value, to: $0) }
                }
            }
        case .variant(let inner):
            container(.variant, inner.signature, iterator) { append(inner, to: $0) }
        }
    }

    private static func basic<Value>(_ type: WireType, _ value: Value, _ iterator: Iterator) -> Bool {
        withUnsafePointer(to: value) { dbus_message_iter_append_basic(iterator, type.rawValue, $0) != 0 }
    }

    private static func container(
        _ type: WireType, _ signature: String?, _ iterator: Iterator, _ body: (Iterator) -> Bool
    ) -> Bool {
        var inside = DBusMessageIter()
        return withUnsafeMutablePointer(to: &inside) { inside in
            guard dbus_message_iter_open_container(iterator, type.rawValue, signature, inside) != 0 else {
                return false
            }
            if body(inside) { return dbus_message_iter_close_container(iterator, inside) != 0 }
            dbus_message_iter_abandon_container(iterator, inside)
            return false
        }
    }
}
