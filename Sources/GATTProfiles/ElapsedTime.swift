import HealthReadings

/// A time as newer services send it: nine octets that count from the beginning of 2000. Elapsed Time Service 1.0.
///
/// Public implementations agree on the flags for ticks, UTC, the zone and the current timeline, and on whole seconds.
/// They don't agree on which bits mean tenths or thousandths of a second, so those times are not read.
public struct ElapsedTime: Sendable, Hashable {
    /// What the count means: bit 0 ticks of no known beginning, 1 UTC, 2 and 3 the resolution (0 for seconds), 4 that
    /// ``offset`` holds, 5 that the count is on the clock's current timeline.
    public var flags: UInt8
    /// The count, 48 bits.
    public var count: UInt64
    /// How the clock was last set, 0 … 7.
    public var source: UInt8
    /// What the wall is ahead of UTC, in quarters of an hour; -128 if unknown.
    public var offset: Int8

    /// Makes a time of its fields, which are not checked.
    public init(flags: UInt8, count: UInt64, source: UInt8 = 0, offset: Int8 = 0) {
        self.flags = flags
        self.count = count & 0xFFFF_FFFF_FFFF
        self.source = source
        self.offset = offset
    }

    /// The flag for a count that begins anywhere.
    public static let ticks: UInt8 = 0x01
    /// The flag for UTC.
    public static let utc: UInt8 = 0x02
    /// The flags for a resolution other than a second.
    public static let resolution: UInt8 = 0x0C
    /// The flag for a known offset.
    public static let hasOffset: UInt8 = 0x10
    /// The flag for the clock's current timeline: the clock was not set since.
    public static let isCurrent: UInt8 = 0x20

    private static let epoch: Int64 = 946_684_800

    /// The time on the device's wall.
    ///
    /// - Returns: the time; `nil` for ticks, for a clock that was set since, for UTC without an offset, and for
    ///   fractions of a second.
    public var wallTime: WallTime? {
        guard flags & (Self.ticks | Self.resolution) == 0, flags & Self.isCurrent != 0, count <= UInt64(UInt32.max)
        else { return nil }
        let seconds = Int64(count) + Self.epoch
        guard flags & Self.utc != 0 else { return WallTime(secondsSinceEpoch: seconds) }
        guard flags & Self.hasOffset != 0, offset != .min else { return nil }
        return WallTime(secondsSinceEpoch: seconds + Int64(offset) * 900)
    }

    init(_ octets: RawSpan, after cursor: inout OctetCursor) throws(MalformedFrame) {
        flags = try cursor.octet("time flags", of: octets)
        let low = try cursor.float("time", of: octets).rawValue
        count = UInt64(low) | UInt64(try cursor.word("time", of: octets)) << 32
        source = try cursor.octet("time source", of: octets)
        offset = Int8(bitPattern: try cursor.octet("time offset", of: octets))
    }

    /// Nine octets.
    public var encoded: [UInt8] {
        let time = [0, 8, 16, 24, 32, 40].map { UInt8(truncatingIfNeeded: count >> ($0 as UInt64)) }
        return [flags] + time + [source, UInt8(bitPattern: offset)]
    }
}

/// What a device's clock shows: Current Elapsed Time (2BF2). Elapsed Time Service 1.0.
public struct CurrentElapsedTime: CharacteristicCoding {
    /// 2BF2.
    public static let assignedNumber: UInt16 = 0x2BF2

    /// The time.
    public var time: ElapsedTime

    /// Makes a value.
    public init(time: ElapsedTime) { self.time = time }

    /// Reads a value. The clock's status and capabilities behind the time are not read.
    public init(decoding octets: RawSpan) throws(MalformedFrame) {
        var cursor = OctetCursor("Current Elapsed Time (2BF2)")
        time = try ElapsedTime(octets, after: &cursor)
    }

    /// Nine octets, without the clock's status and capabilities.
    public var encoded: [UInt8] { time.encoded }
}

extension CurrentElapsedTime: ClockCoding {
    var wallTime: WallTime? { time.wallTime }
    var document: JSONValue { .object(["date_time": .optional(wallTime?.description)]) }
}
