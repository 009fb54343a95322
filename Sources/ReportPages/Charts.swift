import HealthFigures
import HealthReadings
import Languages

extension PressureFigures {
    /// Every reading as a bar from the diastolic to the systolic pressure, with the means of days and the person's line.
    ///
    /// - Parameters:
    ///   - line: the person's own line; `nil` where they have set none.
    ///   - leftOut: readings that are in no figure.
    ///   - showsNotes: whether what the person wrote stands beside a reading.
    ///   - words: the language.
    func chart(
        line: PressureLine?, leftOut: [ReportSubject.LeftOut] = [], showsNotes: Bool, _ words: Language
    ) -> ReportChart {
        let shown = points.map { point in
            (
                point: point, high: value(point.systolic, point.unit), low: value(point.diastolic, point.unit)
            )
        }
        let scale = unit == .kilopascal ? 0.1333 : 1
        let lines =
            line.map { [value($0.systolic, .millimetresOfMercury), value($0.diastolic, .millimetresOfMercury)] } ?? []
        let all = shown.flatMap { [$0.high, $0.low] } + lines
        let step = 20 * scale
        let low = ((all.min() ?? 60 * scale) / step).rounded(.down) * step
        let high = max(low + 2 * step, ((all.max() ?? 160 * scale) / step).rounded(.up) * step)
        var plot = Plot(width: 520, height: 210, values: low...high, words, top: 18)
        plot.grid(
            stride(from: low, through: high + 0.001, by: step).map {
                ($0, unit == .kilopascal ? Markup.number(($0 * 10).rounded() / 10) : String(Int($0)))
            })
        plot.days(period)
        plot.text(unit.symbol, 4, 7)
        var marks: [ReportChart.Mark] = []
        for (number, line) in lines.enumerated() {
            plot.line(
                plot.left, plot.y(line), plot.width - plot.right, plot.y(line), color: Palette.line, width: 1,
                dash: "5 3")
            plot.text(
                number == 0 ? words("your line SYS") : words("your line DIA"), plot.width - plot.right,
                plot.y(line) - 2, size: 7,
                anchor: "end", color: Palette.line)
        }
        // The last evening may go on after the last midnight.
        let places = shown.map { min(plot.x(period.share($0.point.time)), plot.width - 2) }
        let (highs, lows) = (shown.map { plot.y($0.high) }, shown.map { plot.y($0.low) })
        plot.lines(
            places.indices.map { ((places[$0], highs[$0]), (places[$0], lows[$0])) }, color: Palette.edge, width: 2)
        plot.dots(Array(zip(places, highs)), color: Palette.systolic)
        plot.rectangles(Array(zip(places, lows)), width: 3.6, height: 3.6, color: Palette.diastolic)
        for (place, each) in shown.enumerated() {
            marks.append(.init(places[place], text(each.point, showsNotes: showsNotes, words)))
            if each.point.status.contains(.irregularPulse) {
                plot.text("~", places[place], highs[place] - 4, size: 9, anchor: "middle", color: Palette.text)
            }
        }
        let dates = Dictionary(period.days.map { ($0.date, $0) }) { first, _ in first }
        var means: [[(from: (Double, Double), to: (Double, Double))]] = [[], []]
        for day in days {
            let mean = PressureMeans(day.points, unit: unit)
            guard let found = dates[day.date] else { continue }
            let (begin, end) = (plot.x(period.share(found.start)), plot.x(period.share(found.end)))
            let inset = (end - begin) * 0.15
            for (side, mean) in [mean.systolic, mean.diastolic].enumerated() {
                guard let mean else { continue }
                let y = plot.y(mean.approximation)
                means[side].append(((begin + inset, y), (end - inset, y)))
            }
        }
        plot.lines(means[0], color: Palette.systolic, width: 1.2)
        plot.lines(means[1], color: Palette.diastolic, width: 1.2)
        plot.crosses(leftOut, period, &marks)
        let y = 7.0
        plot.dot(236, y - 2.5, color: Palette.systolic)
        plot.text(words("systolic"), 241, y)
        plot.rectangle(284, y - 4.3, 3.6, 3.6, color: Palette.diastolic)
        plot.text(words("diastolic"), 291, y)
        plot.line(336, y - 2.5, 346, y - 2.5, color: Palette.systolic, width: 1.2)
        plot.text(words("mean of a day"), 350, y)
        plot.text(words("~ irregular pulse"), 512, y, anchor: "end")
        let (first, last) = (words.date(period.days.first?.date ?? ""), words.date(period.days.last?.date ?? ""))
        return ReportChart(
            title: words("Blood pressure from \(first) to \(last)"), summary: summary(words), width: plot.width,
            height: plot.height, body: plot.body, marks: marks)
    }

