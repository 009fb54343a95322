/// What is unusual about an entry: a person has to confirm it before it is stored.
public enum EntryDoubt: Sendable, Hashable {
    /// A value outside the range that people's usually are in. `other` is the unit in which the digits would be usual.
    case unusual(part: String, found: String, usual: String, other: String?)
    /// A measurement of long ago.
    case old(Instant)
    /// Another reading of the same kind was entered for the same time.
    case sameTime(ReadingID)
}

extension EntryDoubt: CustomStringConvertible {
    /// What was expected and what was found.
    public var description: String {
        switch self {
        case .unusual(let part, let found, let usual, let other):
            "\(part): expected \(usual), found \(found)" + (other.map { ", which would be usual in \($0)" } ?? "")
        case .old(let instant): "time: expected within two years, found \(instant)"
        case .sameTime(let id): "time: expected no other entry of this kind, found \(id)"
        }
    }
}

extension ManualEntry {
    /// The age in seconds beyond which an entry is asked about: a wrong year is typed more often than an old reading.
    private static let oldAge: Int64 = 2 * 366 * 86_400

    /// What is unusual about the entry by itself; empty for most.
    ///
    /// - Parameter now: the present time.
    public func doubts(at now: Instant) -> [EntryDoubt] {
        var doubts: [EntryDoubt] = []
        func look(_ quantity: Quantity?, _ part: String) {
            guard let quantity, let number = quantity.number.digits,
                let usual = UsualValues.of(part, in: quantity.unit), !usual.contains(number)
            else { return }
            let other = UsualValues.of(part).first { $0.unit != quantity.unit && $0.contains(number) }
            doubts.append(
                .unusual(
                    part: part, found: "\(number) \(quantity.unit.symbol)", usual: usual.description,
                    other: other?.unit.symbol))
        }
        switch value {
        case .glucose(let glucose): look(glucose.concentration, "glucose")
        case .bloodPressure(let pressure):
            look(pressure.systolic, "systolic")
            look(pressure.diastolic, "diastolic")
            look(pressure.pulse, "pulse")
        case .vital(let vital): for measured in vital.quantities { look(measured.quantity, measured.part.name) }
        case .kept: break
        }
        if instant < now.advanced(bySeconds: -Self.oldAge) { doubts.append(.old(instant)) }
        return doubts
    }
}

/// The range in which values usually are: what most devices for the home can show. A value outside it is asked about; what
/// nobody can have is told by the wider ranges of `Plausibility`.
struct UsualValues: CustomStringConvertible {
    let part: String
    let unit: MeasurementUnit
    let lowest: ExactDecimal
    let highest: ExactDecimal

    private init(_ part: String, _ unit: MeasurementUnit, _ lowest: Int64, _ highest: Int64, exponent: Int16 = 0) {
        self.part = part
        self.unit = unit
        self.lowest = ExactDecimal(significand: lowest, exponent: exponent)
        self.highest = ExactDecimal(significand: highest, exponent: exponent)
    }

    private static let all = [
        UsualValues("glucose", .milligramsPerDecilitre, 20, 600),
        UsualValues("glucose", .millimolesPerLitre, 11, 333, exponent: -1),
        UsualValues("systolic", .millimetresOfMercury, 60, 260),
        UsualValues("systolic", .kilopascal, 80, 347, exponent: -1),
        UsualValues("diastolic", .millimetresOfMercury, 30, 160),
        UsualValues("diastolic", .kilopascal, 40, 213, exponent: -1),
        UsualValues("pulse", .beatsPerMinute, 30, 220),
        UsualValues("spo2", .percent, 70, 100),
        UsualValues("temperature", .degreesCelsius, 34, 42),
        UsualValues("temperature", .degreesFahrenheit, 932, 1076, exponent: -1),
        UsualValues("weight", .kilograms, 2, 300),
        UsualValues("weight", .pounds, 44, 6610, exponent: -1),
    ]

    static func of(_ part: String) -> [UsualValues] { all.filter { $0.part == part } }

    static func of(_ part: String, in unit: MeasurementUnit) -> UsualValues? { of(part).first { $0.unit == unit } }

    /// The units that a kind is entered in.
    static func units(of kind: ReadingKind) -> [MeasurementUnit] { of(EntryValues.mainName(kind)).map(\.unit) }

    func contains(_ number: ExactDecimal) -> Bool {
        !number.isNumericallyLess(than: lowest) && !highest.isNumericallyLess(than: number)
    }

    var description: String { "\(lowest) to \(highest) \(unit.symbol)" }
}
