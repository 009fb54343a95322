import HealthReadings

/// What a continuous glucose sensor can: CGM Feature (2AA8), six octets. Continuous Glucose Monitoring Service 1.0.2, 3.2.
public struct ContinuousGlucoseFeature: CharacteristicCoding {
    /// 2AA8.
    public static let assignedNumber: UInt16 = 0x2AA8

    /// The 24 bits as sent, reserved ones included.
    public var rawValue: UInt32
    /// Type in the low four bits, Sample Location in the high four.
    public var typeAndLocation: UInt8

    /// Makes a feature.
    public init(rawValue: UInt32, typeAndLocation: UInt8) {
        self.rawValue = rawValue & 0xFF_FFFF
        self.typeAndLocation = typeAndLocation
    }

    /// Bit 12: whether each value of the service ends with a checksum.
    public var hasChecksums: Bool { rawValue & Self.checksums != 0 }

    /// ``hasChecksums`` in ``rawValue``.
    public static let checksums: UInt32 = 1 << 12

    /// What is sampled; numbers the specification reserves are `.reserved`.
    public var type: GlucoseSampleType { GlucoseSampleType(rawValue: typeAndLocation & 0x0F) ?? .reserved }
    /// Where it is sampled; numbers the specification reserves are `.reserved`.
    public var location: GlucoseSampleLocation { GlucoseSampleLocation(rawValue: typeAndLocation >> 4) ?? .reserved }

    private static let allNames = [
        "calibration", "patient_high_low_alerts", "hypo_alerts", "hyper_alerts", "rate_of_increase_decrease_alerts",
        "device_specific_alert", "sensor_malfunction_detection", "sensor_temperature_high_low_detection",
        "sensor_result_high_low_detection", "low_battery_detection", "sensor_type_error_detection",
        "general_device_fault", "e2e_crc", "multiple_bond", "multiple_sessions", "trend_information", "quality",
    ]

    /// The names of the set bits; reserved bits have none.
    public var names: [String] { setBitNames(rawValue, Self.allNames) }

    /// Reads a feature. Its checksum is checked where it says that there are any.
    public init(decoding octets: RawSpan) throws(MalformedFrame) {
        let subject: StaticString = "CGM Feature (2AA8)"
        var cursor = OctetCursor(subject)
        self.init(
            rawValue: try cursor.triple("features", of: octets),
            typeAndLocation: try cursor.octet("type and sample location", of: octets))
        guard hasChecksums else { return }
        let found = try cursor.word("checksum", of: octets)
        let expected = ContinuousGlucoseChecksum.of(encoded.prefix(4))
        guard found == expected else {
            throw cursor.unexpected(
                "the checksum \(String(expected, radix: 16))", found: String(found, radix: 16), back: 2)
        }
    }

    /// Six octets; FFFF stands in the checksum's place where there are none.
    public var encoded: [UInt8] {
        var octets: [UInt8] = []
        octets.append(triple: rawValue)
        octets.append(typeAndLocation)
        octets.append(word: hasChecksums ? ContinuousGlucoseChecksum.of(octets) : 0xFFFF)
        return octets
    }
}

/// How a continuous glucose sensor is: CGM Status (2AA9), 5 octets and a checksum. Continuous Glucose Monitoring Service
/// 1.0.2, 3.3.
public struct ContinuousGlucoseStatus: CharacteristicCoding {
    /// 2AA9.
    public static let assignedNumber: UInt16 = 0x2AA9

    /// Minutes since the session began, now.
    public var timeOffset: UInt16
    /// What the sensor says of itself.
    public var annunciation: ContinuousGlucoseAnnunciation

    /// Makes a status.
    public init(timeOffset: UInt16, annunciation: ContinuousGlucoseAnnunciation = []) {
        self.timeOffset = timeOffset
        self.annunciation = annunciation
    }

    /// Reads a status.
    public init(decoding octets: RawSpan) throws(MalformedFrame) {
        var cursor = OctetCursor("CGM Status (2AA9)")
        timeOffset = try cursor.word("time offset", of: octets)
        annunciation = ContinuousGlucoseAnnunciation(rawValue: try cursor.triple("status", of: octets))
    }

    /// Five octets, without a checksum.
    public var encoded: [UInt8] {
        var octets: [UInt8] = []
        octets.append(word: timeOffset)
        octets.append(triple: annunciation.rawValue)
        return octets
    }
}

/// When a continuous glucose sensor's session began: CGM Session Start Time (2AAA), 9 octets and a checksum. Continuous
/// Glucose Monitoring Service 1.0.2, 3.4.
///
/// What is written is the present time; the sensor takes the session's age off it.
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

    /// 9 octets, without a checksum.
    public var encoded: [UInt8] { dateTime.encoded + zone.encoded }
}

/// How long a sensor is meant to measure in one session: CGM Session Run Time (2AAB), 2 octets and a checksum. Continuous
/// Glucose Monitoring Service 1.0.2, 3.5.
public struct ContinuousGlucoseRunTime: CharacteristicCoding {
    /// 2AAB.
    public static let assignedNumber: UInt16 = 0x2AAB

    /// Hours from the session's start.
    public var hours: UInt16

    /// Makes a run time.
    public init(hours: UInt16) { self.hours = hours }

    /// Reads a run time.
    public init(decoding octets: RawSpan) throws(MalformedFrame) {
        var cursor = OctetCursor("CGM Session Run Time (2AAB)")
        hours = try cursor.word("session run time", of: octets)
    }

    /// Two octets, without a checksum.
    public var encoded: [UInt8] {
        var octets: [UInt8] = []
        octets.append(word: hours)
        return octets
    }
}