    private func summary(_ words: Language) -> String {
        guard !points.isEmpty else { return words("no readings") }
        let (readings, mean) = (points.count, words.number(all.text ?? "–"))
        guard let extremes else {
            return words(
                "\(count: readings, "reading", "readings") on \(count: days.count, "day", "days"), mean \(mean) \(unit.symbol)"
            )
        }
        let (lowest, highest) = (
            words.number(extremes.lowest.text(in: unit)), words.number(extremes.highest.text(in: unit))
        )
        return words(
            """
            \(count: readings, "reading", "readings") on \(count: days.count, "day", "days"), mean \(mean) \(unit.symbol), \
            lowest \(lowest), highest \(highest)
            """)
    }

    /// `2026-11-20 07:12: 131/82 mmHg, pulse 63, irregular pulse`.
    private func text(_ point: PressurePoint, showsNotes: Bool, _ words: Language) -> String {
        let at = words.moment(period.wallTime(at: point.time))
        let value = words("\(at): \(words.number(point.text(in: unit))) \(unit.symbol)")
        let parts = [value, point.pulse.map { words("pulse \($0)") }].compactMap(\.self)
        return words.list(
            parts + words.flags(point.status.intersection(PressurePoint.flags))
                + [showsNotes ? point.note.map(words.isolated) : nil].compactMap(\.self))
    }

    private func value(_ number: ExactDecimal, _ from: MeasurementUnit) -> Double {
        (number.shown(from, in: unit, places: 2) ?? number).approximation
    }
}

/// What glucose charts of one person have in common: the unit, the bounds and the axis.
struct GlucoseAxis {
    /// The most points that a chart by the time of day names one by one.
    private static let mostTold = 200

    let unit: MeasurementUnit
    let ranges: GlucoseRanges
    /// The person's lines; `nil` where they have set none.
    var line: GlucoseLine?
    /// The language.
    var words = Language.english
    /// Whether what the person wrote stands beside a value.
    var showsNotes = true

    /// The highest value of the axis: 350 mg/dL, 19.4 mmol/L.
    var top: Double { unit == .millimolesPerLitre ? 19.4 : 350 }

    var ticks: [(value: Double, label: String)] {
        unit == .millimolesPerLitre
            ? [0, 4, 8, 12, 16].map { (Double($0), String($0)) }
            : [0, 50, 100, 150, 200, 250, 300, 350].map { (Double($0), String($0)) }
    }

    /// Lowest and highest in target.
    var target: ClosedRange<Double> {
        let bounds = ranges.bounds(in: unit)
        return bounds.lowest.approximation...max(bounds.lowest.approximation, bounds.highest.approximation)
    }

    /// A value's place; HI lies on the upper edge and LO on the lower.
    func place(_ point: GlucosePoint) -> Double {
        switch point.level {
        case .number(let number): (number.shown(point.unit, in: unit, places: 2) ?? number).approximation
        case .above: top
        case .below: 0
        }
    }

    func place(_ percentile: GlucosePercentile) -> Double {
        switch percentile {
        case .number(_, let place): place
        case .above: top
        case .below: 0
        }
    }

    /// The target with lines at its edges, which have 3 : 1 to white.
    func draw(into plot: inout Plot, labelled: Bool = true) {
        let (high, low) = (plot.y(target.upperBound), plot.y(target.lowerBound))
        plot.rectangle(plot.left, high, plot.width - plot.left - plot.right, low - high, color: "#2A8C82", opacity: 0.1)
        for (y, bound) in [(high, ranges.bounds(in: unit).highest), (low, ranges.bounds(in: unit).lowest)] {
            plot.line(plot.left, y, plot.width - plot.right, y, color: "#2A8C82", width: labelled ? 0.9 : 0.5)
            if labelled {
                plot.text(
                    words.number(bound), plot.width - plot.right + 2, y + 2.5, size: 7, color: "#1d665f")
            }
        }
        drawLines(into: &plot, labelled: labelled)
    }

