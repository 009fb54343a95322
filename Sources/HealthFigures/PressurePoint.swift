import HealthReadings

/// One measurement of a cuff among those that figures are computed of.
public struct PressurePoint: Sendable, Hashable {
    /// When it was measured.
    public var time: Instant
    /// The reading it is from.
    public var reading: ReadingID
    /// The systolic pressure.
    public var systolic: ExactDecimal
    /// The diastolic pressure.
    public var diastolic: ExactDecimal
    /// The mean arterial pressure, where the cuff sent one.
    public var meanArterial: ExactDecimal?
    /// The unit of the pressures.
    public var unit: MeasurementUnit
    /// The pulse in beats per minute, where the cuff sent one.
    public var pulse: ExactDecimal?
    /// What the cuff said of the measurement.
    public var status: ReadingStatus
    /// The cuff.
    public var device: DeviceDescription
    /// What the person wrote beside it.
    public var note: String?

    /// Makes a point.
    public init(
        time: Instant, reading: ReadingID, systolic: ExactDecimal, diastolic: ExactDecimal, unit: MeasurementUnit,
        pulse: ExactDecimal? = nil, status: ReadingStatus = [], device: DeviceDescription
    ) {
        (self.time, self.reading, self.systolic, self.diastolic) = (time, reading, systolic, diastolic)
        (self.unit, self.pulse, self.status, self.device) = (unit, pulse, status, device)
    }

    /// Takes a reading.
    ///
    /// - Returns: `nil` for a reading that is no blood pressure, has no time or lacks a number, is excluded, or is left out of figures.
    public init?(_ reading: Reading) {
        guard reading.figureExclusion == nil, case .bloodPressure(let pressure) = reading.record.value,
            let time = reading.time.instant, let systolic = pressure.systolic.number.number,
            let diastolic = pressure.diastolic.number.number, pressure.systolic.unit == pressure.diastolic.unit
        else { return nil }
        self.init(
            time: time, reading: reading.id, systolic: systolic, diastolic: diastolic, unit: pressure.systolic.unit,
            pulse: pressure.pulse?.number.number, status: reading.record.status, device: reading.measuringDevice)
        meanArterial =
            pressure.meanArterial.unit == unit ? pressure.meanArterial.number.number : nil
        note = reading.record.entry?.note
    }

    /// The bits of ``status`` that say how the measurement went.
    public static let flags: ReadingStatus = [
        .bodyMovement, .cuffTooLoose, .irregularPulse, .pulseRateTooHigh, .pulseRateTooLow, .improperPosition,
        .questionable,
    ]

    /// `131/82`, in a unit.
    public func text(in target: MeasurementUnit) -> String {
        "\(systolic.shown(unit, in: target) ?? systolic)/\(diastolic.shown(unit, in: target) ?? diastolic)"
    }
}

/// The time of day of a measurement, by the person's windows.
public enum DayWindow: String, Sendable, Hashable, CaseIterable {
    case morning, evening, other
}

/// When a person's morning and evening are. No standard sets clock times.
public struct DayWindows: Sendable, Hashable {
    /// A window of the day in minutes since midnight; one that ends before it begins goes on over midnight.
    public struct Window: Sendable, Hashable {
        /// The first minute, 0 … 1439.
        public var begin: Int
        /// The first minute behind it, 0 … 1439.
        public var end: Int

        /// Makes a window.
        public init(begin: Int, end: Int) { (self.begin, self.end) = (begin, end) }

        /// Whether a minute of the day is in the window.
        public func contains(_ minute: Int) -> Bool {
            begin <= end ? (begin..<end).contains(minute) : minute >= begin || minute < end
        }

        /// `04:00 to 12:00`.
        public var text: String {
            func clock(_ minutes: Int) -> String {
                let (hour, minute) = (String(minutes / 60), String(minutes % 60))
                return (hour.count < 2 ? "0" : "") + hour + ":" + (minute.count < 2 ? "0" : "") + minute
            }
            return "\(clock(begin)) to \(clock(end))"
        }
    }

    /// The morning.
    public var morning: Window
    /// The evening.
    public var evening: Window

    /// Makes windows; by default 04:00 to 12:00 and 17:00 to 02:00.
    public init(
        morning: Window = Window(begin: 4 * 60, end: 12 * 60), evening: Window = Window(begin: 17 * 60, end: 2 * 60)
    ) {
        (self.morning, self.evening) = (morning, evening)
    }

    /// The window of a wall time, and whether it belongs to the evening of the day before.
    public func window(of wall: WallTime) -> (window: DayWindow, isOfDayBefore: Bool) {
        let (hour, minute, _) = wall.timeOfDay
        let minutes = hour * 60 + minute
        if morning.contains(minutes) { return (.morning, false) }
        guard evening.contains(minutes) else { return (.other, false) }
        return (.evening, evening.begin > evening.end && minutes < evening.end)
    }
}

/// Measurements that were taken one after the other: of one cuff, each at most 10 minutes after the one before and 60 minutes after
/// the first.
public struct PressureSession: Sendable {
    /// The measurements, in order.
    public var points: [PressurePoint]
    /// The time of day of the first.
    public var window: DayWindow
    /// The date that the session counts for: an evening that goes on after midnight counts for the day before.
    public var date: String

    /// The longest time between two measurements of a session, in seconds.
    public static let longestGap: Int64 = 10 * 60
    /// The longest time between the first measurement of a session and its last, in seconds.
    public static let longest: Int64 = 60 * 60
}
