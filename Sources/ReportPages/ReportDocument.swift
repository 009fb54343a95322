import HealthFigures
import HealthReadings
import Languages

/// A report as its pages, its HTML and its charts are made of: what is on it, and nothing of where it stands.
public struct ReportDocument: Sendable {
    /// A name with its value.
    public struct Fact: Sendable, Hashable {
        /// What it is.
        public var name: String
        /// The value as people read it.
        public var value: String

        /// Whether it is of no use on the gateway's page, which says whom it shows and is always new.
        public var isOfPaper: Bool

        /// Makes a fact.
        public init(_ name: String, _ value: String, isOfPaper: Bool = false) {
            (self.name, self.value, self.isOfPaper) = (name, value, isOfPaper)
        }
    }

    /// A part of the report.
    public enum Block: Sendable {
        /// The heading of a section.
        case heading(String)
        /// A paragraph.
        case text(String)
        /// A table.
        case table(ReportTable)
        /// A chart over the whole width.
        case chart(ReportChart)
        /// Small charts, so many in a row.
        case charts([ReportChart], perRow: Int)
    }

    /// What the report is about.
    public var title: String
    /// Whom and what it is of: person, period, zone, unit, devices.
    public var facts: [Fact]
    /// The parts, in order.
    public var blocks: [Block]
    /// What was left out and why, and how figures were computed; on the last page.
    public var notes: [String]
    /// What was left out, in a few words; on each page.
    public var leftOut: String
    /// What made it and when: `HealthRelay 0.2.0, 2026-11-25 10:00`.
    public var maker: String

    /// The language that it is written in.
    public var language = Language.english

    /// The language, as it is called: `words("readings")`.
    var words: Language { language }

    /// The last words of each page, in English.
    public static let disclaimer = "Shows what meters measured; no advice."
    /// The last words of each page.
    public var disclaimer: String { words("Shows what meters measured; no advice.") }
}

/// A table of texts.
public struct ReportTable: Sendable {
    /// A column.
    public struct Column: Sendable {
        /// What is in it.
        public var title: String
        /// Its share of the width.
        public var weight: Double
        /// Whether its cells are numbers, which stand to the right.
        public var isNumber: Bool

        /// Makes a column.
        public init(_ title: String, weight: Double = 1, isNumber: Bool = false) {
            (self.title, self.weight, self.isNumber) = (title, weight, isNumber)
        }
    }

    /// A row.
    public struct Row: Sendable {
        /// The cells, one for each column; the first is the row's heading.
        public var cells: [Cell]
        /// Whether the row has a tint, such as a weekend.
        public var isTinted = false
        /// Whether the row stands out.
        public var isStrong = false

        /// Makes a row.
        public init(_ cells: [Cell], isTinted: Bool = false, isStrong: Bool = false) {
            (self.cells, self.isTinted, self.isStrong) = (cells, isTinted, isStrong)
        }

        /// Makes a row of texts.
        public init(_ cells: String...) { self.cells = cells.map { Cell($0) } }
    }

    /// A cell.
    public struct Cell: Sendable {
        /// The text.
        public var text: String
        /// The class of a glucose value, shown by its shape.
        public var kind: GlucoseClass?
        /// The reading that it shows, so that the page can leave it out of figures or take it back in.
        public var reading: Shown?

        /// A reading that a cell shows.
        public struct Shown: Sendable, Hashable {
            /// Which.
            public var id: ReadingID
            /// Whether a person leaves it out of figures.
            public var isLeftOut: Bool

            /// Makes it.
            public init(_ id: ReadingID, isLeftOut: Bool = false) { (self.id, self.isLeftOut) = (id, isLeftOut) }
        }

        /// Makes a cell.
        public init(_ text: String, _ kind: GlucoseClass? = nil, of reading: ReadingID? = nil) {
            (self.text, self.kind, self.reading) = (text, kind, reading.map { Shown($0) })
        }

        /// The text behind the shape of its class.
        public var shown: String { kind.map { text.isEmpty ? text : "\($0.symbol) \(text)" } ?? text }
    }

