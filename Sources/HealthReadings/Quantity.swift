/// The units readings are measured and delivered in.
public enum MeasurementUnit: UInt8, Sendable, Hashable, CaseIterable {
    /// Milligrams per decilitre (glucose).
    case milligramsPerDecilitre = 1
    /// Millimoles per litre (glucose).
    case millimolesPerLitre
    /// Millimetres of mercury (pressure).
    case millimetresOfMercury
    /// Kilopascal (pressure).
    case kilopascal
    /// Beats per minute.
    case beatsPerMinute
    /// Grams.
    case grams
    /// Kilograms (medication as the glucose profile transmits it).
    case kilograms
    /// Milligrams.
    case milligrams
    /// Litres.
    case litres
    /// Millilitres.
    case millilitres
    /// Per cent.
    case percent
    /// Degrees Celsius.
    case degreesCelsius
    /// Degrees Fahrenheit.
    case degreesFahrenheit
    /// Pounds.
    case pounds
    /// Metres.
    case metres
    /// Inches.
    case inches
    /// Kilojoules.
    case kilojoules
    /// Ohms.
    case ohms
    /// Milliseconds.
    case milliseconds
    /// Kilograms per square metre (body mass index).
    case kilogramsPerSquareMetre
    /// Milligrams per decilitre in a minute (the trend of glucose).
    case milligramsPerDecilitrePerMinute

    /// The symbol used in documents: `mg/dL`, `mmol/L`, `mmHg`, `kPa`, `bpm`, …
    public var symbol: String {
        switch self {
        case .milligramsPerDecilitre: "mg/dL"
        case .millimolesPerLitre: "mmol/L"
        case .millimetresOfMercury: "mmHg"
        case .kilopascal: "kPa"
        case .beatsPerMinute: "bpm"
        case .grams: "g"
        case .kilograms: "kg"
        case .milligrams: "mg"
        case .litres: "L"
        case .millilitres: "mL"
        case .percent: "%"
        case .degreesCelsius: "°C"
        case .degreesFahrenheit: "°F"
        case .pounds: "lb"
        case .metres: "m"
        case .inches: "in"
        case .kilojoules: "kJ"
        case .ohms: "Ω"
        case .milliseconds: "ms"
        case .kilogramsPerSquareMetre: "kg/m²"
        case .milligramsPerDecilitrePerMinute: "mg/dL/min"
        }
    }
}

/// A measured number with its unit, as the device sent it.
public struct Quantity: Sendable, Hashable {
    /// The number, or why there is none.
    public var number: MeasuredNumber
    /// The unit of ``number``.
    public var unit: MeasurementUnit

    /// Makes a quantity.
    public init(_ number: MeasuredNumber, _ unit: MeasurementUnit) {
        self.number = number
        self.unit = unit
    }

    /// Makes a quantity of an ordinary number.
    public init(_ value: ExactDecimal, _ unit: MeasurementUnit) {
        self.init(.value(value), unit)
    }
}
