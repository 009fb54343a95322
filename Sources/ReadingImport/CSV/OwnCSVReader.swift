import HealthReadings

/// Reads the CSV that `healthrelay query --format csv` writes.
///
/// A reading keeps the id that the file names, so that reading a file at the gateway that wrote it changes nothing. What a
/// gateway keeps and never delivers is not taken over: the CSV does not have all that it was judged by.
public final class OwnCSVReader: ImportReader {
    /// What was counted until now.
    public private(set) var counts = ImportCounts()
    /// How many octets of the file were read until now.
    public var octetsRead: Int64 { rows.octetsRead }
    /// The line of what was found last, from 1.
    public private(set) var line = 1
    /// Whether the newest sample is left out of figures at the gateway that wrote the file, and why.
    public private(set) var omission: ImportedOmission?

    private var rows: CSVRows
    private let rules: ImportRules
    private let columns: Columns

    /// What parts the cells of a header, if it names our columns, in whatever order; spreadsheets may put each name in quotes.
    private static func separator(of line: ArraySlice<UInt8>) -> UInt8? {
        ",;\t".utf8.first { separator in
            let names = line.split(separator: separator).map { name in
                String(decoding: name, as: UTF8.self).filter { !"\" ".contains($0) }
            }
            return required.allSatisfy(names.contains)
        }
    }

    private struct Columns {
        var all: [String: Int] = [:]
        var count = 0
    }

    /// Models that stand for no device.
    private static let standIns: Set = ["imported", "manual"]
    private static let required = ["id", "kind", "time", "time_basis", "provider", "excluded"]

    /// Whether a line names our columns.
    static func isHeader(_ line: ArraySlice<UInt8>) -> Bool { separator(of: line) != nil }

    init(_ source: any OctetSource, _ rules: ImportRules) throws(ImportDamage) {
        self.rules = rules
        // The first line says what parts the cells. A pipe can't be read twice.
        rows = CSVRows(source, separator: nil, quotes: false)
        let first = Array((try rows.next()?.cells.first ?? "").utf8)
        rows.separator = Self.separator(of: first[...]) ?? UInt8(ascii: ",")
        rows.quotes = true
        var names = CSVRows(MemorySource(first), separator: rows.separator)
        let header = try names.next()?.cells ?? []
        var columns = Columns()
        for (place, name) in header.enumerated() { columns.all[name] = place }
        columns.count = header.count
        for name in Self.required where columns.all[name] == nil {
            throw ImportDamage(
                .unknownFormat, line: 1, expected: "a column named \(name)",
                found: header.isEmpty ? "an empty file" : header.joined(separator: ","))
        }
        self.columns = columns
    }

    /// The next sample, or the next row that can be none; `nil` at the end of the file.
    public func next() throws(ImportDamage) -> ImportItem? {
        while let row = try rows.next() {
            counts.read += 1
            line = row.line
            do throws(ImportRefusal) {
                let cells = Cells(
                    row: row, columns: columns.all, count: columns.count,
                    hasCommas: rows.separator != UInt8(ascii: ","))
                if let sample = try sample(cells) {
                    omission = try self.omission(cells)
                    return .sample(sample)
                }
            } catch {
                return .refused(error)
            }
        }
        return nil
    }

    /// The cells of a row by the names of their columns; an empty one is `nil`.
    private struct Cells {
        let row: CSVRows.Row
        let columns: [String: Int]
        let count: Int
        /// Whether numbers may have a decimal comma, which then parts no cells.
        let hasCommas: Bool

        subscript(name: String) -> String? {
            guard let place = columns[name], place < row.cells.count, !row.cells[place].isEmpty else { return nil }
            return SafeCSV.plain(row.cells[place])
        }

        /// Whether the row says what it has to, however few cells it has: spreadsheets leave out empty cells at its end. One
        /// that the file ends in may have been cut.
        var mayBeShort: Bool {
            row.isEnded
                && OwnCSVReader.required.allSatisfy { name in columns[name].map { $0 < row.cells.count } ?? false }
        }

        /// A number with a decimal point, or with the comma of a spreadsheet that parts cells otherwise.
        func decimal(_ name: String) throws(ImportRefusal) -> ExactDecimal? {
            guard let text = self[name] else { return nil }
            guard let number = TextValue.decimal(text.utf8, comma: hasCommas) else { throw refusal(name, "a number") }
            return number
        }