    /// The dots of a day, one over the other: the modal day.
    func modalDay(_ points: [GlucosePoint], _ period: FigurePeriod, pattern: DailyPattern?) -> ReportChart {
        var plot = Plot(width: 520, height: 220, values: 0...top, words, top: 18, right: 26)
        plot.grid(ticks)
        draw(into: &plot)
        plot.hours()
        plot.text(unit.symbol, 4, 7)
        if let pattern { draw(pattern, into: &plot) }
        var marks: [ReportChart.Mark] = []
        for point in points {
            let x = plot.x(Double(period.wallTime(at: point.time).minutes) / 1440)
            plot.body += point.classified(by: ranges).mark(x, plot.y(place(point)), size: 2.6)
            // Of more points the table behind the chart tells each: a year's would make the page half as large again.
            if points.count <= Self.mostTold { marks.append(.init(x, text(point, period))) }
        }
        return ReportChart(
            title: words("Readings by the time of day"),
            summary: words(
                """
                \(count: points.count, "readings") over 24 hours, target \
                \(ranges.bounds(in: unit).lowest) to \(ranges.bounds(in: unit).highest) \(unit.symbol)
                """),
            width: plot.width, height: plot.height, body: plot.body, marks: marks.sorted { $0.x < $1.x })
    }

    /// The percentiles of a pattern as bands and a line; hours without percentiles are gaps.
    func draw(_ pattern: DailyPattern, into plot: inout Plot) {
        func curve(_ percent: Int) -> [Double?] {
            pattern.hours.map { $0.percentiles[percent].map { min(place($0), top) } }
        }
        func x(_ hour: Double) -> Double { plot.x(hour / 24) }
        /// Runs of neighbours that both curves have, each with its ends at midnight where the day goes on.
        func runs(_ curves: [[Double?]]) -> [[(hour: Double, values: [Double])]] {
            let width = 24.0 / Double(pattern.hours.count)
            var (all, run): ([[(hour: Double, values: [Double])]], [(hour: Double, values: [Double])]) = ([], [])
            let last = pattern.hours.count - 1
            let edge: [Double]? = {
                let ends = curves.compactMap { curve -> Double? in
                    guard let first = curve.first ?? nil, let last = curve.last ?? nil else { return nil }
                    return (first + last) / 2
                }
                return ends.count == curves.count ? ends : nil
            }()
            for hour in pattern.hours.indices {
                let values = curves.compactMap { $0[hour] }
                if values.count == curves.count {
                    if hour == 0, let edge { run.append((0, edge)) }
                    run.append(((Double(hour) + 0.5) * width, values))
                    if hour == last, let edge { run.append((24, edge)) }
                } else if !run.isEmpty {
                    all.append(run)
                    run = []
                }
            }
            if !run.isEmpty { all.append(run) }
            return all
        }
        for (low, high, opacity) in [(5, 95, 0.16), (25, 75, 0.32)] {
            for run in runs([curve(low), curve(high)]) {
                let outline =
                    run.map { (x($0.hour), plot.y($0.values[0])) }
                    + run.reversed().map { (x($0.hour), plot.y($0.values[1])) }
                plot.path(outline, color: "none", fill: "#3B1F7A", opacity: opacity)
                plot.path(run.map { (x($0.hour), plot.y($0.values[0])) }, color: "#8A6FD1", width: 0.6)
                plot.path(run.map { (x($0.hour), plot.y($0.values[1])) }, color: "#8A6FD1", width: 0.6)
            }
        }
        for run in runs([curve(50)]) {
            plot.path(run.map { (x($0.hour), plot.y($0.values[0])) }, color: "#3B1F7A", width: 1.8)
        }
        for (hour, values) in pattern.hours.enumerated() {
            // What lies above the axis is on its edge, and marked.
            let beyond = values.percentiles.values.contains { place($0) >= top }
            if beyond {
                plot.text(
                    "▲", x((Double(hour) + 0.5) * 24 / Double(pattern.hours.count)), plot.top - 2, size: 6,
                    anchor: "middle")
            }
        }
    }

    /// The daily pattern of a sensor.
    func chart(_ pattern: DailyPattern) -> ReportChart {
        var plot = Plot(width: 520, height: 230, values: 0...top, words, top: 18, right: 26)
        plot.grid(ticks)
        draw(into: &plot)
        plot.hours()
        plot.text(unit.symbol, 4, 7)
        draw(pattern, into: &plot)
        var table = ReportTable(
            words("Daily pattern: percentiles by hour, in \(unit.symbol)"),
            [.init(words("hour"), weight: 1.2), .init(words("values"), isNumber: true)]
                + DailyPattern.percentiles.map { .init("\($0.percent) %", isNumber: true) })
        for hour in pattern.hours {
            let step = 24 / pattern.hours.count
            let clock = (hour.hour * step < 10 ? "0" : "") + "\(hour.hour * step):00"
            table.rows.append(
                ReportTable.Row(
                    [.init(clock), .init(String(hour.count))]
                        + DailyPattern.percentiles.map {
                            .init(hour.percentiles[$0.percent].map { words.number($0.text) } ?? "–")
                        }))
        }
        let medians = pattern.hours.compactMap { hour -> Double? in
            if case .number(_, let place)? = hour.percentiles[50] { place } else { nil }
        }
        let digits = { (value: Double?) -> String in
            value.map {
                words.number(Markup.number(unit == .millimolesPerLitre ? ($0 * 10).rounded() / 10 : $0.rounded()))
            }
                ?? "–"
        }
        return ReportChart(
            title: words("Daily pattern"),
            summary: words(
                """
                median by hour from \(digits(medians.min())) to \(digits(medians.max())) \(unit.symbol); bands of \
                half and nine tenths of the values
                """),
            width: plot.width, height: plot.height, body: plot.body, table: table)
    }

