import GATTClient
import HealthReadings

/// What of health observations is a reading: oxygen saturation, temperature, weight and blood pressure.
///
/// Type and unit codes are those of ISO/IEEE 11073-10101. An observation of another type is kept as it came, and nothing
/// follows from it.
extension HealthObservation {
    /// Bits of Measurement Status: invalid 0, not available 2, calibrating 3, test data 4, manually entered 6, setting 7. What a
    /// person typed into the sensor was measured by none. Threshold error 14 and thresholding disabled 15 say nothing of the value.
    private static let excluding: UInt64 = 0b1101_1101
    /// Questionable 1, early estimate 5.
    private static let doubting: UInt64 = 0b0010_0010
    /// The person that says that the person is unknown.
    private static let unknownPerson: UInt8 = 255

    private static let saturation: UInt32 = 0x2_0000 + 19384
    private static let weight: UInt32 = 0x2_0000 + 57664
    private static let pressures: UInt32 = 0x2_0000 + 18948
    private static let systolic: UInt32 = 0x2_0000 + 18949
    private static let diastolic: UInt32 = 0x2_0000 + 18950
    private static let mean: UInt32 = 0x2_0000 + 18951
    /// Pulse rate by an oximeter, and by a cuff.
    private static let pulses: Set<UInt32> = [0x2_0000 + 18458, 0x2_0000 + 18474]
    /// Temperatures, with their sites as Temperature Type (2A1D) names them.
    private static let temperatures: [UInt32: String] = [
        0x2_0000 + 19292: "body", 0x2_0000 + 19320: "tympanum", 0x2_0000 + 57348: "rectum", 0x2_0000 + 57352: "mouth",
        0x2_0000 + 57356: "ear", 0x2_0000 + 57360: "finger", 0x2_0000 + 57376: "toe", 0x2_0000 + 57380: "armpit",
        0x2_0000 + 57384: "gastrointestinal_tract",
    ]
    private static let units: [UInt16: MeasurementUnit] = [
        544: .percent, 1731: .kilograms, 1760: .pounds, 2720: .beatsPerMinute, 3843: .kilopascal,
        3872: .millimetresOfMercury, 4416: .degreesFahrenheit, 6048: .degreesCelsius,
    ]

    /// The record this is: of a bundle, the first that is one, with the pulse that came with it.
    ///
    /// - Throws: `MalformedFrame` where a value has a unit that its type doesn't have.
    public func record() throws(MalformedFrame) -> Record? {
        guard case .bundle(let members) = content else { return try record(pulse: nil) }
        var pulse: Pulse?
        for member in members where pulse == nil && !member.saysMoreThanQuestionable {
            guard case .numeric(let value) = member.content, let type = member.type, Self.pulses.contains(type) else {
                continue
            }
            pulse = Pulse(
                quantity: try Self.quantity(value, of: type, in: [.beatsPerMinute]), status: member.verdict.status)
        }
        for member in members {
            // What a bundle says holds for each of its members that says nothing else.
            var own = member
            own.time = member.time ?? time
            own.person = member.person ?? person
            own.status = (member.status ?? 0) | (status ?? 0)
            if let record = try own.record(pulse: pulse) { return record }
        }
        return nil
    }

    /// A pulse of a bundle.
    private struct Pulse {
        var quantity: Quantity
        var status: ReadingStatus
    }

    private var verdict: MeasurementVerdict {
        MeasurementVerdict(UInt64(status ?? 0), excluding: Self.excluding, doubting: Self.doubting)
    }

    /// Whether any other bit than questionable is set. A pulse that says more goes with nothing: a stored reading is known by its
    /// pulse, too, and would be another one with it.
    private var saysMoreThanQuestionable: Bool { (status ?? 0) & ~0b10 != 0 }

    private func record(pulse: Pulse?) throws(MalformedFrame) -> Record? {
        guard let type, let value = try value(of: type, pulse: pulse?.quantity) else { return nil }
        let verdict = verdict
        var status = verdict.status
        if let pulse, [.spo2, .bloodPressure].contains(value.kind) { status.formUnion(pulse.status) }
        return Record(
            value: value, baseTime: time?.wallTime, status: status,
            userSlot: person == Self.unknownPerson ? nil : person,
            exclusion: verdict.exclusion ?? exclusion(of: value))
    }

