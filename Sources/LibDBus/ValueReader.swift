import CDBus
import Glibc

/// Reads values out of a message. libdbus has checked the message; what it does not check is how much memory its values
/// take, and that is bounded here.
struct ValueReader {
    /// Why a message is not read.
    enum Failure: Error {
        case tooManyValues
        case tooDeep
        case unknownType(Int32)
        case fileDescriptor
    }

    /// How many values one message may hold; an array of bytes counts as one.
    static let mostValues = 1 << 20

    private var left = mostValues
    /// The entries that are read of a dictionary of objects; nil for all.
    private var selection: DBusObjects?

    /// All arguments; of dictionaries of objects those that are selected.
    static func arguments(
        of message: OpaquePointer, _ selection: DBusObjects? = nil
    ) throws(Failure) -> [DBusValue] {
        var iterator = DBusMessageIter()
        guard dbus_message_iter_init(message, &iterator) != 0 else { return [] }
        var reader = ValueReader(selection: selection)
        return try reader.values(at: &iterator, depth: 0)
    }

    /// The value an iterator stands on.
    static func value(at iterator: inout DBusMessageIter) throws(Failure) -> DBusValue? {
        var reader = ValueReader()
        let type = dbus_message_iter_get_arg_type(&iterator)
        return type == 0 ? nil : try reader.value(type, at: &iterator, depth: 0)
    }

    /// The octets of an array of bytes that an iterator stands on, in place.
    static func octets(at iterator: inout DBusMessageIter) -> UnsafeRawBufferPointer {
        var inside = DBusMessageIter()
        var start: UnsafeRawPointer?
        var count: Int32 = 0
        dbus_message_iter_recurse(&iterator, &inside)
        dbus_message_iter_get_fixed_array(&inside, &start, &count)
        return UnsafeRawBufferPointer(start: start, count: start == nil ? 0 : Int(max(count, 0)))
    }

    private mutating func values(at iterator: inout DBusMessageIter, depth: Int) throws(Failure) -> [DBusValue] {
        guard depth <= WireType.deepest else { throw .tooDeep }
        var result: [DBusValue] = []
        while true {
            let type = dbus_message_iter_get_arg_type(&iterator)
            if type == 0 { return result }
            result.append(try value(type, at: &iterator, depth: depth))
            dbus_message_iter_next(&iterator)
        }
    }

    private mutating func value(
        _ code: Int32, at iterator: inout DBusMessageIter, depth: Int
    ) throws(Failure) -> DBusValue {
        guard left > 0 else { throw .tooManyValues }
        left -= 1
        guard let type = WireType(rawValue: code) else { throw .unknownType(code) }
        switch type {
        case .byte: return .byte(basic(0, at: &iterator))
        case .bool: return .bool(basic(UInt32(0), at: &iterator) != 0)
        case .int16: return .int16(basic(0, at: &iterator))
        case .uint16: return .uint16(basic(0, at: &iterator))
        case .int32: return .int32(basic(0, at: &iterator))
        case .uint32: return .uint32(basic(0, at: &iterator))
        case .int64: return .int64(basic(0, at: &iterator))
        case .uint64: return .uint64(basic(0, at: &iterator))
        case .double: return .double(basic(0, at: &iterator))
        case .string: return .string(text(at: &iterator))
        case .objectPath: return .objectPath(text(at: &iterator))
        case .signature: return .signature(text(at: &iterator))
        case .unixFD:
            // libdbus hands out a duplicate, or -1 where it could not make one.
            let descriptor = basic(Int32(-1), at: &iterator)
            guard descriptor >= 0 else { throw .fileDescriptor }
            return .unixFD(DBusFileDescriptor(received: descriptor))
        case .array: return try array(at: &iterator, depth: depth + 1)
        case .structure:
            var inside = DBusMessageIter()
            dbus_message_iter_recurse(&iterator, &inside)
            return .structure(try values(at: &inside, depth: depth + 1))
        case .variant:
            var inside = DBusMessageIter()
            dbus_message_iter_recurse(&iterator, &inside)
            guard depth < WireType.deepest else { throw .tooDeep }
            return .variant(try value(dbus_message_iter_get_arg_type(&inside), at: &inside, depth: depth + 1))
        case .dictionaryEntry: throw .unknownType(code)
        }
    }

    private mutating func array(at iterator: inout DBusMessageIter, depth: Int) throws(Failure) -> DBusValue {
        switch WireType(rawValue: dbus_message_iter_get_element_type(&iterator)) {
        case .byte:
            return .bytes([UInt8](Self.octets(at: &iterator)))
        case .dictionaryEntry:
            return try dictionary(at: &iterator, depth: depth + 1)
        default:
            let element = String(signature(at: &iterator).dropFirst())
            var inside = DBusMessageIter()
            dbus_message_iter_recurse(&iterator, &inside)
            return .array(try values(at: &inside, depth: depth), of: element)
        }
    }

    private mutating func dictionary(at iterator: inout DBusMessageIter, depth: Int) throws(Failure) -> DBusValue {
        guard depth <= WireType.deepest else { throw .tooDeep }
        // a{KV…}: the key is of a basic type, which is one letter.
        let types = signature(at: &iterator).dropFirst(2).dropLast()
        var result: [DBusValue: DBusValue] = [:]
        var entries = DBusMessageIter()
        dbus_message_iter_recurse(&iterator, &entries)
        while dbus_message_iter_get_arg_type(&entries) == WireType.dictionaryEntry.rawValue {
            var entry = DBusMessageIter()
            dbus_message_iter_recurse(&entries, &entry)
            if let selection, types.first == "o", !selection.contains(path(at: &entry)) {
                dbus_message_iter_next(&entries)
                continue
            }
            let key = try value(dbus_message_iter_get_arg_type(&entry), at: &entry, depth: depth)
            dbus_message_iter_next(&entry)
            result[key] = try value(dbus_message_iter_get_arg_type(&entry), at: &entry, depth: depth)
            dbus_message_iter_next(&entries)
        }
        return .dictionary(result, key: String(types.prefix(1)), value: String(types.dropFirst()))
    }

    private func basic<Value: BitwiseCopyable>(_ zero: Value, at iterator: inout DBusMessageIter) -> Value {
        var value = zero
        dbus_message_iter_get_basic(&iterator, &value)
        return value
    }

    /// The octets of a path in place.
    private func path(at iterator: inout DBusMessageIter) -> UnsafeRawBufferPointer {
        let text: UnsafePointer<CChar>? = basic(nil, at: &iterator)
        return UnsafeRawBufferPointer(start: text, count: text.map { strlen($0) } ?? 0)
    }

    private func text(at iterator: inout DBusMessageIter) -> String {
        let text: UnsafePointer<CChar>? = basic(nil, at: &iterator)
        return text.map { String(cString: $0) } ?? ""
    }

    private func signature(at iterator: inout DBusMessageIter) -> String {
        guard let text = dbus_message_iter_get_signature(&iterator) else { return "" }
        defer { dbus_free(text) }
        return String(cString: text)
    }
}

extension ValueReader.Failure: CustomStringConvertible {
    var description: String {
        switch self {
        case .tooManyValues: "more than \(ValueReader.mostValues) values"
        case .tooDeep: "containers more than \(WireType.deepest) deep"
        case .unknownType(let code): "a value of the unknown type \(code)"
        case .fileDescriptor: "a file descriptor that did not come with it"
        }
    }
}
