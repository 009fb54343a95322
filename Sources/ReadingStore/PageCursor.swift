import HealthReadings

/// The place of a reading in the order of pages, as text that says nothing to anybody else.
///
/// base64url without padding (RFC 4648, section 5) of 26 octets: 1 (the format), 1 or 0 (has a time or not) and seven
/// bits of the number of the key under which the id stands, the time's seconds big-endian, the id as it stands. It names
/// a place, not a row: it stays good when rows are added or removed around it. Under another key the readings of that
/// one second come again: none is passed over.
struct PageCursor: Sendable, Hashable {
    var seconds: Int64?
    var id: ReadingID
    /// Which key the id stands under, 0 … 127; 0: none.
    var generation: UInt8

    private static let digits = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_".utf8)
    private static let length = 26
    private static let textLength = 35

    init(seconds: Int64?, id: ReadingID, generation: UInt64 = 0) {
        self.seconds = seconds
        self.id = id
        self.generation = UInt8(generation & 0x7F)
    }

    /// Whether the id stands as it does in rows of this key.
    func isOf(_ generation: UInt64) -> Bool { UInt64(self.generation) == generation & 0x7F }

    /// - Throws: ``StoreError/invalidCursor(_:)`` for whatever ``text`` did not give.
    init(text: String) throws {
        let characters = Array(text.utf8)
        guard characters.count == Self.textLength else { throw StoreError.invalidCursor(text) }
        var octets: [UInt8] = []
        var (bits, count): (UInt32, Int) = (0, 0)
        for character in characters {
            guard let digit = Self.digits.firstIndex(of: character) else { throw StoreError.invalidCursor(text) }
            bits = (bits << 6 | UInt32(digit)) & 0xFFFF
            count += 6
            guard count >= 8 else { continue }
            count -= 8
            octets.append(UInt8(truncatingIfNeeded: bits >> UInt32(count)))
        }
        func word(_ start: Int) -> UInt64 { octets[start..<(start + 8)].reduce(0) { $0 << 8 | UInt64($1) } }
        guard octets.count == Self.length, octets[0] == 1 else {
            throw StoreError.invalidCursor(text)
        }
        self.init(
            seconds: octets[1] & 1 == 1 ? Int64(bitPattern: word(2)) : nil,
            id: ReadingID(high: word(10), low: word(18)), generation: UInt64(octets[1] >> 1))
        guard self.text == text else { throw StoreError.invalidCursor(text) }
    }

    var text: String {
        var octets: [UInt8] = [1, (seconds == nil ? 0 : 1) | generation << 1]
        let time = UInt64(bitPattern: seconds ?? 0)
        octets += (0..<8).map { UInt8(truncatingIfNeeded: time >> UInt64(56 - 8 * $0)) }
        octets += id.octets
        var characters: [UInt8] = []
        var (bits, count): (UInt32, Int) = (0, 0)
        for octet in octets {
            bits = (bits << 8 | UInt32(octet)) & 0xFFFF
            count += 8
            while count >= 6 {
                count -= 6
                characters.append(Self.digits[Int(bits >> UInt32(count) & 0x3F)])
            }
        }
        if count > 0 { characters.append(Self.digits[Int(bits << UInt32(6 - count) & 0x3F)]) }
        return String(decoding: characters, as: UTF8.self)
    }
}
