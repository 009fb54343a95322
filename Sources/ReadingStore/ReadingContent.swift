import HealthReadings

/// What a reading's row keeps unreadable without the key, where there is one: its values and all that says how it was
/// measured. What stands beside it in the row in the clear is what rows are found and put in order by.
struct ReadingContent: Hashable {
    var value: RecordValue
    var status: ReadingStatus = []
    /// The user slot of the device.
    var userSlot: UInt8?
    /// Which of the equal records of its device's memory it is.
    var occurrence: UInt8?
    var sensor: SensorFacts?
    var entry: EntryFacts?
    var imported: ImportFacts?
    var context: GlucoseContext?
    /// That a person leaves it out of figures; it is known of no record.
    var leftOut: FigureOmission?

    init(of record: Record, context: GlucoseContext? = nil, leftOut: FigureOmission? = nil) {
        value = record.value
        status = record.status
        userSlot = record.userSlot
        occurrence = record.occurrence
        sensor = record.sensor
        entry = record.entry
        imported = record.imported
        self.context = context
        self.leftOut = leftOut
    }

    /// How what follows is written. A number once given is never given again. The second is the first with what a
    /// continuous sensor says behind its concentration, the third the first with the occurrence in
    /// front of the values, the fourth the first with what a person wrote in front of them, the fifth the first with where
    /// an import comes from in front of them, the sixth the first with the samples of a recording behind its quantities; each
    /// is for such records only. The seventh is why a person leaves it out of figures, in front of any of the others.
    private static let (format, continuousFormat, recalledFormat): (UInt64, UInt64, UInt64) = (1, 2, 3)
    private static let (enteredFormat, importedFormat, recordedFormat): (UInt64, UInt64, UInt64) = (4, 5, 6)
    private static let leftOutFormat: UInt64 = 7

    private var continuous: ContinuousGlucoseFacts? {
        if case .glucose(let glucose) = value { glucose.continuous } else { nil }
    }

    /// Whether it is of a recording, and of nothing that has a format of its own.
    private var isRecorded: Bool {
        guard case .vital(let vital) = value, vital.isRecorded else { return false }
        return entry == nil && imported == nil && occurrence == nil
    }

    /// How this content is written.
    private var format: UInt64 {
        if entry != nil { return Self.enteredFormat }
        if imported != nil { return Self.importedFormat }
        if occurrence != nil { return Self.recalledFormat }
        return isRecorded ? Self.recordedFormat : continuous == nil ? Self.format : Self.continuousFormat
    }

    var octets: [UInt8] {
        var writer = ContentWriter()
        let format = format
        if let leftOut {
            writer.put(Self.leftOutFormat)
            leftOut.write(to: &writer)
        }
        writer.put(format)
        writer.put(UInt64(bitPattern: value.kind.code))
        writer.put(UInt64(status.rawValue))
        writer.put(optional: userSlot.map(UInt64.init))
        if let entry {
            writer.put(entry.note)
            writer.put(entry.corrects?.description)
        } else if let imported {
            imported.write(to: &writer)
        } else if let occurrence {
            writer.put(UInt64(occurrence))
        }
        switch value {
        case .glucose(let glucose):
            writer.put(glucose.concentration)
            writer.put(optional: glucose.sampleType.map { UInt64($0.rawValue) })
            writer.put(optional: glucose.sampleLocation.map { UInt64($0.rawValue) })
            if let continuous, format == Self.continuousFormat {
                writer.put(continuous.trend)
                writer.put(continuous.quality)
            }
        case .bloodPressure(let pressure):
            writer.put(pressure.systolic)
            writer.put(pressure.diastolic)
            writer.put(pressure.meanArterial)
            writer.put(pressure.pulse)
        case .vital(let vital): vital.write(to: &writer, isRecorded: isRecorded)
        case .kept(let sample): sample.write(to: &writer)
        }
        sensor.write(to: &writer)
        context.write(to: &writer)
        return writer.octets
    }

