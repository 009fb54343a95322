import HealthFigures
import HealthReadings
import Languages

/// The report of weights.
public struct WeightReport: Report {
    private let subject: ReportSubject
    private let figures: WeightFigures
    private let before: WeightFigures?
    private let leftOutCounts: [FigureExclusion: Int]
    private let line: WeightLine?

    /// Makes the report.
    ///
    /// - Parameters:
    ///   - subject: whom it is of.
    ///   - figures: the figures of the period.
    ///   - before: those of the period before; `nil` for no comparison.
    ///   - leftOut: readings that are in no figure, by reason.
    ///   - line: the person's own line; `nil` where they have set none.
    public init(
        _ subject: ReportSubject, _ figures: WeightFigures, before: WeightFigures?, leftOut: [FigureExclusion: Int],
        line: WeightLine? = nil
    ) {
        self.line = line
        // Nothing is no comparison.
        let compared = before.flatMap { $0.days.isEmpty ? nil : $0 }
        (self.subject, self.figures, self.before, leftOutCounts) = (subject, figures, compared, leftOut)
    }

    /// Whether nothing was measured.
    public var isEmpty: Bool { figures.days.isEmpty }

    private var unit: String { figures.unit.symbol }
    private var words: Language { subject.language }
    private var repeated: Int { figures.points.count - figures.days.count }
    private var leftOut: String {
        subject.leftOutWords(
            leftOutCounts, repeated > 0 ? [words("\(count: repeated, "later weighings of a day")")] : [])
    }

    private func blocks(for medium: ReportMedium) -> [ReportDocument.Block] {
        let chart = figures.chart(line: line, leftOut: subject.leftOut, words)
        return medium == .paper ? [.chart(chart), days] : [chart.before(days)]
    }

    private func shown(_ point: WeightFigures.Point) -> ExactDecimal? {
        point.weight.shown(point.unit, in: figures.unit, places: 1)
    }

    private static func trend(_ day: WeightFigures.Day?) -> ExactDecimal? {
        day.map { WeightFigures.text(ofTrend: $0.trend) }
    }

    /// What is on it.
    public func document(for medium: ReportMedium) -> ReportDocument {
        ReportDocument(
            title: words("Weight"), facts: subject.facts(unit: unit, devices: Set(figures.points.map(\.device))),
            blocks: isEmpty
                ? [.text(words("No weight was measured in this period."))] + subject.leftOutBlocks()
                : [summary] + blocks(for: medium) + subject.leftOutBlocks(),
            notes: [
                leftOut,
                words(
                    """
                    The first weighing of a day counts. The trend moves by a tenth of the difference a day, \
                    T = T + (1 - 0.9^d)(W - T) for d days since the weighing before; it lags behind a steady change.
                    """) + " " + beginNote,
                changeNote,
            ], leftOut: leftOut, maker: subject.maker, language: subject.language)
    }

    /// What the trend begins with.
    private var beginNote: String {
        figures.isOfPeriodAlone
            ? words("It begins with the first weighing of the period; nothing before it counts.")
            : words("It begins with weighings before the period, so that a day has the same trend in every period.")
    }

    /// What the change of the trend is of.
    private var changeNote: String {
        guard let change = figures.change else {
            return words(
                """
                The change of the trend a week needs weighings at least two weeks apart, in the four weeks up to the last one.
                """)
        }
        let (first, last) = (words.date(change.first), words.date(change.last))
        guard !figures.isOfPeriodAlone else {
            return words(
                """
                The change of the trend a week is that from \(first) to \(last): what lies in the period of the four weeks up \
                to the last weighing.
                """)
        }
        return words(
            """
            The change of the trend a week is that from \(first) to \(last): the four weeks up to the last weighing, as far as \
            there are weighings, whatever the period.
            """)
    }

