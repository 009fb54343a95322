import HealthReadings

/// A value of a continuous glucose sensor: CGM Measurement (2AA7), 6 to 15 octets. Continuous Glucose Monitoring Service
/// 1.0.2, 3.1.
///
/// A notification holds one or more, each with its size before it. Whether there is a checksum behind a value stands in
/// another characteristic (``ContinuousGlucoseFeature/hasChecksums``): this accepts one, ``ContinuousGlucoseRecord``
/// checks it.
public struct ContinuousGlucoseMeasurement: CharacteristicCoding {
    /// 2AA7.
    public static let assignedNumber: UInt16 = 0x2AA7

    /// The fewest octets of a value, its size among them.
    static let shortest = 6

    /// The concentration in mg/dL.
    public var concentration: MedFloat16
    /// Minutes since the sensor's session began.
    public var timeOffset: UInt16
    /// The octets of Sensor Status Annunciation: status, calibration and temperature, warning; nil where not sent.
    public var status: UInt8?
    /// See ``status``.
    public var calibration: UInt8?
    /// See ``status``.
    public var warning: UInt8?
    /// mg/dL per minute; nil where none was sent.
    public var trend: MedFloat16?
    /// Per cent; nil where none was sent.
    public var quality: MedFloat16?

    /// Makes a value.
    public init(
        concentration: MedFloat16, timeOffset: UInt16, status: UInt8? = nil, calibration: UInt8? = nil,
        warning: UInt8? = nil, trend: MedFloat16? = nil, quality: MedFloat16? = nil
    ) {
        self.concentration = concentration
        self.timeOffset = timeOffset
        self.status = status
        self.calibration = calibration
        self.warning = warning
        self.trend = trend
        self.quality = quality
    }

    /// What the sensor says of itself.
    public var annunciation: ContinuousGlucoseAnnunciation {
        ContinuousGlucoseAnnunciation(status: status, calibration: calibration, warning: warning)
    }

    /// Reads the first value.
    public init(decoding octets: RawSpan) throws(MalformedFrame) {
        var cursor = OctetCursor("CGM Measurement (2AA7)")
        try self.init(octets, after: &cursor)
    }

    /// Reads all values of a notification.
    ///
    /// - Throws: `MalformedFrame` where one is shorter than it says; none is then given.
    public static func all(in octets: RawSpan) throws(MalformedFrame) -> [ContinuousGlucoseMeasurement] {
        var cursor = OctetCursor("CGM Measurement (2AA7)")
        var values: [ContinuousGlucoseMeasurement] = []
        repeat {
            values.append(try ContinuousGlucoseMeasurement(octets, after: &cursor))
        } while cursor.left(of: octets) > 0
        return values
    }

    /// The octets of each value of a notification, by the sizes before them. Octets that are no value are the last.
    public static func parts(of notification: [UInt8]) -> [ArraySlice<UInt8>] {
        var (parts, rest) = ([ArraySlice<UInt8>](), notification[...])
        repeat {
            let size = Int(rest.first ?? 0)
            let isValue = size >= shortest && size <= rest.count
            parts.append(isValue ? rest.prefix(size) : rest)
            rest = isValue ? rest.dropFirst(size) : []
        } while !rest.isEmpty
        return parts
    }

    private init(_ octets: RawSpan, after cursor: inout OctetCursor) throws(MalformedFrame) {
        let start = cursor.offset
        let size = Int(try cursor.octet("size", of: octets))
        guard size >= Self.shortest, start + size <= octets.byteCount else {
            throw cursor.unexpected("a size of 6 to \(octets.byteCount - start)", found: "\(size)")
        }
        let flags = try cursor.octet("flags", of: octets)
        concentration = try cursor.decimal("glucose concentration", of: octets)
        timeOffset = try cursor.word("time offset", of: octets)
        status = flags & 0x80 == 0 ? nil : try cursor.octet("status", of: octets)
        calibration = flags & 0x40 == 0 ? nil : try cursor.octet("calibration and temperature", of: octets)
        warning = flags & 0x20 == 0 ? nil : try cursor.octet("warning", of: octets)
        trend = flags & 0x01 == 0 ? nil : try cursor.decimal("trend", of: octets)
        quality = flags & 0x02 == 0 ? nil : try cursor.decimal("quality", of: octets)
        guard cursor.offset <= start + size else {
            throw cursor.unexpected(
                "a size of \(cursor.offset - start) or more", found: "\(size)", back: cursor.offset - start)
        }
        while cursor.offset < start + size { _ = try cursor.octet("checksum", of: octets) }
    }

    /// 6 to 13 octets, without a checksum.
    public var encoded: [UInt8] { encoded(hasChecksum: false) }

    /// 6 to 13 octets, and two of a checksum where there is to be one.
    public func encoded(hasChecksum: Bool) -> [UInt8] {
        var flags: UInt8 = trend == nil ? 0 : 0x01
        if quality != nil { flags |= 0x02 }
        if warning != nil { flags |= 0x20 }
        if calibration != nil { flags |= 0x40 }
        if status != nil { flags |= 0x80 }
        var octets = [0, flags]
        octets.append(word: concentration.rawValue)
        octets.append(word: timeOffset)
        for octet in [status, calibration, warning] { if let octet { octets.append(octet) } }
        for number in [trend, quality] { if let number { octets.append(word: number.rawValue) } }
        octets[0] = UInt8(octets.count + (hasChecksum ? 2 : 0))
        return hasChecksum ? ContinuousGlucoseChecksum.appended(to: octets) : octets
    }
}
