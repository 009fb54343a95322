/// A record of one of the rings as it stands in the memory: 48 bits, lowest first.
public struct RawRecord: Sendable, Hashable {
    /// The octets a record has.
    public static let size = 6

    /// The glucose signal, 0 … 16383; 0 in a slot that was never written.
    public var glucose: UInt16
    /// Quality bits, 0 … 511.
    public var quality: UInt16
    /// Two bits without a public meaning, 0 … 3.
    public var flags: UInt8
    /// Whether the sensor marks the record as an error.
    public var hasError: Bool
    /// The temperature signal, 0 … 16380, in steps of 4.
    public var temperature: UInt16
    /// The temperature adjustment, -2044 … 2044, in steps of 4.
    public var adjustment: Int16

    /// Makes a record.
    public init(
        glucose: UInt16, quality: UInt16 = 0, flags: UInt8 = 0, hasError: Bool = false, temperature: UInt16,
        adjustment: Int16
    ) {
        self.glucose = glucose
        self.quality = quality
        self.flags = flags
        self.hasError = hasError
        self.temperature = temperature
        self.adjustment = adjustment
    }

    /// Takes the 48 bits; higher ones are not looked at.
    @inline(__always)
    public init(bits: UInt64) {
        glucose = UInt16(truncatingIfNeeded: bits & 0x3FFF)
        quality = UInt16(truncatingIfNeeded: bits >> 14 & 0x1FF)
        flags = UInt8(truncatingIfNeeded: bits >> 23 & 0x3)
        hasError = bits >> 25 & 1 != 0
        temperature = UInt16(truncatingIfNeeded: (bits >> 26 & 0xFFF) << 2)
        let size = Int16(truncatingIfNeeded: (bits >> 38 & 0x1FF) << 2)
        adjustment = bits >> 47 & 1 == 0 ? size : -size
    }

    /// Whether the slot was never written: it holds no record.
    public var isEmpty: Bool { glucose == 0 }
}
