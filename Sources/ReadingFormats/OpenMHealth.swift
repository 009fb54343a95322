import HealthFigures
import HealthReadings

extension ReadingFormat {
    /// Open mHealth data points: ``OpenMHealth``.
    public static let openMHealth = ReadingFormat(name: "open_mhealth", mediaType: "application/json")
}

/// Writes readings as data points of Open mHealth, with its own header or that of IEEE 1752.1.
///
/// | reading | data points |
/// |---|---|
/// | glucose | `omh:blood-glucose:4.0` |
/// | blood pressure | `omh:blood-pressure:4.0`, and `omh:heart-rate:2.0` for the pulse |
/// | heart rate | `omh:heart-rate:2.0` |
/// | oxygen saturation | `omh:oxygen-saturation:2.0`, and `omh:heart-rate:2.0` for the pulse |
/// | temperature | `omh:body-temperature:4.0` |
/// | weight | `omh:body-weight:3.0`, `omh:body-mass-index:3.0`, `omh:body-height:2.0` |
/// | body composition | `omh:body-fat-percentage:2.0`, `omh:body-weight:3.0`, `omh:body-height:2.0` |
///
/// A data point's id is a UUID made of the reading's id and the schema. A reading that is sent again, or that has changed, has
/// the same ids: a receiver replaces what it has.
///
/// Numbers keep the digits of the device. Pressures in kPa are converted to mmHg, which is the only unit that the schema has, and
/// rounded half to even at two decimal places.
public enum OpenMHealth {
    /// Which header a data point has. They differ in the names and in the number of their fields.
    public enum Header: Sendable, Hashable, CaseIterable {
        /// Open mHealth's header 1.2.
        case openMHealth
        /// The header 1.0 of IEEE 1752.1, which names neither person nor source.
        case ieee1752
    }

    /// The data points of a reading.
    ///
    /// - Parameters:
    ///   - reading: the reading.
    ///   - context: the person, the zone and the device.
    ///   - header: which header the data points have.
    /// - Returns: one data point for each of the reading's values that has a schema, and what they don't say.
    /// - Throws: a ``FormatOmission`` if nothing can be written: the reading is excluded, has no time or no number, or its kind has
    ///   no schema.
    public static func dataPoints(
        of reading: Reading, in context: FormatContext, header: Header = .openMHealth
    ) throws(FormatOmission) -> Formatted<[JSONValue]> {
        let time = try reading.deliverableTime()
        guard let effective = time.rfc3339(in: context.zone),
            let stored = reading.receivedAt.flooredToSecond.rfc3339(in: context.zone)
        else { throw FormatOmission(.noTime) }
        // The mean of a recording stands for the time of its samples.
        let end = reading.seriesEnd.flatMap { $0.flooredToSecond.rfc3339(in: context.zone) }
        let frame: JSONValue =
            end.map {
                .object([
                    "time_interval": .object(["start_date_time": .string(effective), "end_date_time": .string($0)])
                ])
            } ?? .object(["date_time": .string(effective)])
        var bodies = Bodies(reading)
        try bodies.add()
        let points = bodies.all.map { body in
            JSONValue.object([
                "header": Self.header(
                    header, of: body, reading, in: context, effective: effective, stored: stored),
                "body": .object(
                    body.members + [.init("effective_time_frame", frame)]),
            ])
        }
        // The IEEE's header has no place for these.
        let lost = header == .ieee1752 ? ["person", "device"].map { FormatOmission(.noPlace, of: $0) } : []
        return Formatted(points, omissions: lost + bodies.omissions)
    }

