import HealthReadings

extension ReadingFormat {
    /// Nightscout's entries and treatments, as its API v1 takes them.
    public static let nightscout = ReadingFormat(name: "nightscout", mediaType: "application/json")
}

/// Writes readings as Nightscout's API v1 takes them (nightscout/cgm-remote-monitor).
///
/// Nightscout tells entries by their instant and type alone, so no two readings of a type may share an instant.
public enum Nightscout {
    /// The type of an entry.
    public enum EntryType: String, Sendable, Hashable, CaseIterable {
        /// A finger stick or another measurement of a meter.
        case meter = "mbg"
        /// A value of a continuous sensor.
        case sensor = "sgv"
    }

    /// The least value of a sensor: Nightscout takes lower ones for the sensor's error codes, and shows a text in their place.
    public static let leastSensorValue = 39

    /// mg/dL = mmol/L × 18.01559: Nightscout's own factor (lib/constants.json), so that its page shows the value measured.
    public static let milligramsPerDecilitreInOneMillimolePerLitre = ExactDecimal(significand: 1_801_559, exponent: -5)

    /// The type of a reading's entry; `nil` for a reading that is no glucose concentration.
    public static func entryType(of reading: Reading) -> EntryType? {
        guard case .glucose(let glucose) = reading.record.value else { return nil }
        return glucose.sampleType == .interstitialFluid || reading.record.sensor != nil ? .sensor : .meter
    }

    /// Writes a glucose reading as an entry.
    ///
    /// ```json
    /// {"type":"mbg","mbg":95,"date":1795331700000,"dateString":"2026-11-22T08:15:00.000+01:00",
    ///  "device":"accuchek_guide-4861","readingId":"…","readingDevice":"accuchek_guide-4861"}
    /// ```
    ///
    /// `readingId` and `readingDevice` are for whoever takes the reading back. The server keeps fields that a later entry in the
    /// same place lacks: only if `device` is still `readingDevice` is it this reading's.
    ///
    /// - Parameters:
    ///   - reading: the reading; one that is excluded has no entry.
    ///   - timestamp: the entry's time, whole seconds; `nil`: the reading's own.
    ///   - offsetMinutes: the offset of the person's clock from UTC when it was measured, -1439 … 1439.
    /// - Throws: ``FormatOmission`` if nothing can be written: the reading is excluded, is no concentration, has no time or no
    ///   number, or is a sensor's value below ``leastSensorValue``.
    public static func entry(
        _ reading: Reading, at timestamp: Instant? = nil, offsetMinutes: Int
    ) throws(FormatOmission) -> Formatted<JSONValue> {
        guard reading.excluded == nil else { throw FormatOmission(.excluded) }
        guard let type = entryType(of: reading), case .glucose(let glucose) = reading.record.value else {
            throw FormatOmission(.noPlace)
        }
        guard let instant = timestamp ?? reading.time.instant else { throw FormatOmission(.noTime) }
        guard let measured = glucose.concentration, let number = measured.number.number else {
            throw FormatOmission(.notANumber, of: "glucose")
        }
        let whole: ExactDecimal? =
            switch measured.unit {
            case .milligramsPerDecilitre: number.multiplied(by: ExactDecimal(significand: 1), places: 0)
            case .millimolesPerLitre:
                number.multiplied(by: milligramsPerDecilitreInOneMillimolePerLitre, places: 0)
            default: nil
            }
        guard let whole, let value = Int64(whole.description) else { throw FormatOmission(.unit, of: "glucose") }
        guard type == .meter || value >= leastSensorValue else { throw FormatOmission(.noPlace, of: "glucose") }
        let device = DeviceAlias(reading.device).description
        var members: [JSONValue.Member] = [
            .init("type", .string(type.rawValue)), .init(type.rawValue, .integer(value)),
            .init("date", .integer(instant.seconds * 1000)),
            .init("dateString", .string(try dateString(instant, offsetMinutes: offsetMinutes))),
            .init("device", .string(device)),
        ]
        if type == .sensor, let direction = direction(of: glucose) {
            members.append(.init("direction", .string(direction)))
        }
        members += [
            .init("readingId", .string(reading.id.description)), .init("readingDevice", .string(device)),
        ]
        return Formatted(.object(members), omissions: omissions(of: reading, glucose, whole: whole, number))
    }

    private static func omissions(
        of reading: Reading, _ glucose: GlucoseValue, whole: ExactDecimal, _ number: ExactDecimal
    ) -> [FormatOmission] {
        var omissions: [FormatOmission] = []
        if glucose.concentration?.unit == .milligramsPerDecilitre, !whole.isNumericallyEqual(to: number) {
            omissions.append(FormatOmission(.rounded, of: "glucose"))
        }
        if glucose.sampleLocation != nil { omissions.append(FormatOmission(.noPlace, of: "sample_location")) }
        if reading.context != nil { omissions.append(FormatOmission(.noPlace, of: "context")) }
        if !reading.record.status.isEmpty { omissions.append(FormatOmission(.noPlace, of: "status")) }
        return omissions
    }

