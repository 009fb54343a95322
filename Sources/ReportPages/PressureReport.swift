import HealthFigures
import HealthReadings

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
    private var leftOut: String {
        subject.leftOutWords(
            figures.leftOut,
            figures.flaggedLeftOut > 0 ? ["\(figures.flaggedLeftOut) that the cuff flagged, as asked"] : [])
    }

    // MARK: Pages

    /// What is on its pages.
    public var document: ReportDocument {
        ReportDocument(
            title: "Blood pressure at home",
            facts: subject.facts(unit: unit, devices: Set(figures.points.map(\.device))),
            blocks: isEmpty
                ? [.text("No blood pressure was measured in this period.")] + subject.leftOutBlocks()
                : protocolBlocks + [meansTable, .chart(chart)] + flagBlocks + comparison + [days]
                    + subject.leftOutBlocks(),
            notes: notes, leftOut: leftOut, maker: subject.maker)
    }

    /// What the page shows: the days are the table behind the chart.
    public var pageBlocks: [ReportDocument.Block] {
        guard !isEmpty else { return document.blocks }
        return protocolBlocks + [meansTable, chart.before(days)] + flagBlocks + comparison
            + subject.leftOutBlocks()
    }

    private var chart: ReportChart { figures.chart(line: line, leftOut: subject.leftOut) }

    private var protocolBlocks: [ReportDocument.Block] {
        let mean = figures.mean(kind)
        var rows = [
            ReportTable.Row("protocol", kind.title),
            ReportTable.Row(
                "days", "\(mean.dates.map { "\($0.first) to \($0.last)" } ?? "–"), \(mean.daysMeasured) with readings"),
            ReportTable.Row(
                "readings used",
                "\(mean.means.count) of \(kind.expected) expected, on \(Count.of(mean.daysUsed, "day"))"),
            ReportTable.Row("left out", left(mean.left)),
        ]
        let isSufficient = mean.isSufficient
        rows.append(
            .init(
                [
                    .init("mean"),
                    .init(
                        isSufficient
                            ? "\(mean.means.text ?? "–") \(unit), pulse \(mean.means.pulse.text)"
                            : "not enough for a protocol mean"),
                ], isStrong: true))
        if let line {
            let above = figures.count(atOrAbove: (line.systolic, line.diastolic))
            rows.append(
                .init("your line", "\(line.text) mmHg: \(above) of \(figures.points.count) readings at or above it"))
        }
        var blocks: [ReportDocument.Block] = [
            .heading("Protocol"),
            .table(ReportTable("Mean by the protocol", [.init("", weight: 1), .init("", weight: 4)], rows)),
        ]
        if !isSufficient {
            blocks.append(
                .text(
                    "The protocol needs at least \(kind.leastReadings) readings to average and \(kind.leastDays) days with "
                        + "readings. The plain means of the period are below."))
        }
        return blocks
    }

    private func left(_ left: PressureFigures.ProtocolMean.Left) -> String {
        let parts = [
            kind.dropsFirstDay ? "\(left.ofFirstDay) of the first day, as the protocol says" : nil,
            left.beforeDays > 0 ? "\(left.beforeDays) before its seven days" : nil,
        ].compactMap(\.self)
        return parts.isEmpty ? "none" : parts.joined(separator: "; ")
    }

    private static let windowNames: [(window: DayWindow, name: String)] = [
        (.morning, "morning"), (.evening, "evening"), (.other, "other times"),
    ]

    private var meansTable: ReportDocument.Block {
        func row(_ name: String, _ means: PressureMeans, isStrong: Bool = false) -> ReportTable.Row {
            ReportTable.Row(
                [
                    name, String(means.count), means.systolic.text, means.systolicDeviation.text, means.diastolic.text,
                    means.diastolicDeviation.text, means.pulse.text, means.pulseDeviation.text,
                    means.pulsePressure.text,
                ].map { .init($0) }, isStrong: isStrong)
        }
        let (morning, evening) = (figures.means(.morning), figures.means(.evening))
        var rows = [row("all", figures.all, isStrong: true)]
        rows += Self.windowNames.map { row($0.name, figures.means($0.window)) }
        rows.append(
            ReportTable.Row(
                "morning minus evening", "", morning.systolicDifference(to: evening).signed, "",
                morning.diastolicDifference(to: evening).signed, "", morning.pulseDifference(to: evening).signed, "", ""
            ))
        let titles = ["n", "SYS", "SD", "DIA", "SD", "pulse", "SD", "SYS-DIA"]
        return .table(
            ReportTable(
                "Means and standard deviations, in \(unit); pulse in beats per minute",
                [.init("", weight: 2.6)] + titles.map { .init($0, isNumber: true) }, rows))
    }

    private static let flags: [(ReadingStatus, String)] = [
        (.irregularPulse, "irregular pulse"), (.bodyMovement, "movement"), (.cuffTooLoose, "loose cuff"),
        (.improperPosition, "improper position"), (.pulseRateTooHigh, "pulse rate above the cuff's limit"),
        (.pulseRateTooLow, "pulse rate below the cuff's limit"),
    ]

    private var flagBlocks: [ReportDocument.Block] {
        let found = Self.flags.map { (name: $0.1, count: figures.flagged($0.0)) }.filter { $0.count > 0 }
        let extremes =
            figures.extremes.map {
                "Lowest \(text($0.lowest)), highest \(text($0.highest)). "
            } ?? ""
        let words =
            found.isEmpty
            ? "The cuff flagged none of the \(Count.of(figures.points.count, "reading"))."
            : "As the cuff flagged them: "
                + found.map { "\($0.name): \($0.count) of \(figures.points.count)" }.joined(separator: "; ") + "."
        return [.text(extremes + words)]
    }

    private func text(_ point: PressurePoint) -> String {
        let wall = figures.period.wallTime(at: point.time)
        return "\(point.text(in: figures.unit)) \(unit) on \(wall.dateText) at \(wall.clockText)"
    }

    private var comparison: [ReportDocument.Block] {
        guard let before, !before.points.isEmpty else { return [] }
        let (first, last) = (before.period.days.first?.date ?? "", before.period.days.last?.date ?? "")
        let (now, then) = (figures.all, before.all)
        return [
            .text(
                "The period before (\(first) to \(last)): mean \(then.text ?? "–") \(unit) of "
                    + "\(Count.of(then.count, "reading")); this period is \(now.systolicDifference(to: then).signed) "
                    + "systolic and \(now.diastolicDifference(to: then).signed) diastolic from it.")
        ]
    }

    private var days: ReportDocument.Block {
        var rows: [ReportTable.Row] = []
        for day in figures.days {
            let weekday = WallTime(day.date + "T00:00:00")?.weekday ?? 0
            let cells = Self.windowNames.map { name in
                day.points(in: name.window).map { ReportTable.Cell(short($0), of: $0.reading) }
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
                            .init(line == 0 ? "\(day.date) \(WallTime.weekdays[weekday])" : ""), cell(0, 2 * line),
                            cell(0, 2 * line + 1), cell(1, 2 * line), cell(1, 2 * line + 1), cell(2, line),
                            .init(line == 0 ? means.text ?? "" : ""), .init(line == 0 ? String(means.count) : ""),
                        ], isTinted: weekday >= 5))
            }
        }
        return .table(
            ReportTable(
                "Readings by day, SYS/DIA in \(unit); ~ marks an irregular pulse, ! another flag of the cuff",
                [
                    .init("day", weight: 1.5), .init("morning 1"), .init("morning 2"), .init("evening 1"),
                    .init("evening 2"), .init("other"), .init("day mean"), .init("n", weight: 0.4, isNumber: true),
                ], rows))
    }

    private func short(_ point: PressurePoint) -> String {
        let others = PressurePoint.flags.subtracting(.irregularPulse)
        return point.text(in: figures.unit) + (point.status.contains(.irregularPulse) ? " ~" : "")
            + (point.status.isDisjoint(with: others) ? "" : " !")
    }

    private var notes: [String] {
        [
            leftOut,
            "Means are of readings, never of means of days; they are rounded once, half to even. SD: standard deviation of the "
                + "readings. SYS-DIA: the difference of the means (pulse pressure).",
            "Morning: \(figures.windows.morning.text), evening: \(figures.windows.evening.text) by the person's clocks; an evening "
                + "that goes on after midnight counts for the day before. The window is that of a session's first reading; a session "
                + "goes on while one cuff measures again within 10 minutes, for at most an hour.",
            "\(kind.title): two readings each morning and evening on \(kind.days) days"
                + (kind.dropsFirstDay ? ", without those of the first day" : "")
                + "; at least \(kind.leastReadings) readings and \(kind.leastDays) days. It looks at the last \(kind.days) dates up to "
                + "the last one with readings.",
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
        return .object(
            subject.members("bp", unit: figures.unit) + [
                .init("readings", .integer(Int64(figures.points.count))),
                .init("left_out", ReportSubject.document(of: figures.leftOut)),
                .init("flagged_left_out", .integer(Int64(figures.flaggedLeftOut))),
                .init("protocol", .object(protocolMembers)), .init("all", document(figures.all)),
                .init("morning", document(morning)), .init("evening", document(evening)),
                .init("other", document(figures.means(.other))),
                .init(
                    "morning_minus_evening",
                    .object([
                        "systolic": morning.systolicDifference(to: evening).json,
                        "diastolic": morning.diastolicDifference(to: evening).json,
                        "pulse": morning.pulseDifference(to: evening).json,
                    ])),
                .init("line", lineDocument),
                .init(
                    "flags",
                    .object(
                        Self.flags.flatMap { flag in
                            flag.0.names.map { .init($0, .integer(Int64(figures.flagged(flag.0)))) }
                        })),
                .init("lowest", figures.extremes.map { document($0.lowest, window(of: $0.lowest)) } ?? .null),
                .init("highest", figures.extremes.map { document($0.highest, window(of: $0.highest)) } ?? .null),
                .init(
                    "by_day",
                    .array(
                        figures.days.map { day in
                            .object([
                                "date": .string(day.date),
                                "mean": document(PressureMeans(day.points, unit: figures.unit)),
                                "readings": .array(
                                    day.sessions.flatMap { session in
                                        session.points.map { document($0, session.window) }
                                    }),
                            ])
                        })),
                .init(
                    "before",
                    before.map { before in
                        .object([
                            "from": .optional(before.period.days.first?.date),
                            "to": .optional(before.period.days.last?.date), "all": document(before.all),
                        ])
                    } ?? .null),
            ])
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
