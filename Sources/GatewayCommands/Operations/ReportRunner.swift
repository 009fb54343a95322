import GatewaySettings
import HealthDevices
import HealthFigures
import HealthReadings
import Languages
import ReadingStore
import ReportPages

/// A person's readings of one kind, as reports take them.
struct ReportReadings: Sendable {
    /// What is told of readings beside their figures.
    private struct Noted {
        var leftOut: [Reading] = []
        var units: [MeasurementUnit: Int] = [:]
    }

    var pressures: PressureCollection
    var glucose: GlucoseCollection
    var weights: [WeightFigures.Point] = []
    var vital: VitalFigures?
    var weightsLeftOut: [FigureExclusion: Int] = [:]
    private var noted = Noted()
    /// The same of sensors, which have a report of their own.
    private var notedOfSensors = Noted()

    /// How many readings are listed that are in no figure; the rest is only counted.
    private static let mostListed = 200
    private let language: Language

    init(
        _ kind: ReadingKind, _ period: FigurePeriod, windows: DayWindows, _ language: Language,
        ranges: @escaping @Sendable (DeviceDescription, MeasurementUnit) -> ReportDesk.Limits
    ) {
        self.language = language
        pressures = PressureCollection(period, windows: windows)
        vital = VitalFigures(kind, period)
        glucose = GlucoseCollection(period, limits: ranges)
    }

    mutating func add(_ reading: Reading) {
        let isCounted: Bool
        var unit: MeasurementUnit?
        switch reading.record.value {
        case .bloodPressure(let value):
            pressures.add(reading)
            guard reading.time.instant.map(pressures.counts) == true else { return }
            isCounted = reading.figureExclusion == nil
            unit = value.systolic.unit
        case .glucose(let value):
            // HI and LO are excluded from delivery for want of a number, and count here.
            isCounted = glucose.add(reading) || reading.figureExclusion == nil
            unit = value.concentration?.unit
            if reading.isOfSensor { return note(reading, isCounted, unit, in: \.notedOfSensors) }
        case .vital(let value) where value.kind == .weight:
            let point = WeightFigures.Point(reading)
            if let point { weights.append(point) }
            // What comes before the period is in its trend alone.
            guard reading.time.instant.map({ $0 >= pressures.period.start }) == true else { return }
            isCounted = point != nil
            unit = point?.unit
            if !isCounted { weightsLeftOut[reading.figureExclusion ?? .excluded(.noValue), default: 0] += 1 }
        case .vital:
            // What has begun before the period is asked for, too: a recording may go on in it.
            guard vital?.add(reading) == true else { return }
            isCounted = VitalFigures.counts(reading)
        case .kept: return
        }
        note(reading, isCounted, unit, in: \.noted)
    }

    private mutating func note(
        _ reading: Reading, _ isCounted: Bool, _ unit: MeasurementUnit?,
        in place: WritableKeyPath<ReportReadings, Noted>
    ) {
        if isCounted, let unit { self[keyPath: place].units[unit, default: 0] += 1 }
        // What a sensor's history replaces is many, and not lost.
        guard !isCounted, reading.excluded != .superseded, self[keyPath: place].leftOut.count < Self.mostListed else {
            return
        }
        self[keyPath: place].leftOut.append(reading)
    }

    /// The same in the order of their times, so that no report made of them has to sort them.
    var arranged: ReportReadings {
        consuming get {
            glucose.arrange()
            return self
        }
    }

    /// What figures are made of, behind the last reading.
    ///
    /// - Parameter period: the same days, at the moment that the figures are of.
    func finished(for period: FigurePeriod) -> ReportReadings {
        var finished = self
        finished.glucose.finish(at: period.now)
        for (unit, count) in finished.glucose.judgedByPace {
            finished.noted.units[unit, default: 0] -= count
            finished.notedOfSensors.units[unit, default: 0] += count
        }
        return finished
    }

    /// Readings that are in no figure of a report, oldest first.
    ///
    /// - Parameter unit: the report's unit; `nil`: each as it was measured.
    func leftOut(_ kind: ReportOperation.Kind, in unit: MeasurementUnit?) -> [ReportSubject.LeftOut] {
        let readings = (kind == .sensor ? notedOfSensors : noted).leftOut
        return readings.map { reading in
            // Ketone is no glucose: the factor between the units is another.
            let unit = reading.excluded == .ketone ? nil : unit
            return ReportSubject.LeftOut(
                time: reading.time.instant, words: reading.record.text(in: language, unit: unit),
                reason: reading.figureExclusion ?? .excluded(.noValue), reading: reading.id,
                omission: reading.figureExclusion == .leftOut ? reading.leftOut : nil)
        }.sorted { ($0.time?.seconds ?? 0) < ($1.time?.seconds ?? 0) }
    }

