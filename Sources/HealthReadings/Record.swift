/// The kinds of readings.
public enum ReadingKind: String, Sendable, Hashable, CaseIterable {
    case glucose
    case bloodPressure = "blood_pressure"
    case heartRate = "heart_rate"
    case hrv
    case spo2
    case temperature
    case weight
    case bodyComposition = "body_composition"
    /// What a person does in a day, as another program tells: steps, distances, energy, workouts.
    case activity
    /// Parts of a night, as another program tells.
    case sleep
    /// A sample of another program that this one has no kind for.
    case other

    /// Whether readings of this kind are delivered; see ``keptBecause`` for those that are not,
    /// and ``Record/isDelivered``.
    public var isDelivered: Bool { !isKept }

    /// The kinds that are delivered.
    public static let delivered = Set(allCases.filter(\.isDelivered))

    /// Why readings of this kind go to no destination: half a line for people; `nil` for kinds that are delivered.
    public var keptBecause: String? {
        isKept ? "kept and exported, and not interpreted: no destination is told" : nil
    }

    /// Whether samples of this kind are kept as they came; see ``KeptSample``.
    public var isKept: Bool { self == .activity || self == .sleep || self == .other }

    /// Whether this comes only while somebody looks, unless a session is recorded: no device remembers it.
    public var isLive: Bool { self == .heartRate || self == .hrv }

    /// Their names with commas between, for help texts.
    public static let list = allCases.map(\.rawValue).joined(separator: ", ")

    /// The kinds that are counted by name even where there are none.
    public static let counted: [ReadingKind] = [.glucose, .bloodPressure]
}

/// A record's values, by kind.
public enum RecordValue: Sendable, Hashable {
    /// A glucose concentration.
    case glucose(GlucoseValue)
    /// A blood pressure.
    case bloodPressure(BloodPressureValue)
    /// Any other vital sign.
    case vital(VitalValue)
    /// A sample of another program that is not interpreted.
    case kept(KeptSample)

    /// The kind of reading this is.
    public var kind: ReadingKind {
        switch self {
        case .glucose: .glucose
        case .bloodPressure: .bloodPressure
        case .vital(let vital): vital.kind
        case .kept(let sample): sample.kind
        }
    }

    /// The samples of a recording; `nil` for a single measurement.
    package var series: SampleSeries? { if case .vital(let vital) = self { vital.series } else { nil } }
}

/// What one frame says by itself: a reading before it is known whose it is, when it was and whether it is new.
public struct Record: Sendable, Hashable {
    /// The values.
    public var value: RecordValue
    /// The record's number in the device, where it has one.
    public var sequence: UInt16?
    /// The record's own time; nil where the device sent none or a part of it is unknown.
    public var baseTime: WallTime?
    /// What the user had moved the device's clock by, in minutes (-1439 … 1439 and beyond); nil where none was sent.
    public var timeOffsetMinutes: Int16?
    /// Whether the device sent an offset that says "unknown" (7FFF, 8000), or says that its clock was not set, so that the
    /// user-facing time is unknown.
    public var timeOffsetIsUnknown: Bool
    /// What the device says about the record.
    public var status: ReadingStatus
    /// The user slot of the device, 0 … 254; nil where unknown or not sent.
    public var userSlot: UInt8?
    /// Of a device that recalls its memory, which of several equal records this is, from 0: its clock has no seconds, or was
    /// never set, so that two measurements may look the same. `nil` for other devices.
    public var occurrence: UInt8?
    /// Why the record is, by its own content, never delivered.
    public var exclusion: Exclusion?
    /// What a sensor says of it besides; nil for a meter's record.
    public var sensor: SensorFacts?
    /// What a person who entered it says besides; nil for a device's record.
    public var entry: EntryFacts?
    /// What is known of one that came out of another program's data; nil for a device's record and for an entry.
    public var imported: ImportFacts?

