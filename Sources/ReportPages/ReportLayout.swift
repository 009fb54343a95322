import HealthFigures
import HealthReadings
import Languages

/// Lays a report out on pages of paper, each an SVG document.
///
/// Text is placed by widths that no common font exceeds, so that it fits whatever fonts the machine has.
struct ReportLayout {
    private let document: ReportDocument
    private let size: (width: Double, height: Double)
    private let margin = 34.0
    private let bottomMargin = 46.0
    private var pages: [String] = []
    private var body = ""
    private var y = 0.0
    private var appendix: [ReportTable] = []
    /// The unit of the pages' width and height.
    private var unit = "pt"

    private var words: Language { document.words }

    private init(_ document: ReportDocument, _ paper: ReportPaper) { (self.document, size) = (document, paper.size) }

    /// The pages.
    ///
    /// - Parameters:
    ///   - document: the report.
    ///   - paper: its size.
    ///   - unit: what lengths are in; without one in the units of the picture that the pages become part of.
    static func pages(of document: ReportDocument, paper: ReportPaper, unit: String = "pt") -> [String] {
        var layout = ReportLayout(document, paper)
        layout.unit = unit
        layout.begin()
        layout.title()
        for (place, block) in document.blocks.enumerated() {
            layout.add(block, next: document.blocks.indices.contains(place + 1) ? document.blocks[place + 1] : nil)
        }
        for table in layout.appendix { layout.table(table) }
        layout.notes()
        layout.endPage()
        return layout.finished()
    }

    private var width: Double { size.width - 2 * margin }
    private var limit: Double { size.height - bottomMargin }

    private mutating func begin() {
        (body, y) = ("", 34)
        guard !pages.isEmpty else { return }
        // The name is last: a date behind one from right to left would be turned, and a long one may be cut.
        let running = ([document.title] + document.facts.prefix(2).reversed().map(\.value)).joined(separator: " · ")
        text(TextWidth.fitted(running, width: width, size: 8), margin, y, size: 8, color: Palette.muted)
        line(y + 4)
        y += 18
    }

    private mutating func endPage() {
        pages.append(body)
        body = ""
    }

    private mutating func require(_ height: Double) {
        guard y + height > limit else { return }
        endPage()
        begin()
    }

    /// The pages with their feet, which tell how many there are.
    private mutating func finished() -> [String] {
        let foot = document.runningFoot
        for index in pages.indices { pages[index] = finished(pages[index], index, foot) }
        return pages
    }

    private func finished(_ body: String, _ index: Int, _ foot: String) -> String {
        let number = words("Page \(index + 1) of \(pages.count)")
        let room = width - TextWidth.of(number, size: 7.5) - 12
        // What was left out may be long; the last words are never cut.
        let disclaimer = document.disclaimer
        let left = TextWidth.fitted(
            document.leftOut, width: room - TextWidth.of(" " + disclaimer, size: 7.5), size: 7.5)
        let shown = foot.isEmpty ? disclaimer : left + " " + disclaimer
        let (bottom, top) = (size.height - 26, size.height - 38)
        let title = words("\(document.title), page \(index + 1)")
        let w = Markup.number(size.width)
        let h = Markup.number(size.height)
        return
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"\(w)\(unit)\" height=\"\(h)\(unit)\" viewBox=\"0 0 \(w) \(h)\" "
            + "role=\"img\" aria-labelledby=\"page\(index + 1)\" font-family=\"\(ReportChart.fonts)\">"
            + "<title id=\"page\(index + 1)\">\(Markup.plain(title, words))</title>"
            + "<rect width=\"\(w)\" height=\"\(h)\" fill=\"#ffffff\"/>" + body
            + Self.path(margin, top, size.width - margin, Palette.grid)
            + element(shown, margin, bottom, size: 7.5, color: Palette.muted)
            + element(number, size.width - margin, bottom, size: 7.5, color: Palette.muted, anchor: .end)
            + "</svg>\n"
    }

    // MARK: Parts

    private mutating func title() {
        y += 8
        text(TextWidth.fitted(document.title, width: width, size: 17), margin, y, size: 17, isBold: true)
        y += 10
        line(y)
        y += 14
        let columns = 2
        let part = width / Double(columns)
        for (place, fact) in document.facts.enumerated() {
            let x = margin + Double(place % columns) * part
            let name = words("\(fact.name):")
            text(name, x, y, size: 8.5, color: Palette.muted)
            let indent = TextWidth.of("\(name) ", size: 8.5) + 2
            text(
                // Bold letters are wider.
                TextWidth.fitted(fact.value, width: (part - indent - 8) / 1.12, size: 8.5), x + indent, y, size: 8.5,
                isBold: true)
            if place % columns == columns - 1 || place == document.facts.count - 1 { y += 13 }
        }
        line(y - 4)
        y += 12
    }

