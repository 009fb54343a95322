import HealthFigures
import HealthReadings

/// What becomes one Observation: a number, or several that belong together.
struct FHIRMeasurement {
    /// A further piece of an Observation.
    struct Component {
        enum Value {
            case quantity(Quantity)
            /// A code; text alone where no code is settled.
            case concept(FHIRCoding?, text: String)
            /// A bit of a status that is set.
            case set
        }

        var codings: [FHIRCoding]
        var value: Value

        var isQuantity: Bool { if case .quantity = value { true } else { false } }
    }

    /// Names it among the Observations of its reading, and in omissions.
    var part: String
    /// Its code in ISO/IEEE 11073-10101 first, where there is one.
    var codings: [FHIRCoding]
    /// The code in words.
    var text: String
    var isVitalSign = true
    /// The value; nil if it is in the components.
    var quantity: Quantity?
    var components: [Component] = []
}

/// The measurements of a reading, with what goes beside them.
struct FHIRContent {
    var measurements: [FHIRMeasurement] = []
    /// Whether the device itself doubts the measurements.
    let isQuestionable: Bool
    /// What a reader has to know and no element says.
    var notes: [String] = []
    var omissions: [FormatOmission] = []

    /// - Throws: a `FormatOmission` if the reading has nothing to write.
    init(_ reading: Reading) throws(FormatOmission) {
        var record = reading.record
        isQuestionable = record.status.remove(.questionable) != nil
        switch record.value {
        case .glucose(let glucose): try add(glucose, reading.context, record)
        case .bloodPressure(let pressures): add(pressures, record.status)
        case .vital(let vital): add(vital)
        case .kept: break
        }
        guard !measurements.isEmpty else {
            throw FormatOmission(.noPlace, of: reading.kind.rawValue)
        }
    }

    /// What measurements of a kind can be called.
    static func parts(of kind: ReadingKind) -> [String] {
        switch kind {
        case .glucose: ["glucose"]
        case .bloodPressure: ["blood_pressure", "pulse"]
        case .activity, .sleep, .other: []
        case .heartRate, .hrv, .spo2, .temperature, .weight, .bodyComposition:
            VitalValue.Part.allCases.filter { FHIRCodes.part($0, site: nil) != nil }.map(\.name)
        }
    }

    // MARK: - Glucose

    private mutating func add(
        _ glucose: GlucoseValue, _ context: GlucoseContext?, _ record: Record
    ) throws(FormatOmission) {
        guard let concentration = glucose.concentration else { throw FormatOmission(.notANumber, of: "glucose") }
        var measurement = FHIRMeasurement(
            part: "glucose", codings: FHIRCodes.glucose(glucose.sampleType, concentration.unit),
            text: "Glucose", isVitalSign: false, quantity: concentration)
        if let location = glucose.sampleLocation, let coding = FHIRCodes.location(location) {
            measurement.components.append(
                .init(codings: [FHIRCodes.sampleLocation], value: .concept(coding, text: location.name)))
        }
        if let context { add(context, to: &measurement) }
        if let trend = glucose.continuous?.trend {
            measurement.components.append(.init(codings: [FHIRCodes.trend], value: .quantity(trend)))
        }
        if glucose.continuous?.quality != nil { omissions.append(FormatOmission(.noPlace, of: "quality")) }
        add(record.status, FHIRCodes.glucoseStatus, to: &measurement)
        if record.sensor != nil { omissions.append(FormatOmission(.noPlace, of: "raw")) }
        if record.isEstimate {
            notes.append(
                "The gateway computed the value from the sensor's signal, with a public estimate of the vendor's rule.")
        }
        measurements.append(measurement)
    }

