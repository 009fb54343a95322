import HealthFigures
import HealthReadings
import Languages

/// What the page shows of a vital sign that has no report of its own on paper.
public struct VitalReport: Report {
    /// One quantity of the readings: most kinds have one.
    private struct Section {
        var figures: VitalFigures
        /// The same quantity of the period before; `nil` for no comparison.
        var before: VitalFigures?
    }

    private let subject: ReportSubject
    private let figures: VitalFigures
    /// The first has the title of the report.
    private let sections: [Section]

    /// Makes the report.
    ///
    /// - Parameters:
    ///   - subject: whom it is of.
    ///   - figures: the figures of the period.
    ///   - before: those of the period before; `nil` for no comparison.
    public init(_ subject: ReportSubject, _ figures: VitalFigures, before: VitalFigures?) {
        (self.subject, self.figures) = (subject, figures)
        sections = figures.measured.map { measured in
            // Nothing is no comparison.
            let earlier = before?.figures(of: measured.part)
            return Section(figures: measured, before: earlier.flatMap { $0.all == nil ? nil : $0 })
        }
    }

    /// Whether nothing was measured.
    public var isEmpty: Bool { sections.isEmpty }

    private var unit: String { figures.unit.symbol }
    private var words: Language { subject.language }

    private func title(_ figures: VitalFigures) -> String {
        switch figures.kind {
        case .heartRate: words("Heart rate")
        case .hrv where figures.part == .sdnn: words("Heart-rate variability (SDNN)")
        case .hrv: words("Heart-rate variability (RMSSD)")
        case .spo2: words("Oxygen saturation")
        case .temperature: words("Temperature")
        default: words("Body fat")
        }
    }

    /// What is on it.
    public func document(for medium: ReportMedium) -> ReportDocument {
        ReportDocument(
            title: title(sections.first?.figures ?? figures),
            facts: subject.facts(unit: unit, devices: figures.devices),
            blocks: blocks(for: medium) + subject.leftOutBlocks(),
            notes: notes, leftOut: subject.leftOutWords(figures.leftOut), maker: subject.maker,
            language: subject.language)
    }

    private func blocks(for medium: ReportMedium) -> [ReportDocument.Block] {
        guard !isEmpty else { return [.text(words("Nothing of this kind was measured in this period."))] }
        var blocks: [ReportDocument.Block] = []
        for (place, section) in sections.enumerated() {
            let (title, days) = (title(section.figures), days(section.figures))
            // What is left out is of none of the quantities, and stands once.
            let chart = section.figures.chart(
                title, leftOut: place == 0 ? subject.leftOut : [], showsNotes: subject.showsReadings, words)
            if place > 0 { blocks.append(.heading(title)) }
            blocks.append(summary(section))
            blocks += medium == .paper ? [.chart(chart), days] : [chart.before(days)]
        }
        return blocks
    }

    private func when(_ point: VitalFigures.Point) -> String {
        let wall = figures.period.wallTime(at: point.time)
        return words("\(words.number(point.value)) on \(words.date(wall.dateText)) at \(wall.clockText)")
    }

    private func summary(_ section: Section) -> ReportDocument.Block {
        let compared = Comparison(section.figures, before: section.before, words)
        let rows = [
            compared.row(words("readings")) { String($0.all?.count ?? 0) },
            compared.row(words("days with readings")) { words("\($0.byDay.count) of \($0.period.days.count)") },
            compared.row(words("lowest")) { $0.all.map { when($0.lowest) } ?? "–" },
            compared.row(words("highest")) { $0.all.map { when($0.highest) } ?? "–" },
        ]
        return .table(compared.table(words("Figures, in \(unit)"), rows))
    }

    private func days(_ figures: VitalFigures) -> ReportDocument.Block {
        .table(
            ReportTable(
                words("Days, in \(unit)"),
                [.init(words("day"), weight: 1.6)]
                    + [words("readings"), words("lowest"), words("highest")].map { .init($0, isNumber: true) },
                figures.byDay.reversed().map { day in
                    ReportTable.Row([
                        .init(words.date(day.date)), .init(String(day.span.count)),
                        .init(words.number(day.span.lowest.value), of: day.span.lowest.reading),
                        .init(words.number(day.span.highest.value), of: day.span.highest.reading),
                    ])
                }))
    }

    private var notes: [String] {
        let kind: String? =
            switch figures.kind {
            case .temperature:
                words("Temperatures of different places of the body are not comparable, so there is no mean.")
            case .heartRate, .spo2:
                words("A recording counts once on each of its days, with its lowest and its highest value of that day.")
            case .hrv where sections.contains(where: { $0.figures.part == .sdnn }):
                words("RMSSD and SDNN are not comparable: neither is in the figures of the other.")
            case .bodyComposition: words("An estimate of the scale.")
            default: nil
            }
        return [
            subject.leftOutWords(figures.leftOut),
            words("A dot is a reading. A bar goes from the lowest to the highest of readings that lie close together."),
            kind,
        ].compactMap(\.self)
    }

