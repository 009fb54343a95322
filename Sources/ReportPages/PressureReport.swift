import HealthFigures
import HealthReadings
import Languages

/// The report of blood pressures.
public struct PressureReport: Report {
    private let subject: ReportSubject
    private let figures: PressureFigures
    private let before: PressureFigures?
    private let kind: PressureProtocol
    private let line: PressureLine?

    /// Makes the report.
    ///
    /// - Parameters:
    ///   - subject: whom it is of.
    ///   - figures: the figures of the period.
    ///   - before: those of the period before; `nil` for no comparison.
    ///   - kind: the protocol of the mean.
    ///   - line: the person's own line; `nil` where they have set none.
    public init(
        _ subject: ReportSubject, _ figures: PressureFigures, before: PressureFigures?, kind: PressureProtocol,
        line: PressureLine?
    ) {
        (self.subject, self.figures, self.before, self.kind, self.line) = (subject, figures, before, kind, line)
    }

    /// Whether nothing was measured.
    public var isEmpty: Bool { figures.points.isEmpty }

    private var unit: String { figures.unit.symbol }
    private var words: Language { subject.language }
    private var leftOut: String {
        subject.leftOutWords(
            figures.leftOut,
            figures.flaggedLeftOut > 0
                ? [words("\(count: figures.flaggedLeftOut, "that the cuff flagged, as asked")")] : [])
    }

    // MARK: Pages

    /// What is on it.
    public func document(for medium: ReportMedium) -> ReportDocument {
        ReportDocument(
            title: words("Blood pressure at home"),
            facts: subject.facts(unit: unit, devices: Set(figures.points.map(\.device))),
            blocks: isEmpty
                ? [.text(words("No blood pressure was measured in this period."))] + subject.leftOutBlocks()
                : protocolBlocks + [meansTable, medium == .paper ? .chart(chart) : chart.before(days)] + flagBlocks
                    + comparison + (medium == .paper ? [days] : []) + subject.leftOutBlocks(),
            notes: notes, leftOut: leftOut, maker: subject.maker, language: subject.language)
    }

    private var chart: ReportChart {
        figures.chart(line: line, leftOut: subject.leftOut, showsNotes: subject.showsReadings, words)
    }

    private var protocolBlocks: [ReportDocument.Block] {
        let mean = figures.mean(kind)
        let dates = mean.dates.map { words("\(words.date($0.first)) to \(words.date($0.last))") } ?? "–"
        var rows = [
            ReportTable.Row(words("protocol"), kind.title),
            ReportTable.Row(words("days"), words("\(dates), \(count: mean.daysMeasured, "with readings")")),
            ReportTable.Row(
                words("readings used"),
                used(mean)),
            ReportTable.Row(words("left out"), left(mean.left)),
        ]
        let isSufficient = mean.isSufficient
        rows.append(
            .init(
                [
                    .init(words("mean")),
                    .init(
                        isSufficient
                            ? words("\(text(mean.means)) \(unit), pulse \(words.number(mean.means.pulse))")
                            : words("not enough for a protocol mean")),
                ], isStrong: true))
        if let line {
            let above = figures.count(atOrAbove: (line.systolic, line.diastolic))
            rows.append(
                .init(
                    words("your line"),
                    words(
                        """
                        \(words.number(line.text)) mmHg: \(above) of \(count: figures.points.count, "readings") at or above it
                        """)))
        }
        var blocks: [ReportDocument.Block] = [
            .heading(words("Protocol")),
            .table(ReportTable(words("Mean by the protocol"), [.init("", weight: 1), .init("", weight: 4)], rows)),
        ]
        if !isSufficient {
            blocks.append(
                .text(
                    words(
                        """
                        The protocol needs at least \(count: kind.leastReadings, "readings") to average and \
                        \(count: kind.leastDays, "days") with readings. The plain means of the period are below.
                        """)))
        }
        return blocks
    }

    /// How many readings the mean is of: with more of them than asked for, "81 of 24" would read like a fault.
    private func used(_ mean: PressureFigures.ProtocolMean) -> String {
        words(
            "\(mean.means.count), where the protocol asks for \(kind.expected), on \(count: mean.daysUsed, "day", "days")"
        )
    }

