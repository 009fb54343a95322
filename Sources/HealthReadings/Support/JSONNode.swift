/// A JSON value with the octets that it was read from: digits are not rounded, and a part can be kept as it came.
package struct JSONNode: Sendable {
    package enum Value: Sendable {
        case null
        case bool(Bool)
        /// A number as it is written.
        case number(String)
        case string(String)
        case array([JSONNode])
        case object([(key: String, node: JSONNode)])
    }

    package var value: Value
    /// Where it is in the document.
    package var range: Range<Int>

    /// The value of a key; `nil` if it is absent or null, or if this is no object.
    package subscript(key: String) -> JSONNode? {
        guard case .object(let members) = value, let node = members.first(where: { $0.key == key })?.node else {
            return nil
        }
        if case .null = node.value { return nil }
        return node
    }

    package var text: String? {
        guard case .string(let text) = value else { return nil }
        return text
    }

    package var flag: Bool? {
        guard case .bool(let flag) = value else { return nil }
        return flag
    }

    package var elements: [JSONNode]? {
        guard case .array(let elements) = value else { return nil }
        return elements
    }

    package var members: [(key: String, node: JSONNode)]? {
        guard case .object(let members) = value else { return nil }
        return members
    }

    /// A whole number.
    package var integer: Int? {
        guard case .number(let digits) = value else { return nil }
        return Int(digits)
    }

    /// A number with its digits, in plain or scientific notation; `nil` if they do not fit.
    ///
    /// The app writes doubles. Seventeen digits are the ends of a binary fraction and no precision of a device: such a
    /// number is the shortest one that means the same double.
    package var decimal: ExactDecimal? {
        guard case .number(let digits) = value else { return nil }
        if let exact = ExactDecimal(digits), digits.utf8.count < 16 { return exact }
        guard let double = Double(digits), double.isFinite else { return nil }
        return ExactDecimal(double)
    }
}

extension ExactDecimal {
    /// The shortest decimal number that means this double; `nil` for an infinity, for none, and beyond 10^±30.
    package init?(_ double: Double) {
        let text = "\(double)"
        let parts = text.split(separator: "e", maxSplits: 1)
        guard let mantissa = parts.first, var decimal = ExactDecimal(mantissa) else { return nil }
        if parts.count == 2 {
            guard let power = Int16(parts[1]), abs(power) <= 30 else { return nil }
            decimal = decimal.scaled(byPowerOfTen: power)
        }
        // 72.0 is how a double writes 72.
        if decimal.exponent == -1, decimal.significand % 10 == 0 {
            decimal = ExactDecimal(significand: decimal.significand / 10, exponent: 0)
        }
        self = decimal
    }
}

/// Why octets are no JSON.
package struct JSONFailure: Error, Sendable, Hashable {
    /// The octet at which it failed.
    package var offset: Int
    /// What would have been right there.
    package var expected: String
    /// Whether the document ends too early: the rest may have been lost on the way.
    package var endsEarly: Bool
}