    private func value(of type: UInt32, pulse: Quantity?) throws(MalformedFrame) -> RecordValue? {
        switch content {
        case .numeric(let number) where type == Self.saturation:
            let saturation = try Self.quantity(number, of: type, in: [.percent])
            var parts = [VitalValue.Measured(.saturation, saturation)]
            if let pulse { parts.append(VitalValue.Measured(.pulse, pulse)) }
            return .vital(VitalValue(kind: .spo2, parts))
        case .numeric(let number) where type == Self.weight:
            let weight = try Self.quantity(number, of: type, in: [.kilograms, .pounds])
            return .vital(VitalValue(kind: .weight, [VitalValue.Measured(.weight, weight)]))
        case .numeric(let number):
            guard let site = Self.temperatures[type] else { return nil }
            let temperature = try Self.quantity(number, of: type, in: [.degreesCelsius, .degreesFahrenheit])
            let parts = [VitalValue.Measured(.temperature, temperature)]
            return .vital(VitalValue(kind: .temperature, parts, site: site))
        case .compound(let components) where type == Self.pressures:
            guard let high = try Self.pressure(Self.systolic, of: components),
                let low = try Self.pressure(Self.diastolic, of: components)
            else { return nil }
            let mean = try Self.pressure(Self.mean, of: components) ?? Quantity(.notANumber, high.unit)
            return .bloodPressure(
                BloodPressureValue(systolic: high, diastolic: low, meanArterial: mean, pulse: pulse))
        case .compound, .bundle, .other: return nil
        }
    }

    private static func pressure(_ type: UInt32, of components: [Component]) throws(MalformedFrame) -> Quantity? {
        guard let component = components.first(where: { $0.type == type }) else { return nil }
        return try quantity(component.value, of: type, in: [.millimetresOfMercury, .kilopascal])
    }

    private func exclusion(of value: RecordValue) -> Exclusion? {
        switch value {
        case .vital(let vital):
            guard vital.main?.number.number != nil else { return .notANumber }
            return Plausibility.isPlausible(vital) ? nil : .implausible
        case .bloodPressure(let pressures):
            guard pressures.systolic.number.number != nil, pressures.diastolic.number.number != nil else {
                return .notANumber
            }
            let (high, low) = (pressures.systolic, pressures.diastolic)
            return Plausibility.isPlausible(systolic: high, diastolic: low) ? nil : .implausible
        case .glucose, .kept: return .noValue
        }
    }

    private static func quantity(
        _ value: Value, of type: UInt32, in expected: [MeasurementUnit]
    ) throws(MalformedFrame) -> Quantity {
        guard let unit = units[value.unit], expected.contains(unit) else {
            let symbols = expected.map(\.symbol).joined(separator: " or ")
            throw MalformedFrame(
                subject: "Live Health Observations (2B8B)", expected: "observation type \(type) in \(symbols)",
                octet: 0,
                found: "unit code \(value.unit)")
        }
        return Quantity(value.number.number, unit)
    }
}

extension CharacteristicProfile {
    /// Live Health Observations (2B8B): a record if an observation came in one segment, or was joined to one.
    static let healthObservation = CharacteristicProfile(
        HealthObservationSegment.uuid, .record,
        decode: { (octets: RawSpan) throws(MalformedFrame) -> DecodedFrame in
            let segment = try HealthObservationSegment(decoding: octets)
            guard segment.isWhole else { return .nothing }
            let record = try HealthObservation(decoding: segment.part).record()
            return record.map(DecodedFrame.record) ?? .nothing
        })
}

extension HealthObservation {
    /// Reads an observation.
    ///
    /// - Throws: `MalformedFrame` with the first field that is missing, or that is not read.
    public init(decoding octets: [UInt8]) throws(MalformedFrame) { try self.init(decoding: octets.span.bytes) }
}
