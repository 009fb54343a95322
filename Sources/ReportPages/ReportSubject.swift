import HealthFigures
import HealthReadings
import Languages

/// A line of blood pressure that a person wants to be compared with.
public struct PressureLine: Sendable, Hashable {
    /// The systolic pressure in mmHg.
    public var systolic: ExactDecimal
    /// The diastolic pressure in mmHg.
    public var diastolic: ExactDecimal

    /// Reads `135/85`; `nil` for anything that is no pair of pressures, 30 … 300 mmHg.
    public init?(_ text: String) {
        let parts = text.split(separator: "/", omittingEmptySubsequences: false)
        guard parts.count == 2, let systolic = ExactDecimal(parts[0]), let diastolic = ExactDecimal(parts[1]),
            (30...300).contains(systolic.approximation), (30...300).contains(diastolic.approximation),
            diastolic.isNumericallyLess(than: systolic)
        else { return nil }
        (self.systolic, self.diastolic) = (systolic, diastolic)
    }

    /// `135/85`.
    public var text: String { "\(systolic)/\(diastolic)" }
}

/// Whom a report is of, and what it says of them.
public struct ReportSubject: Sendable {
    /// A reading that is in no figure, told apart so that nobody thinks it was lost.
    public struct LeftOut: Sendable {
        /// When it was measured; `nil` where no time is known.
        public var time: Instant?
        /// What it says.
        public var words: String
        /// Why it is in no figure.
        public var reason: FigureExclusion
        /// The reading; `nil` where it cannot be named.
        public var reading: ReadingID?
        /// What the person said who left it out.
        public var omission: FigureOmission?

        /// Makes it.
        public init(
            time: Instant?, words: String, reason: FigureExclusion, reading: ReadingID? = nil,
            omission: FigureOmission? = nil
        ) {
            (self.time, self.words, self.reason) = (time, words, reason)
            (self.reading, self.omission) = (reading, omission)
        }
    }

    /// The person's id or name; empty where nobody has named them.
    public var person: String
    /// The period.
    public var period: FigurePeriod
    /// The version of the program that makes it.
    public var version: String
    /// The name of a device's model for people.
    public var modelName: @Sendable (DeviceDescription) -> String?
    /// The language that the report is written in.
    public var language = Language.english
    /// Whether devices, lists of single readings, what the person wrote beside readings, and who left what out are shown.
    public var showsReadings = true
    /// Readings that are in no figure, oldest first; those that a sensor's history replaces are only counted.
    public var leftOut: [LeftOut] = []

    /// Makes a subject.
    public init(
        person: String, period: FigurePeriod, version: String,
        modelName: @escaping @Sendable (DeviceDescription) -> String? = { $0.model ?? $0.name }
    ) {
        (self.person, self.period, self.version, self.modelName) = (person, period, version, modelName)
    }

    var zoneName: String {
        var names: [String] = []
        for day in period.days {
            guard let name = day.zone(at: day.start)?.name, names.last != name else { continue }
            names.append(name)
        }
        return names.joined(separator: ", ")
    }

    func facts(unit: String, devices: Set<DeviceDescription>) -> [ReportDocument.Fact] {
        let (first, last) = (period.days.first?.date ?? "", period.days.last?.date ?? "")
        var facts: [ReportDocument.Fact] = [
            .init(
                words("Person"), person.isEmpty ? words("not named") : words.isolated(person), isOfPaper: true),
            .init(
                words("Period"),
                words("\(words.date(first)) to \(words.date(last)) (\(count: period.days.count, "day", "days"))")),
            .init(words("Time zone"), zoneName), .init(words("Unit"), unit),
        ]
        if showsReadings {
            let names = devices.map { device in
                [modelName(device), device.serial.map { "(\($0))" }].compactMap(\.self).joined(separator: " ")
            }.filter { !$0.isEmpty }.sorted()
            facts.append(.init(words("Devices"), names.isEmpty ? words("none", in: "devices") : words.list(names)))
        }
        facts.append(.init(words("Made on"), made, isOfPaper: true))
        return facts
    }

    /// The language, as it is called: `words("readings")`.
    var words: Language { language }

    var made: String { words.moment(period.wallTime(at: period.now)) }

    var maker: String { words("Made by HealthRelay \(version) on \(made)") }

    /// What was left out, in a sentence.
    func leftOutWords(_ counts: [FigureExclusion: Int], _ others: [String] = []) -> String {
        let parts = counts.sorted { $0.key.name < $1.key.name }.map { $0.key.counted($0.value, words) } + others
        return parts.isEmpty ? words("Nothing was left out.") : words("Left out: \(words.list(parts)).")
    }