    /// Makes a record.
    public init(
        value: RecordValue, sequence: UInt16? = nil, baseTime: WallTime? = nil, timeOffsetMinutes: Int16? = nil,
        timeOffsetIsUnknown: Bool = false, status: ReadingStatus = [], userSlot: UInt8? = nil,
        occurrence: UInt8? = nil, exclusion: Exclusion? = nil, sensor: SensorFacts? = nil
    ) {
        self.value = value
        self.sequence = sequence
        self.baseTime = baseTime
        self.timeOffsetMinutes = timeOffsetMinutes
        self.timeOffsetIsUnknown = timeOffsetIsUnknown
        self.status = status
        self.userSlot = userSlot
        self.occurrence = occurrence
        self.exclusion = exclusion
        self.sensor = sensor
    }

    /// What the device shows its user: base time + offset; nil where either is unknown.
    public var deviceTime: WallTime? {
        guard let baseTime, !timeOffsetIsUnknown else { return nil }
        return baseTime.advanced(byMinutes: Int(timeOffsetMinutes ?? 0))
    }
}

extension Record {
    /// Why the record is never delivered, given the context that came with it: of the record's own reason and the
    /// context's the one that is looked for first.
    public func exclusion(with context: GlucoseContext?) -> Exclusion? {
        guard context?.isOfKetone == true else { return exclusion }
        guard let exclusion, let own = Exclusion.allCases.firstIndex(of: exclusion),
            let ketone = Exclusion.allCases.firstIndex(of: .ketone), own < ketone
        else { return .ketone }
        return exclusion
    }

    /// The record with what is known of the stored one besides: what its context has made of it, a ketone, unless the
    /// record's own reason is looked for first; and the number it had before its device's model was known, if it has none
    /// now.
    ///
    /// - Parameter stored: the same record, as it was stored before.
    public func heeding(_ stored: Record) -> Record {
        var record = self
        record.sequence = sequence ?? stored.sequence
        record.fill(from: stored)
        // A withdrawal is another frame, which this one says nothing of.
        if stored.exclusion == .withdrawn { record.exclusion = .withdrawn }
        if let facts = stored.imported, facts.isRetracted {
            record.imported?.isRetracted = true
            record.imported?.updatedAt = facts.updatedAt
        }
        guard stored.exclusion == .ketone else { return record }
        var context = GlucoseContext()
        context.isOfKetone = true
        record.exclusion = exclusion(with: context)
        return record
    }

    /// Whether this is the same recording as a stored one: one of them is what the other was before it went on.
    package func isSameRecording(as stored: Record) -> Bool {
        guard sequence == nil, let baseTime, baseTime == stored.baseTime, value.kind == stored.value.kind,
            let ours = value.series, let theirs = stored.value.series
        else { return false }
        return ours.isBeginning(of: theirs) || theirs.isBeginning(of: ours)
    }

    /// Whether this is the measurement of a stored record, though another protocol brought it that says or leaves out the
    /// mean pressure.
    ///
    /// Two measurements of one device cannot end in the same second, and what they have measured is the same.
    package func isSameMeasurement(as stored: Record) -> Bool {
        guard case .bloodPressure(let ours) = value, case .bloodPressure(let theirs) = stored.value, baseTime != nil,
            baseTime == stored.baseTime, userSlot == nil || stored.userSlot == nil || userSlot == stored.userSlot
        else { return false }
        return ours.systolic == theirs.systolic && ours.diastolic == theirs.diastolic && ours.pulse == theirs.pulse
            && (ours.meanArterial == theirs.meanArterial || ours.meanArterial.number.number == nil
                || theirs.meanArterial.number.number == nil)
    }

