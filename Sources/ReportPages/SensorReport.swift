import HealthFigures
import HealthReadings
import Languages

/// The report of a continuous glucose sensor.
public struct SensorReport: Report {
    private let subject: ReportSubject
    private let figures: SensorFigures
    private let before: SensorFigures?
    private let devices: [(device: DeviceDescription, figures: SensorFigures)]
    private let blood: [GlucosePoint]
    private let leftOutCounts: [FigureExclusion: Int]
    /// How many values are a sensor's by their pace alone.
    private let judged: Int
    private let axis: GlucoseAxis
    private let showsGoals: Bool

    /// Makes the report.
    ///
    /// - Parameters:
    ///   - subject: whom it is of.
    ///   - collection: the values of the period.
    ///   - before: those of the period before; `nil` for no comparison.
    ///   - ranges: the person's bounds.
    ///   - showsGoals: whether the person has chosen the preset of the bounds, so that its goals are printed.
    ///   - unit: mg/dL or mmol/L.
    ///   - line: the person's own lines; `nil` where they have set none.
    public init(
        _ subject: ReportSubject, _ collection: GlucoseCollection, before: GlucoseCollection?, ranges: GlucoseRanges,
        showsGoals: Bool, unit: MeasurementUnit, line: GlucoseLine? = nil
    ) {
        self.subject = subject
        let series = collection.series
        let joined = SensorSeries.joined(series.map(\.series))
        figures = SensorFigures(
            joined.series, overlapping: joined.overlapping, ranges: ranges, unit: unit, period: collection.period)
        self.before = before.map { SensorFigures($0, ranges: ranges, unit: unit) }
        // One sensor's figures are those of the whole.
        devices =
            series.count == 1
            ? [(series[0].device, figures)]
            : series.map { device, series in
                (device, SensorFigures(series, ranges: ranges, unit: unit, period: collection.period))
            }
        (leftOutCounts, blood) = (collection.sensorsLeftOut, collection.blood)
        judged = collection.judgedByPace.values.reduce(0, +)
        axis = GlucoseAxis(
            unit: unit, ranges: ranges, line: line, words: subject.language, showsNotes: subject.showsReadings)
        self.showsGoals = showsGoals
    }

    /// Whether nothing was measured.
    public var isEmpty: Bool { figures.series.values.isEmpty }