/// Reads JSON (RFC 8259) strictly, with limits on depth and number of values, so that no answer traps or takes memory out of
/// proportion.
package struct JSONReader {
    package static let maximumDepth = 16
    static let maximumValues = 1_000_000
    static let maximumNumberLength = 64

    private let octets: [UInt8]
    private var position = 0
    private var values = 0

    private let mostMembers: Int
    private let deepest: Int

    private init(_ octets: [UInt8], _ mostMembers: Int, _ deepest: Int) {
        (self.octets, self.mostMembers, self.deepest) = (octets, mostMembers, deepest)
    }

    /// Reads a document.
    ///
    /// - Parameters:
    ///   - octets: all of it.
    ///   - mostMembers: how many members an object may have.
    ///   - deepest: how many levels may lie within each other.
    package static func read(
        _ octets: [UInt8], mostMembers: Int = 256, deepest: Int = maximumDepth
    ) throws(JSONFailure) -> JSONNode {
        var reader = JSONReader(octets, mostMembers, deepest)
        reader.skipSpace()
        let node = try reader.node(depth: 0)
        reader.skipSpace()
        guard reader.position == octets.count else { throw reader.failure("the end of the document") }
        return node
    }

    private func failure(_ expected: String) -> JSONFailure {
        JSONFailure(offset: position, expected: expected, endsEarly: position >= octets.count)
    }

    private var next: UInt8? { position < octets.count ? octets[position] : nil }

    private mutating func skipSpace() {
        while let octet = next, octet == 0x20 || octet == 0x0A || octet == 0x0D || octet == 0x09 { position += 1 }
    }

    private mutating func take(_ octet: UInt8) -> Bool {
        guard next == octet else { return false }
        position += 1
        return true
    }

    private mutating func node(depth: Int) throws(JSONFailure) -> JSONNode {
        values += 1
        guard values <= Self.maximumValues else { throw failure("at most \(Self.maximumValues) values") }
        guard depth <= deepest else { throw failure("at most \(deepest) levels") }
        let start = position
        let value: JSONNode.Value
        guard let first = next else { throw failure("a value") }
        switch first {
        case UInt8(ascii: "{"): value = .object(try members(depth: depth))
        case UInt8(ascii: "["): value = .array(try elements(depth: depth))
        case UInt8(ascii: "\""): value = .string(try string())
        case UInt8(ascii: "-"), UInt8(ascii: "0")...UInt8(ascii: "9"): value = .number(try number())
        default: value = try word()
        }
        return JSONNode(value: value, range: start..<position)
    }

    private mutating func members(depth: Int) throws(JSONFailure) -> [(key: String, node: JSONNode)] {
        position += 1
        var members: [(key: String, node: JSONNode)] = []
        var keys: Set<String> = []
        skipSpace()
        if take(UInt8(ascii: "}")) { return members }
        while true {
            skipSpace()
            guard next == UInt8(ascii: "\"") else { throw failure("a name in double quotes") }
            let key = try string()
            // Which of two to believe would be a guess.
            guard keys.insert(key).inserted else { throw failure("a name not used before") }
            guard members.count < mostMembers else { throw failure("at most \(mostMembers) members") }
            skipSpace()
            guard take(UInt8(ascii: ":")) else { throw failure("':'") }
            skipSpace()
            members.append((key, try node(depth: depth + 1)))
            skipSpace()
            if take(UInt8(ascii: "}")) { return members }
            guard take(UInt8(ascii: ",")) else { throw failure("',' or '}'") }
        }
    }

    private mutating func elements(depth: Int) throws(JSONFailure) -> [JSONNode] {
        position += 1
        var elements: [JSONNode] = []
        skipSpace()
        if take(UInt8(ascii: "]")) { return elements }
        while true {
            skipSpace()
            elements.append(try node(depth: depth + 1))
            skipSpace()
            if take(UInt8(ascii: "]")) { return elements }
            guard take(UInt8(ascii: ",")) else { throw failure("',' or ']'") }
        }
    }

    private mutating func word() throws(JSONFailure) -> JSONNode.Value {
        for (word, value) in [("true", JSONNode.Value.bool(true)), ("false", .bool(false)), ("null", .null)] {
            let rest = octets[position...].prefix(word.utf8.count)
            if rest.elementsEqual(word.utf8) {
                position += word.utf8.count
                return value
            }
            if !rest.isEmpty, position + rest.count == octets.count, word.utf8.starts(with: rest) {
                position = octets.count
                throw failure("the rest of '\(word)'")
            }
        }
        throw failure("a value")
    }

    private mutating func digits() -> Int {
        let start = position
        while let octet = next, (0x30...0x39).contains(octet) { position += 1 }
        return position - start
    }

    private mutating func number() throws(JSONFailure) -> String {
        let start = position
        _ = take(UInt8(ascii: "-"))
        if !take(UInt8(ascii: "0")), digits() == 0 { throw failure("a digit") }
        if take(UInt8(ascii: ".")), digits() == 0 { throw failure("a digit behind the point") }
        if take(UInt8(ascii: "e")) || take(UInt8(ascii: "E")) {
            if !take(UInt8(ascii: "+")) { _ = take(UInt8(ascii: "-")) }
            if digits() == 0 { throw failure("a digit of the exponent") }
        }
        guard position - start <= Self.maximumNumberLength else {
            throw failure("a number of at most \(Self.maximumNumberLength) characters")
        }
        return String(decoding: octets[start..<position], as: UTF8.self)
    }

    private mutating func string() throws(JSONFailure) -> String {
        position += 1
        let start = position
        // What needs no escape, nearly always all of it, is taken at once.
        while let octet = next, octet >= 0x20, octet != 0x22, octet != 0x5C { position += 1 }
        var text = octets[start..<position]
        if take(UInt8(ascii: "\"")) { return try decoded(text) }
        while true {
            guard let octet = next else { throw failure("the end of a string") }
            switch octet {
            case UInt8(ascii: "\""):
                position += 1
                return try decoded(text)
            case UInt8(ascii: "\\"):
                position += 1
                text += Array(String(Character(try escape())).utf8)
            case 0..<0x20: throw failure("an escape in place of a control character")
            default:
                text.append(octet)
                position += 1
            }
        }
    }

    private func decoded(_ octets: ArraySlice<UInt8>) throws(JSONFailure) -> String {
        guard let text = String(validating: octets, as: UTF8.self) else { throw failure("UTF-8") }
        return text
    }

    private mutating func escape() throws(JSONFailure) -> Unicode.Scalar {
        guard let octet = next else { throw failure("an escape") }
        position += 1
        switch octet {
        case UInt8(ascii: "\""), UInt8(ascii: "\\"), UInt8(ascii: "/"): return Unicode.Scalar(octet)
        case UInt8(ascii: "b"): return "\u{8}"
        case UInt8(ascii: "f"): return "\u{C}"
        case UInt8(ascii: "n"): return "\n"
        case UInt8(ascii: "r"): return "\r"
        case UInt8(ascii: "t"): return "\t"
        case UInt8(ascii: "u"):
            let first = try codeUnit()
            guard UTF16.isLeadSurrogate(first) else {
                guard let scalar = Unicode.Scalar(first) else { throw failure("a surrogate in its place") }
                return scalar
            }
            guard take(UInt8(ascii: "\\")), take(UInt8(ascii: "u")) else { throw failure("the other surrogate") }
            let second = try codeUnit()
            guard UTF16.isTrailSurrogate(second) else { throw failure("the other surrogate") }
            return UTF16.decode(UTF16.EncodedScalar([first, second]))
        default:
            position -= 1
            throw failure("an escape")
        }
    }

    private mutating func codeUnit() throws(JSONFailure) -> UInt16 {
        guard octets.count - position >= 4,
            let unit = UInt16(String(decoding: octets[position..<position + 4], as: UTF8.self), radix: 16),
            octets[position] != UInt8(ascii: "+"), octets[position] != UInt8(ascii: "-")
        else {
            if octets.count - position < 4 { position = octets.count }
            throw failure("four hexadecimal digits")
        }
        position += 4
        return unit
    }
}
