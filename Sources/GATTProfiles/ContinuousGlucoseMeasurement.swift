import HealthReadings

/// A value of a continuous glucose sensor: CGM Measurement (2AA7), 6 to 15 octets. Continuous Glucose Monitoring Service
/// 1.0.2, 3.1.
///
/// A notification holds one or more, each with its size before it. A checksum behind a value is accepted, not checked:
/// whether there is one stands in another characteristic, and the link checks its own.
public struct ContinuousGlucoseMeasurement: CharacteristicCoding {
    /// 2AA7.
    public static let assignedNumber: UInt16 = 0x2AA7

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

    /// Whether the sensor says that the value is none: session stopped, sensor malfunction or fault, or the wrong type.
    public var saysNoValue: Bool { (status ?? 0) & 0b0011_1001 != 0 }

    /// Reads the first value.
    public init(decoding octets: RawSpan) throws(MalformedFrame) {
        var cursor = OctetCursor("CGM Measurement (2AA7)")
        try self.init(octets, after: &cursor)
    }

    /// Reads all values of a notification.
    ///
    /// - Throws: ``MalformedFrame`` where one is shorter than it says; none is then given.
    public static func all(in octets: RawSpan) throws(MalformedFrame) -> [ContinuousGlucoseMeasurement] {
        var cursor = OctetCursor("CGM Measurement (2AA7)")
        var values: [ContinuousGlucoseMeasurement] = []
        repeat {
            values.append(try ContinuousGlucoseMeasurement(octets, after: &cursor))
        } while cursor.left(of: octets) > 0
        return values
    }

    private init(_ octets: RawSpan, after cursor: inout OctetCursor) throws(MalformedFrame) {
        let start = cursor.offset
        let size = Int(try cursor.octet("size", of: octets))
        guard size >= 6, start + size <= octets.byteCount else {
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
    public var encoded: [UInt8] {
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
        octets[0] = UInt8(octets.count)
        return octets
    }
}

/// When a continuous glucose sensor's session began: CGM Session Start Time (2AAA), 9 octets and a checksum. Continuous
/// Glucose Monitoring Service 1.0.2, 3.4.
public struct ContinuousGlucoseSessionStart: CharacteristicCoding {
    /// 2AAA.
    public static let assignedNumber: UInt16 = 0x2AAA

    /// The start, in the zone beside it.
    public var dateTime: DateTime
    /// The zone.
    public var zone: LocalTimeInformation

    /// Makes a start.
    public init(dateTime: DateTime, zone: LocalTimeInformation) {
        self.dateTime = dateTime
        self.zone = zone
    }

    /// Reads a start.
    public init(decoding octets: RawSpan) throws(MalformedFrame) {
        var cursor = OctetCursor("CGM Session Start Time (2AAA)")
        dateTime = try cursor.dateTime("date and time", of: octets)
        zone = LocalTimeInformation(
            timeZone: Int8(bitPattern: try cursor.octet("time zone", of: octets)),
            dstOffset: try cursor.octet("DST offset", of: octets))
    }

    /// 9 octets.
    public var encoded: [UInt8] { dateTime.encoded + zone.encoded }
}
