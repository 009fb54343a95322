import HealthFigures
import HealthReadings

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
                "<figure>\(chart.svg(identifier: "chart\(charts)"))<figcaption>\(Markup.escaped(chart.title)): "
                + "\(Markup.escaped(chart.summary))</figcaption>"
            if let table = chart.table {
                text += "<details><summary>Show as table</summary>\(Self.html(table))</details>"
            }
            return text + "</figure>\n"
        }
        for block in blocks {
            switch block {
            case .heading(let text): body += "<h2>\(Markup.escaped(text))</h2>\n"
            case .text(let text): body += "<p>\(Markup.escaped(text))</p>\n"
            case .table(let table): body += Self.html(table) + "\n"
            case .chart(let one): body += chart(one)
            case .charts(let all, let perRow):
                body += "<div class=\"days\" style=\"--row:\(perRow)\">\n"
                for one in all {
                    charts += 1
                    body += one.svg(identifier: "chart\(charts)") + "\n"
                }
                body += "</div>\n"
            }
        }
        let facts = facts.map {
            "<div><dt>\(Markup.escaped($0.name))</dt><dd>\(Markup.escaped($0.value))</dd></div>"
        }.joined()
        let notes = notes.map { "<li>\(Markup.escaped($0))</li>" }.joined()
        return """
            <!DOCTYPE html>
            <html lang="en" dir="ltr">
            <head>
            <meta charset="utf-8">
            <meta name="viewport" content="width=device-width, initial-scale=1">
            <meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
            <title>\(Markup.escaped(title))</title>
            <style>
            \(Self.css.replacing("PAPER", with: paper.css).replacing("FOOT", with: cssFoot))
            </style>
            </head>
            <body>
            <header><h1>\(Markup.escaped(title))</h1><dl>\(facts)</dl></header>
            <main>
            \(body)</main>
            <footer>
            <h2>About these figures</h2>
            <ul>\(notes)</ul>
            <p>\(Markup.escaped(maker)). <strong>\(Self.disclaimer)</strong></p>
            </footer>
            </body>
            </html>

            """
    }

    /// What stands at the bottom of each page.
    var runningFoot: String { "\(leftOut) \(Self.disclaimer)" }

    /// The foot as a string of CSS: letters, digits and the marks of a sentence alone.
    private var cssFoot: String {
        String(
            String.UnicodeScalarView(
                runningFoot.unicodeScalars.filter {
                    $0.properties.isAlphabetic || ("0"..."9").contains($0) || " .,:;%-".unicodeScalars.contains($0)
                }))
    }

    static func html(_ table: ReportTable, naming names: Bool = false) -> String {
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
            let word = cell.kind.map { "<span class=\"said\"> (\($0.words))</span>" } ?? ""
            // A row of the same day as the one before has no heading of its own.
            let (tag, scope) = place == 0 && !cell.text.isEmpty ? ("th", " scope=\"row\"") : ("td", "")
            let style = column.isNumber ? " class=\"n\"" : ""
            return
                "<\(tag)\(scope)\(style)\(reading(cell))>\(cell.text.isEmpty ? "" : mark)\(Markup.escaped(cell.text))"
                + "\(cell.text.isEmpty ? "" : word)</\(tag)>"
        }
        let head = table.columns.map {
            // A heading without words is none.
            $0.title.isEmpty
                ? "<td></td>"
                : "<th scope=\"col\"\($0.isNumber ? " class=\"n\"" : "")>\(Markup.escaped($0.title))</th>"
        }.joined()
        let rows = table.rows.map { row in
            let names = [row.isTinted ? "tint" : nil, row.isStrong ? "strong" : nil].compactMap(\.self)
            let style = names.isEmpty ? "" : " class=\"\(names.joined(separator: " "))\""
            let cells = zip(row.cells, table.columns).enumerated().map { cell($0.element.0, $0.element.1, $0.offset) }
            return "<tr\(style)>\(cells.joined())</tr>"
        }.joined(separator: "\n")
        return
            "<div class=\"scroll\" tabindex=\"0\" role=\"group\" aria-label=\"\(Markup.escaped(table.caption))\"><table>"
            + "<caption>\(Markup.escaped(table.caption))</caption>"
            + (table.hasTitles ? "<thead><tr>\(head)</tr></thead>" : "") + "<tbody>\n\(rows)\n</tbody></table></div>"
    }

    private static let css = """
        @page{size:PAPER;margin:14mm 12mm 18mm;\
        @bottom-left{content:"FOOT";font:7pt sans-serif;color:#52606d;width:80%}\
        @bottom-right{content:"Page " counter(page) " of " counter(pages);font:7pt sans-serif;color:#52606d}}
        :root{color-scheme:light}
        *{box-sizing:border-box}
        body{font:14px/1.45 system-ui,"Liberation Sans",Arial,sans-serif;color:#1f2933;background:#fff;margin:0 auto;\
        max-width:60rem;padding:1rem;print-color-adjust:exact;-webkit-print-color-adjust:exact}
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
        th,td{text-align:start;padding:.2rem .5rem;border-bottom:1px solid #d5dbe1;vertical-align:top}
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
