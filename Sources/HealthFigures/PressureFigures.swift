import HealthReadings

/// Means and deviations of blood pressures. Every reading has the same weight: a mean of means is another number.
public struct PressureMeans: Sendable {
    /// How many readings there are.
    public let count: Int
    /// How many of them have a pulse.
    public let pulseCount: Int
    private let systolicValues: MeasuredValues
    private let diastolicValues: MeasuredValues
    private let pulseValues: MeasuredValues
    /// The unit of the pressures.
    public let unit: MeasurementUnit

    /// Computes the means of readings.
    ///
    /// - Parameters:
    ///   - points: the readings.
    ///   - unit: mmHg or kPa.
    public init(_ points: some Collection<PressurePoint>, unit: MeasurementUnit) {
        (count, self.unit) = (points.count, unit)
        let base = MeasurementUnit.millimetresOfMercury
        systolicValues = MeasuredValues(points.map { (number: $0.systolic, unit: $0.unit) }, base: base)
        diastolicValues = MeasuredValues(points.map { (number: $0.diastolic, unit: $0.unit) }, base: base)
        let pulses = points.compactMap { point in
            point.pulse.map { (number: $0, unit: MeasurementUnit.beatsPerMinute) }
        }
        pulseValues = MeasuredValues(pulses, base: .beatsPerMinute)
        pulseCount = pulses.count
    }

    /// The mean systolic pressure: whole mmHg, or kPa to a tenth.
    public var systolic: ExactDecimal? { systolicValues.mean(in: unit, places: unit.usualPlaces) }
    /// The mean diastolic pressure.
    public var diastolic: ExactDecimal? { diastolicValues.mean(in: unit, places: unit.usualPlaces) }
    /// The mean pulse, in whole beats per minute.
    public var pulse: ExactDecimal? { pulseValues.mean(in: .beatsPerMinute, places: 0) }
    /// The standard deviation of the systolic pressure, to one place more than the mean; `nil` for fewer than two readings.
    public var systolicDeviation: ExactDecimal? { systolicValues.deviation(in: unit, places: unit.usualPlaces + 1) }
    /// The standard deviation of the diastolic pressure.
    public var diastolicDeviation: ExactDecimal? { diastolicValues.deviation(in: unit, places: unit.usualPlaces + 1) }
    /// The standard deviation of the pulse.
    public var pulseDeviation: ExactDecimal? { pulseValues.deviation(in: .beatsPerMinute, places: 1) }

    /// Systolic minus diastolic of the means, rounded once.
    public var pulsePressure: ExactDecimal? { Self.difference(systolicValues, diastolicValues, unit) }

    /// This mean minus another, rounded once; `nil` if either has no readings.
    public func systolicDifference(to other: PressureMeans) -> ExactDecimal? {
        Self.difference(systolicValues, other.systolicValues, unit)
    }

    /// This mean minus another, rounded once; `nil` if either has no readings.
    public func diastolicDifference(to other: PressureMeans) -> ExactDecimal? {
        Self.difference(diastolicValues, other.diastolicValues, unit)
    }

    /// This mean minus another, rounded once; `nil` if either has no pulse.
    public func pulseDifference(to other: PressureMeans) -> ExactDecimal? {
        Self.difference(pulseValues, other.pulseValues, .beatsPerMinute)
    }

    private static func difference(
        _ one: MeasuredValues, _ other: MeasuredValues, _ unit: MeasurementUnit
    ) -> ExactDecimal? {
        guard let first = one.exactMean, let second = other.exactMean,
            let factor = MeasuredValues.factor(from: unit, to: one.base)?.ratio
        else { return nil }
        return first.plus(Ratio(-second.numerator, second.denominator))?.over(factor)?.rounded(unit.usualPlaces)
    }

    /// `131/82`; `nil` without readings.
    public var text: String? {
        guard let systolic, let diastolic else { return nil }
        return "\(systolic)/\(diastolic)"
    }
}

