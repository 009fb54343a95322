import HealthFigures
import HealthReadings
import Languages

/// The area of a chart between its axes, and what is drawn into it.
struct Plot {
    let width: Double
    let height: Double
    let left: Double
    let top: Double
    let right: Double
    let bottom: Double
    /// The range of values from bottom to top.
    let values: ClosedRange<Double>
    /// The language of what is written into it.
    let words: Language
    var body = ""

    /// Makes an area; margins are those of axes with labels.
    init(
        width: Double, height: Double, values: ClosedRange<Double>, _ words: Language, left: Double = 34,
        top: Double = 10, right: Double = 8, bottom: Double = 18
    ) {
        (self.width, self.height, self.values, self.words) = (width, height, values, words)
        (self.left, self.top, self.right, self.bottom) = (left, top, right, bottom)
    }

    /// The place of a share of the width, 0 … 1.
    func x(_ share: Double) -> Double { left + (width - left - right) * share }

    /// The place of a value; values beyond the range lie on its edge.
    func y(_ value: Double) -> Double {
        let inside = min(max(value, values.lowerBound), values.upperBound)
        let share = (inside - values.lowerBound) / max(values.upperBound - values.lowerBound, 1e-9)
        return height - bottom - (height - top - bottom) * share
    }

    mutating func text(
        _ text: String, _ x: Double, _ y: Double, size: Double = 8, anchor: String = "start",
        color: String = Palette.muted
    ) {
        body +=
            "<text x=\"\(Markup.number(x))\" y=\"\(Markup.number(y))\" font-size=\"\(Markup.number(size))\" "
            + "fill=\"\(color)\" text-anchor=\"\(anchor)\">\(Markup.svg(text, words))</text>"
    }

    mutating func line(
        _ x1: Double, _ y1: Double, _ x2: Double, _ y2: Double, color: String, width: Double = 0.6, dash: String? = nil
    ) {
        body += "<path d=\"M"
        write(x1, y1)
        body += "L"
        write(x2, y2)
        body += "\" stroke=\"\(color)\" stroke-width=\""
        Markup.write(width, to: &body)
        body += "\" fill=\"none\""
        if let dash { body += " stroke-dasharray=\"\(dash)\"" }
        body += "/>"
    }

    /// Lines of one kind, as one element: a chart of a year has thousands.
    mutating func lines(_ lines: [(from: (Double, Double), to: (Double, Double))], color: String, width: Double = 0.6) {
        guard !lines.isEmpty else { return }
        body += "<path d=\""
        for line in lines {
            body += "M"
            write(line.from.0, line.from.1)
            body += "L"
            write(line.to.0, line.to.1)
        }
        body += "\" stroke=\"\(color)\" stroke-width=\"\(Markup.number(width))\" fill=\"none\"/>"
    }

    /// Dots of one kind, as one element: lines without length that have round ends.
    mutating func dots(_ points: [(Double, Double)], color: String) {
        guard !points.isEmpty else { return }
        body += "<path d=\""
        for point in points {
            body += "M"
            write(point.0, point.1)
            body += "h0"
        }
        body += "\" stroke=\"\(color)\" stroke-width=\"\(Markup.number(4))\" stroke-linecap=\"round\" fill=\"none\"/>"
    }

    /// Rectangles of one size and kind, as one element.
    ///
    /// - Parameter middles: where their middles are.
    mutating func rectangles(_ middles: [(Double, Double)], width: Double, height: Double, color: String) {
        guard !middles.isEmpty else { return }
        let shape = "h\(Markup.number(width))v\(Markup.number(height))h\(Markup.number(-width))z"
        body += "<path d=\""
        for middle in middles {
            body += "M"
            write(middle.0 - width / 2, middle.1 - height / 2)
            body += shape
        }
        body += "\" fill=\"\(color)\"/>"
    }

    mutating func rectangle(
        _ x: Double, _ y: Double, _ width: Double, _ height: Double, color: String, opacity: Double = 1
    ) {
        attribute("<rect x", x)
        attribute("\" y", y)
        attribute("\" width", max(0, width))
        attribute("\" height", max(0, height))
        body += "\" fill=\"\(color)\""
        if opacity < 1 { body += " fill-opacity=\"\(Markup.number(opacity))\"" }
        body += "/>"
    }

    mutating func dot(_ x: Double, _ y: Double, radius: Double = 2, color: String) {
        attribute("<circle cx", x)
        attribute("\" cy", y)
        attribute("\" r", radius)
        body += "\" fill=\"\(color)\"/>"
    }

    /// Begins an attribute that is a number.
    private mutating func attribute(_ name: String, _ value: Double) {
        body += name
        body += "=\""
        Markup.write(value, to: &body)
    }

    private mutating func write(_ x: Double, _ y: Double) {
        Markup.write(x, to: &body)
        body += " "
        Markup.write(y, to: &body)
    }