    /// The figures as JSON.
    public var json: JSONValue {
        let first = sections.first?.figures ?? figures
        var members: [JSONValue.Member] = subject.members(figures.kind.rawValue, unit: figures.unit)
        members += [
            Self.count(of: first), .init("left_out", ReportSubject.document(of: figures.leftOut)), Self.days(of: first),
        ]
        if figures.kind == .hrv {
            let others: [JSONValue] = sections.dropFirst().map { section in
                .object([
                    Self.measure(of: section.figures), Self.count(of: section.figures), Self.days(of: section.figures),
                ])
            }
            members += [Self.measure(of: first), .init("others", .array(others))]
        }
        return .object(members)
    }

    private static func measure(of figures: VitalFigures) -> JSONValue.Member {
        .init("measure", .string(figures.part.name))
    }

    private static func count(of figures: VitalFigures) -> JSONValue.Member {
        .init("readings", .integer(Int64(figures.all?.count ?? 0)))
    }

    private static func days(of figures: VitalFigures) -> JSONValue.Member {
        .init(
            "by_day",
            .array(
                figures.byDay.map { day in
                    .object([
                        "date": .string(day.date), "readings": .integer(Int64(day.span.count)),
                        "lowest": .number(day.span.lowest.value), "highest": .number(day.span.highest.value),
                    ])
                }))
    }

    /// The days as CSV; of a variability each line says which measure it is.
    public func csv(_ style: ReportCSV.Style) -> String {
        var csv = ReportCSV(style)
        let isVariability = figures.kind == .hrv
        let names = ["date", "readings", "lowest", "highest", "unit"] + (isVariability ? ["measure"] : [])
        csv.row(names.map { .text($0) })
        for section in sections {
            for day in section.figures.byDay {
                var cells: [ReportCSV.Cell] = [
                    .text(day.date), .number(ExactDecimal(significand: Int64(day.span.count))),
                    .number(day.span.lowest.value), .number(day.span.highest.value), .text(unit),
                ]
                if isVariability { cells.append(.text(section.figures.part.name)) }
                csv.row(cells)
            }
        }
        return csv.text
    }
}

extension VitalFigures {
    /// Readings as dots; those that lie close together, and recordings, as bars from the lowest to the highest.
    ///
    /// - Parameters:
    ///   - title: the chart's title.
    ///   - leftOut: readings that are in no figure.
    ///   - showsNotes: whether what the person wrote stands beside a reading.
    ///   - words: the language.
    func chart(
        _ title: String, leftOut: [ReportSubject.LeftOut] = [], showsNotes: Bool, _ words: Language
    ) -> ReportChart {
        var (low, high) = (
            all?.lowest.value.approximation ?? 0, all?.highest.value.approximation ?? 1
        )
        // Saturations are looked at from 80 to 100.
        if kind == .spo2 { (low, high) = (min(low, 80), 100) }
        let ticks = Plot.scale(low, high)
        var plot = Plot(width: 520, height: 190, values: (ticks.first ?? low)...(ticks.last ?? high), words, top: 18)
        plot.grid(ticks.map { ($0, Markup.number($0)) })
        plot.days(period)
        plot.text(unit.symbol, 4, 7)
        var marks: [ReportChart.Mark] = []
        for span in byPart {
            let (x, y) = (plot.x(period.share(span.lowest.time)), plot.y(span.lowest.value.approximation))
            let top = plot.y(span.highest.value.approximation)
            if y - top > 1 {
                plot.line(x, y, x, top, color: Palette.systolic, width: 1.6)
            } else {
                plot.dot(x, y, radius: 1.8, color: Palette.systolic)
            }
            let at = words.moment(period.wallTime(at: min(span.lowest.time, span.highest.time)))
            let (lowest, highest) = (span.lowest.value, span.highest.value)
            // A recording is one reading with many values.
            guard span.count == 1, span.lowest == span.highest else {
                marks.append(
                    .init(
                        x,
                        words(
                            """
                            \(at): \(lowest) to \(highest) \(unit.symbol) in \(count: span.count, "reading", "readings")
                            """)))
                continue
            }
            let value =
                span.lowest.site.map { words("\(at): \(lowest) \(unit.symbol) (\(words.name($0)))") }
                ?? words("\(at): \(lowest) \(unit.symbol)")
            let note = showsNotes ? span.lowest.note.map(words.isolated) : nil
            marks.append(.init(x, words.list([value] + [note].compactMap(\.self))))
        }
        plot.crosses(leftOut, period, &marks)
        let summary =
            all.map { all in
                words(
                    "\(count: all.count, "reading", "readings") from \(all.lowest.value) to \(all.highest.value) \(unit.symbol)"
                )
            } ?? words("no readings")
        return ReportChart(
            title: title, summary: summary, width: plot.width, height: plot.height, body: plot.body, marks: marks)
    }
}
