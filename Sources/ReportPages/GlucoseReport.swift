import HealthFigures
import HealthReadings
import Languages

/// The report of finger sticks: what meters measured in blood.
public struct GlucoseReport: Report {
    private let subject: ReportSubject
    private let points: [GlucosePoint]
    private let figures: GlucoseFigures
    private let meals: MealFigures
    private let before: GlucoseFigures?
    private let leftOutCounts: [FigureExclusion: Int]
    private let echoes: Int
    /// How many values have a sensor's pace.
    private let judged: Int
    private let hasSensor: Bool
    private let axis: GlucoseAxis

    /// The least number of readings that percentiles are drawn of.
    private static let leastForCurves = 30

    /// Makes the report.
    ///
    /// - Parameters:
    ///   - subject: whom it is of.
    ///   - collection: the values of the period.
    ///   - before: those of the period before; `nil` for no comparison.
    ///   - ranges: the person's bounds.
    ///   - unit: mg/dL or mmol/L.
    ///   - line: the person's own lines; `nil` where they have set none.
    public init(
        _ subject: ReportSubject, _ collection: GlucoseCollection, before: GlucoseCollection?, ranges: GlucoseRanges,
        unit: MeasurementUnit, line: GlucoseLine? = nil
    ) {
        self.subject = subject
        (points, leftOutCounts, echoes) = (collection.blood, collection.leftOut, collection.echoes)
        judged = collection.judgedByPace.values.reduce(0, +)
        figures = GlucoseFigures(points, ranges: ranges, unit: unit, period: collection.period)
        meals = MealFigures(points, ranges: ranges, unit: unit, period: collection.period)
        // Nothing is no comparison.
        self.before = before.flatMap { before in
            before.blood.isEmpty
                ? nil : GlucoseFigures(before.blood, ranges: ranges, unit: unit, period: before.period)
        }
        hasSensor = collection.hasSensors
        axis = GlucoseAxis(
            unit: unit, ranges: ranges, line: line, words: subject.language, showsNotes: subject.showsReadings)
    }

    /// Whether nothing was measured.
    public var isEmpty: Bool { points.isEmpty }