    /// The unit that most was measured in.
    func usual(_ choices: [MeasurementUnit], for kind: ReportOperation.Kind) -> MeasurementUnit {
        let units = (kind == .sensor ? notedOfSensors : noted).units
        return choices.max { (units[$0] ?? 0) < (units[$1] ?? 0) } ?? choices[0]
    }
}

/// `report`: a person's readings on pages.
struct ReportRunner {
    let gateway: Gateway
    let output: any OperationOutput

    private static let chunk = 64 * 1024

    func run(_ operation: ReportOperation) async throws {
        let person = try await gateway.store.personOrCurrent(named: operation.person)
        let report = try await ReportDesk(gateway, shelf: ReportShelf(keepsFor: .zero)).report(operation, of: person)
        if report.isEmpty {
            try await output.note(
                "nothing was measured from \(report.first) to \(report.last) that this report shows")
        }
        for piece in report.octets(operation.format).pieces(of: Self.chunk) { try await output.octets(piece) }
    }
}

/// A report in every form, made for one person.
package struct MadeReport: Sendable {
    private let report: any Report
    private let period: FigurePeriod
    private let choices: ReportChoices

    fileprivate init(_ report: any Report, _ period: FigurePeriod, _ choices: ReportChoices) {
        (self.report, self.period, self.choices) = (report, period, choices)
    }

    /// Whether nothing was measured that it shows.
    package var isEmpty: Bool { report.isEmpty }
    /// The first date.
    package var first: String { period.days.first?.date ?? "" }
    /// The last date.
    package var last: String { period.days.last?.date ?? "" }

    /// The report as a file has it.
    ///
    /// - Parameter format: the form.
    package func octets(_ format: ReportOperation.Format) -> [UInt8] {
        switch format {
        case .html: return Array(report.document.html(paper: choices.paper).utf8)
        case .fragment: return Array(report.fragment(identifier: choices.kind.rawValue).utf8)
        case .json: return Array((report.json.text + "\n").utf8)
        case .csv:
            let mark = choices.csvMark ? SafeCSV.byteOrderMark : ""
            return Array("\(mark)\(report.csv(choices.csvStyle))".utf8)
        case .svg: return Array(report.document.svg(paper: choices.paper).utf8)
        case .pages:
            let document = report.document
            let made = period.now.flooredToSecond.description
            let facts = "\(document.title)\nHealthRelay \(GatewayVersion.current)\n\(made)"
            let parts = [facts] + document.pages(paper: choices.paper)
            // A year has megabytes of them: they are written once, where they stay.
            var octets: [UInt8] = []
            octets.reserveCapacity(parts.reduce(0) { $0 + 4 + $1.utf8.count })
            for part in parts {
                let length = UInt32(part.utf8.count)
                for shift in [24, 16, 8, 0] { octets.append(UInt8(truncatingIfNeeded: length >> shift)) }
                octets.append(contentsOf: part.utf8)
            }
            return octets
        }
    }
}