    /// The arrow of a sensor's value, by its change in mg/dL a minute as xDrip names it; `nil` if the sensor says nothing of it.
    private static func direction(of glucose: GlucoseValue) -> String? {
        guard let trend = glucose.continuous?.trend, trend.unit == .milligramsPerDecilitrePerMinute,
            let change = trend.number.number?.approximation
        else { return nil }
        return switch change {
        case ...(-3.5): "DoubleDown"
        case ...(-2): "SingleDown"
        case ...(-1): "FortyFiveDown"
        case ...1: "Flat"
        case ...2: "FortyFiveUp"
        case ...3.5: "SingleUp"
        case ...40: "DoubleUp"
        default: nil
        }
    }

    /// Writes a blood pressure as a note, the only place that Nightscout's page shows one.
    ///
    /// ```json
    /// {"eventType":"Note","created_at":"2026-11-22T08:15:00.000+01:00","notes":"BP 128/82 pulse 64",
    ///  "enteredBy":"omron-3f2a","identifier":"…"}
    /// ```
    ///
    /// - Parameters:
    ///   - reading: the reading; one that is excluded has no note.
    ///   - timestamp: the note's time, whole seconds; `nil`: the reading's own.
    ///   - offsetMinutes: the offset of the person's clock from UTC when it was measured, -1439 … 1439.
    /// - Throws: ``FormatOmission`` if nothing can be written.
    public static func note(
        _ reading: Reading, at timestamp: Instant? = nil, offsetMinutes: Int
    ) throws(FormatOmission) -> Formatted<JSONValue> {
        guard reading.excluded == nil else { throw FormatOmission(.excluded) }
        guard case .bloodPressure(let pressure) = reading.record.value else { throw FormatOmission(.noPlace) }
        guard let instant = timestamp ?? reading.time.instant else { throw FormatOmission(.noTime) }
        guard let systolic = pressure.systolic.number.number, let diastolic = pressure.diastolic.number.number else {
            throw FormatOmission(.notANumber, of: "blood_pressure")
        }
        var words = "BP \(plain(systolic))/\(plain(diastolic))"
        if pressure.systolic.unit != .millimetresOfMercury { words += " \(pressure.systolic.unit.symbol)" }
        if let pulse = pressure.pulse?.number.number { words += " pulse \(plain(pulse))" }
        var omissions: [FormatOmission] = []
        if pressure.meanArterial.number.number != nil {
            omissions.append(FormatOmission(.noPlace, of: "blood_pressure.mean"))
        }
        if !reading.record.status.isEmpty { omissions.append(FormatOmission(.noPlace, of: "status")) }
        return Formatted(
            .object([
                "eventType": .string(noteType),
                "created_at": .string(try dateString(instant, offsetMinutes: offsetMinutes)), "notes": .string(words),
                "enteredBy": .string(DeviceAlias(reading.device).description),
                "identifier": .string(reading.id.description),
            ]), omissions: omissions)
    }

    /// A number as people write it: a whole one without decimal places.
    private static func plain(_ number: ExactDecimal) -> String {
        let text = number.description
        guard let point = text.firstIndex(of: "."), text[point...].dropFirst().allSatisfy({ $0 == "0" }) else {
            return text
        }
        return String(text[..<point])
    }

    /// The `eventType` of notes.
    public static let noteType = "Note"

    /// Writes how a device's battery stands.
    ///
    /// - Parameters:
    ///   - device: the device.
    ///   - batteryPercent: its battery, 0 … 100.
    ///   - instant: when that was read.
    /// - Throws: ``FormatOmission`` outside the years 1 to 9999.
    public static func deviceStatus(
        _ device: DeviceDescription, batteryPercent: UInt8, at instant: Instant
    ) throws(FormatOmission) -> JSONValue {
        .object([
            "device": .string(DeviceAlias(device).description),
            "created_at": .string(try dateString(instant, offsetMinutes: 0)),
            "uploader": .object(["battery": .integer(Int64(batteryPercent))]),
        ])
    }

    /// The time with its offset and milliseconds: `2026-11-22T08:15:00.000+01:00`; `Z` for UTC.
    ///
    /// - Throws: ``FormatOmission`` outside the years 1 to 9999.
    public static func dateString(_ instant: Instant, offsetMinutes: Int) throws(FormatOmission) -> String {
        guard let text = instant.rfc3339(offsetSeconds: Int64(offsetMinutes) * 60, fractionDigits: 3) else {
            throw FormatOmission(.noTime)
        }
        return offsetMinutes == 0 ? text.prefix(23) + "Z" : text
    }
}
