/// Where and why a text is no JSON.
struct JSONTextError: Error, Equatable {
    /// The octet at which it failed.
    var offset: Int
    /// What would have been right there.
    var expected: String
    /// What stood there.
    var found: String
}

/// Reads JSON (RFC 8259) strictly: no comments, no trailing commas, no duplicate names, valid UTF-8 only, with limits on
/// depth and on the number of values, so that no body of any length traps or takes memory out of proportion.
struct JSONTextParser {
    static let maximumDepth = 32
    static let maximumValues = 1_000_000
    static let maximumNumberLength = 64

    private let octets: [UInt8]
    private var position = 0
    private var values = 0

    private init(_ octets: [UInt8]) { self.octets = octets }

    /// The one document the octets hold.
    static func parse(_ octets: [UInt8]) throws(JSONTextError) -> JSONValue {
        var parser = JSONTextParser(octets)
        parser.skipSpace()
        let value = try parser.value(depth: 0)
        parser.skipSpace()
        guard parser.position == octets.count else { throw parser.failure("the end of the document") }
        return value
    }

    private func failure(_ expected: String, at offset: Int? = nil) -> JSONTextError {
        let offset = offset ?? position
        guard offset < octets.count else { return JSONTextError(offset: offset, expected: expected, found: "the end") }
        let octet = octets[offset]
        let found =
            octet > 0x20 && octet < 0x7F
            ? "'\(Character(UnicodeScalar(octet)))'" : "octet 0x" + String(octet, radix: 16, uppercase: true)
        return JSONTextError(offset: offset, expected: expected, found: found)
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

    private mutating func take(word: StaticString) -> Bool {
        let count = word.utf8CodeUnitCount
        guard octets.count - position >= count else { return false }
        let same = word.withUTF8Buffer { buffer in octets[position..<position + count].elementsEqual(buffer) }
        if same { position += count }
        return same
    }

    private mutating func value(depth: Int) throws(JSONTextError) -> JSONValue {
        values += 1
        guard values <= Self.maximumValues else { throw failure("at most \(Self.maximumValues) values") }
        guard depth <= Self.maximumDepth else { throw failure("at most \(Self.maximumDepth) levels") }
        guard let first = next else { throw failure("a value") }
        switch first {
        case UInt8(ascii: "{"): return try object(depth: depth)
        case UInt8(ascii: "["): return try array(depth: depth)
        case UInt8(ascii: "\""): return .string(try string())
        case UInt8(ascii: "t") where take(word: "true"): return .bool(true)
        case UInt8(ascii: "f") where take(word: "false"): return .bool(false)
        case UInt8(ascii: "n") where take(word: "null"): return .null
        case UInt8(ascii: "N") where take(word: "NaN"): return .nonFinite("NaN")
        case UInt8(ascii: "I") where take(word: "Infinity"): return .nonFinite("Infinity")
        case UInt8(ascii: "-") where take(word: "-Infinity"): return .nonFinite("-Infinity")
        case UInt8(ascii: "-"), UInt8(ascii: "0")...UInt8(ascii: "9"): return .number(try number())
        default: throw failure("a value")
        }
    }

    private mutating func object(depth: Int) throws(JSONTextError) -> JSONValue {
        position += 1
        var members: [JSONValue.Member] = []
        var names: Set<String> = []
        skipSpace()
        if take(UInt8(ascii: "}")) { return .object([]) }
        while true {
            skipSpace()
            let start = position
            guard next == UInt8(ascii: "\"") else { throw failure("a name in double quotes") }
            let name = try string()
            guard names.insert(name).inserted else { throw failure("a name not used before", at: start) }
            skipSpace()
            guard take(UInt8(ascii: ":")) else { throw failure("':'") }
            skipSpace()
            members.append(JSONValue.Member(name: name, value: try value(depth: depth + 1)))
            skipSpace()
            if take(UInt8(ascii: "}")) { return .object(members) }
            guard take(UInt8(ascii: ",")) else { throw failure("',' or '}'") }
        }
    }

    private mutating func array(depth: Int) throws(JSONTextError) -> JSONValue {
        position += 1
        var elements: [JSONValue] = []
        skipSpace()
        if take(UInt8(ascii: "]")) { return .array([]) }
        while true {
            skipSpace()
            elements.append(try value(depth: depth + 1))
            skipSpace()
            if take(UInt8(ascii: "]")) { return .array(elements) }
            guard take(UInt8(ascii: ",")) else { throw failure("',' or ']'") }
        }
    }

    private mutating func digits() -> Int {
        let start = position
        while let octet = next, octet >= 0x30, octet <= 0x39 { position += 1 }
        return position - start
    }

    private mutating func number() throws(JSONTextError) -> String {
        let start = position
        _ = take(UInt8(ascii: "-"))
        let leadingZero = next == UInt8(ascii: "0")
        let whole = digits()
        guard whole > 0 else { throw failure("a digit") }
        guard !leadingZero || whole == 1 else { throw failure("a number without leading zeros", at: start) }
        if take(UInt8(ascii: ".")) {
            guard digits() > 0 else { throw failure("a digit after the point") }
        }
        if take(UInt8(ascii: "e")) || take(UInt8(ascii: "E")) {
            if !take(UInt8(ascii: "+")) { _ = take(UInt8(ascii: "-")) }
            guard digits() > 0 else { throw failure("a digit of the exponent") }
        }
        guard position - start <= Self.maximumNumberLength else {
            throw failure("a number of at most \(Self.maximumNumberLength) characters", at: start)
        }
        return String(decoding: octets[start..<position], as: UTF8.self)
    }

    private mutating func string() throws(JSONTextError) -> String {
        let start = position
        position += 1
        var out: [UInt8] = []
        while let octet = next {
            switch octet {
            case UInt8(ascii: "\""):
                position += 1
                guard let text = String(validating: out, as: UTF8.self) else { throw failure("UTF-8", at: start) }
                return text
            case UInt8(ascii: "\\"):
                position += 1
                out.append(contentsOf: Array(String(try escape()).utf8))
            case ..<0x20: throw failure("no control character in a string")
            default:
                out.append(octet)
                position += 1
            }
        }
        throw failure("'\"'")
    }

    private mutating func escape() throws(JSONTextError) -> UnicodeScalar {
        guard let octet = next else { throw failure("an escape") }
        position += 1
        switch octet {
        case UInt8(ascii: "\""): return "\""
        case UInt8(ascii: "\\"): return "\\"
        case UInt8(ascii: "/"): return "/"
        case UInt8(ascii: "b"): return "\u{8}"
        case UInt8(ascii: "f"): return "\u{C}"
        case UInt8(ascii: "n"): return "\n"
        case UInt8(ascii: "r"): return "\r"
        case UInt8(ascii: "t"): return "\t"
        case UInt8(ascii: "u"):
            let start = position
            var code = try hexadecimal()
            if code >= 0xD800, code < 0xDC00 {
                guard take(word: "\\u") else { throw failure("the second half of a surrogate pair") }
                let low = try hexadecimal()
                guard low >= 0xDC00, low < 0xE000 else { throw failure("a low surrogate", at: start) }
                code = 0x10000 + (code - 0xD800) << 10 + (low - 0xDC00)
            }
            guard let scalar = UnicodeScalar(code) else { throw failure("a Unicode scalar", at: start) }
            return scalar
        default: throw failure("one of \"\\/bfnrtu", at: position - 1)
        }
    }

    private mutating func hexadecimal() throws(JSONTextError) -> UInt32 {
        var code: UInt32 = 0
        for _ in 0..<4 {
            guard let octet = next, let digit = Character(UnicodeScalar(octet)).hexDigitValue else {
                throw failure("four hexadecimal digits")
            }
            code = code << 4 | UInt32(digit)
            position += 1
        }
        return code
    }
}