    /// One day of a sensor as a small chart.
    func day(_ index: Int, _ figures: SensorFigures) -> ReportChart {
        var plot = Plot(width: 74, height: 58, values: 0...top, words, left: 2, top: 12, right: 2, bottom: 8)
        let (day, values) = (figures.period.days[index], figures.values(ofDay: index))
        draw(into: &plot, labelled: false)
        plot.line(plot.left, plot.y(0), plot.width - plot.right, plot.y(0), color: Palette.edge, width: 0.4)
        let weekday = words.weekday(WallTime(day.date + "T00:00:00")?.weekday ?? 0)
        plot.text("\(weekday) \(words.dayAndMonth(day.date))", 2, 8.5, size: 7.5, color: Palette.text)
        func x(_ instant: Instant) -> Double {
            plot.x(Double(instant.seconds - day.start.seconds) / Double(max(1, day.seconds)))
        }
        var (run, before): ([(Double, Double)], SensorSeries.Value?) = ([], nil)
        for value in values {
            if let before, SensorSeries.isGap(from: before, to: value) {
                draw(run, into: &plot)
                run = []
            }
            run.append((x(value.point.time), plot.y(place(value.point))))
            before = value
        }
        draw(run, into: &plot)
        plot.text("0", plot.left, plot.height - 1, size: 6)
        plot.text("12", plot.x(0.5), plot.height - 1, size: 6, anchor: "middle")
        plot.text("24", plot.width - plot.right, plot.height - 1, size: 6, anchor: "end")
        let numbers = values.map { place($0.point) }
        let shown = { (value: Double?) -> String in
            value.map { words.number(Markup.number(($0 * 10).rounded() / 10)) } ?? "–"
        }
        return ReportChart(
            title: words.date(day.date),
            summary: values.isEmpty
                ? words("no data")
                : words(
                    "\(count: values.count, "values") from \(shown(numbers.min())) to \(shown(numbers.max())) \(unit.symbol)"
                ),
            width: plot.width, height: plot.height, body: plot.body)
    }

    func draw(_ run: [(Double, Double)], into plot: inout Plot) {
        if run.count == 1, let only = run.first {
            plot.rectangle(only.0 - 0.6, only.1 - 0.6, 1.2, 1.2, color: "#3B1F7A")
        } else {
            plot.path(run, color: "#3B1F7A", width: 0.8)
        }
    }

    /// Shares of classes as bars, each with its shape, word, bounds and number.
    func chart(_ shares: PercentShares, title: String, extra: (GlucoseClass) -> String) -> ReportChart {
        let classes = Array(ranges.classes.reversed())
        var plot = Plot(width: 520, height: Double(classes.count) * 20 + 8, values: 0...1, words, left: 0, right: 0)
        for (row, kind) in classes.enumerated() {
            let y = 4 + Double(row) * 20
            plot.body += kind.mark(10, y + 8, size: 4)
            plot.text("\(kind.named(words))  \(words.isolated(bounds(kind)))", 22, y + 11, size: 9, color: Palette.text)
            let whole = Double(shares.weights.values.reduce(0, +))
            let part = whole > 0 ? Double(shares.weights[kind] ?? 0) / whole : 0
            plot.rectangle(170, y + 1, 200, 14, color: Palette.tint)
            plot.rectangle(170, y + 1, 200 * part, 14, color: kind.color)
            plot.text(shares[kind].text, 378, y + 11.5, size: 10, color: Palette.text)
            plot.text(extra(kind), 420, y + 11.5, size: 8.5)
        }
        let list = words.list(classes.map { words("\($0.named(words)) \(shares[$0].text)") })
        let rows = classes.map {
            ReportTable.Row([.init($0.named(words), $0), .init(bounds($0)), .init(shares[$0].text), .init(extra($0))])
        }
        let table = ReportTable(
            words("\(title), in \(unit.symbol)"),
            [
                .init(words("class")), .init(words("bounds")), .init(words("share"), isNumber: true),
                .init("", isNumber: true),
            ], rows)
        return ReportChart(
            title: title, summary: list, width: plot.width, height: plot.height, body: plot.body, table: table)
    }

