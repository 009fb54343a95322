import HealthReadings

/// A device's date and time as it sent it: Date Time (2A08), seven octets, also a field of other characteristics.
///
/// The parts are kept as sent, impossible ones included; ``wallTime`` says whether they are a time.
public struct DateTime: CharacteristicCoding {
    /// 2A08.
    public static let assignedNumber: UInt16 = 0x2A08

    /// 1582 … 9999; 0 where unknown.
    public var year: UInt16
    /// 1 … 12; 0 where unknown.
    public var month: UInt8
    /// 1 … 31; 0 where unknown.
    public var day: UInt8
    /// 0 … 23.
    public var hour: UInt8
    /// 0 … 59.
    public var minute: UInt8
    /// 0 … 59.
    public var second: UInt8

    /// A clock that has never been set: all parts are 0.
    public static let unknown = DateTime(year: 0, month: 0, day: 0, hour: 0, minute: 0, second: 0)

    /// Makes a value of its parts, which are not checked.
    @inlinable
    public init(year: UInt16, month: UInt8, day: UInt8, hour: UInt8, minute: UInt8, second: UInt8) {
        self.year = year
        self.month = month
        self.day = day
        self.hour = hour
        self.minute = minute
        self.second = second
    }

    /// The value for a wall time; ``unknown`` for years the format has no number for (before 1582, after 9999).
    public init(_ wallTime: WallTime) {
        let (date, time) = (wallTime.date, wallTime.timeOfDay)
        guard Self.years.contains(date.year) else {
            self = .unknown
            return
        }
        self.init(
            year: UInt16(truncatingIfNeeded: date.year), month: UInt8(truncatingIfNeeded: date.month),
            day: UInt8(truncatingIfNeeded: date.day), hour: UInt8(truncatingIfNeeded: time.hour),
            minute: UInt8(truncatingIfNeeded: time.minute), second: UInt8(truncatingIfNeeded: time.second))
    }

    /// The time on the device's wall; nil where year, month or day is unknown (0) or any part is out of range.
    public var wallTime: WallTime? {
        guard Self.years.contains(Int(year)) else { return nil }
        return WallTime(
            year: Int(year), month: Int(month), day: Int(day), hour: Int(hour), minute: Int(minute),
            second: Int(second))
    }

    /// The years 2A08 can say (GATT Specification Supplement, Date Time): from the Gregorian calendar's beginning.
    private static let years = 1582...9999

    /// Reads a value.
    public init(decoding octets: RawSpan) throws(MalformedFrame) {
        var cursor = OctetCursor("Date Time (2A08)")
        self = try cursor.dateTime("date and time", of: octets)
    }

    /// Seven octets.
    public var encoded: [UInt8] {
        [UInt8(truncatingIfNeeded: year), UInt8(truncatingIfNeeded: year >> 8), month, day, hour, minute, second]
    }
}