    /// - Throws: ``StoreError/corrupt(detail:)`` for whatever ``octets`` did not give.
    init(_ octets: [UInt8], from start: Int = 0) throws {
        var reader = ContentReader(octets, from: start)
        var format = try reader.number()
        if format == Self.leftOutFormat {
            leftOut = try FigureOmission(from: &reader)
            format = try reader.number()
        }
        guard (Self.format...Self.recordedFormat).contains(format) else {
            throw StoreError.corrupt(detail: "a row's content has the format \(format)")
        }
        let kind = try ReadingKind(code: reader.number(as: Int64.self))
        status = ReadingStatus(rawValue: try reader.number(as: UInt32.self))
        userSlot = try reader.optional(as: UInt8.self)
        if format == Self.recalledFormat { occurrence = try reader.number(as: UInt8.self) }
        if format == Self.enteredFormat {
            entry = EntryFacts(note: try reader.text(), corrects: try reader.text().flatMap { ReadingID($0) })
        }
        if format == Self.importedFormat { imported = try ImportFacts(from: &reader) }
        switch kind {
        case .glucose:
            var glucose = GlucoseValue(
                concentration: try reader.quantity(),
                sampleType: try reader.optional(as: UInt8.self).flatMap(GlucoseSampleType.init(rawValue:)),
                sampleLocation: try reader.optional(as: UInt8.self).flatMap(GlucoseSampleLocation.init(rawValue:)))
            if format == Self.continuousFormat {
                glucose.continuous = ContinuousGlucoseFacts(
                    trend: try reader.quantity(), quality: try reader.quantity())
            }
            value = .glucose(glucose)
        case .bloodPressure:
            guard let systolic = try reader.quantity(), let diastolic = try reader.quantity(),
                let meanArterial = try reader.quantity()
            else { throw StoreError.corrupt(detail: "a blood pressure lacks one of its pressures") }
            value = .bloodPressure(
                BloodPressureValue(
                    systolic: systolic, diastolic: diastolic, meanArterial: meanArterial, pulse: try reader.quantity()))
        case .heartRate, .hrv, .spo2, .temperature, .weight, .bodyComposition:
            value = .vital(
                try VitalValue(kind: kind, isRecorded: format == Self.recordedFormat, from: &reader))
        case .activity, .sleep, .other: value = .kept(try KeptSample(kind: kind, from: &reader))
        }
        sensor = try SensorFacts?(from: &reader)
        context = try GlucoseContext?(from: &reader)
        guard reader.isAtEnd else {
            throw StoreError.corrupt(detail: "a row's content goes on after octet \(reader.position)")
        }
    }
}

extension FigureOmission {
    fileprivate func write(to writer: inout ContentWriter) {
        writer.put(reason)
        writer.put(by)
        writer.put(signed: at.microseconds)
    }

    fileprivate init(from reader: inout ContentReader) throws {
        let (reason, by) = (try reader.text(), try reader.text())
        self.init(reason: reason, by: by ?? "", at: Instant(microseconds: try reader.signed()))
    }
}

extension ImportFacts {
    fileprivate func write(to writer: inout ContentWriter) {
        writer.put(source)
        writer.put(device)
        let marks: UInt64 =
            (isEntered ? 1 : 0) | (hasOriginalID ? 2 : 0) | (end == nil ? 0 : 4) | (isEstimate ? 8 : 0)
            | (updatedAt == nil ? 0 : 16) | (isRetracted ? 32 : 0) | UInt64(sensorSource?.rawValue ?? 0) << 6
        writer.put(marks)
        if let end { writer.put(signed: end.seconds) }
        if let updatedAt { writer.put(signed: updatedAt.microseconds) }
        writer.put(optional: utcOffsetMinutes.map { UInt64(bitPattern: Int64($0)) })
    }