    /// The bounds of a class in words: `70 to 180`.
    func bounds(_ kind: GlucoseClass) -> String { words.number(digits(kind)) }

    private func digits(_ kind: GlucoseClass) -> String {
        let bounds = ranges.bounds(in: unit)
        let step = ExactDecimal(significand: 1, exponent: unit == .millimolesPerLitre ? -1 : 0)
        switch kind {
        case .veryLow: return bounds.veryLow.map { "<\($0)" } ?? ""
        case .low:
            guard let low = bounds.veryLow else { return "<\(bounds.lowest)" }
            return "\(low)–\(bounds.lowest.adding(step, times: -1))"
        case .target: return "\(bounds.lowest)–\(bounds.highest)"
        case .high:
            guard let high = bounds.veryHigh else { return ">\(bounds.highest)" }
            return "\(bounds.highest.adding(step, times: 1))–\(high)"
        case .veryHigh: return bounds.veryHigh.map { ">\($0)" } ?? ""
        }
    }
}

extension GlucosePercentile {
    /// `142`, `HI`, `LO`.
    var text: String {
        switch self {
        case .number(let number, _): number.description
        case .above: "HI"
        case .below: "LO"
        }
    }

    /// The number; null for HI and LO.
    var number: JSONValue { if case .number(let number, _) = self { .number(number) } else { .null } }

    /// `high`, `low`, or null for a number.
    var beyond: JSONValue {
        switch self {
        case .number: .null
        case .above: .string("high")
        case .below: .string("low")
        }
    }
}

extension WeightFigures {
    /// Weighings as dots, with stems to the trend.
    func chart(line: WeightLine? = nil, leftOut: [ReportSubject.LeftOut] = [], _ words: Language) -> ReportChart {
        let shown = days.map { day in
            (
                day: day,
                weight: (day.first.weight.shown(day.first.unit, in: unit, places: 3) ?? day.first.weight).approximation
            )
        }
        let target = line?.place(in: unit)
        let all = shown.flatMap { [$0.weight, $0.day.trend] } + (target.map { [$0] } ?? [])
        let low = ((all.min() ?? 60) - 0.5).rounded(.down)
        let high = max(low + 2, ((all.max() ?? 80) + 0.5).rounded(.up))
        let step = max(1, ((high - low) / 6).rounded(.up))
        var plot = Plot(width: 520, height: 210, values: low...high, words, top: 18)
        plot.grid(stride(from: low, through: high, by: step).map { ($0, String(Int($0))) })
        plot.days(period)
        plot.text(unit.symbol, 4, 7)
        if let target {
            let (y, end) = (plot.y(target), plot.width - plot.right)
            plot.line(plot.left, y, end, y, color: Palette.line, width: 1, dash: "5 3")
            plot.text(words("your line"), end, y - 2, size: 7, anchor: "end", color: Palette.line)
        }
        func x(_ day: Day) -> Double { plot.x((Double(day.offset) + 0.5) / Double(max(1, period.days.count))) }
        for each in shown {
            plot.line(
                x(each.day), plot.y(each.weight), x(each.day), plot.y(each.day.trend), color: Palette.edge, width: 0.6)
            plot.dot(x(each.day), plot.y(each.weight), color: Palette.diastolic)
        }
        plot.path(days.map { (x($0), plot.y($0.trend)) }, color: Palette.systolic, width: 1.8)
        var marks = shown.map { each in
            let weight = words.number(each.day.first.weight.shown(each.day.first.unit, in: unit, places: 1))
            let (date, trend) = (words.date(each.day.date), Self.text(ofTrend: each.day.trend))
            return ReportChart.Mark(
                x(each.day), words("\(date): \(weight) \(unit.symbol), trend \(trend) \(unit.symbol)"))
        }
        plot.crosses(leftOut, period, &marks)
        let (first, last) = (Self.text(ofTrend: days.first?.trend ?? 0), Self.text(ofTrend: days.last?.trend ?? 0))
        let summary =
            days.isEmpty
            ? words("no weighings")
            : words(
                "\(count: days.count, "days with weighings"), trend from \(first) to \(last) \(unit.symbol)")
        return ReportChart(
            title: words("Weight and its trend"), summary: summary, width: plot.width, height: plot.height,
            body: plot.body,
            marks: marks)
    }
}
