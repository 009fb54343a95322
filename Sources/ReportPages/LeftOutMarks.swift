import HealthFigures
import HealthReadings
import Languages

extension Plot {
    /// A cross above the axis for each reading that is in no figure, at its time: it was measured, and nothing of it is drawn.
    ///
    /// - Parameters:
    ///   - leftOut: the readings.
    ///   - period: the period that the plot is of.
    ///   - marks: gets what each of them says, in the order of their places.
    mutating func crosses(
        _ leftOut: [ReportSubject.LeftOut], _ period: FigurePeriod, _ marks: inout [ReportChart.Mark]
    ) {
        var isAny = false
        for left in leftOut {
            guard let time = left.time, period.start <= time, time < period.end else { continue }
            let (x, y, arm) = (self.x(period.share(time)), height - bottom - 5, 2.2)
            line(x - arm, y - arm, x + arm, y + arm, color: Palette.muted, width: 1)
            line(x - arm, y + arm, x + arm, y - arm, color: Palette.muted, width: 1)
            let at = words.moment(period.wallTime(at: time))
            marks.append(
                .init(x, words("\(at): \(left.words), in no figure: \(left.reason.named(words))")))
            isAny = true
        }
        guard isAny else { return }
        text(words("\u{D7} in no figure"), left + 3, top + 6, size: 7)
        marks.sort { $0.x < $1.x }
    }
}