    func leftOutBlocks() -> [ReportDocument.Block] {
        guard showsReadings, !leftOut.isEmpty else { return [] }
        let rows = leftOut.map { left in
            var row = ReportTable.Row(left.time.map(clock) ?? words("unknown", in: "time"), left.words, reason(left))
            if left.reason == .leftOut { row.cells[1].reading = left.reading.map { .init($0, isLeftOut: true) } }
            return row
        }
        return [
            .heading(words("Readings that are in no figure")),
            .table(
                ReportTable(
                    words("Left out, with the reason"),
                    [.init(words("time")), .init(words("reading"), weight: 2), .init(words("reason"), weight: 2)],
                    rows)),
        ]
    }

    /// `2026-11-22 07:12`.
    private func clock(_ time: Instant) -> String { words.moment(period.wallTime(at: time)) }

    private func reason(_ left: LeftOut) -> String {
        let name = left.reason.named(words)
        guard let omission = left.omission else { return name }
        let at = clock(omission.at)
        let by = words.speaker(omission.by)
        return omission.reason.map { words("\(name): \($0) (\(by), \(at))") } ?? words("\(name) (\(by), \(at))")
    }

    func members(_ kind: String, unit: MeasurementUnit) -> [JSONValue.Member] {
        [
            .init("report", .string(kind)), .init("person", .optional(person.nonEmpty)),
            .init("time_zone", .string(zoneName)), .init("from", .optional(period.days.first?.date)),
            .init("to", .optional(period.days.last?.date)), .init("days", .integer(Int64(period.days.count))),
            .init("made_at", .string(period.now.flooredToSecond.description)), .init("unit", .string(unit.symbol)),
        ]
    }

    static func document(of counts: [FigureExclusion: Int]) -> JSONValue {
        .array(
            counts.sorted { $0.key.name < $1.key.name }.map {
                .object(["reason": .string($0.key.name), "readings": .integer(Int64($0.value))])
            })
    }

    func local(_ time: Instant) -> (date: String, clock: String, zone: String, rfc3339: String) {
        let zone = period.zones.zone(at: time)
        let (wall, offset) = (zone.wallTime(at: time), zone.offsetSeconds(at: time))
        let minutes = abs(offset) / 60
        func two(_ number: Int64) -> String { (number < 10 ? "0" : "") + String(number) }
        let suffix = offset == 0 ? "Z" : "\(offset < 0 ? "-" : "+")\(two(minutes / 60)):\(two(minutes % 60))"
        return (wall.dateText, String(wall.description.dropFirst(11)), zone.name, wall.description + suffix)
    }
}

extension ExactDecimal? {
    var json: JSONValue { map(JSONValue.number) ?? .null }
}

/// CSV for spreadsheets.
public struct ReportCSV: Sendable {
    /// How numbers and cells are parted.
    public typealias Style = SafeCSV.Style

    /// A cell.
    enum Cell {
        case text(String?)
        case number(ExactDecimal?)
    }

    private let style: Style
    private(set) var text = ""

    init(_ style: Style) { self.style = style }

    mutating func row(_ cells: [Cell]) {
        text += cells.map(written).joined(separator: style.separator) + "\r\n"
    }

    private func written(_ cell: Cell) -> String {
        switch cell {
        case .number(let number): SafeCSV.number(number?.description ?? "", style)
        case .text(let words): SafeCSV.text(words ?? "")
        }
    }
}

/// Where a report is read.
public enum ReportMedium: Sendable, Hashable {
    /// On pages of its own, printed or kept as a file.
    case paper
    /// As a part of the gateway's page: the table behind a chart is opened there.
    case screen
}

/// A report in every form: pages, HTML, JSON and CSV, of the same figures.
public protocol Report: Sendable {
    /// What is on it.
    func document(for medium: ReportMedium) -> ReportDocument
    /// The figures as JSON.
    var json: JSONValue { get }
    /// The readings as CSV.
    ///
    /// - Parameter style: how cells and numbers are parted.
    func csv(_ style: ReportCSV.Style) -> String
    /// Whether there is nothing to report of.
    var isEmpty: Bool { get }
}

extension Report {
    /// What is on the report's own pages.
    public var document: ReportDocument { document(for: .paper) }

    /// The report as a part of the gateway's page.
    ///
    /// - Parameter identifier: what the part is called, a name of letters, digits and `_`.
    public func fragment(identifier: String) -> String {
        var document = document(for: .screen)
        // The page says whom it shows, and is made anew when a reading comes.
        document.facts.removeAll(where: \.isOfPaper)
        return document.fragment(identifier: identifier, isEmpty: isEmpty)
    }
}
