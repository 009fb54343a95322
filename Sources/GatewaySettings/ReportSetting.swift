import HealthReadings
import Languages
import Yams

/// `users[].reports`: how a person's reports are made. All of it is optional, and nothing is judged without it.
public struct ReportSetting: Sendable, Hashable {
    /// A part of the day in minutes since midnight; one that ends before it begins goes on over midnight.
    public struct Window: Sendable, Hashable {
        /// The first minute, 0 … 1439.
        public var begin: Int
        /// The first minute behind it, 0 … 1439.
        public var end: Int

        /// Reads `04:00-12:00`.
        init?(_ text: String) {
            let parts = text.split(separator: "-", omittingEmptySubsequences: false)
            let minutes = parts.compactMap { part -> Int? in
                guard part.utf8.count == 5 else { return nil }
                return WallTime("2000-01-01T\(part):00").map { $0.timeOfDay.hour * 60 + $0.timeOfDay.minute }
            }
            guard parts.count == 2, minutes.count == 2, minutes[0] != minutes[1] else { return nil }
            self.init(begin: minutes[0], end: minutes[1])
        }

        fileprivate init(begin: Int, end: Int) { (self.begin, self.end) = (begin, end) }

        /// Whether a minute of the day is of both.
        fileprivate func overlaps(_ other: Window) -> Bool { contains(other.begin) || other.contains(begin) }

        private func contains(_ minute: Int) -> Bool {
            begin < end ? begin <= minute && minute < end : minute >= begin || minute < end
        }

        /// `04:00-12:00`.
        fileprivate var text: String { "\(Self.clock(begin))-\(Self.clock(end))" }

        /// `04:00`.
        private static func clock(_ minutes: Int) -> String {
            func two(_ number: Int) -> String { number < 10 ? "0\(number)" : "\(number)" }
            return "\(two(minutes / 60)):\(two(minutes % 60))"
        }
    }

    /// The morning and the evening where nobody has set them.
    private static let usual = (
        morning: Window(begin: 4 * 60, end: 12 * 60), evening: Window(begin: 17 * 60, end: 2 * 60)
    )

    /// The code of the language that reports are written in: `en`, `de`, `fr`, `es` or `ar`.
    public var language: String?
    /// `a4` or `letter`.
    public var paper: String?
    /// `mg/dL` or `mmol/L`.
    public var glucoseUnit: String?
    /// `standard`, `older`, `pregnancy`, `gestational`, or bounds such as `70-180`.
    public var glucoseRanges: String?
    /// `mmHg` or `kPa`.
    public var pressureUnit: String?
    /// The person's line in mmHg: `135/85`.
    public var pressureLine: String?
    /// The person's lines of glucose in mg/dL or mmol/L: `80-150`.
    public var glucoseLine: String?
    /// The person's line of weight: `72.5 kg`.
    public var weightLine: String?
    /// `kg` or `lb`.
    public var weightUnit: String?
    /// When blood pressures are those of a morning.
    public var morning: Window?
    /// When blood pressures are those of an evening.
    public var evening: Window?
    private var texts: [(key: String, text: String)] = []

    /// Nothing is set.
    public init() {}

    private static let choices: [String: [String]] = [
        "language": Language.allCases.map(\.code), "paper": ["a4", "letter"], "glucose_unit": ["mg/dL", "mmol/L"],
        "pressure_unit": ["mmHg", "kPa"],
        "weight_unit": ["kg", "lb"],
    ]
    static let keys = [
        "language", "paper", "glucose_unit", "glucose_ranges", "pressure_unit", "pressure_line", "glucose_line",
        "weight_line",
        "weight_unit", "morning", "evening",
    ]
    private static let presets = ["standard", "older", "pregnancy", "gestational"]