    private mutating func add(_ block: ReportDocument.Block, next: ReportDocument.Block?) {
        switch block {
        case .heading(let heading):
            // A heading stays with what follows it.
            let following: Double =
                switch next {
                case .chart(let chart): min(300, height(chart))
                case .charts: 70
                default: 48
                }
            require(22 + following)
            y += 8
            text(heading, margin, y, size: 11.5, isBold: true)
            y += 14
        case .text(let text): paragraph(text, size: 9)
        case .chart(let one): chart(one)
        case .charts(let all, let perRow): grid(all, perRow)
        case .table(let one): table(one)
        }
    }

    private mutating func paragraph(_ text: String, size: Double, color: String = Palette.text) {
        for line in TextWidth.lines(text, width: width, size: size) {
            require(size * 1.4)
            self.text(line, margin, y, size: size, color: color)
            y += size * 1.4
        }
        y += 4
    }

    private func height(_ chart: ReportChart) -> Double { chart.height * width / chart.width + 18 }

    private mutating func chart(_ chart: ReportChart) {
        let scale = width / chart.width
        require(height(chart))
        place(chart, margin, y - 6, scale)
        y += chart.height * scale + 4
        paragraph(words("\(chart.title): \(chart.summary)"), size: 8, color: Palette.muted)
        y += 4
        // Numbers that no other table has follow behind everything else.
        if let table = chart.table { appendix.append(table) }
    }

    private mutating func grid(_ all: [ReportChart], _ perRow: Int) {
        let gap = 4.0
        let part = (width - gap * Double(perRow - 1)) / Double(max(1, perRow))
        for row in all.pieces(of: max(1, perRow)) {
            let height = row.map { $0.height * part / $0.width }.max() ?? 0
            require(height + gap)
            for (place, one) in row.enumerated() {
                self.place(one, margin + Double(place) * (part + gap), y - 6, part / one.width)
            }
            y += height + gap
        }
        y += 10
    }

    private mutating func place(_ chart: ReportChart, _ x: Double, _ top: Double, _ scale: Double) {
        body +=
            "<g transform=\"translate(\(Markup.number(x)) \(Markup.number(top))) "
            + "scale(\(Markup.number(scale)))\">\(chart.body)</g>"
    }

    /// Where the columns of a table stand.
    private struct Columns {
        static let size = 8.0
        static let height = 12.5
        private static let padding = 4.0
        let columns: [ReportTable.Column]
        let starts: [Double]
        let widths: [Double]

        init(_ columns: [ReportTable.Column], left: Double, width: Double) {
            let total = max(columns.reduce(0) { $0 + $1.weight }, 1e-9)
            self.columns = columns
            widths = columns.map { $0.weight * width / total - Self.padding }
            var (starts, x): ([Double], Double) = ([], left)
            for column in columns {
                starts.append(x)
                x += column.weight * width / total
            }
            self.starts = starts
        }
    }

    private mutating func row(
        _ texts: [String], _ columns: Columns, color: String = Palette.text, isBold: Bool = false
    ) {
        for (place, (cell, column)) in zip(texts, columns.columns).enumerated() {
            let size = fittedSize(cell, columns.widths[place])
            let shown = TextWidth.fitted(cell, width: columns.widths[place], size: size)
            let x = columns.starts[place] + (column.isNumber ? columns.widths[place] : 0)
            text(
                shown, x, y, size: size, color: color, anchor: column.isNumber ? .end : .start,
                isBold: isBold)
        }
    }

    /// Columns are as wide as English words need. A translation that is longer is smaller, down to three quarters, before it is cut.
    private func fittedSize(_ cell: String, _ width: Double) -> Double {
        guard words != .english else { return Columns.size }
        let needed = TextWidth.of(cell, size: Columns.size)
        return needed <= width ? Columns.size : Columns.size * max(0.75, (width / needed * 100).rounded(.down) / 100)
    }

    private mutating func head(_ table: ReportTable, _ columns: Columns, continued: Bool = false) {
        let caption = continued ? words("\(table.caption) (continued)") : table.caption
        text(TextWidth.fitted(caption, width: width, size: 9), margin, y, size: 9, isBold: true)
        y += table.hasTitles ? Columns.height + 1 : 2
        if table.hasTitles { row(table.columns.map(\.title), columns, color: Palette.muted) }
        line(y + 3, Palette.edge)
        y += Columns.height
    }

