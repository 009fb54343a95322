import HealthFigures
import HealthReadings
import Languages

/// The paper a report is printed on.
public enum ReportPaper: String, Sendable, Hashable, CaseIterable {
    /// 210 × 297 mm.
    case a4
    /// 8.5 × 11 inches.
    case letter

    /// Width and height in points of 1/72 inch.
    public var size: (width: Double, height: Double) {
        switch self {
        case .a4: (595.28, 841.89)
        case .letter: (612, 792)
        }
    }

    var css: String { self == .a4 ? "A4" : "letter" }
}

extension ReportDocument {
    /// The report as one HTML file that needs nothing else: no script, no font and no picture from elsewhere.
    ///
    /// - Parameter paper: what it is printed on.
    public func html(paper: ReportPaper) -> String {
        var (body, charts) = ("", 0)
        func chart(_ chart: ReportChart) -> String {
            charts += 1
            var text =
                "<figure>\(chart.svg(identifier: "chart\(charts)", words))<figcaption>"
                + "\(written(words("\(chart.title): \(chart.summary)")))</figcaption>"
            if let table = chart.table {
                text += "<details><summary>\(written(words("Show as table")))</summary>\(html(table))</details>"
            }
            return text + "</figure>\n"
        }
        for block in blocks {
            switch block {
            case .heading(let text): body += "<h2>\(written(text))</h2>\n"
            case .text(let text): body += "<p>\(written(text))</p>\n"
            case .table(let table): body += html(table) + "\n"
            case .chart(let one): body += chart(one)
            case .charts(let all, let perRow):
                body += "<div class=\"days\" style=\"--row:\(perRow)\">\n"
                for one in all {
                    charts += 1
                    body += one.svg(identifier: "chart\(charts)", words) + "\n"
                }
                body += "</div>\n"
            }
        }
        let facts = facts.map {
            "<div><dt>\(written($0.name))</dt><dd>\(written($0.value))</dd></div>"
        }.joined()
        let notes = notes.map { "<li>\(written($0))</li>" }.joined()
        return """
            <!DOCTYPE html>
            <html lang="\(language.code)" dir="\(language.direction.rawValue)">
            <head>
            <meta charset="utf-8">
            <meta name="viewport" content="width=device-width, initial-scale=1">
            <meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
            <title>\(Markup.plain(title, words))</title>
            <style>
            \(css(paper))
            </style>
            </head>
            <body>
            <header><h1>\(written(title))</h1><dl>\(facts)</dl></header>
            <main>
            \(body)</main>
            <footer>
            <h2>\(written(words("About these figures")))</h2>
            <ul>\(notes)</ul>
            <p>\(written(words("\(maker)."))) <strong>\(written(disclaimer))</strong></p>
            </footer>
            </body>
            </html>

            """
    }

    /// What stands at the bottom of each page.
    var runningFoot: String { "\(leftOut) \(disclaimer)" }

    /// A text as HTML.
    func written(_ text: String) -> String { Markup.html(text, words) }

    /// The text as a string of CSS has it: letters, digits and the marks of a sentence alone.
    private static func css(_ text: some StringProtocol) -> String {
        String(
            String.UnicodeScalarView(
                text.unicodeScalars.filter {
                    $0.properties.isAlphabetic || ("0"..."9").contains($0)
                        || " .,:;%-\u{A0}\u{2019}\u{60C}\u{61B}".unicodeScalars.contains($0)
                }))
    }

    /// The style, with what stands at the bottom of each page.
    private func css(_ paper: ReportPaper) -> String {
        // The browser counts pages itself.
        let counters: [Character: String] = ["\u{1}": "counter(page)", "\u{2}": "counter(pages)"]
        var (number, text): ([String], String) = ([], "")
        for character in words("Page \("\u{1}") of \("\u{2}")") {
            guard let counter = counters[character] else {
                text.append(character)
                continue
            }
            number += text.isEmpty ? [counter] : ["\"\(Self.css(text))\"", counter]
            text = ""
        }
        if !Self.css(text).isEmpty { number.append("\"\(Self.css(text))\"") }
        return Self.css.replacing("PAPER", with: paper.css).replacing("FOOT", with: Self.css(runningFoot))
            .replacing("NUMBER", with: number.joined(separator: " "))
            .replacing("NEAR", with: words.isRightToLeft ? "right" : "left")
            .replacing("FAR", with: words.isRightToLeft ? "left" : "right")
    }

