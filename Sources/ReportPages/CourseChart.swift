import HealthFigures
import HealthReadings
import Languages

extension Plot {
    /// Round numbers from below the lowest to above the highest value.
    static func scale(_ low: Double, _ high: Double) -> [Double] {
        let (low, high) = high - low < 1e-9 ? (low - 1, high + 1) : (low, high)
        let steps = [0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500]
        let step = steps.first { $0 * 5 >= high - low } ?? (high - low) / 5
        let (first, last) = ((low / step).rounded(.down), (high / step).rounded(.up))
        return stride(from: first, through: last, by: 1).map { $0 * step }
    }
}

extension GlucoseAxis {
    /// The most days of which a sensor's values are drawn as a line; of more each day is a bar.
    private static let mostLineDays = 31
    /// The most values that can be told apart over the width of a chart.
    private static let mostValues = 900

    /// Values over a period: those of a sensor as a line, those of meters as marks with the shape of their class.
    ///
    /// Values of meters are never joined. A sensor's line is broken at gaps, and has the lowest and the highest value of each narrow
    /// strip where there are more than can be drawn. Of more than 31 days each day is a bar from its lowest to its highest value, without
    /// values of meters.
    ///
    /// - Parameters:
    ///   - blood: what meters measured, oldest first.
    ///   - sensor: what a sensor measured, and the figures of each day of it.
    ///   - period: the period.
    ///   - leftOut: readings that are in no figure.
    func course(
        _ blood: [GlucosePoint], sensor: (figures: SensorFigures, days: [GlucoseFigures])?, _ period: FigurePeriod,
        leftOut: [ReportSubject.LeftOut] = []
    ) -> ReportChart {
        var plot = Plot(width: 520, height: 220, values: 0...top, words, top: 18, right: 26)
        plot.grid(ticks)
        draw(into: &plot)
        plot.days(period)
        plot.text(unit.symbol, 4, 7)
        var marks: [ReportChart.Mark] = []
        func x(_ time: Instant) -> Double { plot.x(period.share(time)) }
        func mark(_ point: GlucosePoint, _ name: String) {
            marks.append(.init(x(point.time), text(point, period) + name))
        }
        let sensorMark = words.list(["", words("sensor")])
        let values = sensor?.figures.series.values ?? []
        var seen: [String] = []
        if let sensor, period.days.count > Self.mostLineDays {
            let width = (plot.width - plot.left - plot.right) / Double(period.days.count) * 0.6
            var bars: [(from: (Double, Double), to: (Double, Double))] = []
            var means: [(Double, Double)] = []
            for (index, day) in period.days.enumerated() {
                let figures = sensor.days[index]
                guard let lowest = figures.lowest, let highest = figures.highest else { continue }
                let middle = (x(day.start) + x(day.end)) / 2
                bars.append(((middle, plot.y(place(lowest))), (middle, plot.y(place(highest)) - 0.5)))
                if let mean = figures.mean?.approximation { means.append((middle, plot.y(mean))) }
                let (low, high, mean) = (text(lowest), text(highest), words.number(figures.mean))
                marks.append(
                    .init(
                        middle,
                        words(
                            """
                            \(words.date(day.date)): sensor \(low) to \(high), mean \(mean) \(unit.symbol), \
                            \(count: figures.count, "value", "values")
                            """)))
            }
            plot.lines(bars, color: "#8A6FD1", width: max(0.6, width))
            plot.rectangles(means, width: 2 * width, height: 1.2, color: "#3B1F7A")
            if !values.isEmpty { seen.append(words("bar: lowest to highest of a day, with its mean")) }
        } else if !values.isEmpty {
            var run: [SensorSeries.Value] = []
            func close() {
                let kept = Self.thinned(run, all: values.count) { Int(period.share($0.point.time) * 440) }
                draw(kept.map { (x($0.point.time), plot.y(place($0.point))) }, into: &plot)
                for value in kept { mark(value.point, sensorMark) }
                run = []
            }
            for value in values {
                if let before = run.last, SensorSeries.isGap(from: before, to: value) { close() }
                run.append(value)
            }
            close()
            seen.append(words("line: sensor"))
        }
        // Over months they would hide the days behind them, and a report of their own has them.
        let drawn = values.isEmpty || period.days.count <= Self.mostLineDays ? blood : []
        for point in drawn {
            plot.body += point.classified(by: ranges).mark(x(point.time), plot.y(place(point)), size: 2.6)
            mark(point, "")
        }
        if !drawn.isEmpty { seen.append(words("mark: finger stick")) }
        plot.crosses(leftOut, period, &marks)
        plot.text(words.series(seen), plot.width - plot.right, 7, anchor: "end")
        return ReportChart(
            title: words("Glucose over the period"), summary: summary(drawn, sensor?.figures), width: plot.width,
            height: plot.height,
            body: plot.body, marks: marks.sorted { $0.x < $1.x })
    }

