/// Looks at a value as a type: through variants, and nil for another type.
extension DBusValue {
    /// The value inside all variants around it.
    public var unwrapped: DBusValue {
        var value = self
        while case .variant(let inner) = value { value = inner }
        return value
    }

    /// The text of a string; nil for an object path or a signature.
    public var stringValue: String? {
        guard case .string(let text) = unwrapped else { return nil }
        return text
    }

    /// The path of an object path; nil for a string.
    public var objectPathValue: String? {
        guard case .objectPath(let path) = unwrapped else { return nil }
        return path
    }

    /// A boolean; nil for a number.
    public var boolValue: Bool? {
        guard case .bool(let value) = unwrapped else { return nil }
        return value
    }

    /// An integer of any width, signed or not; nil where it is too large for `Int`.
    public var intValue: Int? {
        switch unwrapped {
        case .byte(let value): Int(value)
        case .int16(let value): Int(value)
        case .uint16(let value): Int(value)
        case .int32(let value): Int(value)
        case .uint32(let value): Int(value)
        case .int64(let value): Int(exactly: value)
        case .uint64(let value): Int(exactly: value)
        default: nil
        }
    }

    /// A floating-point number.
    public var doubleValue: Double? {
        guard case .double(let value) = unwrapped else { return nil }
        return value
    }

    /// The octets of an array of bytes.
    public var byteValues: [UInt8]? {
        switch unwrapped {
        case .bytes(let octets): octets
        case .array(let elements, of: "y"):
            elements.allSatisfy { if case .byte = $0 { true } else { false } }
                ? elements.compactMap { if case .byte(let octet) = $0 { octet } else { nil } } : nil
        default: nil
        }
    }

    /// The elements of an array; nil for an array of bytes and for a dictionary.
    public var arrayValue: [DBusValue]? {
        guard case .array(let elements, _) = unwrapped else { return nil }
        return elements
    }

    /// The texts of an array of strings; nil where an element is something else.
    public var stringValues: [String]? {
        guard let elements = arrayValue else { return nil }
        let texts = elements.compactMap(\.stringValue)
        return texts.count == elements.count ? texts : nil
    }

    /// The members of a structure.
    public var structureValue: [DBusValue]? {
        guard case .structure(let members) = unwrapped else { return nil }
        return members
    }

    /// A dictionary's values by their keys.
    public var dictionaryValue: [DBusValue: DBusValue]? {
        guard case .dictionary(let entries, _, _) = unwrapped else { return nil }
        return entries
    }

    /// The values of a dictionary whose keys are strings or object paths, by these.
    public var stringKeyed: [String: DBusValue]? {
        guard case .dictionary(let entries, let key, _) = unwrapped, key == "s" || key == "o" else { return nil }
        var result = [String: DBusValue](minimumCapacity: entries.count)
        for (key, value) in entries {
            switch key {
            case .string(let text), .objectPath(let text): result[text] = value
            default: return nil
            }
        }
        return result
    }

    /// The file descriptor.
    public var fileDescriptorValue: DBusFileDescriptor? {
        guard case .unixFD(let descriptor) = unwrapped else { return nil }
        return descriptor
    }

    /// A dictionary `a{sv}`, as properties and options are sent.
    public static func properties(_ entries: [String: DBusValue]) -> DBusValue {
        var result = [DBusValue: DBusValue](minimumCapacity: entries.count)
        for (key, value) in entries {
            if case .variant = value { result[.string(key)] = value } else { result[.string(key)] = .variant(value) }
        }
        return .dictionary(result, key: "s", value: "v")
    }
}
