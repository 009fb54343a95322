import Languages

/// Figures of a period beside those of the one before.
struct Comparison<Figures> {
    private let figures: Figures
    private let before: Figures?
    private let words: Language

    /// Makes a comparison.
    ///
    /// - Parameters:
    ///   - figures: those of the period.
    ///   - before: those of the period before; `nil`: there is nothing to compare with.
    ///   - words: the language.
    init(_ figures: Figures, before: Figures?, _ words: Language) {
        (self.figures, self.before, self.words) = (figures, before, words)
    }

    /// One of the figures, of both periods.
    func row(_ name: String, _ value: (Figures) -> String) -> ReportTable.Row {
        ReportTable.Row([.init(name), .init(value(figures))] + (before.map { [.init(value($0))] } ?? []))
    }

    /// The figures, one a row.
    func table(_ caption: String, _ rows: [ReportTable.Row]) -> ReportTable {
        var columns: [ReportTable.Column] = [.init("", weight: 1.6), .init(words("this period"), weight: 1.4)]
        if before != nil { columns.append(.init(words("the period before"), weight: 1.4)) }
        return ReportTable(caption, columns, rows)
    }
}
