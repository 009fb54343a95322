import HealthReadings

/// One value of a continuous glucose sensor with what stands in the sensor's other characteristics and is needed to read
/// it, so that a stored frame can be read again by itself.
///
/// The payload of `FrameFormat.continuousGlucoseRecord`: an octet that is 1 where values end with a checksum (2AA8), the
/// type and sample location (2AA8; FF where the sensor does not tell), the session's start (2AAA, seven octets, zero
/// where unknown), then the value as it was sent (2AA7), its size first.
public struct ContinuousGlucoseRecord: Sendable, Hashable {
    /// Octets before the value.
    static let lead = 9
    /// The type and sample location of a sensor that does not tell them.
    public static let unknownTypeAndLocation: UInt8 = 0xFF

    /// Whether the value ends with a checksum.
    public var hasChecksum: Bool
    /// Type in the low four bits, Sample Location in the high four.
    public var typeAndLocation: UInt8
    /// When the session began, on the sensor's wall.
    public var sessionStart: DateTime
    /// The octets of 2AA7.
    public var value: [UInt8]

    /// Makes a record of its parts.
    public init(hasChecksum: Bool, typeAndLocation: UInt8, sessionStart: DateTime, value: [UInt8]) {
        self.hasChecksum = hasChecksum
        self.typeAndLocation = typeAndLocation
        self.sessionStart = sessionStart
        self.value = value
    }

    /// Reads a stored payload.
    public init(payload: [UInt8]) throws(MalformedFrame) {
        guard payload.count >= Self.lead else {
            throw MalformedFrame(
                subject: "CGM record", expected: "\(Self.lead) octets and a value", octet: payload.count, in: payload)
        }
        self.init(
            hasChecksum: payload[0] & 1 != 0, typeAndLocation: payload[1],
            sessionStart: try DateTime(decoding: Array(payload[2..<Self.lead])),
            value: Array(payload[Self.lead...]))
    }

    /// The payload.
    public var payload: [UInt8] { [hasChecksum ? 1 : 0, typeAndLocation] + sessionStart.encoded + value }

    /// The value, its checksum checked where it has one.
    public func measurement() throws(MalformedFrame) -> ContinuousGlucoseMeasurement {
        let whole = try ContinuousGlucoseMeasurement(decoding: value)
        guard hasChecksum else { return whole }
        let checked = try ContinuousGlucoseChecksum.checked(value, "CGM Measurement (2AA7)")
        // What the flags announce must fit before the checksum.
        guard whole.encoded.count <= checked.count else {
            throw MalformedFrame(
                subject: "CGM Measurement (2AA7)", expected: "a size of \(whole.encoded.count + 2) or more", octet: 0,
                found: "\(value.count)")
        }
        return whole
    }

    /// The record this is. Its number is its minute, its base time the session's start and that minute.
    public func record() throws(MalformedFrame) -> Record {
        let measurement = try measurement()
        let isTold = typeAndLocation != Self.unknownTypeAndLocation
        let feature = ContinuousGlucoseFeature(rawValue: 0, typeAndLocation: typeAndLocation)
        let quantity = Quantity(measurement.concentration.number, .milligramsPerDecilitre)
        let verdict = MeasurementVerdict(measurement.annunciation.readingStatus)
        var exclusion: Exclusion?
        if let failed = verdict.exclusion {
            exclusion = failed
        } else if quantity.number.number == nil {
            exclusion = .notANumber
        } else if isTold, feature.type == .controlSolution || feature.location == .controlSolution {
            exclusion = .controlSolution
        } else if !Plausibility.isPlausible(glucose: quantity) {
            exclusion = .implausible
        }
        let facts = ContinuousGlucoseFacts(
            trend: measurement.trend.map { Quantity($0.number, .milligramsPerDecilitrePerMinute) },
            quality: measurement.quality.map { Quantity($0.number, .percent) })
        return Record(
            value: .glucose(
                GlucoseValue(
                    concentration: quantity, sampleType: isTold ? feature.type : nil,
                    sampleLocation: isTold ? feature.location : nil, continuous: facts)),
            sequence: measurement.timeOffset,
            baseTime: sessionStart.wallTime?.advanced(byMinutes: Int(measurement.timeOffset)), status: verdict.status,
            exclusion: exclusion)
    }
}

extension FrameFormat {
    /// A value of a continuous glucose sensor; see ``ContinuousGlucoseRecord``.
    public static let continuousGlucoseRecord = FrameFormat(rawValue: 0x1_0002)
}
