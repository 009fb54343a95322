import GatewaySettings
import HealthFigures
import HealthReadings
import Languages
import ReportPages

/// What a report shows, by the command's arguments or else the person's settings.
struct ReportChoices: Sendable {
    let language: Language
    let paper: ReportPaper
    let pressureProtocol: PressureProtocol
    let csvStyle: ReportCSV.Style
    let csvMark: Bool
    let line: PressureLine?
    let glucoseLine: GlucoseLine?
    let weightLine: WeightLine?
    let windows: DayWindows
    let kind: ReportOperation.Kind
    private let operation: ReportOperation
    private let setting: ReportSetting

    init(_ operation: ReportOperation, _ setting: ReportSetting) throws(Problem) {
        (kind, self.operation, self.setting) = (operation.kind, operation, setting)
        language = try Self.choice(operation.language ?? setting.language ?? "en", "--language")
        paper = try Self.choice(operation.paper ?? setting.paper ?? "a4", "--paper")
        pressureProtocol = try Self.choice(operation.protocolName, "--protocol")
        csvStyle = try Self.choice(operation.csvStyle, "--csv-style")
        csvMark = operation.csvMark
        let (text, expected): (String?, String) =
            switch operation.kind {
            case .bp: (operation.line ?? setting.pressureLine, "pressures in mmHg such as 135/85")
            case .glucose, .sensor: (operation.line ?? setting.glucoseLine, "values such as 80-150 or 4.4-8.3")
            case .weight: (operation.line ?? setting.weightLine, "a weight such as '72.5 kg'")
            case .heartRate, .hrv, .spo2, .temperature, .bodyComposition: (nil, "")
            }
        line = operation.kind == .bp ? text.flatMap { PressureLine($0) } : nil
        glucoseLine = [.glucose, .sensor].contains(operation.kind) ? text.flatMap { GlucoseLine($0) } : nil
        weightLine = operation.kind == .weight ? text.flatMap { WeightLine($0) } : nil
        if let text, line == nil, glucoseLine == nil, weightLine == nil {
            throw Problem.usage("--line: expected \(expected), found '\(text.prefix(64))'")
        }
        var windows = DayWindows()
        if let morning = setting.morning { windows.morning = .init(begin: morning.begin, end: morning.end) }
        if let evening = setting.evening { windows.evening = .init(begin: evening.begin, end: evening.end) }
        self.windows = windows
    }

    private static func choice<Choice: RawRepresentable<String> & CaseIterable>(
        _ text: String, _ flag: String
    ) throws(Problem) -> Choice {
        if let choice = Choice(rawValue: text) { return choice }
        let choices = Choice.allCases.map(\.rawValue).joined(separator: ", ")
        throw Problem.usage("\(flag): expected one of \(choices), found '\(text.prefix(64))'")
    }

    /// The unit that was chosen; nil where nobody has.
    func unit(_ choices: [MeasurementUnit]) throws(Problem) -> MeasurementUnit? {
        let own =
            switch kind {
            case .bp: setting.pressureUnit
            case .glucose, .sensor: setting.glucoseUnit
            case .weight: setting.weightUnit
            case .heartRate, .hrv, .spo2, .temperature, .bodyComposition: nil as String?
            }
        guard let text = operation.unit ?? own else { return nil }
        guard let unit = choices.first(where: { $0.symbol.lowercased() == text.lowercased() }) else {
            throw Problem.usage(
                "--unit: expected \(choices.map(\.symbol).joined(separator: " or ")), found '\(text.prefix(64))'")
        }
        return unit
    }

    /// The bounds of glucose that were chosen; nil where nobody has.
    func ranges(_ unit: MeasurementUnit) throws(Problem) -> GlucoseRanges? {
        guard let text = operation.ranges ?? setting.glucoseRanges else { return nil }
        if let preset = GlucoseRanges.Preset(rawValue: text) { return GlucoseRanges(preset) }
        let numbers = text.split(separator: "-", omittingEmptySubsequences: false).map { ExactDecimal($0) }
        let own: GlucoseRanges.Bounds? =
            switch numbers.count {
            case 2: Self.bounds(nil, numbers[0], numbers[1], nil)
            case 4 where numbers[0] != nil && numbers[3] != nil:
                Self.bounds(numbers[0], numbers[1], numbers[2], numbers[3])
            default: nil
            }
        // Nobody has a target above 40 mg/dL in mmol/L, or below 40 mmol/L in mg/dL.
        let isMolar = (numbers.last.flatMap(\.self)?.approximation ?? 0) < 40
        guard let own,
            let ranges = GlucoseRanges(own, in: isMolar ? .millimolesPerLitre : .milligramsPerDecilitre)
        else {
            let presets = GlucoseRanges.Preset.allCases.map(\.rawValue).joined(separator: ", ")
            throw Problem.usage(
                "--ranges: expected \(presets), or numbers such as 70-180, 3.9-10.0 or 54-70-180-250, found '\(text.prefix(64))'"
            )
        }
        return ranges
    }

    private static func bounds(
        _ veryLow: ExactDecimal?, _ lowest: ExactDecimal?, _ highest: ExactDecimal?, _ veryHigh: ExactDecimal?
    ) -> GlucoseRanges.Bounds? {
        guard let lowest, let highest else { return nil }
        return GlucoseRanges.Bounds(veryLow: veryLow, lowest: lowest, highest: highest, veryHigh: veryHigh)
    }

    /// Whether the person has chosen a preset, so that its goals are shown.
    var hasChosenPreset: Bool {
        (operation.ranges ?? setting.glucoseRanges).map { GlucoseRanges.Preset(rawValue: $0) != nil } ?? false
    }
}
