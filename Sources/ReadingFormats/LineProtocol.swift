import HealthFigures
import HealthReadings

extension ReadingFormat {
    /// Line protocol of InfluxDB, with timestamps in milliseconds.
    public static let lineProtocol = ReadingFormat(name: "line_protocol", mediaType: "text/plain; charset=utf-8")
}

/// Writes readings as points of a time-series database (InfluxDB line protocol, versions 1 to 3).
///
/// ```text
/// glucose,device=accuchek_guide-3f2a,person=white_bear,sample_type=capillary_whole_blood mg_dl=95,mmol_l=5.2732,… 1795331700000
/// ```
///
/// | part | content |
/// |---|---|
/// | measurement | the reading's kind: `glucose`, `blood_pressure`, … |
/// | tags | `device`: its alias; `person`; of glucose `sample_type` |
/// | fields | the values as floats, in the units below; `reading_id` and what else is text, as strings |
/// | timestamp | milliseconds since 1970 |
///
/// A point is identified by its measurement, its tags and its timestamp: a point that is written again replaces its fields.
/// Nothing that varies from reading to reading is a tag.
///
/// A field keeps the type of its first value in the database, so every measured value is a float, whatever digits it has.
///
/// | measurement | fields |
/// |---|---|
/// | `glucose` | `mg_dl` and `mmol_l`: one as measured, the other converted; `meal`, `source` |
/// | `blood_pressure` | `systolic`, `diastolic`, `mean` in mmHg; `pulse` in beats per minute |
/// | `spo2` | `percent`, `pulse` |
/// | `temperature` | `celsius`; `site` |
/// | `weight` | `kg`, `body_mass_index`, `height_m`, `impedance_ohm` |
/// | `body_composition` | `fat_percent`, `weight_kg`, `height_m`, `muscle_percent`, `muscle_kg`, `fat_free_kg`, `soft_lean_kg`, `water_kg`, `impedance_ohm`, `basal_metabolism_kj` |
/// | `heart_rate`, `hrv` | `bpm`; `rmssd_ms`, `sdnn_ms` |
/// | each | `reading_id`, `status`, `original_time` where the timestamp is not the reading's own |
public enum LineProtocol {
    /// Writes a reading as a line, without the line feed.
    ///
    /// - Parameters:
    ///   - reading: the reading; one that is excluded has no line.
    ///   - person: the person whose reading it is; without one there is no such tag.
    ///   - timestamp: the point's time; `nil`: the reading's own. Fractions of milliseconds are cut.
    /// - Throws: ``FormatOmission`` if nothing can be written: the reading is excluded, has no time or no number, or the
    ///   person's id has a character that no tag can have (a control character, or a backslash at its end).
    public static func line(
        _ reading: Reading, person: String, at timestamp: Instant? = nil
    ) throws(FormatOmission) -> Formatted<String> {
        guard reading.excluded == nil else { throw FormatOmission(.excluded) }
        guard let instant = timestamp ?? reading.time.instant else { throw FormatOmission(.noTime) }
        var point = Point(reading.kind.rawValue)
        try point.tag("device", DeviceAlias(reading.device).description)
        try point.tag("person", person)
        switch reading.record.value {
        case .glucose(let glucose): try point.add(glucose, reading)
        case .bloodPressure(let pressure): try point.add(pressure)
        case .vital(let vital): try point.add(vital)
        }
        point.field("reading_id", text: reading.id.description)
        if !reading.record.status.isEmpty {
            point.field("status", text: reading.record.status.names.joined(separator: " "))
        }
        if let timestamp, let own = reading.time.instant, own.flooredToSecond != timestamp.flooredToSecond {
            point.field("original_time", text: own.description)
        }
        return Formatted(
            point.text(milliseconds: milliseconds(of: instant)), omissions: point.omissions)
    }

    /// A point's timestamp: milliseconds since 1970, fractions cut.
    public static func milliseconds(of instant: Instant) -> Int64 {
        instant.seconds * 1000 + (instant.microseconds - instant.seconds * 1_000_000) / 1000
    }

    /// Names the point's measurement: the kind.
    public static func measurement(of kind: ReadingKind) -> String { kind.rawValue }
}

/// A point that is being written, octet by octet: a text for each part of each line takes longer than all else of a batch.
private struct Point {
    private let measurement: String
    private var tags: [(name: String, value: String)] = []
    private var fields: [UInt8] = []
    var omissions: [FormatOmission] = []

    init(_ measurement: String) {
        self.measurement = measurement
        fields.reserveCapacity(192)
    }