    private mutating func add(_ context: GlucoseContext, to measurement: inout FHIRMeasurement) {
        func concept(_ name: String?, _ part: String, of key: FHIRCoding, _ codes: [String: FHIRCoding]) {
            // "Not available" and numbers that the specification reserves say nothing.
            guard let name, name != "not_available" else { return }
            guard name != "reserved" else { return omissions.append(FormatOmission(.noPlace, of: "context.\(part)")) }
            measurement.components.append(.init(codings: [key], value: .concept(codes[name], text: name)))
        }
        func intake(_ intake: GlucoseContext.Intake?, _ part: String, _ codes: [String: FHIRCoding]) {
            guard let intake else { return }
            guard let coding = codes[intake.id] else {
                return omissions.append(FormatOmission(.noPlace, of: "context.\(part)"))
            }
            measurement.components.append(.init(codings: [coding], value: .quantity(intake.amount)))
        }
        intake(context.carbohydrate, "carbohydrate", FHIRCodes.carbohydrates)
        concept(context.meal, "meal", of: FHIRCodes.meal, FHIRCodes.meals)
        concept(context.tester, "tester", of: FHIRCodes.tester, FHIRCodes.testers)
        concept(context.health, "health", of: FHIRCodes.health, FHIRCodes.healths)
        if let exercise = context.exercise {
            if let intensity = exercise.plausibleIntensity {
                let quantity = Quantity(ExactDecimal(significand: Int64(intensity)), .percent)
                measurement.components.append(.init(codings: [FHIRCodes.exercise], value: .quantity(quantity)))
            }
            if exercise.seconds != nil { omissions.append(FormatOmission(.noPlace, of: "context.exercise.seconds")) }
        }
        intake(context.medication, "medication", FHIRCodes.medications)
        if let hba1c = context.hba1c {
            measurement.components.append(.init(codings: FHIRCodes.hba1c, value: .quantity(hba1c)))
        }
    }

    // MARK: - Blood pressure

    private mutating func add(_ pressures: BloodPressureValue, _ status: ReadingStatus) {
        let parts: [(String, [FHIRCoding], Quantity)] = [
            ("systolic", FHIRCodes.systolic, pressures.systolic),
            ("diastolic", FHIRCodes.diastolic, pressures.diastolic),
            ("mean", FHIRCodes.mean, pressures.meanArterial),
        ]
        var measurement = FHIRMeasurement(
            part: "blood_pressure", codings: FHIRCodes.bloodPressure, text: "Blood pressure")
        measurement.components = parts.map { .init(codings: $0.1, value: .quantity(Self.vitalSign($0.2))) }
        add(status, FHIRCodes.bloodPressureStatus, to: &measurement)
        // The vital signs profile has blood pressures in mmHg alone.
        let measured = parts.compactMap { name, _, quantity in
            quantity.unit == .kilopascal ? quantity.number.number.map { "\(name) \($0) kPa" } : nil
        }
        if !measured.isEmpty { notes.append("Measured as " + measured.joined(separator: ", ") + ".") }
        measurements.append(measurement)
        if let pulse = pressures.pulse {
            measurements.append(
                FHIRMeasurement(part: "pulse", codings: FHIRCodes.cuffPulse, text: "Pulse rate", quantity: pulse))
        }
    }

    private static func vitalSign(_ pressure: Quantity) -> Quantity {
        guard pressure.unit == .kilopascal else { return pressure }
        let converted = pressure.number(in: .millimetresOfMercury, places: ConversionFactor.pressurePlaces)
        return Quantity(converted.map(MeasuredNumber.value) ?? pressure.number, .millimetresOfMercury)
    }

    // MARK: - Other vital signs

    private mutating func add(_ vital: VitalValue) {
        for (place, measured) in vital.quantities.enumerated() {
            guard let (codings, text, isVitalSign) = FHIRCodes.part(measured.part, site: vital.site) else {
                omissions.append(FormatOmission(.noPlace, of: measured.part.name))
                continue
            }
            // Scales send 0 for what they didn't measure. An Observation of it would say no more than none.
            if place > 0, measured.part != .pulse, let absence = measured.quantity.number.absence {
                omissions.append(
                    FormatOmission(absence == .implausible ? .excluded : .notANumber, of: measured.part.name))
                continue
            }
            measurements.append(
                FHIRMeasurement(
                    part: measured.part.name, codings: codings, text: text, isVitalSign: isVitalSign,
                    quantity: measured.quantity))
        }
        if !vital.intervals.isEmpty { omissions.append(FormatOmission(.noPlace, of: "rr_ms")) }
        if vital.hasContact != nil { omissions.append(FormatOmission(.noPlace, of: "contact")) }
        if let series = vital.series {
            notes.append("The mean of \(series.count) samples, which the gateway recorded one after the other.")
            omissions.append(FormatOmission(.noPlace, of: "series"))
        }
        if vital.windowSeconds != nil { omissions.append(FormatOmission(.noPlace, of: "window_seconds")) }
    }

    private mutating func add(
        _ status: ReadingStatus, _ codes: [(ReadingStatus, FHIRCoding)], to measurement: inout FHIRMeasurement
    ) {
        var rest = status
        for (bit, coding) in codes where status.contains(bit) {
            measurement.components.append(.init(codings: [coding], value: .set))
            rest.remove(bit)
        }
        omissions += rest.names.map { FormatOmission(.noPlace, of: "status.\($0)") }
    }
}
