import HealthReadings

/// A device's identifier after IEEE EUI-64: System ID (2A23), eight octets. Device Information Service 1.1, 3.8.
public struct SystemID: CharacteristicCoding {
    /// 2A23.
    public static let assignedNumber: UInt16 = 0x2A23

    /// What the manufacturer assigned: 40 bits.
    public let manufacturerIdentifier: UInt64
    /// The manufacturer's Organizationally Unique Identifier: 24 bits.
    public let organizationallyUniqueIdentifier: UInt32

    /// Makes a value; bits beyond 40 and 24 are ignored.
    public init(manufacturerIdentifier: UInt64, organizationallyUniqueIdentifier: UInt32) {
        self.manufacturerIdentifier = manufacturerIdentifier & 0xFF_FFFF_FFFF
        self.organizationallyUniqueIdentifier = organizationallyUniqueIdentifier & 0xFF_FFFF
    }

    /// Reads a value.
    public init(decoding octets: RawSpan) throws(MalformedFrame) {
        var cursor = OctetCursor("System ID (2A23)")
        var bits: UInt64 = 0
        for shift in stride(from: UInt64(0), through: 56, by: 8) {
            bits |= UInt64(try cursor.octet("system identifier, octet by octet", of: octets)) << shift
        }
        self.init(
            manufacturerIdentifier: bits, organizationallyUniqueIdentifier: UInt32(truncatingIfNeeded: bits >> 40))
    }

    /// Eight octets.
    public var encoded: [UInt8] {
        let bits = manufacturerIdentifier | UInt64(organizationallyUniqueIdentifier) << 40
        return stride(from: UInt64(0), through: 56, by: 8).map { UInt8(truncatingIfNeeded: bits >> $0) }
    }
}