/// Makes reports from the store.
package struct ReportDesk: Sendable {
    typealias Limits = (lowest: ExactDecimal?, highest: ExactDecimal?)

    private let gateway: Gateway
    private let shelf: ReportShelf

    /// Readings that are taken from the store at once.
    private static let page = 2000

    /// Makes a desk.
    ///
    /// - Parameters:
    ///   - gateway: whose store is read.
    ///   - shelf: readings that other reports were made of just now.
    package init(_ gateway: Gateway, shelf: ReportShelf = ReportShelf()) {
        (self.gateway, self.shelf) = (gateway, shelf)
    }

    /// Makes a report.
    ///
    /// - Parameters:
    ///   - operation: what is wanted; its person is not looked at.
    ///   - person: whose.
    /// - Throws: `Problem` with status 64 for what can't be meant, or an error of the store.
    package func report(_ operation: ReportOperation, of person: StoreUser) async throws -> MadeReport {
        let choices = try ReportChoices(
            operation, gateway.settings.people.first { $0.clientUserID == person.clientUserID }?.reports ?? .init())
        let (desk, now) = (try await SummaryDesk(gateway.store, person), Instant.systemClock)
        let period = try period(operation, desk, now)
        let readings = try await readings(of: person.key, operation.kind, in: period, choices)
        var earlier: ReportReadings?
        if operation.comparesBefore, let before = period.before {
            earlier = try await self.readings(of: person.key, operation.kind, in: before, choices)
        }
        var subject = ReportSubject(
            person: person.clientUserID, period: period, version: GatewayVersion.current,
            modelName: { [catalogue = gateway.catalogue, language = choices.language] device in
                device.model.flatMap { catalogue[$0] }.map { "\($0.brand) \($0.name)" } ?? device.name
                    ?? device.model.map(language.model)
            })
        subject.language = choices.language
        subject.showsReadings = operation.showsReadings
        return MadeReport(try report(operation, choices, subject, readings, earlier), period, choices)
    }

    /// The days of the report.
    private func period(_ operation: ReportOperation, _ desk: SummaryDesk, _ now: Instant) throws -> FigurePeriod {
        let today = desk.zones.day(of: now)
        let last = try desk.day(operation.to, "--to", now: now)
        guard last.start <= today.start else {
            throw Problem.usage("--to \(last.date) is in the future: today is \(today.date)")
        }
        let first: PersonDay
        let count = try days(operation.period) ?? operation.kind.usualDays
        guard operation.period == nil || operation.from == nil else {
            throw Problem.usage("--period and --from exclude each other")
        }
        if operation.from == nil, let date = WallTime(last.date + "T00:00:00") {
            let begin = date.advanced(byMinutes: -(count - 1) * 24 * 60).date
            first = desk.zones.day(year: begin.year, month: begin.month, day: begin.day) ?? last
        } else {
            first = try desk.day(operation.from, "--from", now: now)
        }
        guard first.date <= last.date else {
            throw Problem.usage("--from \(first.date) is later than --to \(last.date)")
        }
        guard let period = FigurePeriod(from: first, through: last, in: desk.zones, now: now) else {
            throw Problem.usage("expected a period of at most \(FigurePeriod.mostDays) days")
        }
        return period
    }

    /// The days of a period such as `14d`.
    private func days(_ text: String?) throws(Problem) -> Int? {
        guard let text else { return nil }
        guard text.hasSuffix("d"), text.utf8.count <= 5, let days = Int(text.dropLast()),
            (1...FigurePeriod.mostDays).contains(days)
        else {
            throw Problem.usage(
                "--period: expected days from 1d to \(FigurePeriod.mostDays)d, found '\(text.prefix(64))'")
        }
        return days
    }

    private func readings(
        of person: UserKey, _ kind: ReportOperation.Kind, in period: FigurePeriod, _ choices: ReportChoices
    ) async throws -> ReportReadings {
        // A page of months has thousands of these, and of glucose two reports. What there is of others is read in no time.
        guard [.glucose, .bloodPressure].contains(kind.readings) else {
            return try await read(of: person, kind, in: period, choices).finished(for: period)
        }
        let contents = ReportShelf.Contents(
            person: person, kind: kind.readings, days: period.days, windows: choices.windows, language: choices.language
        )
        let store = gateway.store
        let readings = try await shelf.readings(contents, generation: store.contentGeneration) { kept in
            if let kept, let mark = kept.mark,
                let later = try await store.collect(
                    query(of: person, kind, in: period, choices), since: mark, into: kept.readings, { $0.add($1) })
            {
                return ReportShelf.Kept(readings: later.contents.arranged, mark: later.mark)
            }
            let mark = try await store.readingsMark()
            let readings = try await read(of: person, kind, in: period, choices)
            return ReportShelf.Kept(
                readings: readings.arranged, mark: try await store.readingsMark() == mark ? mark : nil)
        }
        return readings.finished(for: period)
    }

    private func read(
        of person: UserKey, _ kind: ReportOperation.Kind, in period: FigurePeriod, _ choices: ReportChoices
    ) async throws -> ReportReadings {
        let catalogue = gateway.catalogue
        let readings = ReportReadings(kind.readings, period, windows: choices.windows, choices.language) {
            device, unit in
            let range = device.model.flatMap { catalogue[$0] }?.ranges.first { $0.kind == .glucose && $0.unit == unit }
            return (range?.lowest, range?.highest)
        }
        return try await gateway.store.collect(query(of: person, kind, in: period, choices), into: readings) {
            $0.add($1)
        }
    }

    private func query(
        of person: UserKey, _ kind: ReportOperation.Kind, in period: FigurePeriod, _ choices: ReportChoices
    ) -> ReadingQuery {
        let pressures = PressureCollection(period, windows: choices.windows)
        var (start, end) = kind == .bp ? (pressures.start, pressures.end) : (period.start, period.end)
        // The trend of a day is the same in every period.
        if kind == .weight { start = start.advanced(bySeconds: -WeightFigures.runIn) }
        // A night's recording may have begun on the evening before.
        if ReadingKind.recorded.contains(kind.readings) {
            start = start.advanced(bySeconds: -Reading.longestRecording)
        }
        return ReadingQuery(
            kinds: [kind.readings], from: start, to: Instant(microseconds: end.microseconds - 1), limit: Self.page,
            user: person)
    }

    private func report(
        _ operation: ReportOperation, _ choices: ReportChoices, _ subject: ReportSubject, _ readings: ReportReadings,
        _ earlier: ReportReadings?
    ) throws -> any Report {
        var subject = subject
        func leftOut(in unit: MeasurementUnit?) -> [ReportSubject.LeftOut] {
            // Without them: what was left out is still counted.
            operation.showsReadings ? readings.leftOut(operation.kind, in: unit) : []
        }
        switch operation.kind {
        case .bp:
            let unit =
                try choices.unit([.millimetresOfMercury, .kilopascal])
                ?? readings.usual([.millimetresOfMercury, .kilopascal], for: operation.kind)
            subject.leftOut = leftOut(in: unit)
            func figures(_ readings: ReportReadings) -> PressureFigures {
                PressureFigures(
                    readings.pressures, unit: unit, withoutFlagged: operation.withoutFlagged)
            }
            return PressureReport(
                subject, figures(readings), before: earlier.map(figures), kind: choices.pressureProtocol,
                line: choices.line)
        case .glucose, .sensor:
            let units: [MeasurementUnit] = [.milligramsPerDecilitre, .millimolesPerLitre]
            let unit = try choices.unit(units) ?? readings.usual(units, for: operation.kind)
            subject.leftOut = leftOut(in: unit)
            let ranges = try choices.ranges(unit) ?? GlucoseRanges(.standard)
            guard operation.kind == .sensor else {
                return GlucoseReport(
                    subject, readings.glucose, before: earlier?.glucose, ranges: ranges, unit: unit,
                    line: choices.glucoseLine)
            }
            return SensorReport(
                subject, readings.glucose, before: earlier?.glucose, ranges: ranges,
                showsGoals: choices.hasChosenPreset, unit: unit, line: choices.glucoseLine)
        case .weight:
            let units: [MeasurementUnit] = [.kilograms, .pounds]
            let unit = try choices.unit(units) ?? readings.usual(units, for: operation.kind)
            subject.leftOut = leftOut(in: unit)
            return WeightReport(
                subject,
                WeightFigures(
                    readings.weights, period: subject.period, unit: unit, isOfPeriodAlone: !operation.comparesBefore),
                before: earlier.flatMap { earlier in
                    subject.period.before.map { WeightFigures(earlier.weights, period: $0, unit: unit) }
                }, leftOut: readings.weightsLeftOut, line: choices.weightLine)
        case .heartRate, .hrv, .spo2, .temperature, .bodyComposition:
            guard let figures = readings.vital else {
                throw Problem("unexpected", .ourFault, "\(operation.kind.rawValue) has no figures")
            }
            subject.leftOut = leftOut(in: nil)
            return VitalReport(subject, figures, before: earlier?.vital)
        }
    }
}

extension ReportOperation.Kind {
    /// How many days a report covers by default.
    fileprivate var usualDays: Int {
        switch self {
        case .bp, .glucose, .heartRate, .hrv, .spo2, .temperature, .bodyComposition: 30
        case .sensor: 14
        case .weight: 90
        }
    }

    /// The kind of readings it is made of.
    package var readings: ReadingKind {
        switch self {
        case .bp: .bloodPressure
        case .glucose, .sensor: .glucose
        case .weight: .weight
        case .heartRate: .heartRate
        case .hrv: .hrv
        case .spo2: .spo2
        case .temperature: .temperature
        case .bodyComposition: .bodyComposition
        }
    }
}
