import HealthReadings

/// A device's zone: Local Time Information (2A0F), two octets. Current Time Service 1.1, 3.2.
public struct LocalTimeInformation: CharacteristicCoding {
    /// 2A0F.
    public static let assignedNumber: UInt16 = 0x2A0F

    /// Quarters of an hour from UTC, -48 … 56, without daylight saving; -128 where unknown.
    public var timeZone: Int8
    /// 0 standard time, 2 half an hour, 4 one hour, 8 two hours of daylight saving; 255 where unknown.
    public var dstOffset: UInt8

    /// Makes a value of its parts, which are not checked.
    public init(timeZone: Int8, dstOffset: UInt8) {
        self.timeZone = timeZone
        self.dstOffset = dstOffset
    }

    /// Minutes from UTC without daylight saving; nil where unknown or out of range.
    public var standardOffsetMinutes: Int? { (-48...56).contains(timeZone) ? Int(timeZone) * 15 : nil }

    /// Minutes of daylight saving; nil where unknown or reserved.
    public var daylightSavingMinutes: Int? { [0, 2, 4, 8].contains(dstOffset) ? Int(dstOffset) * 15 : nil }

    /// Reads a value.
    public init(decoding octets: RawSpan) throws(MalformedFrame) {
        var cursor = OctetCursor("Local Time Information (2A0F)")
        timeZone = Int8(bitPattern: try cursor.octet("time zone", of: octets))
        dstOffset = try cursor.octet("DST offset", of: octets)
    }

    /// Two octets.
    public var encoded: [UInt8] { [UInt8(bitPattern: timeZone), dstOffset] }
}