    /// Whether any column has a title: names with their values need none.
    var hasTitles: Bool { columns.contains { !$0.title.isEmpty } }

    /// What the table shows.
    public var caption: String
    /// The columns.
    public var columns: [Column]
    /// The rows.
    public var rows: [Row]

    /// Makes a table.
    public init(_ caption: String, _ columns: [Column], _ rows: [Row] = []) {
        (self.caption, self.columns, self.rows) = (caption, columns, rows)
    }
}

/// A chart: drawn in SVG, with what it shows in words and, where no other table of the report has them, in numbers.
public struct ReportChart: Sendable {
    /// What it shows.
    public var title: String
    /// What is to be seen: numbers and ranges.
    public var summary: String
    /// Its width in units of its own.
    public var width: Double
    /// Its height.
    public var height: Double
    /// The SVG elements within it.
    public var body: String
    /// The same as numbers.
    public var table: ReportTable?
    /// What is at places of it, from left to right, for a reader who goes through it.
    public var marks: [Mark] = []

    /// What is at a place.
    public struct Mark: Sendable, Hashable {
        /// The place, in units of the chart's width.
        public var x: Double
        /// The time and the value as people read them.
        public var text: String

        /// Makes a mark.
        public init(_ x: Double, _ text: String) { (self.x, self.text) = (x, text) }
    }

    /// The chart as an SVG document of its own, or as an element within another.
    ///
    /// - Parameters:
    ///   - identifier: what its title and description are called by; different for each chart of a document.
    ///   - words: its language. Time goes from left to right in each.
    public func svg(identifier: String, _ words: Language = .english) -> String {
        let size = "\(Markup.number(width)) \(Markup.number(height))"
        let direction = words.isRightToLeft ? " direction=\"ltr\"" : ""
        return "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 \(size)\" role=\"img\" "
            + "aria-labelledby=\"\(identifier)-t \(identifier)-d\" font-family=\"\(Self.fonts)\"\(direction)>"
            + "<title id=\"\(identifier)-t\">\(Markup.plain(title, words))</title>"
            + "<desc id=\"\(identifier)-d\">\(Markup.plain(summary, words))</desc><g aria-hidden=\"true\">\(body)</g></svg>"
    }

    static let fonts = "Liberation Sans, Arial, Helvetica, DejaVu Sans, Noto Sans, sans-serif"
}

extension GlucoseClass {
    /// The colour on white.
    var color: String {
        switch self {
        case .veryLow: "#7A2500"
        case .low: "#D9661F"
        case .target: "#2A8C82"
        case .high: "#8A6FD1"
        case .veryHigh: "#3B1F7A"
        }
    }

    /// The shape as a character: what grey paper and a reader without colours show.
    public var symbol: String {
        switch self {
        case .veryLow: "▼▼"
        case .low: "▼"
        case .target: "●"
        case .high: "▲"
        case .veryHigh: "▲▲"
        }
    }

    /// The shape as an SVG element around a point.
    func mark(_ x: Double, _ y: Double, size: Double) -> String {
        func triangle(_ middle: Double, up: Bool) -> String {
            let (tip, base) = up ? (middle - size, middle + size * 0.7) : (middle + size, middle - size * 0.7)
            return "M\(Markup.number(x)) \(Markup.number(tip))L\(Markup.number(x - size)) \(Markup.number(base))"
                + "H\(Markup.number(x + size))Z"
        }
        switch self {
        case .target:
            return "<circle cx=\"\(Markup.number(x))\" cy=\"\(Markup.number(y))\" r=\"\(Markup.number(size * 0.75))\" "
                + "fill=\"\(color)\"/>"
        case .low, .high: return "<path d=\"\(triangle(y, up: self == .high))\" fill=\"\(color)\"/>"
        case .veryLow, .veryHigh:
            let up = self == .veryHigh
            let shift = size * 0.9
            return "<path d=\"\(triangle(y - shift, up: up))\(triangle(y + shift, up: up))\" fill=\"\(color)\"/>"
        }
    }
}
