/// The CRC-16 of the three parts of a sensor's memory: reflected 8408, preset FFFF, the 16 bits reversed at the end.
///
/// `123456789` gives 89F6.
public enum MemoryChecksum {
    /// The CRC of `octets[range]`.
    public static func of(_ octets: [UInt8], _ range: Range<Int>) -> UInt16 {
        octets.withUnsafeBufferPointer { octets in
            table.withUnsafeBufferPointer { table in
                var register: UInt16 = 0xFFFF
                for place in range {
                    register = register >> 8 ^ table[Int(UInt8(truncatingIfNeeded: register) ^ octets[place])]
                }
                return reversed(register)
            }
        }
    }

    private static func reversed(_ word: UInt16) -> UInt16 {
        var word = word
        word = word >> 1 & 0x5555 | (word & 0x5555) << 1
        word = word >> 2 & 0x3333 | (word & 0x3333) << 2
        word = word >> 4 & 0x0F0F | (word & 0x0F0F) << 4
        return word.byteSwapped
    }

    private static let table: [UInt16] = (0..<256).map { index in
        (0..<8).reduce(UInt16(index)) { word, _ in word & 1 == 0 ? word >> 1 : word >> 1 ^ 0x8408 }
    }
}