    /// Adds a tag. A tag cannot be empty, and nothing escapes a control character or a backslash before the separator.
    mutating func tag(_ name: String, _ value: String) throws(FormatOmission) {
        guard !value.isEmpty else { return }
        // Nearly every tag is printable ASCII, and Unicode's tables are slow to ask.
        let isPrintable =
            value.utf8.allSatisfy { (0x20..<0x7F).contains($0) }
            || value.unicodeScalars.allSatisfy { $0.properties.generalCategory != .control }
        guard isPrintable, value.utf8.last != UInt8(ascii: "\\")
        else { throw FormatOmission(.noPlace, of: name) }
        tags.append((name, value))
    }

    mutating func field(_ name: String, text: String) {
        begin(name)
        fields.append(UInt8(ascii: "\""))
        Self.append(text, to: &fields) { $0 == UInt8(ascii: "\\") || $0 == UInt8(ascii: "\"") }
        fields.append(UInt8(ascii: "\""))
    }

    private mutating func field(_ name: String, _ number: ExactDecimal) {
        begin(name)
        fields.append(contentsOf: number.description.utf8)
    }

    private mutating func begin(_ name: String) {
        if !fields.isEmpty { fields.append(UInt8(ascii: ",")) }
        fields.append(contentsOf: name.utf8)
        fields.append(UInt8(ascii: "="))
    }

    func text(milliseconds: Int64) -> String {
        var line: [UInt8] = []
        line.reserveCapacity(fields.count + 160)
        line.append(contentsOf: measurement.utf8)
        // Sorted tags are what the database wants to see.
        for tag in tags.sorted(by: { $0.name < $1.name }) {
            line.append(UInt8(ascii: ","))
            line.append(contentsOf: tag.name.utf8)
            line.append(UInt8(ascii: "="))
            Self.append(tag.value, to: &line) {
                $0 == UInt8(ascii: ",") || $0 == UInt8(ascii: "=") || $0 == UInt8(ascii: " ")
            }
        }
        line.append(UInt8(ascii: " "))
        line.append(contentsOf: fields)
        line.append(UInt8(ascii: " "))
        line.append(contentsOf: milliseconds.description.utf8)
        return String(decoding: line, as: UTF8.self)
    }

    /// Appends a text with a backslash before each of some ASCII characters.
    private static func append(_ text: String, to octets: inout [UInt8], escaping isEscaped: (UInt8) -> Bool) {
        guard text.utf8.contains(where: isEscaped) else { return octets.append(contentsOf: text.utf8) }
        for octet in text.utf8 {
            if isEscaped(octet) { octets.append(UInt8(ascii: "\\")) }
            octets.append(octet)
        }
    }

    // MARK: Values

    mutating func add(_ glucose: GlucoseValue, _ reading: Reading) throws(FormatOmission) {
        guard let measured = glucose.concentration, let number = measured.number.number else {
            throw FormatOmission(.notANumber, of: "glucose")
        }
        if let type = glucose.sampleType { try tag("sample_type", type.name) }
        let factor = ConversionFactor.milligramsPerDecilitreInOneMillimolePerLitre
        switch measured.unit {
        case .milligramsPerDecilitre:
            field("mg_dl", number)
            if let other = number.divided(by: factor, places: ConversionFactor.concentrationPlaces) {
                field("mmol_l", other)
            }
        case .millimolesPerLitre:
            field("mmol_l", number)
            if let other = number.multiplied(by: factor, places: 2) { field("mg_dl", other) }
        default: throw FormatOmission(.unit, of: "glucose")
        }
        if let meal = reading.context?.meal { field("meal", text: meal) }
        if let source = reading.record.sensor?.source { field("source", text: source.name) }
        guard let context = reading.context else { return }
        if context.carbohydrate != nil { omissions.append(FormatOmission(.noPlace, of: "context.carbohydrate")) }
        if context.tester != nil { omissions.append(FormatOmission(.noPlace, of: "context.tester")) }
        if context.health != nil { omissions.append(FormatOmission(.noPlace, of: "context.health")) }
        if context.exercise != nil { omissions.append(FormatOmission(.noPlace, of: "context.exercise")) }
        if context.medication != nil { omissions.append(FormatOmission(.noPlace, of: "context.medication")) }
        if context.hba1c != nil { omissions.append(FormatOmission(.noPlace, of: "context.hba1c")) }
    }

