/// A value of a message (D-Bus Specification, "Type System").
///
/// A container carries its type, so that an empty one has one too.
public enum DBusValue: Sendable, Hashable {
    /// `y`
    case byte(UInt8)
    /// `b`
    case bool(Bool)
    /// `n`
    case int16(Int16)
    /// `q`
    case uint16(UInt16)
    /// `i`
    case int32(Int32)
    /// `u`
    case uint32(UInt32)
    /// `x`
    case int64(Int64)
    /// `t`
    case uint64(UInt64)
    /// `d`
    case double(Double)
    /// `s`: any text without NUL.
    case string(String)
    /// `o`: `/org/bluez/hci0`.
    case objectPath(String)
    /// `g`: a type's signature.
    case signature(String)
    /// `h`
    case unixFD(DBusFileDescriptor)
    /// `ay`: what messages bring as an array of bytes always has this form.
    case bytes([UInt8])
    /// `a` and the elements' signature.
    indirect case array([DBusValue], of: String)
    /// `(…)`: one member at least.
    case structure([DBusValue])
    /// `a{…}` with the signatures of key and value. Of entries with the same key a message's last counts.
    indirect case dictionary([DBusValue: DBusValue], key: String, value: String)
    /// `v`
    indirect case variant(DBusValue)

    /// The value's type as a signature: `a{sv}`.
    public var signature: String {
        switch self {
        case .byte: "y"
        case .bool: "b"
        case .int16: "n"
        case .uint16: "q"
        case .int32: "i"
        case .uint32: "u"
        case .int64: "x"
        case .uint64: "t"
        case .double: "d"
        case .string: "s"
        case .objectPath: "o"
        case .signature: "g"
        case .unixFD: "h"
        case .bytes: "ay"
        case .array(_, let element): "a" + element
        case .structure(let members): "(" + members.signature + ")"
        case .dictionary(_, let key, let value): "a{" + key + value + "}"
        case .variant: "v"
        }
    }
}

extension [DBusValue] {
    /// The signatures one after another, as a message's body has them.
    public var signature: String { map(\.signature).joined() }
}