    /// A line through points, and a filled area where it is closed.
    mutating func path(
        _ points: [(Double, Double)], color: String, width: Double = 1.2, fill: String = "none", opacity: Double = 1
    ) {
        guard let first = points.first else { return }
        body += "<path d=\"M"
        write(first.0, first.1)
        for point in points.dropFirst() {
            body += "L"
            write(point.0, point.1)
        }
        body +=
            fill == "none"
            ? "\" stroke=\"\(color)\" stroke-width=\"\(Markup.number(width))\" stroke-linejoin=\"round\" "
                + "stroke-linecap=\"round\" fill=\"none\"/>"
            : "Z\" fill=\"\(fill)\" fill-opacity=\"\(Markup.number(opacity))\"/>"
    }

    /// Lines at values, with their labels on the left.
    mutating func grid(_ ticks: [(value: Double, label: String)]) {
        for tick in ticks {
            line(left, y(tick.value), width - right, y(tick.value), color: Palette.grid, width: 0.5)
            text(words.number(tick.label), left - 4, y(tick.value) + 2.8, anchor: "end")
        }
    }

    /// Ticks along the bottom.
    mutating func labels(_ ticks: [(share: Double, label: String)]) {
        for tick in ticks {
            let anchor = tick.share < 0.02 ? "start" : tick.share > 0.98 ? "end" : "middle"
            line(x(tick.share), height - bottom, x(tick.share), height - bottom + 3, color: Palette.edge, width: 0.5)
            text(tick.label, x(tick.share), height - bottom + 11, anchor: anchor)
        }
        line(left, height - bottom, width - right, height - bottom, color: Palette.edge)
    }

    /// The hours of a day along the bottom.
    mutating func hours() {
        labels(
            stride(from: 0, through: 24, by: 3).map { (hour: Int) in
                (Double(hour) / 24, (hour < 10 ? "0" : "") + "\(hour):00")
            })
    }

    /// What the person's clocks show every three hours of a period along the bottom: on a day whose clocks change, too.
    private mutating func clock(_ period: FigurePeriod) {
        let whole = period.end.seconds - period.start.seconds
        labels(
            stride(from: 0, to: whole, by: 3 * 3600).map { seconds in
                let wall = period.wallTime(at: Instant(seconds: period.start.seconds + seconds))
                return (Double(seconds) / Double(max(1, whole)), wall.clockText)
            })
    }

    /// The days of a period along the bottom: at most a dozen labels.
    mutating func days(_ period: FigurePeriod) {
        guard period.days.count > 1 else { return clock(period) }
        let step = max(1, (period.days.count + 11) / 12)
        let whole = Double(max(1, period.end.seconds - period.start.seconds))
        labels(
            stride(from: 0, to: period.days.count, by: step).map { index in
                let day = period.days[index]
                let middle = Double(day.start.seconds + day.end.seconds) / 2
                return ((middle - Double(period.start.seconds)) / whole, words.dayAndMonth(day.date))
            })
    }
}

extension FigurePeriod {
    /// The place of an instant within the period, 0 … 1.
    func share(_ instant: Instant) -> Double {
        Double(instant.seconds - start.seconds) / Double(max(1, end.seconds - start.seconds))
    }
}

extension Language {
    /// `2026-11-20 07:12`.
    func moment(_ wall: WallTime) -> String { "\(date(wall.dateText)) \(wall.clockText)" }

    /// `2026-11-20 Fri`, and whether it is a day of a weekend.
    func day(_ date: String) -> (name: String, isWeekend: Bool) {
        let weekday = WallTime(date + "T00:00:00")?.weekday ?? 0
        return ("\(self.date(date)) \(self.weekday(weekday))", weekday >= 5)
    }

    /// A number, or a dash.
    func number(_ number: ExactDecimal?) -> String { number.map { self.number($0.description) } ?? "–" }

    /// Two values, such as the lowest and the highest.
    func pair(_ one: String, _ other: String) -> String {
        decimalMark == "," ? series([one, other]) : list([one, other])
    }

    /// With its sign: `+3`, `-2`, `0`.
    func signed(_ number: ExactDecimal?) -> String {
        number.map { $0.significand > 0 ? "+\(self.number($0.description))" : self.number($0.description) } ?? "–"
    }

    /// `12.5 %`, or a dash.
    func percent(_ number: ExactDecimal?) -> String { number.map { "\(self.number($0.description)) %" } ?? "–" }

    /// `2 h 5 min`.
    func duration(_ seconds: Int64) -> String {
        let minutes = Int((seconds + 30) / 60)
        let (hours, rest) = (minutes / 60, minutes % 60)
        let words = self
        if hours == 0 { return words("\(minutes) min") }
        return rest == 0 ? words("\(hours) h") : words("\(hours) h \(rest) min")
    }
}

extension WallTime {
    /// Minutes since midnight.
    var minutes: Int { timeOfDay.hour * 60 + timeOfDay.minute }
    /// `2026-11-20`.
    var dateText: String { String(description.prefix(10)) }
    /// `13:30`.
    var clockText: String { String(description.dropFirst(11).prefix(5)) }
    /// The day of the week, 0 Monday … 6 Sunday.
    var weekday: Int {
        let days = (secondsSinceEpoch - (secondsSinceEpoch % 86_400 + 86_400) % 86_400) / 86_400
        return Int(((days + 3) % 7 + 7) % 7)
    }
}