    mutating func add(_ pressure: BloodPressureValue) throws(FormatOmission) {
        for (name, measured) in [("systolic", pressure.systolic), ("diastolic", pressure.diastolic)] {
            guard let number = measured.number.number else {
                throw FormatOmission(.notANumber, of: "blood_pressure.\(name)")
            }
            guard let converted = LineProtocolUnit.millimetresOfMercury(number, measured.unit) else {
                throw FormatOmission(.unit, of: "blood_pressure.\(name)")
            }
            field(name, converted)
        }
        add("mean", pressure.meanArterial, as: "blood_pressure.mean") { LineProtocolUnit.millimetresOfMercury($0, $1) }
        if let pulse = pressure.pulse { add("pulse", pulse, as: "pulse") { $1 == .beatsPerMinute ? $0 : nil } }
    }

    mutating func add(_ vital: VitalValue) throws(FormatOmission) {
        for (index, measured) in vital.quantities.enumerated() {
            let (name, unit) = LineProtocolUnit.field(measured.part)
            // Without its main value there is no reading.
            if index == 0 {
                guard let number = measured.quantity.number.number else {
                    throw FormatOmission(.notANumber, of: measured.part.name)
                }
                guard unit.converted(number, measured.quantity.unit) != nil else {
                    throw FormatOmission(.unit, of: measured.part.name)
                }
            }
            let isWeightBeside = measured.part == .weight && vital.kind == .bodyComposition
            add(isWeightBeside ? "weight_kg" : name, measured.quantity, as: measured.part.name) {
                unit.converted($0, $1)
            }
        }
        guard !fields.isEmpty else { throw FormatOmission(.notANumber, of: vital.kind.rawValue) }
        if let site = vital.site { field("site", text: site) }
    }

    private mutating func add(
        _ name: String, _ measured: Quantity, as part: String,
        _ convert: (ExactDecimal, MeasurementUnit) -> ExactDecimal?
    ) {
        guard let number = measured.number.number else {
            return omissions.append(FormatOmission(.notANumber, of: part))
        }
        guard let converted = convert(number, measured.unit) else {
            return omissions.append(FormatOmission(.unit, of: part))
        }
        field(name, converted)
    }
}

/// The unit of a field, which never changes: a chart shows one axis.
private enum LineProtocolUnit {
    case own(MeasurementUnit)
    case mass, length, temperature

    static func millimetresOfMercury(_ number: ExactDecimal, _ unit: MeasurementUnit) -> ExactDecimal? {
        switch unit {
        case .millimetresOfMercury: number
        case .kilopascal:
            number.multiplied(
                by: ConversionFactor.millimetresOfMercuryInOneKilopascal, places: ConversionFactor.pressurePlaces)
        default: nil
        }
    }

    func converted(_ number: ExactDecimal, _ unit: MeasurementUnit) -> ExactDecimal? {
        switch (self, unit) {
        case (.own(let own), _): own == unit ? number : nil
        case (.mass, .kilograms), (.length, .metres), (.temperature, .degreesCelsius): number
        case (.mass, .pounds):
            number.multiplied(by: ConversionFactor.kilogramsInOnePound, places: ConversionFactor.weightPlaces)
        case (.mass, .grams): number.scaled(byPowerOfTen: -3)
        case (.length, .inches): number.multiplied(by: ConversionFactor.metresInOneInch, places: 4)
        // Within these digits the sum is exact; no thermometer sends more.
        case (.temperature, .degreesFahrenheit)
        where number.significand.magnitude < 1_000_000_000 && (-7...0).contains(number.exponent):
            number.adding(ExactDecimal(significand: 32), times: -1)
                .divided(by: ConversionFactor.degreesFahrenheitInOneKelvin, places: ConversionFactor.vitalPlaces)
        default: nil
        }
    }

    /// The field of a part, with its unit.
    static func field(_ part: VitalValue.Part) -> (String, LineProtocolUnit) {
        switch part {
        case .heartRate: ("bpm", .own(.beatsPerMinute))
        case .saturation: ("percent", .own(.percent))
        case .pulse: ("pulse", .own(.beatsPerMinute))
        case .temperature: ("celsius", .temperature)
        case .weight: ("kg", .mass)
        case .bodyMassIndex: ("body_mass_index", .own(.kilogramsPerSquareMetre))
        case .height: ("height_m", .length)
        case .bodyFat: ("fat_percent", .own(.percent))
        case .basalMetabolism: ("basal_metabolism_kj", .own(.kilojoules))
        case .musclePercentage: ("muscle_percent", .own(.percent))
        case .muscleMass: ("muscle_kg", .mass)
        case .fatFreeMass: ("fat_free_kg", .mass)
        case .softLeanMass: ("soft_lean_kg", .mass)
        case .bodyWaterMass: ("water_kg", .mass)
        case .impedance: ("impedance_ohm", .own(.ohms))
        case .rmssd: ("rmssd_ms", .own(.milliseconds))
        case .sdnn: ("sdnn_ms", .own(.milliseconds))
        }
    }
}
