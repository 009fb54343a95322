import HealthReadings

/// A segment of a health observation, as Live Health Observations (2B8B) is notified. Generic Health Sensor Service 1.0.
public struct HealthObservationSegment: CharacteristicCoding {
    /// 2B8B.
    public static let assignedNumber: UInt16 = 0x2B8B

    /// Whether the observation begins with it.
    public var isFirst: Bool
    /// Whether the observation ends with it.
    public var isLast: Bool
    /// Counts segments, 0 … 63.
    public var counter: UInt8
    /// Its part of the observation.
    public var part: [UInt8]

    /// Makes a segment.
    public init(isFirst: Bool = true, isLast: Bool = true, counter: UInt8 = 0, part: [UInt8]) {
        self.isFirst = isFirst
        self.isLast = isLast
        self.counter = counter & 0x3F
        self.part = part
    }

    /// Whether it is a whole observation.
    public var isWhole: Bool { isFirst && isLast }

    /// Reads a segment.
    public init(decoding octets: RawSpan) throws(MalformedFrame) {
        var cursor = OctetCursor("Live Health Observations (2B8B)")
        let header = try cursor.octet("segmentation header", of: octets)
        (isFirst, isLast, counter) = (header & 1 != 0, header & 2 != 0, header >> 2)
        part = []
        part.reserveCapacity(cursor.left(of: octets))
        while cursor.left(of: octets) > 0 { part.append(try cursor.octet("segment", of: octets)) }
    }

    /// The segmentation header, then the part.
    public var encoded: [UInt8] {
        let header: UInt8 = (isFirst ? 1 : 0) | (isLast ? 2 : 0) | counter << 2
        return [header] + part
    }
}

/// Joins the segments of health observations as they come.
public struct HealthObservationJoiner: Sendable {
    /// No observation is longer than its 16 bits of length say, with what stands before them.
    private static let longest = 3 + Int(UInt16.max)

    private var begun: HealthObservationSegment?

    /// Makes a joiner that has seen nothing.
    public init() {}

    /// Takes the next segment.
    ///
    /// - Returns: the observation as one segment if it came in several and this is the last; `nil` otherwise. An
    ///   observation with a segment missing is never joined.
    public mutating func take(_ segment: HealthObservationSegment) -> HealthObservationSegment? {
        guard !segment.isFirst else {
            begun = segment.isLast ? nil : segment
            return nil
        }
        guard var joined = begun, segment.counter == (joined.counter + 1) & 0x3F,
            joined.part.count + segment.part.count <= Self.longest
        else {
            begun = nil
            return nil
        }
        joined.part += segment.part
        joined.counter = segment.counter
        begun = segment.isLast ? nil : joined
        return segment.isLast ? HealthObservationSegment(counter: segment.counter, part: joined.part) : nil
    }
}
