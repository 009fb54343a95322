/// The answer of a tag: flags, data, CRC (ISO/IEC 15693-3, 7.4).
public enum ISO15693Answer {
    /// The data of an answer that came with its CRC.
    ///
    /// Bits of the flags octet that are reserved are not looked at.
    /// - Throws: ``ISO15693Error/malformedAnswer(_:)`` where it is too short to be one, ``ISO15693Error/badCRC``, or
    ///   ``ISO15693Error/tag(code:)`` where its error flag is set.
    public static func data(ofFrame frame: [UInt8]) throws(ISO15693Error) -> [UInt8] {
        guard frame.count >= 3 else {
            throw .malformedAnswer("expected flags and a CRC, found \(frame.count) octets")
        }
        let crc = ISO15693CRC.octets(of: frame.dropLast(2))
        guard crc == Array(frame.suffix(2)) else { throw .badCRC }
        return try data(of: Array(frame.dropLast(2)))
    }

    /// The data of an answer whose CRC a reader has checked and taken off.
    /// - Throws: ``ISO15693Error/malformedAnswer(_:)`` where it is empty, or ``ISO15693Error/tag(code:)``.
    public static func data(of answer: [UInt8]) throws(ISO15693Error) -> [UInt8] {
        guard let flags = answer.first else { throw .malformedAnswer("expected flags, found nothing") }
        guard flags & 0x01 == 0 else {
            guard answer.count >= 2 else { throw .malformedAnswer("an error without its code") }
            throw .tag(code: answer[1])
        }
        return Array(answer.dropFirst())
    }

    /// The UID in the data of an inventory's answer, the highest octet first, as it is printed.
    /// - Throws: ``ISO15693Error/malformedAnswer(_:)`` where the data is too short to have one.
    static func uid(inInventory data: [UInt8]) throws(ISO15693Error) -> [UInt8] {
        guard data.count >= 9 else {
            throw .malformedAnswer("expected a storage format and a UID, found \(data.count) octets")
        }
        return data[1..<9].reversed()
    }
}

/// The CRC of ISO/IEC 13239 as ISO/IEC 15693-3 uses it (annex C): reflected 8408, preset FFFF, inverted at the end.
public enum ISO15693CRC {
    /// The CRC over `octets`, in the order it is sent: the low octet first.
    public static func octets(of octets: some Sequence<UInt8>) -> [UInt8] {
        var register: UInt16 = 0xFFFF
        for octet in octets {
            register ^= UInt16(octet)
            for _ in 0..<8 { register = register & 1 == 0 ? register >> 1 : register >> 1 ^ 0x8408 }
        }
        return [UInt8(truncatingIfNeeded: ~register), UInt8(truncatingIfNeeded: ~register >> 8)]
    }
}