    fileprivate init(from reader: inout ContentReader) throws {
        let (source, device) = (try reader.text(), try reader.text())
        let flags = try reader.number()
        guard flags < 256 else { throw StoreError.corrupt(detail: "an import has the marks \(flags)") }
        let end = flags & 4 == 0 ? nil : Instant(seconds: try reader.signed())
        let updatedAt = flags & 16 == 0 ? nil : Instant(microseconds: try reader.signed())
        self.init(
            source: source, device: device, isEntered: flags & 1 != 0, end: end,
            utcOffsetMinutes: try reader.optional(as: UInt64.self).map { Int(Int64(bitPattern: $0)) },
            hasOriginalID: flags & 2 != 0, isEstimate: flags & 8 != 0, updatedAt: updatedAt,
            isRetracted: flags & 32 != 0,
            sensorSource: ImportFacts.SensorSource(rawValue: UInt8(flags >> 6)))
    }
}

extension SensorFacts? {
    fileprivate func write(to writer: inout ContentWriter) {
        guard let self else { return writer.put(0 as UInt64) }
        writer.put(UInt64(self.source.rawValue))
        writer.put(UInt64(self.minute))
        writer.put(UInt64(self.glucose))
        writer.put(UInt64(self.temperature))
        writer.put(signed: Int64(self.adjustment))
        writer.put(UInt64(self.quality))
        writer.put(UInt64(self.flags))
        writer.put(self.hasError ? 1 : 0 as UInt64)
        writer.put(UInt64(self.calibration.rawValue))
    }

    fileprivate init(from reader: inout ContentReader) throws {
        let code = try reader.number(as: UInt8.self)
        guard code > 0 else {
            self = nil
            return
        }
        let (minute, glucose) = (try reader.number(as: UInt16.self), try reader.number(as: UInt16.self))
        let (temperature, adjustment) = (try reader.number(as: UInt16.self), try reader.signed())
        let (quality, flags) = (try reader.number(as: UInt16.self), try reader.number(as: UInt8.self))
        let (hasError, calibration) = (try reader.number() != 0, try reader.number(as: UInt8.self))
        guard let source = SensorFacts.Source(rawValue: code),
            let calibration = SensorFacts.Calibration(rawValue: calibration),
            let adjustment = Int16(exactly: adjustment)
        else { throw StoreError.corrupt(detail: "a sensor's record has the source \(code)") }
        self = SensorFacts(
            source: source, minute: minute, glucose: glucose, temperature: temperature, adjustment: adjustment,
            quality: quality, flags: flags, hasError: hasError, calibration: calibration)
    }
}

extension GlucoseContext? {
    fileprivate func write(to writer: inout ContentWriter) {
        guard let self else { return writer.put(0 as UInt64) }
        writer.put(1 as UInt64)
        writer.put(self.carbohydrate?.id)
        writer.put(self.carbohydrate?.amount)
        writer.put(self.meal)
        writer.put(self.tester)
        writer.put(self.health)
        writer.put(optional: self.exercise.map { UInt64($0.intensityPercent) })
        writer.put(optional: self.exercise?.seconds.map(UInt64.init))
        writer.put(self.medication?.id)
        writer.put(self.medication?.amount)
        writer.put(self.hba1c)
    }

    fileprivate init(from reader: inout ContentReader) throws {
        guard try reader.number() != 0 else {
            self = nil
            return
        }
        func intake() throws -> GlucoseContext.Intake? {
            let (id, amount) = (try reader.text(), try reader.quantity())
            guard let id, let amount else { return nil }
            return .init(id: id, amount: amount)
        }
        var context = GlucoseContext()
        context.carbohydrate = try intake()
        (context.meal, context.tester, context.health) = (try reader.text(), try reader.text(), try reader.text())
        let (intensity, seconds) = (try reader.optional(as: UInt8.self), try reader.optional(as: UInt16.self))
        context.exercise = intensity.map { .init(seconds: seconds, intensityPercent: $0) }
        context.medication = try intake()
        context.hba1c = try reader.quantity()
        self = context
    }
}