    private static func header(
        _ header: Header, of body: Body, _ reading: Reading, in context: FormatContext, effective: String,
        stored: String
    ) -> JSONValue {
        // What a person typed, here or in another program, no sensor says.
        let isTyped = reading.record.entry != nil || reading.record.imported?.isEntered == true
        let modality: JSONValue = isTyped ? "self-reported" : "sensed"
        let id = NameUUID("open_mhealth/\(reading.id)/\(body.name)").description
        let schema = JSONValue.object([
            "namespace": "omh", "name": .string(body.name), "version": .string(body.version),
        ])
        switch header {
        case .openMHealth:
            return .object(
                of: .init("id", .string(id)), .init("creation_date_time", .string(stored)), .init("schema_id", schema),
                .init(
                    "acquisition_provenance",
                    .object([
                        "source_name": .string(reading.deviceName(context.device)),
                        "source_data_point_id": .string(reading.id.description),
                        "source_creation_date_time": .string(effective), "modality": modality,
                    ])), .optional("user_id", context.person.nonEmpty))
        case .ieee1752:
            return .object([
                "uuid": .string(id), "schema_id": schema, "source_creation_date_time": .string(effective),
                "modality": modality,
            ])
        }
    }

    private struct Body {
        /// Name and version: `blood-glucose-4.0`.
        var schema: String
        var members: [JSONValue.Member]

        var name: String { String(schema.prefix(upTo: schema.lastIndex(of: "-") ?? schema.endIndex)) }
        var version: String { String(schema.dropFirst(name.count + 1)) }
    }

    /// What becomes of a reading's values.
    private struct Bodies {
        let reading: Reading
        private(set) var all: [Body] = []
        private var placed: Set<String> = []
        private var changes: [FormatOmission] = []

        init(_ reading: Reading) { self.reading = reading }

        var omissions: [FormatOmission] { changes + reading.omissions(placed: placed) }

        mutating func add() throws(FormatOmission) {
            switch reading.record.value {
            case .glucose(let glucose): try add(glucose)
            case .bloodPressure(let pressures): try add(pressures)
            case .vital(let vital): try add(vital)
            case .kept: throw FormatOmission(.noPlace)
            }
        }

        private mutating func add(_ glucose: GlucoseValue) throws(FormatOmission) {
            guard let concentration = glucose.concentration,
                let value = OpenMHealth.value(concentration, [.milligramsPerDecilitre, .millimolesPerLitre])
            else { throw FormatOmission(.notANumber, of: "glucose") }
            var members = [JSONValue.Member("blood_glucose", value)]
            if let source = Self.specimens[glucose.sampleType ?? .reserved] {
                members.append(.init("specimen_source", .string(source)))
                placed.insert("sample_type")
            }
            if let meal = reading.context?.meal {
                if let relation = Self.meals[meal] {
                    members.append(.init("temporal_relationship_to_meal", .string(relation)))
                    placed.insert("context.meal")
                } else if meal == "bedtime" {
                    members.append(.init("temporal_relationship_to_sleep", "before sleeping"))
                    placed.insert("context.meal")
                }
            }
            all.append(Body(schema: "blood-glucose-4.0", members: members))
        }

        private mutating func add(_ pressures: BloodPressureValue) throws(FormatOmission) {
            var members: [JSONValue.Member] = []
            for (name, quantity) in [("systolic", pressures.systolic), ("diastolic", pressures.diastolic)] {
                guard
                    let placed = Placed(quantity, in: .millimetresOfMercury, converted: ConversionFactor.pressurePlaces)
                else { throw FormatOmission(.notANumber, of: "blood_pressure.\(name)") }
                members.append(
                    .init(
                        "\(name)_blood_pressure",
                        .object(["value": .number(placed.number), "unit": "mmHg"])))
                if let change = placed.change { changes.append(FormatOmission(change, of: "blood_pressure.\(name)")) }
            }
            all.append(Body(schema: "blood-pressure-4.0", members: members))
            add("pulse", pressures.pulse, "heart-rate-2.0", "heart_rate", [.beatsPerMinute])
        }

