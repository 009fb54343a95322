import HealthReadings

/// A heart rate as a strap sends it, about once a second: Heart Rate Measurement (2A37). Heart Rate Service 1.0, 3.1.
public struct HeartRateMeasurement: CharacteristicCoding {
    /// 2A37.
    public static let assignedNumber: UInt16 = 0x2A37

    /// Beats per minute.
    public var beatsPerMinute: UInt16
    /// Whether the rate is sent in two octets; always where it is above 255.
    public var isWide: Bool
    /// Whether the strap touches the skin; nil where it cannot tell.
    public var hasContact: Bool?
    /// Energy expended since it was last reset, in kilojoules; 65535 stands for that and more. Nil where none was sent.
    public var energyExpended: UInt16?
    /// The intervals between beats since the last measurement, oldest first, in 1/1024 s.
    public var intervals: [UInt16]

    /// Makes a measurement.
    public init(
        beatsPerMinute: UInt16, isWide: Bool = false, hasContact: Bool? = nil, energyExpended: UInt16? = nil,
        intervals: [UInt16] = []
    ) {
        self.beatsPerMinute = beatsPerMinute
        self.isWide = isWide || beatsPerMinute > 255
        self.hasContact = hasContact
        self.energyExpended = energyExpended
        self.intervals = intervals
    }

    /// Reads a measurement. An odd octet behind the last interval is accepted.
    public init(decoding octets: RawSpan) throws(MalformedFrame) {
        var cursor = OctetCursor("Heart Rate Measurement (2A37)")
        let flags = try cursor.octet("flags", of: octets)
        isWide = flags & 0x01 != 0
        beatsPerMinute =
            isWide ? try cursor.word("heart rate", of: octets) : UInt16(try cursor.octet("heart rate", of: octets))
        hasContact = flags & 0x04 == 0 ? nil : flags & 0x02 != 0
        energyExpended = flags & 0x08 == 0 ? nil : try cursor.word("energy expended", of: octets)
        intervals = []
        guard flags & 0x10 != 0 else { return }
        intervals.reserveCapacity(cursor.left(of: octets) / 2)
        while cursor.left(of: octets) >= 2 { intervals.append(try cursor.word("RR interval", of: octets)) }
    }

    /// 2 octets and more.
    public var encoded: [UInt8] {
        var flags: UInt8 = isWide ? 0x01 : 0
        if let hasContact { flags |= hasContact ? 0x06 : 0x04 }
        if energyExpended != nil { flags |= 0x08 }
        if !intervals.isEmpty { flags |= 0x10 }
        var octets = [flags]
        if isWide {
            octets.append(word: beatsPerMinute)
        } else {
            octets.append(UInt8(truncatingIfNeeded: beatsPerMinute))
        }
        if let energyExpended { octets.append(word: energyExpended) }
        for interval in intervals { octets.append(word: interval) }
        return octets
    }
}
