import HealthReadings

/// Writes numbers and texts one after the other: small numbers take one octet (LEB128, as in protobuf and DWARF).
struct ContentWriter {
    private(set) var octets: [UInt8] = []

    mutating func put(_ number: UInt64) {
        var rest = number
        while rest >= 0x80 {
            octets.append(UInt8(truncatingIfNeeded: rest) | 0x80)
            rest >>= 7
        }
        octets.append(UInt8(truncatingIfNeeded: rest))
    }

    /// A number of either sign: 0, -1, 1, -2, … become 0, 1, 2, 3, …
    mutating func put(signed number: Int64) { put(UInt64(bitPattern: number << 1 ^ number >> 63)) }

    /// A number below 2⁶⁴-1 that may be missing.
    mutating func put(optional number: UInt64?) { put(number.map { $0 + 1 } ?? 0) }

    mutating func put(_ text: String?) {
        put(optional: text.map { UInt64($0.utf8.count) })
        if let text { octets += text.utf8 }
    }

    /// Octets as they are; their count is written by whoever reads them.
    mutating func put(octets more: [UInt8]) { octets += more }

    mutating func put(_ quantity: Quantity?) {
        put(UInt64(quantity?.unit.rawValue ?? 0))
        guard let number = quantity?.number else { return }
        let (digits, exponent) = number.columns
        guard let digits else { return put(UInt64(bitPattern: exponent)) }
        put(0 as UInt64)
        put(signed: digits)
        put(signed: exponent)
    }
}

/// Reads what a ``ContentWriter`` has written; whatever else it is given is an error.
struct ContentReader {
    private let octets: [UInt8]
    private(set) var position: Int

    init(_ octets: [UInt8], from start: Int = 0) {
        self.octets = octets
        position = start
    }

    var isAtEnd: Bool { position == octets.count }

    /// What is left.
    var rest: ArraySlice<UInt8> { octets[position...] }

    private func failure(_ expected: String) -> StoreError {
        .corrupt(detail: "a row's content lacks \(expected) at octet \(position) of \(octets.count)")
    }

    mutating func number() throws -> UInt64 {
        var (number, shift): (UInt64, UInt64) = (0, 0)
        while position < octets.count, shift < 64 {
            let octet = octets[position]
            position += 1
            // The tenth octet has room for one bit.
            guard shift < 63 || octet <= 1 else { throw failure("number below 2^64") }
            number |= UInt64(octet & 0x7F) << shift
            guard octet & 0x80 != 0 else { return number }
            shift += 7
        }
        throw failure("whole number")
    }

    mutating func number<T: FixedWidthInteger>(as type: T.Type) throws -> T {
        guard let number = T(exactly: try number()) else { throw failure("number of \(T.bitWidth) bits") }
        return number
    }

    mutating func signed() throws -> Int64 {
        let number = try number()
        return Int64(bitPattern: number >> 1) ^ -Int64(bitPattern: number & 1)
    }

    mutating func optional<T: FixedWidthInteger>(as type: T.Type) throws -> T? {
        let number = try number()
        guard number > 0 else { return nil }
        guard let value = T(exactly: number - 1) else { throw failure("number of \(T.bitWidth) bits") }
        return value
    }

    mutating func text() throws -> String? {
        guard let count = try optional(as: Int.self) else { return nil }
        guard count <= octets.count - position else { throw failure("text of \(count) octets") }
        defer { position += count }
        guard let text = String(validating: octets[position..<(position + count)], as: UTF8.self) else {
            throw failure("text in UTF-8")
        }
        return text
    }

    mutating func octets(_ count: Int) throws -> [UInt8] {
        guard (0...(octets.count - position)).contains(count) else { throw failure("\(count) octets") }
        defer { position += count }
        return Array(octets[position..<(position + count)])
    }

    mutating func quantity() throws -> Quantity? {
        let code = try number(as: UInt8.self)
        guard code > 0 else { return nil }
        guard let unit = MeasurementUnit(rawValue: code) else { throw failure("known unit (\(code))") }
        let reason = try number(as: UInt8.self)
        guard reason == 0 else {
            return Quantity(try MeasuredNumber(digits: nil, exponent: Int64(reason)), unit)
        }
        let (digits, exponent) = (try signed(), try signed())
        return Quantity(try MeasuredNumber(digits: digits, exponent: exponent), unit)
    }
}