/// Which readings guidelines have one average when blood pressure is measured at home.
public enum PressureProtocol: String, Sendable, Hashable, CaseIterable {
    /// European Society of Hypertension, 2021 and 2023.
    case esh
    /// American Heart Association and American Medical Association, 2020.
    case aha
    /// National Institute for Health and Care Excellence, NG136.
    case nice

    /// Days the protocol asks for.
    public var days: Int { 7 }
    /// The least days it accepts.
    public var leastDays: Int { self == .nice ? 4 : 3 }
    /// The least readings that are averaged.
    public var leastReadings: Int { 12 }
    /// Whether the first day is left out.
    public var dropsFirstDay: Bool { self != .aha }
    /// Readings of a day: two in the morning and two in the evening.
    public static let readingsPerDay = 4
    /// How many readings it expects to average.
    public var expected: Int { (days - (dropsFirstDay ? 1 : 0)) * Self.readingsPerDay }

    /// The name for people.
    public var title: String {
        switch self {
        case .esh: "ESH 2021/2023"
        case .aha: "AHA/AMA 2020"
        case .nice: "NICE NG136"
        }
    }
}

/// The blood pressures of a period and their figures: what a page, a report and the API show, all by one definition.
public struct PressureFigures: Sendable {
    /// The readings of a date.
    public struct Day: Sendable {
        /// The date that the readings count for.
        public var date: String
        /// The sessions, in order.
        public var sessions: [PressureSession]
        /// The readings, in order.
        public var points: [PressurePoint] { sessions.flatMap(\.points) }

        /// The readings of a window, in order.
        public func points(in window: DayWindow) -> [PressurePoint] {
            sessions.filter { $0.window == window }.flatMap(\.points)
        }
    }

    /// The mean of a protocol, and what it is made of.
    public struct ProtocolMean: Sendable {
        /// Why readings of the period are not averaged.
        public struct Left: Sendable, Hashable {
            /// Readings of the first day.
            public var ofFirstDay: Int
            /// Readings before the seven days that the protocol looks at.
            public var beforeDays: Int
        }

        /// The protocol.
        public var kind: PressureProtocol
        /// The first and the last date that it looks at; `nil` without readings.
        public var dates: (first: String, last: String)?
        /// Dates with readings that it averages.
        public var daysUsed: Int
        /// Dates with readings among those it looks at.
        public var daysMeasured: Int
        /// The means of the readings that it averages.
        public var means: PressureMeans
        /// What it leaves out.
        public var left: Left

        /// Whether there are enough readings on enough days for the mean to be the protocol's.
        public var isSufficient: Bool {
            means.count >= kind.leastReadings && daysMeasured >= kind.leastDays
        }
    }

    /// The period.
    public let period: FigurePeriod
    /// The unit of the pressures.
    public let unit: MeasurementUnit
    /// The windows of morning and evening.
    public let windows: DayWindows
    /// The dates with readings, oldest first.
    public let days: [Day]
    /// The readings, oldest first.
    public let points: [PressurePoint]
    /// Readings of the period that are in no figure, by reason.
    public let leftOut: [FigureExclusion: Int]
    /// Readings that the person wants left out because the cuff flagged them.
    public let flaggedLeftOut: Int

    /// Computes the figures.
    ///
    /// - Parameters:
    ///   - collection: the readings of the period.
    ///   - unit: mmHg or kPa.
    ///   - withoutFlagged: whether readings that the cuff flagged are left out.
    public init(_ collection: PressureCollection, unit: MeasurementUnit, withoutFlagged: Bool = false) {
        (period, self.unit, windows, leftOut) = (collection.period, unit, collection.windows, collection.leftOut)
        var (days, flaggedLeftOut): ([Day], Int) = ([], 0)
        for var session in Self.sessions(collection).sorted(by: { $0.date < $1.date })
        where collection.hasDate(session.date) {
            if withoutFlagged {
                let points = session.points.filter { $0.status.isDisjoint(with: PressurePoint.flags) }
                flaggedLeftOut += session.points.count - points.count
                session.points = points
                guard !points.isEmpty else { continue }
            }
            if days.last?.date == session.date {
                days[days.count - 1].sessions.append(session)
            } else {
                days.append(Day(date: session.date, sessions: [session]))
            }
        }
        self.days = days
        self.flaggedLeftOut = flaggedLeftOut
        points = days.flatMap(\.points).sorted { ($0.time, $0.reading) < ($1.time, $1.reading) }
    }

