import HealthReadings

/// How full a device's battery is: Battery Level (2A19), one octet. Battery Service 1.1, 3.1.
public struct BatteryLevel: CharacteristicCoding {
    /// 2A19.
    public static let assignedNumber: UInt16 = 0x2A19

    /// The octet as sent.
    public var rawValue: UInt8

    /// Makes a value of its octet, which is not checked.
    public init(rawValue: UInt8) { self.rawValue = rawValue }

    /// 0 … 100 per cent; nil for numbers the specification reserves.
    public var percent: UInt8? { rawValue <= 100 ? rawValue : nil }

    /// Reads a value.
    public init(decoding octets: RawSpan) throws(MalformedFrame) {
        var cursor = OctetCursor("Battery Level (2A19)")
        rawValue = try cursor.octet("battery level", of: octets)
    }

    /// One octet.
    public var encoded: [UInt8] { [rawValue] }
}
