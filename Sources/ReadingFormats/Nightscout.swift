import HealthFigures
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
        guard case .glucose = reading.record.value else { return nil }
        return reading.isOfSensor ? .sensor : .meter
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
        let entry = try NightscoutEntry(reading, at: timestamp)
        let device = JSONValue.string(DeviceAlias(reading.device).description)
        var members: [JSONValue.Member] = [
            .init("type", .string(entry.type.rawValue)), .init(entry.type.rawValue, .integer(entry.value)),
            .init("date", .integer(entry.instant.seconds * 1000)),
            .init("dateString", .string(try dateString(entry.instant, offsetMinutes: offsetMinutes))),
            .init("device", device),
        ]
        if let direction = entry.direction { members.append(.init("direction", .string(direction))) }
        members += [.init("readingId", .string(reading.id.description)), .init("readingDevice", device)]
        return Formatted(.object(members), omissions: entry.omissions(of: reading))
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
        var octets: [UInt8] = []
        guard octets.append(instant, offsetMinutes: offsetMinutes) else { throw FormatOmission(.noTime) }
        return String(decoding: octets, as: UTF8.self)
    }
}

/// What an entry says of a glucose reading.
private struct NightscoutEntry {
    let type: Nightscout.EntryType
    /// In mg/dL.
    let value: Int64
    let instant: Instant
    let direction: String?
    private let isRounded: Bool

    init(_ reading: Reading, at timestamp: Instant?) throws(FormatOmission) {
        guard reading.excluded == nil else { throw FormatOmission(.excluded) }
        guard let type = Nightscout.entryType(of: reading), case .glucose(let glucose) = reading.record.value else {
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
                number.multiplied(by: Nightscout.milligramsPerDecilitreInOneMillimolePerLitre, places: 0)
            default: nil
            }
        guard let whole else { throw FormatOmission(.unit, of: "glucose") }
        // Without decimal places, the digits are the value.
        value = whole.significand
        guard type == .meter || value >= Nightscout.leastSensorValue else {
            throw FormatOmission(.noPlace, of: "glucose")
        }
        (self.type, self.instant) = (type, instant)
        direction = type == .sensor ? Self.direction(of: glucose) : nil
        isRounded = measured.unit == .milligramsPerDecilitre && !whole.isNumericallyEqual(to: number)
    }

    func omissions(of reading: Reading) -> [FormatOmission] {
        var omissions: [FormatOmission] = []
        if isRounded { omissions.append(FormatOmission(.rounded, of: "glucose")) }
        if case .glucose(let glucose) = reading.record.value, glucose.sampleLocation != nil {
            omissions.append(FormatOmission(.noPlace, of: "sample_location"))
        }
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
}

/// Writes many glucose readings as ``Nightscout/entry(_:at:offsetMinutes:)`` does, with commas between them: what they share
/// is made ready once.
public struct NightscoutEntryWriter: Sendable {
    /// The entries.
    public private(set) var entries: [UInt8] = []
    /// The alias of the last reading's device, as JSON: a batch's readings are of few devices.
    private var last: (device: DeviceDescription, alias: [UInt8])?

    /// The entries as a JSON array.
    public var array: JSONValue { .written([UInt8(ascii: "[")] + entries + [UInt8(ascii: "]")]) }

    /// Makes a writer without entries.
    ///
    /// - Parameter capacity: how many bytes are written without another allocation; more may be.
    public init(capacity: Int = 0) { entries.reserveCapacity(capacity) }

    /// Writes a reading's entry behind the others.
    ///
    /// - Parameters: as those of ``Nightscout/entry(_:at:offsetMinutes:)``.
    /// - Throws: ``FormatOmission`` if nothing can be written, and then nothing is.
    public mutating func append(
        _ reading: Reading, at timestamp: Instant? = nil, offsetMinutes: Int
    ) throws(FormatOmission) {
        let entry = try NightscoutEntry(reading, at: timestamp)
        let start = entries.count
        entries.append(literal: start == 0 ? #"{"type":"# : #",{"type":"#)
        entries.append(json: entry.type.rawValue)
        entries.append(literal: ",")
        entries.append(json: entry.type.rawValue)
        entries.append(literal: ":")
        entries.append(digits: entry.value)
        entries.append(literal: #","date":"#)
        entries.append(digits: entry.instant.seconds * 1000)
        entries.append(literal: #","dateString":""#)
        guard entries.append(entry.instant, offsetMinutes: offsetMinutes) else {
            entries.removeLast(entries.count - start)
            throw FormatOmission(.noTime)
        }
        let device = alias(of: reading.device)
        entries.append(literal: #"","device":"#)
        entries.append(contentsOf: device)
        if let direction = entry.direction {
            entries.append(literal: #","direction":"#)
            entries.append(json: direction)
        }
        entries.append(literal: #","readingId":""#)
        entries.append(reading.id)
        entries.append(literal: #"","readingDevice":"#)
        entries.append(contentsOf: device)
        entries.append(literal: "}")
    }

    private mutating func alias(of device: DeviceDescription) -> [UInt8] {
        if let last, last.device == device { return last.alias }
        var alias: [UInt8] = []
        alias.append(json: DeviceAlias(device).description)
        last = (device, alias)
        return alias
    }
}