    private func summary(_ blood: [GlucosePoint], _ sensor: SensorFigures?) -> String {
        var parts: [String] = []
        if let sensor, sensor.figures.count > 0 {
            let (low, high) = (text(sensor.figures.lowest), text(sensor.figures.highest))
            parts.append(
                words(
                    "\(count: sensor.figures.count, "value", "values") of a sensor from \(low) to \(high) \(unit.symbol)"
                ))
        }
        if let first = blood.first {
            var (lowest, highest) = (first, first)
            for point in blood {
                if place(point) < place(lowest) { lowest = point }
                if place(point) > place(highest) { highest = point }
            }
            let (low, high) = (text(lowest), text(highest))
            parts.append(
                words(
                    "\(count: blood.count, "finger stick", "finger sticks") from \(low) to \(high) \(unit.symbol)"))
        }
        return parts.isEmpty ? words("no values") : words.series(parts)
    }

    /// `2026-11-20 07:12: 142 mg/dL, in range`.
    func text(_ point: GlucosePoint, _ period: FigurePeriod) -> String {
        let at = words.moment(period.wallTime(at: point.time))
        let more = [point.meal.map(words.name), showsNotes ? point.note.map(words.isolated) : nil]
        return words.list(
            [words("\(at): \(text(point)) \(unit.symbol)"), point.classified(by: ranges).named(words)]
                + more.compactMap(\.self))
    }

    /// The value as people read it: `142`, `7.9`, `HI (>600)`; a dash for none.
    func text(_ point: GlucosePoint?) -> String { point.map { words.number($0.text(in: unit)) } ?? "–" }

    /// Of each strip the lowest and the highest value in the order of time, where there are more values than can be drawn.
    private static func thinned(
        _ run: [SensorSeries.Value], all: Int, strip: (SensorSeries.Value) -> Int
    ) -> [SensorSeries.Value] {
        guard all > mostValues else { return run }
        var kept: [SensorSeries.Value] = []
        var (lowest, highest, current) = (run.first, run.first, run.first.map(strip))
        func keep() {
            guard let low = lowest, let high = highest else { return }
            if low.point.time == high.point.time {
                kept.append(low)
            } else {
                kept += low.point.time < high.point.time ? [low, high] : [high, low]
            }
        }
        for value in run.dropFirst() {
            if strip(value) != current {
                keep()
                (lowest, highest, current) = (value, value, strip(value))
            } else {
                if let low = lowest, value.point.isBelow(low.point) { lowest = value }
                if let high = highest, high.point.isBelow(value.point) { highest = value }
            }
        }
        keep()
        return kept
    }
}

extension GlucosePoint {
    /// Whether it is drawn below another value of its sensor, which has one unit.
    fileprivate func isBelow(_ other: GlucosePoint) -> Bool {
        func height(_ point: GlucosePoint) -> Double {
            switch point.level {
            case .number(let number): number.approximation
            case .above: .infinity
            case .below: -.infinity
            }
        }
        return height(self) < height(other)
    }
}
