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
/// | a recording's samples | a point each, at its own millisecond: `bpm` or `percent`, and `reading_id` |
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
        var writer = LineWriter()
        let omissions = try writer.append(reading, person: person, at: timestamp)
        return Formatted(String(decoding: writer.octets, as: UTF8.self), omissions: omissions)
    }

    /// A point's timestamp: milliseconds since 1970, fractions cut.
    public static func milliseconds(of instant: Instant) -> Int64 {
        instant.seconds * 1000 + (instant.microseconds - instant.seconds * 1_000_000) / 1000
    }

    /// The tags of a reading's points: those that have a value.
    package static func tags(of reading: Reading, person: String) -> [String: String] {
        var tags = ["device": DeviceAlias(reading.device).description, "person": person]
        if case .glucose(let glucose) = reading.record.value { tags["sample_type"] = glucose.sampleType?.name }
        return tags.filter { !$0.value.isEmpty }
    }

    /// Names the point's measurement: the kind.
    public static func measurement(of kind: ReadingKind) -> String { kind.rawValue }
}

/// Writes many readings as lines of ``LineProtocol``, with line feeds between them: what they share is made ready once.
///
/// ```swift
/// var writer = LineWriter()
/// for reading in readings { try writer.append(reading, person: "white_bear") }
/// print(writer.octets.count)
/// ```
public struct LineWriter: Sendable {
    /// The lines.
    public private(set) var octets: [UInt8] = []
    /// What stands before the fields of the last line.
    private var last: (series: Series, octets: [UInt8])?
    private var hasFields = false
    private var omissions: [FormatOmission] = []

    /// What the points of a series share.
    private struct Series: Sendable, Hashable {
        var kind: ReadingKind
        var device: DeviceDescription
        var person: String
        var sampleType: GlucoseSampleType?

        init(of reading: Reading, _ person: String) {
            kind = reading.kind
            device = reading.device
            self.person = person
            sampleType = Self.sampleType(of: reading)
        }

        /// Whether a reading is of the series, found without making its own.
        func holds(_ reading: Reading, of person: String) -> Bool {
            kind == reading.kind && sampleType == Self.sampleType(of: reading) && self.person == person
                && device == reading.device
        }

        private static func sampleType(of reading: Reading) -> GlucoseSampleType? {
            if case .glucose(let glucose) = reading.record.value { glucose.sampleType } else { nil }
        }
    }

    /// Makes a writer without lines.
    ///
    /// - Parameter capacity: how many bytes are written without another allocation; more may be.
    public init(capacity: Int = 0) { octets.reserveCapacity(capacity) }

    /// Writes a reading's line behind the others.
    ///
    /// - Parameters: as those of ``LineProtocol/line(_:person:at:)``.
    /// - Returns: what the line does not say.
    /// - Throws: ``FormatOmission`` if nothing can be written, and then nothing is.
    @discardableResult
    public mutating func append(
        _ reading: Reading, person: String, at timestamp: Instant? = nil
    ) throws(FormatOmission) -> [FormatOmission] {
        guard reading.excluded == nil else { throw FormatOmission(.excluded) }
        guard let instant = timestamp ?? reading.time.instant else { throw FormatOmission(.noTime) }
        let samples = reading.samples(at: timestamp)
        if !samples.isEmpty { return try append(reading, person: person, samples) }
        let start = octets.count
        do throws(FormatOmission) {
            if start > 0 { octets.append(UInt8(ascii: "\n")) }
            try begin(reading, person)
            switch reading.record.value {
            case .glucose(let glucose): try add(glucose, reading)
            case .bloodPressure(let pressure): try add(pressure)
            case .vital(let vital): try add(vital)
            case .kept: throw FormatOmission(.noPlace)
            }
        } catch {
            octets.removeLast(octets.count - start)
            throw error
        }
        addID(of: reading)
        addStatus(of: reading)
        if let timestamp, let own = reading.time.instant, own.flooredToSecond != timestamp.flooredToSecond {
            field("original_time", text: own.description)
        }
        octets.append(UInt8(ascii: " "))
        octets.append(digits: LineProtocol.milliseconds(of: instant))
        return omissions
    }

    /// Writes a line for each sample of a recording.
    private mutating func append(
        _ reading: Reading, person: String, _ samples: [(time: Instant, value: ExactDecimal)]
    ) throws(FormatOmission) -> [FormatOmission] {
        guard case .vital(let value) = reading.record.value, let part = value.quantities.first?.part else {
            throw FormatOmission(.notANumber)
        }
        let (name, _) = LineProtocolUnit.field(part)
        let start = octets.count
        for sample in samples {
            do throws(FormatOmission) {
                if octets.count > 0 { octets.append(UInt8(ascii: "\n")) }
                try begin(reading, person)
            } catch {
                octets.removeLast(octets.count - start)
                throw error
            }
            field(name, sample.value)
            addID(of: reading)
            addStatus(of: reading)
            octets.append(UInt8(ascii: " "))
            octets.append(digits: LineProtocol.milliseconds(of: sample.time))
        }
        return []
    }