        func refusal(_ name: String, _ expected: String) -> ImportRefusal {
            ImportRefusal(
                line: row.line, field: name, expected: expected, found: self[name].map { "'\($0)'" } ?? "nothing")
        }

        func whole(_ name: String, _ range: ClosedRange<Int>) throws(ImportRefusal) -> Int? {
            guard let text = self[name] else { return nil }
            guard let number = Int(text), range.contains(number) else {
                throw refusal(name, "a whole number from \(range.lowerBound) to \(range.upperBound)")
            }
            return number
        }

        func one<Value: CaseIterable>(
            _ name: String, named: (Value) -> String
        ) throws(ImportRefusal) -> Value? {
            guard let text = self[name] else { return nil }
            guard let value = Value.allCases.first(where: { named($0) == text }) else {
                throw refusal(name, "one of " + Value.allCases.map(named).joined(separator: ", "))
            }
            return value
        }

        func word(_ name: String, of words: [String]) throws(ImportRefusal) -> String? {
            guard let text = self[name] else { return nil }
            guard words.contains(text) else { throw refusal(name, "one of " + words.joined(separator: ", ")) }
            return text
        }

        /// Spreadsheets take the word for a truth value, and write it in capitals, in the language that they are in.
        func isTrue(_ name: String) throws(ImportRefusal) -> Bool {
            switch self[name]?.lowercased() {
            case "true", "wahr", "vrai", "verdadero": return true
            case "false", "falsch", "faux", "falso", nil: return false
            default: throw refusal(name, "one of true, false")
            }
        }

        func instant(_ name: String) throws(ImportRefusal) -> Instant? {
            guard let text = self[name] else { return nil }
            guard let instant = Instant(rfc3339: text) else {
                throw refusal(name, "a time such as 2026-11-20T07:30:00Z")
            }
            return instant
        }

        func quantity(_ name: String, _ unit: String) throws(ImportRefusal) -> Quantity? {
            guard let number = try decimal(name) else { return nil }
            guard let unit = self[unit].flatMap({ MeasurementUnit(symbol: $0) }) else {
                throw refusal(unit, "a unit such as mg/dL")
            }
            return Quantity(number, unit)
        }
    }

    private func sample(_ cells: Cells) throws(ImportRefusal) -> ImportedSample? {
        let count = cells.row.cells.count
        guard count == cells.count || count < cells.count && cells.mayBeShort else {
            throw ImportRefusal(
                line: cells.row.line, field: "row", expected: "\(cells.count) cells", found: "\(count)")
        }
        guard let kind = cells["kind"].flatMap(ReadingKind.init) else {
            throw cells.refusal("kind", "one of \(ReadingKind.list)")
        }
        if let exclusion = cells["excluded"] {
            counts.leave("excluded: \(exclusion.prefix(40))")
            return nil
        }
        // Whoever wrote the file did not know, or did not say.
        if cells["sample_type"] == "control_solution" || cells["sample_location"] == "control_solution" {
            counts.leave("excluded: control_solution")
            return nil
        }
        // The file does not say which of its numbers it is, or has none of what it came with.
        guard kind != .hrv, !kind.isKept else {
            counts.leave(kind.rawValue)
            return nil
        }
        guard let id = cells["id"].flatMap({ ReadingID($0) }) else {
            throw cells.refusal("id", "the id of a reading, 32 hexadecimal digits")
        }
        guard let time = try cells.instant("time") else {
            throw cells.refusal("time", "a time such as 2026-11-20T07:30:00Z")
        }
        guard let basis = cells["time_basis"].flatMap(TimeBasis.init), basis != .unknown else {
            throw cells.refusal("time_basis", "how the time was found, such as corrected")
        }
        guard let value = try value(kind, cells) else {
            let column = kind == .glucose ? "glucose_value" : kind == .bloodPressure ? "systolic" : "value"
            throw cells.refusal(column, "a number")
        }
        let end = try cells.instant("end_time")
        guard end.map({ $0 >= time }) ?? true else {
            throw cells.refusal("end_time", "a time that is not before `time`")
        }
        let uncertainty = try cells.whole("time_uncertainty_minutes", 0...Int(Int32.max))
        let written = try cells.whole("utc_offset_minutes", -1439...1439)
        let isStandIn = Self.standIns.contains(cells["model"] ?? "")
        var sample = ImportedSample(
            person: (rules.takesPeople ? cells["person"] : nil) ?? rules.person,
            provider: cells["provider"] ?? "manual", source: cells["source"] ?? (isStandIn ? nil : cells["model"]),
            sourceDevice: cells["source_device"] ?? cells["address"] ?? cells["serial"],
            isEntered: try cells.isTrue("entered") || cells["model"] == "manual", value: value,
            time: ImportedTime(
                time, utcOffsetMinutes: written, basis: basis, uncertaintyMinutes: uncertainty),
            end: end, meal: try cells.word("meal", of: ManualEntry.meals), originalID: id,
            deviceTime: written == nil ? try deviceTime(cells) : nil,
            sequence: try cells.whole("sequence", 0...Int(UInt16.max)).map { UInt16($0) },
            status: try status(cells),
            isEstimate: try cells.word("calibration", of: Self.calibrations)
                == SensorFacts.Calibration.factoryEstimate.name)
        sample.sensorSource = try cells.one("sensor_source", named: \.name)
        return sample
    }