    private func left(_ left: PressureFigures.ProtocolMean.Left) -> String {
        let parts = [
            kind.dropsFirstDay ? words("\(count: left.ofFirstDay, "of the first day, as the protocol says")") : nil,
            left.beforeDays > 0 ? words("\(count: left.beforeDays, "before its seven days")") : nil,
        ].compactMap(\.self)
        return parts.isEmpty ? words("none", in: "readings") : words.series(parts)
    }

    private var windowNames: [(window: DayWindow, name: String)] {
        [(.morning, words("morning")), (.evening, words("evening")), (.other, words("other times"))]
    }

    /// `131/82`, or a dash.
    private func text(_ means: PressureMeans) -> String { words.number(means.text ?? "–") }

    private var meansTable: ReportDocument.Block {
        func row(_ name: String, _ means: PressureMeans, isStrong: Bool = false) -> ReportTable.Row {
            ReportTable.Row(
                [
                    name, String(means.count), words.number(means.systolic), words.number(means.systolicDeviation),
                    words.number(means.diastolic), words.number(means.diastolicDeviation), words.number(means.pulse),
                    words.number(means.pulseDeviation), words.number(means.pulsePressure),
                ].map { .init($0) }, isStrong: isStrong)
        }
        let (morning, evening) = (figures.means(.morning), figures.means(.evening))
        var rows = [row(words("all", in: "readings"), figures.all, isStrong: true)]
        rows += windowNames.map { row($0.name, figures.means($0.window)) }
        rows.append(
            ReportTable.Row(
                words("morning minus evening"), "", words.signed(morning.systolicDifference(to: evening)), "",
                words.signed(morning.diastolicDifference(to: evening)), "",
                words.signed(morning.pulseDifference(to: evening)), "", ""))
        let deviation = words("SD")
        let titles = [
            words("n"), words("SYS"), deviation, words("DIA"), deviation, words("pulse"), deviation, words("SYS-DIA"),
        ]
        return .table(
            ReportTable(
                words("Means and standard deviations, in \(unit); pulse in beats per minute"),
                [.init("", weight: 2.6)] + titles.map { .init($0, isNumber: true) }, rows))
    }

    private static let flags: [ReadingStatus] = [
        .irregularPulse, .bodyMovement, .cuffTooLoose, .improperPosition, .pulseRateTooHigh, .pulseRateTooLow,
        .questionable,
    ]

    private func named(_ flag: ReadingStatus) -> String {
        switch flag {
        case .irregularPulse: words("irregular pulse")
        case .bodyMovement: words("movement")
        case .cuffTooLoose: words("loose cuff")
        case .improperPosition: words("improper position")
        case .pulseRateTooHigh: words("pulse rate above the cuff's limit")
        case .questionable: words("questionable")
        default: words("pulse rate below the cuff's limit")
        }
    }

    private var flagBlocks: [ReportDocument.Block] {
        let all = figures.points.count
        let found = Self.flags.map { (flag: $0, count: figures.flagged($0)) }.filter { $0.count > 0 }
        let extremes =
            figures.extremes.map { words("Lowest \(text($0.lowest)), highest \(text($0.highest)).") + " " } ?? ""
        let flags = words.series(found.map { words("\(named($0.flag)): \($0.count) of \(all)") })
        return [
            .text(
                extremes
                    + (found.isEmpty
                        ? words("The cuff flagged none of the \(count: all, "reading", "readings").")
                        : words("As the cuff flagged them: \(flags).")))
        ]
    }

    private func text(_ point: PressurePoint) -> String {
        let wall = figures.period.wallTime(at: point.time)
        let value = "\(words.number(point.text(in: figures.unit))) \(unit)"
        return words("\(value) on \(words.date(wall.dateText)) at \(wall.clockText)")
    }

    private var comparison: [ReportDocument.Block] {
        guard let before, !before.points.isEmpty else { return [] }
        let days = before.period.days
        let (first, last) = (words.date(days.first?.date ?? ""), words.date(days.last?.date ?? ""))
        let (now, then) = (figures.all, before.all)
        let systolic = words.signed(now.systolicDifference(to: then))
        let diastolic = words.signed(now.diastolicDifference(to: then))
        return [
            .text(
                words(
                    """
                    The period before (\(first) to \(last)): mean \(text(then)) \(unit) of \
                    \(count: then.count, "reading", "readings"); this period is \(systolic) systolic and \
                    \(diastolic) diastolic from it.
                    """))
        ]
    }