    /// The forms in which another protocol may have brought this measurement: ``isSameMeasurement(as:)`` takes each for
    /// it.
    ///
    /// One protocol leaves out the mean pressure, and always says the slot. The other one sends a mean, which is a
    /// whole number between the other two pressures. Empty for a record whose id is not made of its time, slot and
    /// values.
    package var otherForms: [Record] {
        guard sequence == nil, occurrence == nil, baseTime != nil, case .bloodPressure(let pressure) = value else {
            return []
        }
        var means: [MeasuredNumber] = [.notANumber]
        if pressure.meanArterial.number.number == nil, userSlot != nil, let low = pressure.diastolic.number.number,
            let high = pressure.systolic.number.number, low.exponent == 0, high.exponent == 0,
            low.significand >= 0, low.significand <= high.significand, high.significand <= Self.highestPressure
        {
            means += (low.significand...high.significand).map { MeasuredNumber.value(ExactDecimal(significand: $0)) }
        }
        let slots: [UInt8?] = if let userSlot { [userSlot, nil] } else { (0..<UInt8.max).map(Optional.some) }
        return means.flatMap { mean in
            slots.map { slot -> Record in
                var form = self
                form.value = .bloodPressure(
                    BloodPressureValue(
                        systolic: pressure.systolic, diastolic: pressure.diastolic,
                        meanArterial: Quantity(mean, pressure.meanArterial.unit), pulse: pressure.pulse))
                form.userSlot = slot
                return form
            }
        }
    }

    /// The highest pressure that the standard's format carries in whole numbers.
    private static let highestPressure: Int64 = 2047

    /// Takes what only the stored form of this record says: its mean pressure, and the bits of its status; the impedance
    /// that came with a weight.
    private mutating func fill(from stored: Record) {
        if isSameRecording(as: stored) {
            // One that comes from before the recording went on takes nothing away.
            if let ours = value.series, let theirs = stored.value.series, ours.isBeginning(of: theirs) {
                (value, status, exclusion) = (stored.value, stored.status, stored.exclusion)
            }
            return
        }
        if case .vital(let ours) = value, case .vital(let theirs) = stored.value, ours.kind == .weight,
            theirs.kind == .weight, theirs[.impedance] != nil, ours[.weight] == theirs[.weight],
            baseTime == stored.baseTime
        {
            // The first impedance stays: a scale shows it again and again.
            value = stored.value
            return
        }
        guard case .bloodPressure(let ours) = value, value != stored.value, isSameMeasurement(as: stored) else {
            return
        }
        if ours.meanArterial.number.number == nil { value = stored.value }
        status.formUnion(stored.status)
        userSlot = stored.userSlot ?? userSlot
    }

    /// Whether the same octets say something else now: the device's model was learnt since.
    package func isRead(otherwiseThan stored: Record) -> Bool {
        value != stored.value || baseTime != stored.baseTime
    }
}

/// Why a reading is never delivered, in the order in which reasons are looked for.
public enum Exclusion: String, Sendable, Hashable, CaseIterable {
    case errorRecord = "error_record"
    case noValue = "no_value"
    case notANumber = "not_a_number"
    case controlSolution = "control_solution"
    case ketone
    case intermediate
    case implausible
    case noTime = "no_time"
    case implausibleTime = "implausible_time"
    case otherUser = "other_user"
    case sensorNotActive = "sensor_not_active"
    case superseded
    /// A person who entered it has withdrawn or corrected it.
    case withdrawn
}

/// Why a reading is not delivered to a destination now, in the order in which reasons are looked for.
public enum Hold: String, Sendable, Hashable, CaseIterable {
    case locked
    case noConsent = "no_consent"
    case notSelected = "not_selected"
    case ignored
    case olderThanBackfill = "older_than_backfill"
    case syncDisabled = "sync_disabled"
    case destinationDisabled = "destination_disabled"
    case manual
    case otherEndpoint = "other_endpoint"
    case noPatient = "no_patient"
    case noSource = "no_source"
    case sourceRevoked = "source_revoked"
    case sourcePaused = "source_paused"
    case sourceError = "source_error"
    /// Its context is still to come, and may say that it is none of its kind.
    case awaitingContext = "awaiting_context"
}