    private var period: FigurePeriod { subject.period }
    private var unit: String { axis.unit.symbol }
    private var words: Language { subject.language }
    private var leftOut: String {
        var others: [String] = []
        if echoes > 0 { others.append(words("\(count: echoes, "that repeat a sensor's value of the same moment")")) }
        if judged > 0 { others.append(words("\(count: judged, "that have the pace of a sensor")")) }
        return subject.leftOutWords(leftOutCounts, others)
    }

    // MARK: Pages

    /// What is on it.
    public func document(for medium: ReportMedium) -> ReportDocument {
        ReportDocument(
            title: words("Blood glucose, finger sticks"),
            facts: subject.facts(unit: unit, devices: Set(points.map(\.device))),
            blocks: isEmpty
                ? [.text(words("No blood glucose was measured with a meter in this period."))] + subject.leftOutBlocks()
                : [summary] + shares + charts(for: medium) + mealBlocks + (medium == .paper ? tables : [])
                    + subject.leftOutBlocks(),
            notes: notes, leftOut: leftOut, maker: subject.maker, language: subject.language)
    }

    /// The course over the period with every reading behind it, and the modal day with the logbook behind it.
    private func charts(for medium: ReportMedium) -> [ReportDocument.Block] {
        let course = axis.course(points, sensor: nil, period, leftOut: subject.leftOut)
        return medium == .paper
            ? [.chart(course), .chart(modalDay)]
            : [lists.first.map(course.before) ?? .chart(course), modalDay.before(logbook)]
    }

    private func when(_ point: GlucosePoint?) -> String {
        guard let point else { return "–" }
        let wall = period.wallTime(at: point.time)
        return words("\(axis.text(point)) on \(words.date(wall.dateText)) at \(wall.clockText)")
    }

    private var summary: ReportDocument.Block {
        func row(_ name: String, _ value: (GlucoseFigures) -> String, _ comparison: Bool = true) -> ReportTable.Row {
            let then = before.map { $0.count == 0 || !comparison ? "–" : value($0) }
            return ReportTable.Row([.init(name), .init(value(figures))] + (then.map { [.init($0)] } ?? []))
        }
        let days = period.days.count
        var rows = [
            row(words("readings")) { String($0.count) },
            row(words("days with readings")) { words("\($0.daysWithReadings) of \(days)") },
            row(words("readings a day")) {
                let (all, own) = (words.number($0.readingsPerDay(period)), words.number($0.readingsPerDayWithReadings))
                return words("\(all); \(own) on days with readings")
            },
            row(words("mean")) { words.number($0.mean) },
            row(words("standard deviation")) { words.number($0.deviation) },
            row(words("coefficient of variation")) { words.percent($0.variation) },
            row(words("lowest"), { _ in when(figures.lowest) }, false),
            row(words("highest"), { _ in when(figures.highest) }, false),
        ]
        if let line = axis.line {
            let (below, above) = line.count(beyond: points)
            rows.append(
                row(
                    words("your line"),
                    { _ in
                        words(
                            """
                            \(line.text(in: words, unit: axis.unit)): \(below) of \(count: points.count, "readings") below it, \
                            \(above) above it
                            """)
                    }, false))
        }
        if figures.above + figures.below > 0 {
            rows.append(
                row(words("HI, LO")) { words("\($0.above) HI, \($0.below) LO: in their class, in no mean") })
        }
        var columns: [ReportTable.Column] = [.init("", weight: 1), .init(words("this period"), weight: 2)]
        if let before {
            let title = words("the period before (\(count: before.count, "reading", "readings"))")
            columns.append(.init(title, weight: 2))
        }
        return .table(ReportTable(words("Figures, in \(unit)"), columns, rows))
    }

    private var shares: [ReportDocument.Block] {
        guard let shares = figures.shares else { return [] }
        return [
            .heading(words("Per cent of readings")),
            .chart(
                axis.chart(shares, title: words("Per cent of readings")) { kind in
                    words("\(Int(figures.classCounts[kind] ?? 0)) of \(figures.count)")
                }),
        ]
    }

    private var modalDay: ReportChart {
        // Three hours a bin: a person with a meter has few readings in an hour.
        let pattern =
            points.count >= Self.leastForCurves
            ? DailyPattern(points, period: period, unit: axis.unit, hoursPerBin: 3) : nil
        return axis.modalDay(points, period, pattern: pattern)
    }

    private var mealBlocks: [ReportDocument.Block] {
        guard !meals.slots.isEmpty else { return [] }
        let rows = meals.slots.map { slot in
            let figures = slot.figures
            return ReportTable.Row(
                [
                    slot.isByTime ? words("\(words.name(slot.name)) (by time)") : words.name(slot.name),
                    String(figures.count), words.number(figures.mean),
                    words("\(axis.text(figures.lowest)) to \(axis.text(figures.highest))"),
                    figures.shares?[.target].text ?? "–",
                ].map { .init($0) })
        }
        var blocks: [ReportDocument.Block] = [
            .table(
                ReportTable(
                    words("Meals, as told to the meter; by time where nothing was told"),
                    [
                        .init("", weight: 1.6), .init(words("n"), isNumber: true), .init(words("mean"), isNumber: true),
                        .init(words("lowest to highest"), weight: 1.6, isNumber: true),
                        .init(words("in range"), isNumber: true),
                    ], rows))
        ]
        if meals.pairs > 0 {
            blocks.append(
                .text(
                    words(
                        """
                        After meals: \(words.signed(meals.meanRise)) \(unit) on average from the reading before, of \
                        \(count: meals.pairs, "pair", "pairs") one to three hours apart.
                        """)))
        }
        return blocks
    }

    private var logbook: ReportDocument.Block {
        var byDay: [Int: [[GlucosePoint]]] = [:]
        for point in points {
            guard let day = period.index(of: point.time) else { continue }
            let slot = period.wallTime(at: point.time).timeOfDay.hour / 3
            byDay[day, default: [[GlucosePoint]](repeating: [], count: 8)][slot].append(point)
        }
        var rows: [ReportTable.Row] = []
        for day in byDay.keys.sorted(by: >) {
            let (name, isWeekend) = words.day(period.days[day].date)
            let slots = byDay[day] ?? []
            for line in 0..<(slots.map(\.count).max() ?? 0) {
                let cells = slots.map { slot -> ReportTable.Cell in
                    guard slot.indices.contains(line) else { return .init("") }
                    return .init(
                        axis.text(slot[line]), slot[line].classified(by: axis.ranges), of: slot[line].reading)
                }
                rows.append(
                    ReportTable.Row(
                        [.init(line == 0 ? name : "")] + cells, isTinted: isWeekend))
            }
        }
        let hours = (0..<8).map { slot in words("\(slot * 3)–\(slot * 3 + 3) h") }
        return .table(
            ReportTable(
                words(
                    """
                    Logbook, newest first, in \(unit): \(count: figures.daysWithReadings, "day", "days"), \
                    \(count: figures.count, "reading", "readings"), \
                    \(words.number(figures.readingsPerDayWithReadings)) a day, mean \(words.number(figures.mean))
                    """), [.init(words("day"), weight: 1.9)] + hours.map { .init($0) }, rows))
    }

    private var tables: [ReportDocument.Block] { [logbook] + lists }
    /// The list of all readings, where single readings are shown.
    private var lists: [ReportDocument.Block] { subject.showsReadings ? [list] : [] }

    private var list: ReportDocument.Block {
        .table(
            ReportTable(
                words("All readings, in \(unit)"),
                [
                    .init(words("time"), weight: 1.5), .init(words("value"), weight: 1.1), .init(words("class")),
                    .init(words("meal"), weight: 1.2), .init(words("device"), weight: 1.6),
                    .init(words("note"), weight: 2),
                ],
                points.map { point in
                    let kind = point.classified(by: axis.ranges)
                    return ReportTable.Row([
                        .init(words.moment(period.wallTime(at: point.time))),
                        .init(axis.text(point), kind, of: point.reading), .init(kind.named(words)),
                        .init(point.meal.map(words.name) ?? ""),
                        .init(words.isolated(subject.modelName(point.device) ?? "")),
                        .init(words.isolated(point.note ?? "")),
                    ])
                }))
    }

    private var notes: [String] {
        [
            leftOut,
            axis.note + " "
                + words(
                    """
                    Shares are per cent of readings, not of time: whole numbers that add up to 100 (what rounding leaves \
                    goes to "high").
                    """),
            words(
                """
                Mean, SD and CV are of numbers, rounded once, half to even; SD and CV from 30 readings on. \
                1 mmol/L is 18.0156 mg/dL. HI and LO are beyond what the meter can measure.
                """),
            hasSensor ? words("A sensor's values are in a report of their own, and in no figure here.") : "",
        ].filter { !$0.isEmpty }
    }

    // MARK: Data

    /// The figures as JSON.
    public var json: JSONValue {
        func document(_ figures: GlucoseFigures, _ period: FigurePeriod) -> JSONValue {
            .object(figures.members(axis, readingsPerDay: figures.readingsPerDay(period)))
        }
        return .object(
            subject.members("glucose", unit: axis.unit) + axis.members + [
                .init("left_out", ReportSubject.document(of: leftOutCounts)),
                .init("echoes", .integer(Int64(echoes))), .init("sensor_by_pace", .integer(Int64(judged))),
            ] + figures.members(axis, readingsPerDay: figures.readingsPerDay(period)) + [
                .init(
                    "meals",
                    .array(
                        meals.slots.map { slot in
                            .object([
                                "name": .string(slot.name), "by_time": .bool(slot.isByTime),
                                "readings": .integer(Int64(slot.figures.count)), "mean": slot.figures.mean.json,
                                "in_range_percent": .optional(slot.figures.shares?[.target].percent),
                            ])
                        })),
                .init(
                    "after_meals",
                    .object(["pairs": .integer(Int64(meals.pairs)), "mean_rise": meals.meanRise.json])),
                .init(
                    "values",
                    .array(
                        points.map { point in
                            .object([
                                "id": .string(point.reading.description),
                                "time": .string(subject.local(point.time).rfc3339),
                                "value": point.number.json, "unit": .string(point.unit.symbol),
                                "beyond": point.beyond, "class": .string(point.classified(by: axis.ranges).name),
                                "meal": .optional(point.meal), "note": .optional(point.note),
                            ])
                        })),
                .init("before", before.flatMap { figures in period.before.map { document(figures, $0) } } ?? .null),
            ])
    }

    /// The readings as CSV.
    public func csv(_ style: ReportCSV.Style) -> String { axis.csv(points, subject, style) }
}

extension GlucosePoint {
    /// The number in a unit; null for HI and LO.
    func number(in target: MeasurementUnit) -> JSONValue {
        number.map { .number($0.shown(unit, in: target) ?? $0) } ?? .null
    }

    /// `high`, `low`, or null for a number.
    var beyond: JSONValue {
        switch level {
        case .number: .null
        case .above: .string("high")
        case .below: .string("low")
        }
    }
}

extension GlucoseFigures {
    func members(_ axis: GlucoseAxis, readingsPerDay: ExactDecimal?) -> [JSONValue.Member] {
        [
            .init("readings", .integer(Int64(count))), .init("above", .integer(Int64(above))),
            .init("below", .integer(Int64(below))), .init("days_with_readings", .integer(Int64(daysWithReadings))),
            .init("readings_per_day", readingsPerDay.json), .init("mean", mean.json),
            .init("deviation", deviation.json), .init("variation_percent", variation.json),
            .init("lowest", lowest?.number(in: axis.unit) ?? .null), .init("lowest_beyond", lowest?.beyond ?? .null),
            .init("highest", highest?.number(in: axis.unit) ?? .null),
            .init("highest_beyond", highest?.beyond ?? .null),
            .init("percent_of_readings", axis.document(shares)),
        ]
    }
}

extension GlucoseAxis {
    /// What the classes are, in words.
    var note: String {
        let classes = ranges.classes.map { words("\($0.named(words)) \(bounds($0))") }
        return words(
            "Classes in \(unit.symbol): \(words.list(classes)). A value is classed in the unit it was measured in.")
    }

    var members: [JSONValue.Member] {
        func bounds(_ bounds: GlucoseRanges.Bounds) -> JSONValue {
            .object([
                "very_low": bounds.veryLow.json, "lowest": .number(bounds.lowest), "highest": .number(bounds.highest),
                "very_high": bounds.veryHigh.json,
            ])
        }
        return [
            .init(
                "ranges",
                .object([
                    "preset": .optional(ranges.preset?.rawValue), "mg/dL": bounds(ranges.milligrams),
                    "mmol/L": bounds(ranges.millimoles),
                ])), .init("line", line?.document ?? .null),
        ]
    }

    /// Printed shares by class, null for classes that the bounds don't split.
    func document(_ shares: PercentShares?) -> JSONValue {
        guard let shares else { return .null }
        return .object(
            GlucoseClass.allCases.map { kind in
                .init(kind.name, ranges.classes.contains(kind) ? .integer(Int64(shares[kind].percent)) : .null)
            })
    }

    func csv(_ points: [GlucosePoint], _ subject: ReportSubject, _ style: ReportCSV.Style) -> String {
        var csv = ReportCSV(style)
        csv.row(
            [
                "id", "time", "local_date", "local_time", "time_zone", "value", "unit", "beyond", "class", "source",
                "meal", "model", "serial", "note",
            ].map { .text($0) })
        for point in points {
            let local = subject.local(point.time)
            let beyond: String? = if case .string(let words) = point.beyond { words } else { nil }
            let source: String =
                switch point.source {
                case .blood: "meter"
                case .history: "history"
                case .trend: "trend"
                case .sensor: "sensor"
                case .scan: "scan"
                }
            csv.row([
                .text(point.reading.description), .text(local.rfc3339), .text(local.date), .text(local.clock),
                .text(local.zone), .number(point.number), .text(point.unit.symbol), .text(beyond),
                .text(point.classified(by: ranges).name), .text(source), .text(point.meal), .text(point.device.model),
                .text(point.device.serial), .text(point.note),
            ])
        }
        return csv.text
    }
}