    private var days: ReportDocument.Block {
        var rows: [ReportTable.Row] = []
        for day in figures.days {
            let (name, isWeekend) = words.day(day.date)
            let cells = DayWindow.allCases.map { window in
                day.points(in: window).map { ReportTable.Cell(short($0), of: $0.reading) }
            }
            let lines = max(1, (cells[0].count + 1) / 2, (cells[1].count + 1) / 2, cells[2].count)
            let means = PressureMeans(day.points, unit: figures.unit)
            for line in 0..<lines {
                func cell(_ window: Int, _ place: Int) -> ReportTable.Cell {
                    cells[window].indices.contains(place) ? cells[window][place] : .init("")
                }
                rows.append(
                    ReportTable.Row(
                        [
                            .init(line == 0 ? name : ""), cell(0, 2 * line),
                            cell(0, 2 * line + 1), cell(1, 2 * line), cell(1, 2 * line + 1), cell(2, line),
                            .init(line == 0 ? words.number(means.text ?? "") : ""),
                            .init(line == 0 ? String(means.count) : ""),
                        ], isTinted: isWeekend))
            }
        }
        return .table(
            ReportTable(
                words("Readings by day, SYS/DIA in \(unit); ~ marks an irregular pulse, ! another flag of the cuff"),
                [
                    .init(words("day"), weight: 1.5), .init(words("morning 1")), .init(words("morning 2")),
                    .init(words("evening 1")), .init(words("evening 2")), .init(words("other", in: "times")),
                    .init(words("day mean")), .init(words("n"), weight: 0.4, isNumber: true),
                ], rows))
    }

    private func short(_ point: PressurePoint) -> String {
        let others = PressurePoint.flags.subtracting(.irregularPulse)
        return words.number(point.text(in: figures.unit)) + (point.status.contains(.irregularPulse) ? " ~" : "")
            + (point.status.isDisjoint(with: others) ? "" : " !")
    }

    private func text(_ window: DayWindows.Window) -> String {
        words("\(Self.clock(window.begin)) to \(Self.clock(window.end))")
    }

    /// `04:00`.
    private static func clock(_ minutes: Int) -> String {
        let (hour, minute) = (String(minutes / 60), String(minutes % 60))
        return (hour.count < 2 ? "0" : "") + hour + ":" + (minute.count < 2 ? "0" : "") + minute
    }

    private var notes: [String] {
        [
            leftOut,
            words(
                """
                Means are of readings, never of means of days; they are rounded once, half to even. \
                SD: standard deviation of the readings. SYS-DIA: the difference of the means (pulse pressure).
                """),
            words(
                """
                Morning: \(text(figures.windows.morning)), evening: \(text(figures.windows.evening)) by the person's clocks; \
                an evening that goes on after midnight counts for the day before. The window is that of a session's first \
                reading; a session goes on while one cuff measures again within 10 minutes, for at most an hour.
                """),
            kind.dropsFirstDay
                ? words(
                    """
                    \(kind.title): two readings each morning and evening on \(count: kind.days, "days"), without those of \
                    the first day; at least \(count: kind.leastReadings, "readings") and \(count: kind.leastDays, "days"). \
                    It looks at the last \(count: kind.days, "dates") up to the last one with readings.
                    """)
                : words(
                    """
                    \(kind.title): two readings each morning and evening on \(count: kind.days, "days"); \
                    at least \(count: kind.leastReadings, "readings") and \(count: kind.leastDays, "days"). \
                    It looks at the last \(count: kind.days, "dates") up to the last one with readings.
                    """),
        ]
    }

    // MARK: Data

