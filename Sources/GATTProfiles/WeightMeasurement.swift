import HealthReadings

/// A weight: Weight Measurement (2A9D), 3 to 15 octets. Weight Scale Service 1.0, 3.2.
public struct WeightMeasurement: CharacteristicCoding {
    /// 2A9D.
    public static let assignedNumber: UInt16 = 0x2A9D
    /// The weight that says that the measurement failed.
    public static let failed: UInt16 = .max
    /// The user that says that the user is unknown.
    public static let unknownUser: UInt8 = 255

    /// Body mass index in 0.1 kg/m², and height in 0.001 m, or 0.1 in where imperial.
    public struct Stature: Sendable, Hashable {
        /// In 0.1 kg/m².
        public var bodyMassIndex: UInt16
        /// In 0.001 m, or 0.1 in.
        public var height: UInt16

        /// Makes it.
        public init(bodyMassIndex: UInt16, height: UInt16) {
            self.bodyMassIndex = bodyMassIndex
            self.height = height
        }
    }

    /// Whether weight and height are imperial.
    public var isImperial: Bool
    /// In 0.005 kg, or 0.01 lb where imperial; ``failed`` where there is none.
    public var rawWeight: UInt16
    /// The scale's clock; nil where none was sent.
    public var timeStamp: DateTime?
    /// The user's slot as sent; 255 is unknown, nil where none was sent.
    public var userID: UInt8?
    /// Body mass index and height; nil where none were sent.
    public var stature: Stature?

    /// Makes a measurement.
    public init(
        isImperial: Bool = false, rawWeight: UInt16, timeStamp: DateTime? = nil, userID: UInt8? = nil,
        stature: Stature? = nil
    ) {
        self.isImperial = isImperial
        self.rawWeight = rawWeight
        self.timeStamp = timeStamp
        self.userID = userID
        self.stature = stature
    }

    /// The weight, with the resolution of the service; not a number where the measurement failed.
    public var weight: Quantity { Self.mass(rawWeight, isImperial: isImperial) }

    static func mass(_ raw: UInt16, isImperial: Bool) -> Quantity {
        guard raw != failed else { return Quantity(.notANumber, isImperial ? .pounds : .kilograms) }
        return isImperial
            ? Quantity(ExactDecimal(significand: Int64(raw), exponent: -2), .pounds)
            : Quantity(ExactDecimal(significand: Int64(raw) * 5, exponent: -3), .kilograms)
    }

    /// Reads a measurement.
    public init(decoding octets: RawSpan) throws(MalformedFrame) {
        var cursor = OctetCursor("Weight Measurement (2A9D)")
        let flags = try cursor.octet("flags", of: octets)
        isImperial = flags & 0x01 != 0
        rawWeight = try cursor.word("weight", of: octets)
        timeStamp = flags & 0x02 == 0 ? nil : try cursor.dateTime("time stamp", of: octets)
        userID = flags & 0x04 == 0 ? nil : try cursor.octet("user ID", of: octets)
        stature =
            flags & 0x08 == 0
            ? nil
            : Stature(
                bodyMassIndex: try cursor.word("body mass index", of: octets),
                height: try cursor.word("height", of: octets))
    }

    /// 3 to 15 octets.
    public var encoded: [UInt8] {
        var flags: UInt8 = isImperial ? 0x01 : 0
        if timeStamp != nil { flags |= 0x02 }
        if userID != nil { flags |= 0x04 }
        if stature != nil { flags |= 0x08 }
        var octets = [flags]
        octets.append(word: rawWeight)
        if let timeStamp { octets += timeStamp.encoded }
        if let userID { octets.append(userID) }
        if let stature {
            octets.append(word: stature.bodyMassIndex)
            octets.append(word: stature.height)
        }
        return octets
    }
}