    private func omission(_ cells: Cells) throws(ImportRefusal) -> ImportedOmission? {
        guard try cells.isTrue("left_out") else { return nil }
        do throws(EntryError) {
            return ImportedOmission(reason: try FigureDecision.checked(cells["left_out_reason"]))
        } catch {
            throw cells.refusal("left_out_reason", "one line of at most \(FigureDecision.longestReason) characters")
        }
    }

    private static let calibrations = SensorFacts.Calibration.allCases.map(\.name)

    private func status(_ cells: Cells) throws(ImportRefusal) -> ReadingStatus {
        guard let status = ReadingStatus(names: (cells["status"] ?? "").split(separator: " ")) else {
            throw cells.refusal("status", "names of status bits, such as irregular_pulse")
        }
        return status
    }

    private func deviceTime(_ cells: Cells) throws(ImportRefusal) -> ImportedSample.DeviceTime? {
        guard let text = cells["base_time"] else { return nil }
        guard let base = WallTime(text) else {
            throw cells.refusal("base_time", "a time without an offset, such as 2026-11-20T07:30:00")
        }
        let offset = try cells.whole("time_offset_minutes", Int(Int16.min)...Int(Int16.max))
        return ImportedSample.DeviceTime(base: base, offsetMinutes: offset.map { Int16($0) })
    }

    private func value(_ kind: ReadingKind, _ cells: Cells) throws(ImportRefusal) -> RecordValue? {
        let pulse = try cells.decimal("pulse").map { Quantity($0, .beatsPerMinute) }
        switch kind {
        case .glucose:
            guard let concentration = try cells.quantity("glucose_value", "glucose_unit") else { return nil }
            return .glucose(
                GlucoseValue(
                    concentration: concentration, sampleType: try cells.one("sample_type", named: \.name),
                    sampleLocation: try cells.one("sample_location", named: \.name)))
        case .bloodPressure:
            guard let systolic = try cells.quantity("systolic", "pressure_unit"),
                let diastolic = try cells.quantity("diastolic", "pressure_unit")
            else { return nil }
            let mean = try cells.quantity("mean", "pressure_unit")
            return .bloodPressure(
                BloodPressureValue(
                    systolic: systolic, diastolic: diastolic,
                    meanArterial: mean ?? Quantity(.notANumber, systolic.unit), pulse: pulse))
        case .heartRate, .hrv, .spo2, .temperature, .weight, .bodyComposition:
            guard var main = try cells.quantity("value", "unit") else { return nil }
            if kind == .weight, main.unit == .grams {
                main = Quantity(main.number.scaled(byPowerOfTen: -3), .kilograms)
            }
            guard let value = AppleType.value(kind, main),
                case .vital(let vital) = value
            else { return nil }
            guard kind == .spo2, let pulse else { return value }
            return .vital(VitalValue(kind: kind, vital.quantities + [.init(.pulse, pulse)]))
        case .activity, .sleep, .other: return nil
        }
    }
}