    private mutating func table(_ table: ReportTable) {
        let columns = Columns(table.columns, left: margin, width: width)
        require(3 * Columns.height + 6)
        head(table, columns)
        for one in table.rows {
            if y + Columns.height > limit {
                endPage()
                begin()
                head(table, columns, continued: true)
            }
            if one.isTinted {
                body +=
                    "<rect x=\"\(Markup.number(margin - 2))\" y=\"\(Markup.number(y - 9))\" "
                    + "width=\"\(Markup.number(width + 4))\" height=\"\(Markup.number(Columns.height))\" "
                    + "fill=\"\(Palette.tint)\"/>"
            }
            let texts = zip(one.cells, table.columns).enumerated().map { place, each -> String in
                let (cell, column) = each
                guard let kind = cell.kind, !cell.text.isEmpty, !column.isNumber else { return cell.text }
                // The shape is drawn: not every font has it.
                body += kind.mark(across(columns.starts[place] + 5), y - 2.8, size: 2.6)
                return "    " + cell.text
            }
            row(texts, columns, isBold: one.isStrong)
            line(y + 3.2, Palette.grid)
            y += Columns.height
        }
        y += 10
    }

    private mutating func notes() {
        require(40)
        y += 4
        line(y - 8)
        text(words("About these figures"), margin, y + 2, size: 9, isBold: true)
        y += 14
        for note in document.notes { paragraph(note, size: 7.5, color: Palette.muted) }
        paragraph(words("\(document.maker)."), size: 7.5, color: Palette.muted)
    }

    // MARK: Elements

    private mutating func line(_ y: Double, _ color: String = Palette.edge) {
        body += Self.path(margin, y, size.width - margin, color)
    }

    private static func path(_ x: Double, _ y: Double, _ end: Double, _ color: String) -> String {
        "<path d=\"M\(Markup.number(x)) \(Markup.number(y))H\(Markup.number(end))\" stroke=\"\(color)\" "
            + "stroke-width=\"0.5\"/>"
    }

    private mutating func text(
        _ shown: String, _ x: Double, _ y: Double, size: Double, color: String = Palette.text, anchor: Anchor = .start,
        isBold: Bool = false
    ) {
        body += element(shown, x, y, size: size, color: color, anchor: anchor, isBold: isBold)
    }

    /// Where a text stands from its place, in the direction of the language.
    private enum Anchor { case start, end }

    /// A place from the edge that lines begin at.
    private func across(_ x: Double) -> Double { words.isRightToLeft ? size.width - x : x }

    private func element(
        _ shown: String, _ x: Double, _ y: Double, size: Double, color: String, anchor: Anchor = .start,
        isBold: Bool = false
    ) -> String {
        guard !shown.isEmpty else { return "" }
        // Leading spaces make room for a shape.
        let spaces = shown.prefix { $0 == " " }
        let start = across(x + (anchor == .start ? Double(spaces.count) * size * 0.33 : 0))
        let isAtLeft = (anchor == .start) != words.isRightToLeft
        return "<text x=\"\(Markup.number(start))\" y=\"\(Markup.number(y))\" font-size=\"\(Markup.number(size))\" "
            + "fill=\"\(color)\"\(isAtLeft ? "" : " text-anchor=\"end\"")"
            + "\(isBold ? " font-weight=\"bold\"" : "")>\(Markup.svg(shown.dropFirst(spaces.count), words))</text>"
    }
}

extension ReportDocument {
    /// The report as pages of paper, each an SVG document.
    public func pages(paper: ReportPaper) -> [String] { ReportLayout.pages(of: self, paper: paper) }

    /// The pages one below the other as one SVG document.
    public func svg(paper: ReportPaper) -> String {
        // A point is 4/3 of the units of the outer picture, which is in points itself.
        let (all, size) = (ReportLayout.pages(of: self, paper: paper, unit: ""), paper.size)
        let (width, height) = (Markup.number(size.width), Markup.number(size.height * Double(all.count)))
        var text =
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"\(width)pt\" height=\"\(height)pt\" "
            + "viewBox=\"0 0 \(width) \(height)\">\n"
        for (place, page) in all.enumerated() {
            text += "<g transform=\"translate(0 \(Markup.number(Double(place) * size.height)))\">\(page)</g>"
        }
        return text + "</svg>\n"
    }
}
