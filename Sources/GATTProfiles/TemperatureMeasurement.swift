import HealthReadings

/// A body temperature: Temperature Measurement (2A1C), 5 to 13 octets. Health Thermometer Service 1.0, 3.1.
public struct TemperatureMeasurement: CharacteristicCoding {
    /// 2A1C.
    public static let assignedNumber: UInt16 = 0x2A1C

    /// The number in degrees Celsius, or Fahrenheit where ``isFahrenheit``.
    public var temperature: MedFloat32
    /// Whether the number is in degrees Fahrenheit.
    public var isFahrenheit: Bool
    /// The thermometer's clock; nil where none was sent.
    public var timeStamp: DateTime?
    /// Where it was measured, 1 … 9; nil where none was sent.
    public var site: UInt8?

    /// Makes a measurement.
    public init(temperature: MedFloat32, isFahrenheit: Bool = false, timeStamp: DateTime? = nil, site: UInt8? = nil) {
        self.temperature = temperature
        self.isFahrenheit = isFahrenheit
        self.timeStamp = timeStamp
        self.site = site
    }

    /// The name of the site; nil where none was sent, `reserved` for numbers the specification reserves.
    public var siteName: String? {
        let names = [
            "armpit", "body", "ear", "finger", "gastrointestinal_tract", "mouth", "rectum", "toe", "tympanum",
        ]
        return site.map { (1...9).contains($0) ? names[Int($0) - 1] : "reserved" }
    }

    /// Reads a measurement.
    public init(decoding octets: RawSpan) throws(MalformedFrame) {
        var cursor = OctetCursor("Temperature Measurement (2A1C)")
        let flags = try cursor.octet("flags", of: octets)
        isFahrenheit = flags & 0x01 != 0
        temperature = try cursor.float("temperature", of: octets)
        timeStamp = flags & 0x02 == 0 ? nil : try cursor.dateTime("time stamp", of: octets)
        site = flags & 0x04 == 0 ? nil : try cursor.octet("temperature type", of: octets)
    }

    /// 5 to 13 octets.
    public var encoded: [UInt8] {
        var flags: UInt8 = isFahrenheit ? 0x01 : 0
        if timeStamp != nil { flags |= 0x02 }
        if site != nil { flags |= 0x04 }
        var octets = [flags]
        for shift: UInt32 in [0, 8, 16, 24] { octets.append(UInt8(truncatingIfNeeded: temperature.rawValue >> shift)) }
        if let timeStamp { octets += timeStamp.encoded }
        if let site { octets.append(site) }
        return octets
    }
}