    /// The figures as JSON.
    public var json: JSONValue {
        let mean = figures.mean(kind)
        let (morning, evening) = (figures.means(.morning), figures.means(.evening))
        let protocolMembers: [JSONValue.Member] = [
            .init("name", .string(kind.rawValue)), .init("first", .optional(mean.dates?.first)),
            .init("last", .optional(mean.dates?.last)), .init("used", .integer(Int64(mean.means.count))),
            .init("expected", .integer(Int64(kind.expected))), .init("days", .integer(Int64(mean.daysMeasured))),
            .init("least_readings", .integer(Int64(kind.leastReadings))),
            .init("least_days", .integer(Int64(kind.leastDays))), .init("sufficient", .bool(mean.isSufficient)),
            .init("left_of_first_day", .integer(Int64(mean.left.ofFirstDay))),
            .init("left_before", .integer(Int64(mean.left.beforeDays))), .init("mean", document(mean.means)),
        ]
        let lineDocument: JSONValue =
            line.map { line in
                .object([
                    "systolic": .number(line.systolic), "diastolic": .number(line.diastolic),
                    "at_or_above": .integer(Int64(figures.count(atOrAbove: (line.systolic, line.diastolic)))),
                ])
            } ?? .null
        let difference: JSONValue = .object([
            "systolic": morning.systolicDifference(to: evening).json,
            "diastolic": morning.diastolicDifference(to: evening).json,
            "pulse": morning.pulseDifference(to: evening).json,
        ])
        let flags: [JSONValue.Member] = Self.flags.flatMap { flag in
            flag.names.map { .init($0, .integer(Int64(figures.flagged(flag)))) }
        }
        let days: [JSONValue] = figures.days.map { day in
            .object([
                "date": .string(day.date),
                "mean": document(PressureMeans(day.points, unit: figures.unit)),
                "readings": .array(
                    day.sessions.flatMap { session in session.points.map { document($0, session.window) } }),
            ])
        }
        let earlier: JSONValue? = before.map { before in
            .object([
                "from": .optional(before.period.days.first?.date),
                "to": .optional(before.period.days.last?.date), "all": document(before.all),
            ])
        }
        var members: [JSONValue.Member] = subject.members("bp", unit: figures.unit)
        members += [
            .init("readings", .integer(Int64(figures.points.count))),
            .init("left_out", ReportSubject.document(of: figures.leftOut)),
            .init("flagged_left_out", .integer(Int64(figures.flaggedLeftOut))),
            .init("protocol", .object(protocolMembers)), .init("all", document(figures.all)),
            .init("morning", document(morning)), .init("evening", document(evening)),
            .init("other", document(figures.means(.other))), .init("morning_minus_evening", difference),
            .init("line", lineDocument), .init("flags", .object(flags)),
            .init("lowest", figures.extremes.map { document($0.lowest, window(of: $0.lowest)) } ?? .null),
            .init("highest", figures.extremes.map { document($0.highest, window(of: $0.highest)) } ?? .null),
            .init("by_day", .array(days)), .init("before", earlier ?? .null),
        ]
        return .object(members)
    }

    private func document(_ means: PressureMeans) -> JSONValue {
        .object([
            "readings": .integer(Int64(means.count)), "systolic": means.systolic.json,
            "diastolic": means.diastolic.json, "pulse": means.pulse.json,
            "systolic_deviation": means.systolicDeviation.json, "diastolic_deviation": means.diastolicDeviation.json,
            "pulse_deviation": means.pulseDeviation.json, "pulse_readings": .integer(Int64(means.pulseCount)),
            "pulse_pressure": means.pulsePressure.json,
        ])
    }

    private func window(of point: PressurePoint) -> DayWindow { figures.window(of: point.reading) ?? .other }

    private func document(_ point: PressurePoint, _ window: DayWindow) -> JSONValue {
        .object([
            "id": .string(point.reading.description), "time": .string(subject.local(point.time).rfc3339),
            "window": .string(window.rawValue), "systolic": .number(point.systolic),
            "diastolic": .number(point.diastolic), "mean": point.meanArterial.json,
            "unit": .string(point.unit.symbol), "pulse": point.pulse.json,
            "status": .array(point.status.names.map(JSONValue.string)), "note": .optional(point.note),
        ])
    }

    /// The readings as CSV.
    public func csv(_ style: ReportCSV.Style) -> String {
        var csv = ReportCSV(style)
        csv.row(
            [
                "id", "time", "local_date", "local_time", "time_zone", "systolic", "diastolic", "mean", "unit", "pulse",
                "window", "counts_for", "status", "model", "serial", "note",
            ].map { .text($0) })
        for day in figures.days {
            for session in day.sessions {
                for point in session.points {
                    let local = subject.local(point.time)
                    csv.row([
                        .text(point.reading.description), .text(local.rfc3339), .text(local.date), .text(local.clock),
                        .text(local.zone), .number(point.systolic), .number(point.diastolic),
                        .number(point.meanArterial), .text(point.unit.symbol), .number(point.pulse),
                        .text(session.window.rawValue), .text(session.date),
                        .text(point.status.names.joined(separator: " ")), .text(point.device.model),
                        .text(point.device.serial), .text(point.note),
                    ])
                }
            }
        }
        return csv.text
    }
}
