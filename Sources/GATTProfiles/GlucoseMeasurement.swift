import HealthReadings

/// A glucose record as a meter sends it: Glucose Measurement (2A18), 10 to 17 octets.
///
/// Glucose Service 1.0.1, 3.1. Fields hold what was sent; ``StandardFrameDecoder`` makes a record of them.
public struct GlucoseMeasurement: CharacteristicCoding {
    /// 2A18.
    public static let assignedNumber: UInt16 = 0x2A18

    /// The units a concentration is sent in.
    public enum ConcentrationUnit: Sendable, Hashable, CaseIterable {
        /// kg/L; × 10^5 is mg/dL.
        case kilogramsPerLitre
        /// mol/L; × 10^3 is mmol/L.
        case molesPerLitre
    }

    /// A concentration with what it was measured in.
    public struct Concentration: Sendable, Hashable {
        /// The number in ``unit``.
        public var value: MedFloat16
        /// The unit of ``value``.
        public var unit: ConcentrationUnit
        /// Type in the low four bits, Sample Location in the high four.
        public var typeAndLocation: UInt8

        /// Makes a concentration.
        public init(value: MedFloat16, unit: ConcentrationUnit, typeAndLocation: UInt8) {
            self.value = value
            self.unit = unit
            self.typeAndLocation = typeAndLocation
        }

        /// Makes a concentration of a named type and location.
        public init(
            value: MedFloat16, unit: ConcentrationUnit, type: GlucoseSampleType, location: GlucoseSampleLocation
        ) {
            self.init(value: value, unit: unit, typeAndLocation: location.rawValue << 4 | type.rawValue)
        }

        /// What was sampled; numbers the specification reserves are `.reserved`.
        public var type: GlucoseSampleType { GlucoseSampleType(rawValue: typeAndLocation & 0x0F) ?? .reserved }
        /// Where it was sampled; numbers the specification reserves are `.reserved`.
        public var location: GlucoseSampleLocation {
            let location = GlucoseSampleLocation(rawValue: typeAndLocation >> 4) ?? .reserved
            // Subcutaneous tissue is a place of the CGM service alone.
            return location == .subcutaneousTissue ? .reserved : location
        }

        /// The concentration in mg/dL or mmol/L: the decimal point is moved, no digit changes.
        @inline(__always)
        public var quantity: Quantity {
            switch unit {
            case .kilogramsPerLitre: Quantity(value.number.scaled(byPowerOfTen: 5), .milligramsPerDecilitre)
            case .molesPerLitre: Quantity(value.number.scaled(byPowerOfTen: 3), .millimolesPerLitre)
            }
        }
    }

    /// The record's number in the meter.
    public var sequenceNumber: UInt16
    /// When the record was made, by the meter's clock at its base setting.
    public var baseTime: DateTime
    /// Minutes between the base time and what the user sees, as sent; nil where none was sent.
    public var timeOffset: Int16?
    /// Nil where the record has none.
    public var concentration: Concentration?
    /// The sixteen bits of Sensor Status Annunciation; nil where none were sent.
    public var sensorStatus: UInt16?
    /// Whether the meter has a context (2A34) for this record.
    public var hasContext: Bool

    /// Makes a record.
    public init(
        sequenceNumber: UInt16, baseTime: DateTime, timeOffset: Int16? = nil, concentration: Concentration? = nil,
        sensorStatus: UInt16? = nil, hasContext: Bool = false
    ) {
        self.sequenceNumber = sequenceNumber
        self.baseTime = baseTime
        self.timeOffset = timeOffset
        self.concentration = concentration
        self.sensorStatus = sensorStatus
        self.hasContext = hasContext
    }

    /// Offsets that say the user-facing time is unknown: overrun (7FFF) and underrun (8000).
    public static let unknownTimeOffsets: [Int16] = [.max, .min]

    /// Reads a record; takes nothing from the heap.
    public init(decoding octets: RawSpan) throws(MalformedFrame) {
        var cursor = OctetCursor("Glucose Measurement (2A18)")
        let flags = try cursor.octet("flags", of: octets)
        sequenceNumber = try cursor.word("sequence number", of: octets)
        baseTime = try cursor.dateTime("base time", of: octets)
        timeOffset = flags & 0x01 == 0 ? nil : Int16(bitPattern: try cursor.word("time offset", of: octets))
        if flags & 0x02 == 0 {
            concentration = nil
        } else {
            concentration = Concentration(
                value: try cursor.decimal("glucose concentration", of: octets),
                unit: flags & 0x04 == 0 ? .kilogramsPerLitre : .molesPerLitre,
                typeAndLocation: try cursor.octet("type and sample location", of: octets))
        }
        sensorStatus = flags & 0x08 == 0 ? nil : try cursor.word("sensor status annunciation", of: octets)
        hasContext = flags & 0x10 != 0
    }

    /// 10 to 17 octets.
    public var encoded: [UInt8] {
        var flags: UInt8 = hasContext ? 0x10 : 0
        if timeOffset != nil { flags |= 0x01 }
        if let concentration { flags |= concentration.unit == .molesPerLitre ? 0x06 : 0x02 }
        if sensorStatus != nil { flags |= 0x08 }
        var octets = [flags]
        octets.append(word: sequenceNumber)
        octets += baseTime.encoded
        if let timeOffset { octets.append(word: UInt16(bitPattern: timeOffset)) }
        if let concentration {
            octets.append(word: concentration.value.rawValue)
            octets.append(concentration.typeAndLocation)
        }
        if let sensorStatus { octets.append(word: sensorStatus) }
        return octets
    }
}