    func html(_ table: ReportTable, naming names: Bool = false) -> String {
        /// The page's script makes a button of a cell that names its reading.
        func reading(_ cell: ReportTable.Cell) -> String {
            guard names, let shown = cell.reading else { return "" }
            return " data-reading=\"\(shown.id)\"" + (shown.isLeftOut ? " data-left-out" : "")
        }
        func cell(_ cell: ReportTable.Cell, _ column: ReportTable.Column, _ place: Int) -> String {
            let mark =
                cell.kind.map {
                    "<span class=\"\($0.name)\" aria-hidden=\"true\">\($0.symbol)</span> "
                } ?? ""
            let word = cell.kind.map { "<span class=\"said\"> (\(written($0.named(words))))</span>" } ?? ""
            // A row of the same day as the one before has no heading of its own.
            let (tag, scope) = place == 0 && !cell.text.isEmpty ? ("th", " scope=\"row\"") : ("td", "")
            let style = column.isNumber ? " class=\"n\"" : ""
            return
                "<\(tag)\(scope)\(style)\(reading(cell))>\(cell.text.isEmpty ? "" : mark)\(written(cell.text))"
                + "\(cell.text.isEmpty ? "" : word)</\(tag)>"
        }
        let head = table.columns.map {
            // A heading without words is none.
            $0.title.isEmpty
                ? "<td></td>"
                : "<th scope=\"col\"\($0.isNumber ? " class=\"n\"" : "")>\(written($0.title))</th>"
        }.joined()
        let rows = table.rows.map { row in
            let names = [row.isTinted ? "tint" : nil, row.isStrong ? "strong" : nil].compactMap(\.self)
            let style = names.isEmpty ? "" : " class=\"\(names.joined(separator: " "))\""
            let cells = zip(row.cells, table.columns).enumerated().map { cell($0.element.0, $0.element.1, $0.offset) }
            return "<tr\(style)>\(cells.joined())</tr>"
        }.joined(separator: "\n")
        return
            "<div class=\"scroll\" tabindex=\"0\" role=\"group\" aria-label=\"\(Markup.plain(table.caption, words))\"><table>"
            + "<caption>\(written(table.caption))</caption>"
            + (table.hasTitles ? "<thead><tr>\(head)</tr></thead>" : "") + "<tbody>\n\(rows)\n</tbody></table></div>"
    }

    private static let css = """
        @page{size:PAPER;margin:14mm 12mm 18mm;\
        @bottom-NEAR{content:"FOOT";font:7pt sans-serif;color:#52606d;width:80%}\
        @bottom-FAR{content:NUMBER;font:7pt sans-serif;color:#52606d}}
        :root{color-scheme:light}
        *{box-sizing:border-box}
        body{font:14px/1.45 system-ui,"Liberation Sans",Arial,sans-serif;color:#1f2933;background:#fff;margin:0 auto;\
        max-width:60rem;padding:1rem;overflow-wrap:anywhere;print-color-adjust:exact;-webkit-print-color-adjust:exact}
        h1{font-size:1.5rem;margin:0 0 .5rem}
        h2{font-size:1.1rem;margin:1.4rem 0 .4rem;break-after:avoid}
        dl{display:flex;flex-wrap:wrap;gap:.2rem 1.6rem;margin:0;padding:.6rem 0;border-block:1px solid #7b8794}
        dl div{display:flex;gap:.4rem}
        dt{color:#52606d}
        dd{margin:0;font-weight:600}
        figure{margin:1rem 0;break-inside:avoid}
        figcaption{color:#52606d;font-size:.9rem}
        svg{width:100%;height:auto;display:block}
        .days{display:grid;grid-template-columns:repeat(var(--row),1fr);gap:.4rem}
        .days svg{break-inside:avoid}
        .scroll{overflow-x:auto}
        .scroll:focus-visible,summary:focus-visible{outline:3px solid #3B1F7A;outline-offset:2px}
        table{border-collapse:collapse;width:100%;font-size:.9rem;margin:.5rem 0}
        caption{text-align:start;font-weight:600;padding:.3rem 0;break-after:avoid}
        th,td{text-align:start;padding:.2rem .5rem;border-bottom:1px solid #d5dbe1;vertical-align:top;max-width:18rem}
        dt,th,.n{overflow-wrap:normal}
        thead{display:table-header-group}
        thead th,thead td{border-bottom:1px solid #52606d;background:#fff}
        tbody th{font-weight:400}
        tr{break-inside:avoid}
        .n{text-align:end;font-variant-numeric:tabular-nums}
        .tint{background:#f3f5f7}
        .strong th,.strong td{font-weight:700}
        .very_low{color:#7A2500}.low{color:#D9661F}.target{color:#2A8C82}.high{color:#8A6FD1}.very_high{color:#3B1F7A}
        .said{position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%);white-space:nowrap}
        footer{color:#52606d;font-size:.85rem}
        @media print{body{padding:0;max-width:none;font-size:10pt}table{font-size:8.5pt}.scroll{overflow:visible}\
        details:not([open]){display:none}}
        @media (forced-colors:active){svg{forced-color-adjust:none;background:#fff}}
        """
}