    /// Reads the map.
    ///
    /// - Throws: ``Problem`` with the place and what was expected.
    init(_ node: Node, wrong: (_ expected: String, _ found: Node?) -> Problem) throws {
        guard let members = node.mapping else {
            throw wrong("reports as a map of \(Self.keys.joined(separator: ", "))", node)
        }
        for (name, value) in members {
            guard let key = name.scalar?.string, Self.keys.contains(key) else {
                throw wrong("one of \(Self.keys.joined(separator: ", ")) in reports", name)
            }
            guard value.null == nil else { continue }
            guard let text = value.scalar?.string else { throw wrong("a text for reports.\(key)", value) }
            if let choices = Self.choices[key], !choices.contains(text) {
                throw wrong("\(choices.joined(separator: " or ")) for reports.\(key)", value)
            }
            switch key {
            case "language": language = text
            case "paper": paper = text
            case "glucose_unit": glucoseUnit = text
            case "pressure_unit": pressureUnit = text
            case "weight_unit": weightUnit = text
            case "glucose_ranges":
                guard Self.presets.contains(text) || Self.isAscending(text) else {
                    throw wrong(
                        "\(Self.presets.joined(separator: ", ")), or bounds such as 70-180 or 54-70-180-250", value)
                }
                glucoseRanges = text
            case "pressure_line":
                let numbers = text.split(separator: "/", omittingEmptySubsequences: false).map { ExactDecimal($0) }
                guard numbers.count == 2, let systolic = numbers[0], let diastolic = numbers[1],
                    (30...300).contains(systolic.approximation), (30...300).contains(diastolic.approximation),
                    diastolic.isNumericallyLess(than: systolic)
                else { throw wrong("pressures in mmHg such as 135/85 for reports.pressure_line", value) }
                pressureLine = text
            case "glucose_line":
                guard text.split(separator: "-").count == 2, Self.isAscending(text) else {
                    throw wrong("values such as 80-150 or 4.4-8.3 for reports.glucose_line", value)
                }
                glucoseLine = text
            case "weight_line":
                let parts = text.split(separator: " ").map(String.init)
                guard parts.count == 2, ["kg", "lb"].contains(parts[1]), let number = ExactDecimal(parts[0]),
                    (1...1000).contains(number.approximation)
                else { throw wrong("a weight such as 72.5 kg for reports.weight_line", value) }
                weightLine = text
            default:
                guard let window = Window(text) else {
                    throw wrong("two times of day such as 04:00-12:00 for reports.\(key)", value)
                }
                if key == "morning" { morning = window } else { evening = window }
            }
            texts.append((key, text))
        }
        let (morning, evening) = (self.morning ?? Self.usual.morning, self.evening ?? Self.usual.evening)
        guard morning.overlaps(evening) else { return }
        // A reading is of one window alone: the other would never get it.
        let place = Array(members).last {
            ["morning", "evening"].contains($0.key.scalar?.string) && $0.value.null == nil
        }
        let (own, name, other) =
            place?.key.scalar?.string == "morning" ? ("morning", "evening", evening) : ("evening", "morning", morning)
        throw wrong(
            "times of day for reports.\(own) that don't overlap the \(name), \(other.text)", place?.value ?? node)
    }

    private static func isAscending(_ text: String) -> Bool {
        let parts = text.split(separator: "-", omittingEmptySubsequences: false)
        let numbers = parts.compactMap { ExactDecimal($0) }
        guard numbers.count == parts.count, numbers.count == 2 || numbers.count == 4, numbers[0].significand > 0 else {
            return false
        }
        return zip(numbers, numbers.dropFirst()).allSatisfy { $0.isNumericallyLess(than: $1) }
    }

    /// The map as `config show` prints it; nil where nothing is set.
    var document: JSONValue? {
        texts.isEmpty ? nil : .object(texts.map { .init($0.key, .string($0.text)) })
    }

    /// Whether both say the same.
    public static func == (lhs: ReportSetting, rhs: ReportSetting) -> Bool {
        lhs.texts.elementsEqual(rhs.texts) { $0 == $1 }
    }

    /// Hashes what was set.
    public func hash(into hasher: inout Hasher) {
        for entry in texts {
            hasher.combine(entry.key)
            hasher.combine(entry.text)
        }
    }
}
