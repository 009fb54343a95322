/// Checks values before they are sent: libdbus ends the process over a wrong one, and the bus the connection over a
/// message that is too deep or too large (D-Bus Specification, "Valid Signatures", "Message Format").
struct WireCheck {
    /// Octets an array may have.
    static let longestArray = 1 << 26
    /// Octets a message may have; a little is left for its header.
    static let longestBody = (1 << 27) - (1 << 16)

    private var size = 0

    /// - Throws: ``DBusError/invalidArgument(_:)``.
    static func check(_ values: [DBusValue]) throws(DBusError) {
        var check = WireCheck()
        for value in values { try check.add(value, depth: 0) }
        try Name.signature.check(values.signature)
    }

    private mutating func grow(_ count: Int, alignedTo alignment: Int = 1) throws(DBusError) {
        size = (size + alignment - 1) & ~(alignment - 1)
        guard count <= Self.longestBody - size else {
            throw .invalidArgument("expected a message of at most \(Self.longestBody) octets")
        }
        size += count
    }

    private mutating func add(text: String, _ kind: Name, lengthOf lengthSize: Int) throws(DBusError) {
        try grow(lengthSize, alignedTo: lengthSize)
        try grow(text.utf8.count + 1)
        try kind.check(text)
    }

    private mutating func add(_ value: DBusValue, depth: Int) throws(DBusError) {
        guard depth <= WireType.deepest else {
            throw .invalidArgument("expected at most \(WireType.deepest) containers in each other")
        }
        switch value {
        case .byte: try grow(1)
        case .int16, .uint16: try grow(2, alignedTo: 2)
        case .bool, .int32, .uint32, .unixFD: try grow(4, alignedTo: 4)
        case .int64, .uint64, .double: try grow(8, alignedTo: 8)
        case .string(let text): try add(text: text, .text, lengthOf: 4)
        case .objectPath(let path): try add(text: path, .path, lengthOf: 4)
        case .signature(let signature): try add(text: signature, .signature, lengthOf: 1)
        case .bytes(let octets):
            try grow(4, alignedTo: 4)
            try addArray(depth: depth) { check throws(DBusError) in try check.grow(octets.count) }
        case .array(let elements, let type):
            try Name.singleType.check(type)
            try grow(4, alignedTo: 4)
            try addArray(depth: depth) { check throws(DBusError) in
                for element in elements {
                    try Self.expect(element, type)
                    try check.add(element, depth: depth + 1)
                }
            }
        case .structure(let members):
            guard !members.isEmpty else { throw .invalidArgument("expected a structure with members, found none") }
            try grow(0, alignedTo: 8)
            for member in members { try add(member, depth: depth + 1) }
        case .dictionary(let entries, let key, let type):
            guard key.utf8.count == 1, key != "v", Name.singleType.accepts(key) else {
                throw .invalidArgument("expected a key of a basic type, found the signature \"\(key)\"")
            }
            try Name.singleType.check(type)
            try grow(4, alignedTo: 4)
            try addArray(depth: depth + 1) { check throws(DBusError) in
                for (name, value) in entries {
                    try check.grow(0, alignedTo: 8)
                    try Self.expect(name, key)
                    try Self.expect(value, type)
                    try check.add(name, depth: depth + 2)
                    try check.add(value, depth: depth + 2)
                }
            }
        case .variant(let inner):
            // The signature's length, its text and a NUL; the text is checked where the value is deep enough.
            try add(inner, depth: depth + 1)
            let signature = inner.signature
            try Name.singleType.check(signature)
            try grow(signature.utf8.count + 2)
            // The inner value's alignment may move it by seven octets.
            try grow(7)
        }
    }

    private mutating func addArray(
        depth: Int, _ body: (inout WireCheck) throws(DBusError) -> Void
    ) throws(DBusError) {
        guard depth < WireType.deepest else {
            throw .invalidArgument("expected at most \(WireType.deepest) containers in each other")
        }
        try grow(0, alignedTo: 8)
        let start = size
        try body(&self)
        guard size - start <= Self.longestArray else {
            throw .invalidArgument("expected an array of at most \(Self.longestArray) octets, found \(size - start)")
        }
    }

    private static func expect(_ value: DBusValue, _ type: String) throws(DBusError) {
        let found = value.signature
        guard found == type else {
            throw .invalidArgument("expected an element of type \"\(type)\", found \"\(found)\"")
        }
    }
}