    /// Writes the measurement and the tags.
    private mutating func begin(_ reading: Reading, _ person: String) throws(FormatOmission) {
        (hasFields, omissions) = (false, [])
        if last?.series.holds(reading, of: person) == true, let shared = last?.octets {
            return octets.append(contentsOf: shared)
        }
        let series = Series(of: reading, person)
        let start = octets.count
        octets.append(contentsOf: series.kind.rawValue.utf8)
        // Sorted tags are what the database wants to see.
        try tag("device", DeviceAlias(series.device).description)
        try tag("person", person)
        if let type = series.sampleType { try tag("sample_type", type.name) }
        octets.append(UInt8(ascii: " "))
        last = (series, Array(octets[start...]))
    }

    /// Writes a tag. A tag cannot be empty, and nothing escapes a control character, or a backslash before the separator or
    /// before a character that is escaped: VictoriaMetrics takes the two for an escaped backslash, drops the line, and answers
    /// that it has stored it.
    private mutating func tag(_ name: String, _ value: String) throws(FormatOmission) {
        guard !value.isEmpty else { return }
        // Nearly every tag is printable ASCII, and Unicode's tables are slow to ask.
        let isPrintable =
            value.utf8.allSatisfy { (0x20..<0x7F).contains($0) }
            || value.unicodeScalars.allSatisfy { $0.properties.generalCategory != .control }
        guard isPrintable, !Self.hasStrayBackslash(value) else { throw FormatOmission(.noPlace, of: name) }
        octets.append(UInt8(ascii: ","))
        octets.append(contentsOf: name.utf8)
        octets.append(UInt8(ascii: "="))
        append(value, escaping: Self.isEscaped)
    }

    /// Whether a character of a tag has a backslash before it.
    private static func isEscaped(_ octet: UInt8) -> Bool {
        octet == UInt8(ascii: ",") || octet == UInt8(ascii: "=") || octet == UInt8(ascii: " ")
    }

    /// Whether a backslash stands at the end, or before a character that is escaped.
    private static func hasStrayBackslash(_ value: String) -> Bool {
        guard value.utf8.contains(UInt8(ascii: "\\")) else { return false }
        return zip(value.utf8, value.utf8.dropFirst() + [UInt8(ascii: ",")]).contains { octet, next in
            octet == UInt8(ascii: "\\") && isEscaped(next)
        }
    }

    private mutating func addID(of reading: Reading) {
        begin(ours: "reading_id=\"")
        octets.append(reading.id)
        octets.append(UInt8(ascii: "\""))
    }

    /// Writes what the device said of the measurement, if it did.
    private mutating func addStatus(of reading: Reading) {
        guard !reading.record.status.isEmpty else { return }
        field("status", text: reading.record.status.names.joined(separator: " "))
    }

    private mutating func field(_ name: String, text: String) {
        begin(name)
        octets.append(UInt8(ascii: "\""))
        append(text) { $0 == UInt8(ascii: "\\") || $0 == UInt8(ascii: "\"") }
        octets.append(UInt8(ascii: "\""))
    }

    private mutating func field(ours text: StaticString, _ number: ExactDecimal) {
        begin(ours: text)
        octets.append(number)
    }

    private mutating func field(_ name: String, _ number: ExactDecimal) {
        begin(name)
        octets.append(number)
    }

    /// Begins a field with a text that is known when the program is built: its name, `=`, perhaps a quote.
    private mutating func begin(ours text: StaticString) {
        if hasFields { octets.append(UInt8(ascii: ",")) }
        hasFields = true
        octets.append(literal: text)
    }

    private mutating func begin(_ name: String) {
        if hasFields { octets.append(UInt8(ascii: ",")) }
        hasFields = true
        octets.append(contentsOf: name.utf8)
        octets.append(UInt8(ascii: "="))
    }

    /// Appends a text with a backslash before each of some ASCII characters.
    private mutating func append(_ text: String, escaping isEscaped: (UInt8) -> Bool) {
        guard text.utf8.contains(where: isEscaped) else { return octets.append(contentsOf: text.utf8) }
        for octet in text.utf8 {
            if isEscaped(octet) { octets.append(UInt8(ascii: "\\")) }
            octets.append(octet)
        }
    }

    // MARK: Values

    private mutating func add(_ glucose: GlucoseValue, _ reading: Reading) throws(FormatOmission) {
        guard let measured = glucose.concentration, let number = measured.number.number else {
            throw FormatOmission(.notANumber, of: "glucose")
        }
        let factor = ConversionFactor.milligramsPerDecilitreInOneMillimolePerLitre
        switch measured.unit {
        case .milligramsPerDecilitre:
            field(ours: "mg_dl=", number)
            if let other = number.divided(by: factor, places: ConversionFactor.concentrationPlaces) {
                field(ours: "mmol_l=", other)
            }
        case .millimolesPerLitre:
            field(ours: "mmol_l=", number)
            if let other = number.multiplied(by: factor, places: 2) { field(ours: "mg_dl=", other) }
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

    private mutating func add(_ pressure: BloodPressureValue) throws(FormatOmission) {
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

    private mutating func add(_ vital: VitalValue) throws(FormatOmission) {
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
        guard hasFields else { throw FormatOmission(.notANumber, of: vital.kind.rawValue) }
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
