import HealthReadings
import TestSupport
import Testing

@testable import ReadingFormats

/// Readings to write.
enum Samples {
    static let cuff = DeviceDescription(
        address: DeviceAddress(bits: 0x0A1B_2C3D_4E5F, kind: .public), model: "omron_bp7000", serial: "20260101",
        name: "BLESmart_0000", provider: "omron_ble")
    static let meter = DeviceDescription(
        address: DeviceAddress(bits: 0xC000_0000_1808, kind: .random), model: "accuchek_guide", serial: "123",
        provider: "accuchek_ble")

    static func zone(_ name: String = "Europe/Berlin") throws -> ZoneRules { try #require(ZoneRules.named(name)) }

    static func instant(_ text: String) throws -> Instant { try #require(Instant(rfc3339: text)) }

    static func decimal(_ text: String) throws -> ExactDecimal { try #require(ExactDecimal(text)) }

    static func context(zone name: String = "Europe/Berlin", patient: String? = "urn:oid:1.2.3|p1") throws
        -> FormatContext
    {
        FormatContext(
            person: "white_bear", zone: try zone(name), gateway: GatewayFacts(id: "gw-1", version: "0.2.0"),
            device: DeviceFacts(manufacturer: "Omron", model: "HEM-7361T"),
            patient: patient.flatMap { PatientIdentifier(token: $0) })
    }

    static func reading(
        _ value: RecordValue, id: UInt64 = 1, device: DeviceDescription = meter, status: ReadingStatus = [],
        deviceTime: String? = "2026-11-22T08:15:00", time: String? = "2026-11-22T07:15:00Z",
        basis: TimeBasis = .assumedZone, uncertainty: Int? = nil, clock: ClockComparison? = nil,
        context: GlucoseContext? = nil, excluded: Exclusion? = nil, sensor: SensorFacts? = nil
    ) throws -> Reading {
        let time = try time.map(instant)
        return Reading(
            id: ReadingID(high: 0, low: id),
            record: Record(
                value: value, baseTime: deviceTime.flatMap { WallTime($0) }, status: status, sensor: sensor),
            context: context, device: device,
            time: ResolvedTime(instant: time, basis: basis, uncertaintyMinutes: uncertainty, clock: clock),
            excluded: excluded, receivedAt: try instant("2026-11-22T07:20:00Z"))
    }

    static func pressures(
        _ systolic: String = "128.0", _ diastolic: String = "82", mean: MeasuredNumber = .notANumber,
        pulse: String? = "64.0", unit: MeasurementUnit = .millimetresOfMercury
    ) throws -> RecordValue {
        .bloodPressure(
            BloodPressureValue(
                systolic: Quantity(try decimal(systolic), unit), diastolic: Quantity(try decimal(diastolic), unit),
                meanArterial: Quantity(mean, unit),
                pulse: try pulse.map { Quantity(try decimal($0), .beatsPerMinute) }))
    }

    static func glucose(
        _ value: String = "106", _ unit: MeasurementUnit = .milligramsPerDecilitre,
        sample: GlucoseSampleType? = .capillaryWholeBlood, location: GlucoseSampleLocation? = .finger,
        continuous: ContinuousGlucoseFacts? = nil
    ) throws -> RecordValue {
        .glucose(
            GlucoseValue(
                concentration: Quantity(try decimal(value), unit), sampleType: sample, sampleLocation: location,
                continuous: continuous))
    }

    static func vital(
        _ kind: ReadingKind, _ quantities: [(VitalValue.Part, String, MeasurementUnit)], site: String? = nil,
        intervals: [ExactDecimal] = [], hasContact: Bool? = nil, windowSeconds: Int? = nil
    ) throws -> RecordValue {
        .vital(
            VitalValue(
                kind: kind, try quantities.map { .init($0.0, Quantity(try decimal($0.1), $0.2)) }, site: site,
                intervals: intervals, hasContact: hasContact, windowSeconds: windowSeconds))
    }

    /// What a Libre has of three hours, every quarter of an hour 100 mg/dL, and what a scan at their end shows of the last 16
    /// minutes: 300 mg/dL each.
    ///
    /// - Parameter late: how many minutes behind their end it is made.
    static func scan(late: Int64 = 0) throws -> [Reading] {
        func value(_ id: UInt64, _ text: String, _ minute: Int64, _ source: SensorFacts.Source) throws -> Reading {
            let facts = SensorFacts(
                source: source, minute: UInt16(1000 + minute), glucose: 1000, temperature: 7000, adjustment: 0,
                quality: 0, flags: 0, hasError: false, calibration: .factoryEstimate)
            let time = try instant("2026-11-22T08:00:00Z").advanced(bySeconds: minute * 60)
            return try reading(
                glucose(text, sample: .interstitialFluid, location: nil), id: id, time: time.description, sensor: facts)
        }
        let history = try (0...12).map { try value(100 + UInt64($0), "100", Int64($0) * 15, .history) }
        return try history + (0...15).map { try value(200 + UInt64($0), "300", 165 + late + Int64($0), .trend) }
    }

    /// One reading of each kind, as devices send them.
    static func everyKind() throws -> [Reading] {
        try [
            reading(glucose(), id: 1), reading(pressures(), id: 2, device: cuff),
            reading(vital(.heartRate, [(.heartRate, "72", .beatsPerMinute)]), id: 3),
            reading(
                vital(.hrv, [(.rmssd, "41.50", .milliseconds), (.sdnn, "52.10", .milliseconds)], windowSeconds: 60),
                id: 4),
            reading(vital(.spo2, [(.saturation, "97", .percent), (.pulse, "61", .beatsPerMinute)]), id: 5),
            reading(vital(.temperature, [(.temperature, "36.60", .degreesCelsius)], site: "ear"), id: 6),
            reading(
                vital(
                    .weight,
                    [
                        (.weight, "71.205", .kilograms), (.bodyMassIndex, "22.5", .kilogramsPerSquareMetre),
                        (.height, "1.780", .metres),
                    ]), id: 7),
            reading(
                vital(
                    .bodyComposition,
                    [
                        (.bodyFat, "21.4", .percent), (.weight, "71.200", .kilograms),
                        (.fatFreeMass, "55.960", .kilograms), (.impedance, "512.0", .ohms),
                    ]), id: 8),
        ]
    }
}

extension JSONValue {
    /// What a path of keys and places leads to; nil where it leads nowhere.
    func at(_ path: String) -> JSONValue? {
        path.split(separator: ".").reduce(self as JSONValue?) { value, step in
            if let place = Int(step), case .array(let values)? = value {
                return values.dropFirst(place).first
            }
            return value?[String(step)]
        }
    }

    /// Whether a path leads anywhere. A comparison with nil wouldn't tell: it may mean JSON's null.
    func has(_ path: String) -> Bool { if case .some = at(path) { true } else { false } }

    /// The elements of an array.
    var elements: [JSONValue] { if case .array(let values) = self { values } else { [] } }

    /// A string's text.
    var string: String? { if case .string(let text) = self { text } else { nil } }
}