        private mutating func add(_ vital: VitalValue) throws(FormatOmission) {
            guard let main = vital.main else { throw FormatOmission(.notANumber, of: vital.kind.rawValue) }
            guard main.number.number != nil || vital.kind == .hrv else {
                throw FormatOmission(.notANumber, of: vital.kind.rawValue)
            }
            switch vital.kind {
            case .heartRate:
                add("heart_rate", main, "heart-rate-2.0", "heart_rate", [.beatsPerMinute], Self.statistic(of: vital))
            case .spo2:
                add(
                    "spo2", main, "oxygen-saturation-2.0", "oxygen_saturation", [.percent],
                    [.init("system", "peripheral capillary"), .init("measurement_method", "pulse oximetry")]
                        + Self.statistic(of: vital))
                add("pulse", vital[.pulse], "heart-rate-2.0", "heart_rate", [.beatsPerMinute])
            case .temperature:
                let site = vital.site.flatMap { Self.sites[$0] }
                if site != nil { placed.insert("site") }
                add(
                    "temperature", main, "body-temperature-4.0", "body_temperature",
                    [.degreesCelsius, .degreesFahrenheit],
                    site.map { [.init("measurement_location", .string($0))] } ?? [])
            case .weight:
                addWeight(vital)
                add(
                    "body_mass_index", vital[.bodyMassIndex], "body-mass-index-3.0", "body_mass_index",
                    [.kilogramsPerSquareMetre])
                addHeight(vital)
            case .bodyComposition:
                add("body_fat", main, "body-fat-percentage-2.0", "body_fat_percentage", [.percent])
                addWeight(vital)
                addHeight(vital)
            case .hrv, .glucose, .bloodPressure, .activity, .sleep, .other: break
            }
            guard !all.isEmpty else { throw FormatOmission(.noPlace, of: vital.kind.rawValue) }
        }

        /// A recording's value is the mean of its samples.
        private static func statistic(of vital: VitalValue) -> [JSONValue.Member] {
            vital.series == nil ? [] : [.init("descriptive_statistic", "average")]
        }

        private mutating func addWeight(_ vital: VitalValue) {
            add("weight", vital[.weight], "body-weight-3.0", "body_weight", [.kilograms, .grams, .pounds])
        }

        private mutating func addHeight(_ vital: VitalValue) {
            add("height", vital[.height], "body-height-2.0", "body_height", [.metres, .inches])
        }

        /// Adds a value where it has a number.
        private mutating func add(
            _ part: String, _ quantity: Quantity?, _ schema: String, _ name: String, _ units: [MeasurementUnit],
            _ more: [JSONValue.Member] = []
        ) {
            guard let quantity, let value = OpenMHealth.value(quantity, units) else { return }
            all.append(Body(schema: schema, members: [.init(name, value)] + more))
            placed.insert(part)
        }

        /// Specimens that the schema has; it knows neither venous nor arterial blood, and no plasma.
        private static let specimens: [GlucoseSampleType: String] = [
            .capillaryWholeBlood: "capillary blood", .interstitialFluid: "interstitial fluid",
        ]
        private static let meals = [
            "preprandial": "before meal", "postprandial": "after meal", "fasting": "fasting",
        ]
        /// Sites of Temperature Type (2A1D) that the schema has. That type's ear is the ear lobe.
        private static let sites = [
            "armpit": "axillary", "finger": "finger", "mouth": "oral", "rectum": "rectal", "toe": "toe",
            "tympanum": "tympanic",
        ]
    }

    /// `{"value", "unit"}`; nil without a number or in another unit than these.
    private static func value(_ quantity: Quantity, _ units: [MeasurementUnit]) -> JSONValue? {
        guard let number = quantity.number.number, units.contains(quantity.unit), let unit = names[quantity.unit] else {
            return nil
        }
        return .object(["value": .number(number), "unit": .string(unit)])
    }

    private static let names: [MeasurementUnit: String] = [
        .milligramsPerDecilitre: "mg/dL", .millimolesPerLitre: "mmol/L", .beatsPerMinute: "beats/min", .percent: "%",
        .degreesCelsius: "C", .degreesFahrenheit: "F", .kilograms: "kg", .grams: "g", .pounds: "lb", .metres: "m",
        .inches: "in", .kilogramsPerSquareMetre: "kg/m^2",
    ]
}