    private static func sessions(_ collection: PressureCollection) -> [PressureSession] {
        // Two cuffs may be used in turn: each has sessions of its own.
        var (sessions, open): ([PressureSession], [DeviceDescription: Int]) = ([], [:])
        for point in collection.points.sorted(by: { ($0.time, $0.reading) < ($1.time, $1.reading) }) {
            if let place = open[point.device], let first = sessions[place].points.first,
                let last = sessions[place].points.last,
                point.time.seconds - last.time.seconds <= PressureSession.longestGap,
                point.time.seconds - first.time.seconds <= PressureSession.longest
            {
                sessions[place].points.append(point)
                continue
            }
            let (window, date) = collection.place(of: point.time)
            open[point.device] = sessions.count
            sessions.append(PressureSession(points: [point], window: window, date: date))
        }
        return sessions
    }

    /// The window in which a reading counts: that of its session.
    public func window(of reading: ReadingID) -> DayWindow? {
        days.lazy.flatMap(\.sessions).first { $0.points.contains { $0.reading == reading } }?.window
    }

    /// The means of all readings.
    public var all: PressureMeans { PressureMeans(points, unit: unit) }

    /// The means of the readings of a window.
    public func means(_ window: DayWindow) -> PressureMeans {
        PressureMeans(days.flatMap { $0.points(in: window) }, unit: unit)
    }

    /// The mean of a protocol.
    ///
    /// The protocol looks at the last seven dates up to the last one with readings. Its first day is the first of these that has
    /// readings.
    ///
    /// - Parameter kind: the protocol.
    public func mean(_ kind: PressureProtocol) -> ProtocolMean {
        guard let last = days.last?.date, let end = WallTime(last + "T00:00:00") else {
            return ProtocolMean(
                kind: kind, dates: nil, daysUsed: 0, daysMeasured: 0,
                means: PressureMeans([PressurePoint](), unit: unit),
                left: .init(ofFirstDay: 0, beforeDays: 0))
        }
        let begin = end.advanced(byMinutes: -(kind.days - 1) * 24 * 60).description.prefix { $0 != "T" }
        let seen = days.filter { $0.date >= begin }
        let used = kind.dropsFirstDay ? Array(seen.dropFirst()) : seen
        let before = days.filter { $0.date < begin }.reduce(0) { $0 + $1.points.count }
        return ProtocolMean(
            kind: kind, dates: (seen.first?.date ?? last, last), daysUsed: used.count, daysMeasured: seen.count,
            means: PressureMeans(used.flatMap(\.points), unit: unit),
            left: .init(
                ofFirstDay: kind.dropsFirstDay ? seen.first?.points.count ?? 0 : 0, beforeDays: before))
    }

    /// How many readings have a bit of their status set.
    public func flagged(_ flag: ReadingStatus) -> Int { points.count { $0.status.contains(flag) } }

    /// How many readings are at or above a person's line, in the systolic or the diastolic pressure.
    ///
    /// - Parameter line: the pressures in mmHg.
    public func count(atOrAbove line: (systolic: ExactDecimal, diastolic: ExactDecimal)) -> Int {
        points.count { point in
            func reaches(_ number: ExactDecimal, _ line: ExactDecimal) -> Bool {
                // In the unit measured: a line is never rounded.
                guard let factor = MeasuredValues.factor(from: point.unit, to: .millimetresOfMercury),
                    let own = number.multiplied(by: factor, places: 9)
                else { return false }
                return !own.isNumericallyLess(than: line)
            }
            return reaches(point.systolic, line.systolic) || reaches(point.diastolic, line.diastolic)
        }
    }

