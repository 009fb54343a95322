import HealthReadings

/// Walks a value from its first octet; says what was missing, and where, when the value is too short.
///
/// The octets are handed to each step instead of being held, and texts are static, so that reading a whole value
/// touches no heap.
struct OctetCursor {
    /// What is being read: `Glucose Measurement (2A18)`.
    let subject: StaticString
    /// The octet the next field begins at, from 0.
    private(set) var offset = 0

    init(_ subject: StaticString) { self.subject = subject }

    @inline(__always)
    mutating func octet(_ field: StaticString, of octets: RawSpan) throws(MalformedFrame) -> UInt8 {
        guard offset < octets.byteCount else { throw missing(field, 1, in: octets) }
        let value = octets.unsafeLoad(fromByteOffset: offset, as: UInt8.self)
        offset += 1
        return value
    }

    @inline(__always)
    mutating func word(_ field: StaticString, of octets: RawSpan) throws(MalformedFrame) -> UInt16 {
        guard offset + 1 < octets.byteCount else { throw missing(field, 2, in: octets) }
        let low = octets.unsafeLoad(fromByteOffset: offset, as: UInt8.self)
        let high = octets.unsafeLoad(fromByteOffset: offset + 1, as: UInt8.self)
        offset += 2
        return UInt16(high) << 8 | UInt16(low)
    }

    @inline(__always)
    mutating func decimal(_ field: StaticString, of octets: RawSpan) throws(MalformedFrame) -> MedFloat16 {
        MedFloat16(rawValue: try word(field, of: octets))
    }

    /// How many octets are left.
    func left(of octets: RawSpan) -> Int { octets.byteCount - offset }

    /// 24 bits.
    mutating func triple(_ field: StaticString, of octets: RawSpan) throws(MalformedFrame) -> UInt32 {
        guard offset + 2 < octets.byteCount else { throw missing(field, 3, in: octets) }
        let start = offset
        offset += 3
        return (0..<3).reduce(0) { value, index in
            value | UInt32(octets.unsafeLoad(fromByteOffset: start + index, as: UInt8.self)) << (8 * UInt32(index))
        }
    }

    mutating func float(_ field: StaticString, of octets: RawSpan) throws(MalformedFrame) -> MedFloat32 {
        guard offset + 3 < octets.byteCount else { throw missing(field, 4, in: octets) }
        let start = offset
        offset += 4
        return MedFloat32(
            rawValue: (0..<4).reduce(0) { value, index in
                value | UInt32(octets.unsafeLoad(fromByteOffset: start + index, as: UInt8.self)) << (8 * UInt32(index))
            })
    }

    @inline(__always)
    mutating func dateTime(_ field: StaticString, of octets: RawSpan) throws(MalformedFrame) -> DateTime {
        guard offset + 6 < octets.byteCount else { throw missing(field, 7, in: octets) }
        let start = offset
        offset += 7
        @inline(__always) func octet(_ index: Int) -> UInt8 {
            octets.unsafeLoad(fromByteOffset: start + index, as: UInt8.self)
        }
        return DateTime(
            year: UInt16(octet(1)) << 8 | UInt16(octet(0)), month: octet(2), day: octet(3), hour: octet(4),
            minute: octet(5), second: octet(6))
    }

    /// An error at the field that begins `back` octets before the next one.
    func unexpected(_ expected: String, found: String, back: Int = 1) -> MalformedFrame {
        MalformedFrame(subject: "\(subject)", expected: expected, octet: offset - back, found: found)
    }

    @inline(never)
    private func missing(_ field: StaticString, _ length: Int, in octets: RawSpan) -> MalformedFrame {
        MalformedFrame(
            subject: "\(subject)", expected: "\(field) (\(length) octet\(length == 1 ? "" : "s"))", octet: offset,
            found: "the end after \(octets.byteCount) octet\(octets.byteCount == 1 ? "" : "s")")
    }
}

extension [UInt8] {
    mutating func append(word: UInt16) {
        append(UInt8(truncatingIfNeeded: word))
        append(UInt8(truncatingIfNeeded: word >> 8))
    }
}

/// `0x0A`: how octets are written in errors.
func hexadecimal(_ octet: UInt8) -> String {
    "0x" + octet.hexadecimal(uppercase: true)
}
