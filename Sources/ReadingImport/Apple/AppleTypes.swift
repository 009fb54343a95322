import HealthReadings

/// What is taken of Apple Health, by the names that its export has.
enum AppleType {
    /// A record that is a reading by itself.
    case single(ReadingKind)
    case systolic
    case diastolic

    /// The types of records that are taken.
    static let records: [String: AppleType] = [
        "HKQuantityTypeIdentifierBloodGlucose": .single(.glucose),
        "HKQuantityTypeIdentifierHeartRate": .single(.heartRate),
        "HKQuantityTypeIdentifierHeartRateVariabilitySDNN": .single(.hrv),
        "HKQuantityTypeIdentifierOxygenSaturation": .single(.spo2),
        "HKQuantityTypeIdentifierBodyTemperature": .single(.temperature),
        "HKQuantityTypeIdentifierBodyMass": .single(.weight),
        "HKQuantityTypeIdentifierBodyFatPercentage": .single(.bodyComposition),
        "HKQuantityTypeIdentifierBloodPressureSystolic": .systolic,
        "HKQuantityTypeIdentifierBloodPressureDiastolic": .diastolic,
    ]

    static let bloodPressure = "HKCorrelationTypeIdentifierBloodPressure"

    /// The kind of reading that a record is, or is a part of.
    var kind: ReadingKind {
        switch self {
        case .single(let kind): kind
        case .systolic, .diastolic: .bloodPressure
        }
    }

    /// The units that the type is written in, for people.
    var units: String {
        switch kind {
        case .glucose: "mg/dL or mmol<180.1558800000541>/L"
        case .bloodPressure: "mmHg or kPa"
        case .heartRate: "count/min"
        case .hrv: "ms"
        case .spo2, .bodyComposition: "%"
        case .temperature: "degC or degF"
        case .weight: "kg, g, lb or st"
        case .activity, .sleep, .other: "none"
        }
    }

    /// A number with its unit, as the store has it; `nil` for a unit that the type is not written in.
    ///
    /// Digits and unit stay as they were written, but for three: per cent are written as a fraction, stones, which no other
    /// unit of the store is, become pounds, and grams become kilograms.
    func quantity(_ number: ExactDecimal, unit: UnsafeBufferPointer<UInt8>) -> Quantity? {
        func isUnit(_ text: StaticString) -> Bool {
            unit.elementsEqual(UnsafeBufferPointer(start: text.utf8Start, count: text.utf8CodeUnitCount))
        }
        switch kind {
        case .glucose:
            if isUnit("mg/dL") { return Quantity(number, .milligramsPerDecilitre) }
            // The molar mass stands in the unit, with as many digits as the version likes.
            let isMolar = unit.starts(with: "mmol<180.1".utf8) && unit.suffix(3).elementsEqual(">/L".utf8)
            return isMolar || isUnit("mmol/L") ? Quantity(number, .millimolesPerLitre) : nil
        case .bloodPressure:
            if isUnit("mmHg") { return Quantity(number, .millimetresOfMercury) }
            return isUnit("kPa") ? Quantity(number, .kilopascal) : nil
        case .heartRate: return isUnit("count/min") || isUnit("bpm") ? Quantity(number, .beatsPerMinute) : nil
        case .hrv: return isUnit("ms") ? Quantity(number, .milliseconds) : nil
        case .spo2, .bodyComposition:
            guard isUnit("%") else { return nil }
            let (one, two) = (ExactDecimal(significand: 1), ExactDecimal(significand: 2))
            // Neither a fraction of a whole nor per cent that anybody has.
            guard !one.isNumericallyLess(than: number) || two.isNumericallyLess(than: number) else { return nil }
            return Quantity(one.isNumericallyLess(than: number) ? number : Self.hundredfold(number), .percent)
        case .temperature:
            if isUnit("degC") { return Quantity(number, .degreesCelsius) }
            return isUnit("degF") ? Quantity(number, .degreesFahrenheit) : nil
        case .weight:
            if isUnit("kg") { return Quantity(number, .kilograms) }
            if isUnit("g") { return Quantity(number.scaled(byPowerOfTen: -3), .kilograms) }
            if isUnit("lb") { return Quantity(number, .pounds) }
            guard isUnit("st") else { return nil }
            let places = Int16(max(0, -Int(number.exponent)))
            return number.multiplied(by: ExactDecimal(significand: 14), places: places).map { Quantity($0, .pounds) }
        case .activity, .sleep, .other: return nil
        }
    }

    /// A fraction in per cent: 0.97 is 97, and 1 is 100.
    private static func hundredfold(_ number: ExactDecimal) -> ExactDecimal {
        let places = Int(number.exponent) + 2
        guard places > 0 else { return number.scaled(byPowerOfTen: 2) }
        return ExactDecimal(significand: number.significand * (places == 1 ? 10 : 100))
    }

    /// The value of a record that is a reading by itself.
    static func value(_ kind: ReadingKind, _ quantity: Quantity) -> RecordValue? {
        let part: VitalValue.Part
        switch kind {
        case .glucose: return .glucose(GlucoseValue(concentration: quantity))
        case .bloodPressure, .activity, .sleep, .other: return nil
        case .heartRate: part = .heartRate
        case .hrv: part = .sdnn
        case .spo2: part = .saturation
        case .temperature: part = .temperature
        case .weight: part = .weight
        case .bodyComposition: part = .bodyFat
        }
        return .vital(VitalValue(kind: kind, [.init(part, quantity)]))
    }
}