    /// The readings with the lowest and the highest systolic pressure, the earliest of several.
    public var extremes: (lowest: PressurePoint, highest: PressurePoint)? {
        guard var lowest = points.first else { return nil }
        var highest = lowest
        for point in points.dropFirst() {
            if point.isLower(than: lowest) { lowest = point }
            if highest.isLower(than: point) { highest = point }
        }
        return (lowest, highest)
    }
}

extension PressurePoint {
    fileprivate func isLower(than other: PressurePoint) -> Bool {
        let base = MeasurementUnit.millimetresOfMercury
        guard let own = MeasuredValues.factor(from: unit, to: base),
            let theirs = MeasuredValues.factor(from: other.unit, to: base),
            let left = systolic.multiplied(by: own, places: 9),
            let right = other.systolic.multiplied(by: theirs, places: 9)
        else { return false }
        return left.isNumericallyLess(than: right)
    }
}

/// A person's blood pressures of a period.
///
/// An evening that goes on after midnight counts for the day before, so that the last day has readings of the night behind the
/// period, and the first night of the period has readings of the day before it. ``start`` and ``end`` say which readings to add;
/// the figures are of those that count for the period's dates.
public struct PressureCollection: Sendable {
    /// The period.
    public let period: FigurePeriod
    /// When morning and evening are.
    public let windows: DayWindows
    /// The readings.
    public private(set) var points: [PressurePoint] = []
    /// Readings that count for the period and are in no figure, by reason.
    public private(set) var leftOut: [FigureExclusion: Int] = [:]

    /// Makes a collection without readings.
    ///
    /// - Parameters:
    ///   - period: the days.
    ///   - windows: when morning and evening are.
    public init(_ period: FigurePeriod, windows: DayWindows = DayWindows()) {
        (self.period, self.windows) = (period, windows)
    }

    /// The first instant of a reading that may matter: a session may have begun before the first midnight.
    public var start: Instant { Instant(seconds: period.start.seconds - PressureSession.longest) }
    /// The first instant behind the readings that may matter.
    public var end: Instant {
        let evening = windows.evening
        let afterMidnight = evening.begin > evening.end ? Int64(evening.end) * 60 : 0
        // Clocks may be set back in that night.
        return Instant(seconds: period.end.seconds + afterMidnight + 3600 + PressureSession.longest)
    }

    /// Adds a reading. Each reading is to be added once.
    public mutating func add(_ reading: Reading) {
        guard reading.kind == .bloodPressure, let time = reading.time.instant, start <= time, time < end else { return }
        guard let point = PressurePoint(reading) else {
            if counts(time) { leftOut[reading.figureExclusion ?? .excluded(.noValue), default: 0] += 1 }
            return
        }
        points.append(point)
    }

    /// Whether a measurement at this time counts for a date of the period, by itself.
    public func counts(_ time: Instant) -> Bool { hasDate(place(of: time).date) }

    /// Whether a date is one of the period's.
    func hasDate(_ date: String) -> Bool {
        guard let first = period.days.first?.date, let last = period.days.last?.date else { return false }
        return first <= date && date <= last
    }

    /// The window of a measurement and the date that it counts for, by itself.
    func place(of time: Instant) -> (window: DayWindow, date: String) {
        let wall = period.wallTime(at: time)
        let (window, isOfDayBefore) = windows.window(of: wall)
        let date = isOfDayBefore ? wall.advanced(byMinutes: -24 * 60) : wall
        return (window, String(date.description.prefix { $0 != "T" }))
    }

    /// Adds a measurement.
    public mutating func add(_ point: PressurePoint) { points.append(point) }
}
