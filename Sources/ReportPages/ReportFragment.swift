import HealthReadings
import Languages

extension ReportDocument {
    /// The most rows of a table that is shown without asking.
    private static let mostRowsShown = 16

    /// The report as a part of the gateway's page: an element without styles, scripts or ids but those that begin with the identifier.
    ///
    /// Charts are the same bytes as in the other forms. A table behind a chart is opened with "Show as table", other long tables
    /// with their caption.
    ///
    /// - Parameters:
    ///   - identifier: what the part is called, a name of letters, digits and `_`.
    ///   - isEmpty: whether nothing was measured.
    public func fragment(identifier: String, isEmpty: Bool) -> String {
        var (body, charts) = ("", 0)
        for block in blocks {
            switch block {
            case .heading(let text): body += "<h3>\(written(text))</h3>\n"
            case .text(let text): body += "<p>\(written(text))</p>\n"
            case .table(let table):
                let isLong = table.rows.count > Self.mostRowsShown
                body +=
                    isLong
                    ? "<details><summary>\(written(table.caption))</summary>\(html(table, naming: true))</details>\n"
                    : html(table, naming: true) + "\n"
            case .chart(let chart):
                charts += 1
                body += figure(chart, identifier: "\(identifier)-chart\(charts)")
            case .charts(let all, _):
                for chart in all {
                    charts += 1
                    body += figure(chart, identifier: "\(identifier)-chart\(charts)")
                }
            }
        }
        let facts = facts.map {
            "<div><dt>\(written($0.name))</dt><dd>\(written($0.value))</dd></div>"
        }.joined()
        let notes = notes.map { "<li>\(written($0))</li>" }.joined()
        return """
            <div class="report" data-empty="\(isEmpty)"\(language == .english ? "" : spoken)>
            <h2 id="\(identifier)-title">\(written(title))</h2>
            <dl class="facts">\(facts)</dl>
            \(body)<p class="left-out">\(written(leftOut))</p>
            <details><summary>\(written(words("About these figures")))</summary><ul>\(notes)</ul></details>
            </div>

            """
    }

    /// The page around the part is English.
    private var spoken: String { " lang=\"\(language.code)\" dir=\"\(language.direction.rawValue)\"" }

    private func figure(_ chart: ReportChart, identifier: String) -> String {
        let marks = chart.marks.map { "[\(Markup.number($0.x)),\(JSONValue.string($0.text).text)]" }
        let keys =
            marks.isEmpty
            ? ""
            : " tabindex=\"0\" role=\"group\" aria-label=\""
                + Markup.plain(words("\(chart.title). Left and right arrow keys go through it."), words)
                + "\" data-width=\"\(Markup.number(chart.width))\" "
                + "data-marks=\"\(Markup.plain("[\(marks.joined(separator: ","))]", words))\""
        return "<figure><figcaption><b>\(written(chart.title))</b> \(written(chart.summary))</figcaption>"
            + "<div class=\"plot\"\(keys)>\(chart.svg(identifier: identifier, words))</div>"
            + (marks.isEmpty ? "" : "<output class=\"readout\"></output>")
            + (chart.table.map {
                "<details><summary>\(written(words("Show as table")))</summary>\(html($0, naming: true))</details>"
            } ?? "")
            + "</figure>\n"
    }
}

extension ReportChart {
    /// The chart with a table behind it.
    func before(_ block: ReportDocument.Block) -> ReportDocument.Block {
        var chart = self
        if case .table(let table) = block { chart.table = table }
        return .chart(chart)
    }
}