    private var period: FigurePeriod { subject.period }
    private var unit: String { axis.unit.symbol }
    private var words: Language { subject.language }
    private var isEstimate: Bool { figures.series.hasEstimates }
    private var leftOut: String {
        let series = figures.series
        var others: [String] = []
        if series.replaced > 0 {
            others.append(words("\(count: series.replaced, "trend values that the sensor's history replaces")"))
        }
        if series.repeated > 0 {
            others.append(words("\(count: series.repeated, "values that repeat another of about the same time")"))
        }
        if figures.overlapping > 0 {
            others.append(
                words("\(count: figures.overlapping, "values of a sensor worn at the same time as another")"))
        }
        return subject.leftOutWords(leftOutCounts, others)
            + (isEstimate ? " " + words("Values are estimates from a Libre's raw values.") : "")
    }

    // MARK: Pages

    /// What is on it.
    public func document(for medium: ReportMedium) -> ReportDocument {
        ReportDocument(
            title: words("Glucose, continuous sensor"),
            facts: subject.facts(unit: unit, devices: Set(devices.map(\.device))),
            blocks: isEmpty
                ? [.text(words("No sensor measured glucose in this period."))] + subject.leftOutBlocks()
                : (medium == .paper ? paperBlocks : screenBlocks) + subject.leftOutBlocks(),
            notes: notes, leftOut: leftOut, maker: subject.maker, language: subject.language)
    }

    /// The course over the period instead of a chart for each day, with the days behind it.
    private var screenBlocks: [ReportDocument.Block] {
        let days = figures.byDay
        let course = axis.course(blood, sensor: (figures, days), period, leftOut: subject.leftOut)
        return figureBlocks + [course.before(table(of: days))] + patternBlocks + episodeBlocks + deviceTables
    }

    private var paperBlocks: [ReportDocument.Block] {
        figureBlocks + patternBlocks
            + [.heading(words("Days")), .charts(period.days.indices.map { axis.day($0, figures) }, perRow: 7)]
            + episodeBlocks + [table(of: figures.byDay)] + deviceTables
    }

    private var figureBlocks: [ReportDocument.Block] {
        var blocks: [ReportDocument.Block] = [.text(sufficiency)]
        if figures.sufficiency != .notEnough {
            blocks.append(summary)
            if let shares = figures.timeInRanges {
                blocks += [
                    .heading(words("Time in ranges")),
                    .chart(
                        axis.chart(shares, title: words("Time in ranges")) { kind in
                            words("\(figures.secondsOfDay(kind).map(words.duration) ?? "–") a day")
                        }),
                ]
                blocks += goals(shares)
            }
        }
        return blocks
    }

    private var patternBlocks: [ReportDocument.Block] {
        guard figures.sufficiency != .notEnough else { return [] }
        if let pattern = figures.pattern {
            return [
                .heading(words("Daily pattern, the last \(count: min(14, period.days.count), "day", "days")")),
                .chart(axis.chart(pattern)),
            ]
        }
        return [
            .text(words("No daily pattern: it needs seven days with data, with 70 % of their time."))
        ]
    }

    private var sufficiency: String {
        let (share, days) = (words.number(figures.activeOfPeriod), figures.daysWithData)
        return switch figures.sufficiency {
        case .notEnough:
            words(
                """
                Not enough data for figures: less than a day. \
                \(count: days, "day", "days") with data, \(share) % of the time of the period.
                """)
        case .limited:
            words(
                """
                \(count: days, "day", "days") with data, \(share) % of the time of the period: may not be representative. \
                A management indicator needs 14 days with data and 70 % of the time.
                """)
        case .full: words("\(count: days, "day", "days") with data, \(share) % of the time of the period.")
        }
    }

    private var summary: ReportDocument.Block {
        let others = before.flatMap { $0.sufficiency == .notEnough ? nil : $0 }
        let compared = Comparison(figures, before: others, words)
        let rows = [
            compared.row(words("values")) { String($0.figures.count) },
            compared.row(words("days with data")) { words("\($0.daysWithData) of \($0.period.days.count)") },
            compared.row(words("time with data, of the period")) { words.percent($0.activeOfPeriod) },
            compared.row(words("time with data, from first to last value")) { words.percent($0.activeOfSpan) },
            compared.row(words("mean")) { words.number($0.figures.mean) },
            compared.row(words("glucose management indicator (GMI)")) { figures in
                figures.managementIndicator.map { words.number("\($0.percent) % (\($0.millimolesPerMole) mmol/mol)") }
                    ?? words("not enough data")
            },
            compared.row(words("standard deviation")) { words.number($0.figures.deviation) },
            compared.row(words("coefficient of variation")) { words.percent($0.figures.variation) },
            compared.row(words("in range")) { $0.timeInRanges?[.target].text ?? "–" },
            compared.row(words("below range")) { $0.timeInRanges?.sum([.veryLow, .low]).text ?? "–" },
            compared.row(words("above range")) { $0.timeInRanges?.sum([.high, .veryHigh]).text ?? "–" },
            compared.row(words("lowest, highest")) {
                words.pair(axis.text($0.figures.lowest), axis.text($0.figures.highest))
            },
        ]
        return .table(compared.table(words("Figures, in \(unit)"), rows))
    }

    private func goals(_ shares: PercentShares) -> [ReportDocument.Block] {
        guard showsGoals, !axis.ranges.goals.isEmpty else { return [] }
        let rows = axis.ranges.goals.map { goal in
            let names = goal.classes.map { $0.named(words) }
            return ReportTable.Row(
                names.dropFirst().reduce(names.first ?? "") { words("\($0) or \($1)") },
                goal.isLeast ? words("more than \(goal.percent) %") : words("less than \(goal.percent) %"),
                shares.sum(goal.classes).text)
        }
        return [
            .table(
                ReportTable(
                    words("The goals that go with the chosen ranges (\(axis.ranges.preset?.named(words) ?? ""))"),
                    [.init(words("class"), weight: 2), .init(words("goal")), .init(words("measured"))], rows))
        ]
    }

    private var episodeBlocks: [ReportDocument.Block] {
        guard !figures.episodes.isEmpty else {
            return [.text(words("No episode of 15 minutes or more below or above the range."))]
        }
        let low = figures.episodes.filter(\.isLow)
        let rows = figures.episodes.suffix(60).map { episode in
            ReportTable.Row([
                .init(words.moment(period.wallTime(at: episode.begin))), .init(words.duration(episode.seconds)),
                .init(episode.worst.named(words), episode.worst), .init(axis.text(episode.extreme)),
                .init(episode.isExtendedLow ? words("longer than 2 hours") : ""),
            ])
        }
        let count = figures.episodes.count
        return [
            .heading(words("Episodes")),
            .text(
                words(
                    """
                    \(count: low.count, "episode", "episodes") below the range, \(count - low.count) above it. \
                    An episode begins with 15 minutes beyond the range and ends with 15 minutes back, or with a gap in the data.
                    """)
                    + (count > rows.count ? " " + words("The last \(count: rows.count, "are listed").") : "")),
            .table(
                ReportTable(
                    words("Episodes, in \(unit)"),
                    [
                        .init(words("begin"), weight: 1.4), .init(words("length")),
                        .init(words("worst level"), weight: 1.2), .init(words("most extreme value")),
                        .init("", weight: 1.2),
                    ], Array(rows))),
        ]
    }

    private func table(of days: [GlucoseFigures]) -> ReportDocument.Block {
        let rows = period.days.indices.map { day in
            let figures = days[day]
            let shares = PercentShares(self.figures.classSeconds(ofDay: day))
            let (name, isWeekend) = words.day(period.days[day].date)
            return ReportTable.Row(
                [
                    .init(name), .init(words.duration(self.figures.daySeconds[day])),
                    .init(words.number(figures.mean)), .init(words.percent(figures.variation)),
                    .init(shares?[.target].text ?? "–"),
                    .init(shares?.sum([.veryLow, .low]).text ?? "–"),
                    .init(shares?.sum([.high, .veryHigh]).text ?? "–"),
                    .init(axis.text(figures.lowest), of: figures.lowest?.reading),
                    .init(axis.text(figures.highest), of: figures.highest?.reading),
                ], isTinted: isWeekend)
        }
        let titles = [
            words("data"), words("mean"), words("CV"), words("in range"), words("below"), words("above"),
            words("lowest"), words("highest"),
        ]
        return .table(
            ReportTable(
                words("Days, in \(unit)"),
                [.init(words("day"), weight: 1.7)] + titles.map { .init($0, isNumber: true) }, rows))
    }

    private var deviceTables: [ReportDocument.Block] { subject.showsReadings ? [deviceTable] : [] }

    private var deviceTable: ReportDocument.Block {
        .table(
            ReportTable(
                words("Sensors"),
                [
                    .init(words("sensor"), weight: 2), .init(words("values"), isNumber: true),
                    .init(words("time with data, of the period"), weight: 1.6, isNumber: true),
                    .init(words("from first to last value"), weight: 1.6, isNumber: true),
                ],
                devices.map { device, figures in
                    ReportTable.Row(
                        [subject.modelName(device), device.serial].compactMap(\.self).joined(separator: " "),
                        String(figures.figures.count), words.percent(figures.activeOfPeriod),
                        words.percent(figures.activeOfSpan))
                }))
    }

    /// What is a sensor's by its pace alone, in a sentence.
    private var pace: String {
        guard judged > 0 else { return "" }
        let (least, minutes) = (SensorPace.least, Int(SensorPace.longestGap / 60))
        return words(
            """
            By their pace \(count: judged, "values") count as a sensor's: the program that sent them doesn't say what measured \
            them, and at least \(least) in a row are at most \(minutes) minutes apart.
            """)
    }

    private var notes: [String] {
        [
            leftOut,
            axis.note + " "
                + words(
                    """
                    Shares are of the time that values stand for: whole numbers that add up to 100 (what rounding leaves \
                    goes to "high"). Lines are broken at gaps; no value is invented.
                    """),
            words(
                """
                Mean, SD and CV are of numbers, rounded once, half to even. 1 mmol/L is 18.0156 mg/dL. \
                GMI % = 3.31 + 0.02392 x mean in mg/dL (Bergenstal 2018).
                """),
            words(
                """
                Daily pattern: percentiles 5, 25, 50, 75 and 95 of each hour by the person's clocks, smoothed over \
                neighbouring hours with the weights 1, 4, 1. An hour with few values has fewer percentiles or none.
                """),
            pace,
            isEstimate
                ? words(
                    """
                    The values are this gateway's estimate from the raw values of the sensor, not those that the \
                    maker's reader shows.
                    """)
                : "",
        ].filter { !$0.isEmpty }
    }

    // MARK: Data

    /// The figures as JSON.
    public var json: JSONValue {
        let episodes: [JSONValue] = figures.episodes.map { episode in
            .object([
                "begin": .string(subject.local(episode.begin).rfc3339),
                "seconds": .integer(episode.seconds), "worst": .string(episode.worst.name),
                "extreme": episode.extreme.number(in: axis.unit), "extreme_beyond": episode.extreme.beyond,
                "extended_low": .bool(episode.isExtendedLow),
            ])
        }
        let sensors: [JSONValue] = devices.map { device, figures in
            .object([
                "model": .optional(device.model), "serial": .optional(device.serial),
                "values": .integer(Int64(figures.figures.count)),
                "active_of_period_percent": figures.activeOfPeriod.json,
                "active_of_span_percent": figures.activeOfSpan.json,
            ])
        }
        var all: [JSONValue.Member] = subject.members("sensor", unit: axis.unit)
        all += axis.members
        all += [
            .init("estimate", .bool(isEstimate)), .init("left_out", ReportSubject.document(of: leftOutCounts)),
            .init("replaced", .integer(Int64(figures.series.replaced))),
            .init("repeated", .integer(Int64(figures.series.repeated))),
            .init("overlapping", .integer(Int64(figures.overlapping))),
            .init("sensor_by_pace", .integer(Int64(judged))),
        ]
        all += members(of: figures)
        all += [
            .init("pattern", figures.pattern.map { .array($0.hours.map(Self.document)) } ?? .null),
            .init("episodes", .array(episodes)), .init("sensors", .array(sensors)),
            .init("before", before.map { .object(members(of: $0)) } ?? .null),
        ]
        return .object(all)
    }

    private static func document(_ hour: DailyPattern.Hour) -> JSONValue {
        var (numbers, beyond): ([JSONValue.Member], [JSONValue.Member]) = ([], [])
        for percentile in DailyPattern.percentiles {
            let (name, value) = ("p\(percentile.percent)", hour.percentiles[percentile.percent])
            numbers.append(.init(name, value?.number ?? .null))
            beyond.append(.init(name, value?.beyond ?? .null))
        }
        let head: [JSONValue.Member] = [
            .init("hour", .integer(Int64(hour.hour))), .init("values", .integer(Int64(hour.count))),
        ]
        return .object(head + numbers + [.init("beyond", .object(beyond))])
    }

    private func members(of figures: SensorFigures) -> [JSONValue.Member] {
        let isShown = figures.sufficiency != .notEnough
        let own = figures.figures
        return [
            .init("sufficiency", .string(figures.sufficiency.rawValue)), .init("values", .integer(Int64(own.count))),
            .init("above", .integer(Int64(own.above))), .init("below", .integer(Int64(own.below))),
            .init("days_with_data", .integer(Int64(figures.daysWithData))),
            .init("active_of_period_percent", figures.activeOfPeriod.json),
            .init("active_of_span_percent", figures.activeOfSpan.json),
            .init("mean", isShown ? own.mean.json : .null), .init("deviation", isShown ? own.deviation.json : .null),
            .init("variation_percent", isShown ? own.variation.json : .null),
            .init("gmi_percent", figures.managementIndicator.map { .number($0.percent) } ?? .null),
            .init("gmi_mmol_mol", figures.managementIndicator.map { .number($0.millimolesPerMole) } ?? .null),
            .init("percent_of_time", isShown ? axis.document(figures.timeInRanges) : .null),
        ]
    }

    /// The values that figures are made of, as CSV.
    public func csv(_ style: ReportCSV.Style) -> String {
        axis.csv(figures.series.values.map(\.point), subject, style)
    }
}