    private var summary: ReportDocument.Block {
        let compared = Comparison(figures, before: before, words)
        var rows = [
            compared.row(words("days with weighings")) { words("\($0.days.count) of \($0.period.days.count)") },
            compared.row(words("mean of the days")) { words.number($0.mean) },
            compared.row(words("trend, first and last day")) {
                words.pair(words.number(Self.trend($0.days.first)), words.number(Self.trend($0.days.last)))
            },
            compared.row(words("change of the trend a week")) {
                $0.changePerWeek.map { "\(words.signed($0)) \(unit)" } ?? words("needs two weeks")
            },
        ]
        if let line {
            rows.append(
                compared.row(words("your line")) { $0.period.start == figures.period.start ? line.text(in: words) : "" }
            )
        }
        return .table(compared.table(words("Figures, in \(unit)"), rows))
    }

    private var days: ReportDocument.Block {
        var columns: [ReportTable.Column] = [.init(words("day"), weight: 1.6), .init(words("time"))]
        if subject.showsReadings { columns.append(.init(words("scale"), weight: 2)) }
        columns += [
            .init(words("weight"), isNumber: true), .init(words("trend"), isNumber: true),
            .init(words("weighings"), isNumber: true),
        ]
        let rows = figures.days.reversed().map { day in
            let (name, isWeekend) = words.day(day.date)
            var cells: [ReportTable.Cell] = [
                .init(name), .init(figures.period.wallTime(at: day.first.time).clockText),
            ]
            if subject.showsReadings { cells.append(.init(subject.modelName(day.first.device) ?? "")) }
            cells += [
                .init(words.number(shown(day.first)), of: day.first.reading),
                .init(words.number(WeightFigures.text(ofTrend: day.trend))), .init(String(day.count)),
            ]
            return ReportTable.Row(cells, isTinted: isWeekend)
        }
        return .table(ReportTable(words("Days, in \(unit)"), columns, rows))
    }

    /// The figures as JSON.
    public var json: JSONValue {
        func members(_ figures: WeightFigures) -> [JSONValue.Member] {
            [
                .init("days_with_weighings", .integer(Int64(figures.days.count))), .init("mean", figures.mean.json),
                .init("trend_first", Self.trend(figures.days.first).json),
                .init("trend_last", Self.trend(figures.days.last).json),
                .init("change_per_week", figures.changePerWeek.json),
                .init("change_first", .optional(figures.change?.first)),
                .init("change_last", .optional(figures.change?.last)),
            ]
        }
        let days: [JSONValue] = figures.days.map { day in
            .object([
                "date": .string(day.date), "id": .string(day.first.reading.description),
                "time": .string(subject.local(day.first.time).rfc3339),
                "weight": .number(day.first.weight), "unit": .string(day.first.unit.symbol),
                "trend": .number(WeightFigures.text(ofTrend: day.trend)), "trend_unit": .string(unit),
                "weighings": .integer(Int64(day.count)),
            ])
        }
        var all: [JSONValue.Member] = subject.members("weight", unit: figures.unit)
        all += [
            .init("left_out", ReportSubject.document(of: leftOutCounts)),
            .init("later_weighings", .integer(Int64(repeated))), .init("line", line?.document ?? .null),
        ]
        all += members(figures)
        all += [.init("by_day", .array(days)), .init("before", before.map { .object(members($0)) } ?? .null)]
        return .object(all)
    }

    /// The weighings as CSV.
    public func csv(_ style: ReportCSV.Style) -> String {
        var csv = ReportCSV(style)
        csv.row(
            [
                "id", "time", "local_date", "local_time", "time_zone", "weight", "unit", "trend",
                "trend_unit", "counts", "model", "serial",
            ].map { .text($0) })
        let firsts = Dictionary(uniqueKeysWithValues: figures.days.map { ($0.first.reading, $0.trend) })
        for point in figures.points {
            let (local, trend) = (subject.local(point.time), firsts[point.reading])
            csv.row([
                .text(point.reading.description), .text(local.rfc3339), .text(local.date), .text(local.clock),
                .text(local.zone), .number(point.weight), .text(point.unit.symbol),
                .number(trend.map { WeightFigures.text(ofTrend: $0) }), .text(trend == nil ? nil : unit),
                .text(trend == nil ? "no" : "yes"), .text(point.device.model), .text(point.device.serial),
            ])
        }
        return csv.text
    }
}
