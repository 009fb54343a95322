import HealthReadings

/// Where LibreView's columns stand, whatever the language.
///
/// LibreView translates the names of its columns and keeps their order. English and German names are known; of another
/// language the order counts, if the units stand where they should.
struct LibreViewColumns {
    let device: Int
    let serial: Int
    let time: Int
    let type: Int
    let historic: Int
    let scan: Int
    /// The test strip; files of readers may lack it.
    let strip: Int?
    let unit: MeasurementUnit
    let separator: UInt8
    /// How many columns there are.
    let count: Int
    /// The column names as they stand in the file.
    let names: [String]

    init?(_ header: String) {
        var line = header[...]
        if line.unicodeScalars.first == "\u{FEFF}" { line = line.dropFirst() }
        let separators: [Character] = [",", ";", "\t"]
        guard let separator = separators.max(by: { a, b in line.count { $0 == a } < line.count { $0 == b } }),
            let octet = separator.asciiValue
        else { return nil }
        let names = line.split(separator: separator, omittingEmptySubsequences: false).map { name in
            String(name.filter { !"\"\r\n".contains($0) })
        }
        let plain = names.map(Self.plain)
        func place(_ candidates: String...) -> Int? { plain.firstIndex { candidates.contains($0) } }
        func measured(_ candidates: String...) -> Int? {
            plain.firstIndex { name in candidates.contains { name.hasPrefix($0) } }
        }
        let found = (
            place("device", "meter", "gerät"), place("serialnumber", "seriennummer"),
            place("devicetimestamp", "metertimestamp", "gerätezeitstempel"), place("recordtype", "aufzeichnungstyp"),
            measured("historicglucose", "glukosewertverlauf"), measured("scanglucose", "glukosescan")
        )
        let strip = measured("stripglucose", "glukoseteststreifen")
        let places: [Int]
        if let device = found.0, let serial = found.1, let time = found.2, let type = found.3, let historic = found.4,
            let scan = found.5
        {
            places = [device, serial, time, type, historic, scan]
            self.strip = strip
        } else if names.count >= 16, Self.unit(plain[4]) != nil, Self.unit(plain[4]) == Self.unit(plain[5]),
            Self.unit(plain[4]) == Self.unit(plain[14])
        {
            places = [0, 1, 2, 3, 4, 5]
            self.strip = 14
        } else {
            return nil
        }
        guard let unit = Self.unit(plain[places[4]]) else { return nil }
        (device, serial, time) = (places[0], places[1], places[2])
        (type, historic, scan) = (places[3], places[4], places[5])
        self.unit = unit
        self.separator = octet
        self.names = names
        count = names.count
    }

    /// A name without spaces, hyphens and brackets, in lower case: `historicglucosemg/dl`.
    private static func plain(_ name: String) -> String {
        name.lowercased().filter { !" -()".contains($0) }
    }

    private static func unit(_ name: String) -> MeasurementUnit? {
        name.hasSuffix("mg/dl") ? .milligramsPerDecilitre : name.hasSuffix("mmol/l") ? .millimolesPerLitre : nil
    }
}

/// Reads the CSV that LibreView gives out: what sensors measured, and what was measured with test strips.
///
/// Its times have no zone: they are taken to be in the person's. The order of day and month depends on the account; the
/// file proves it where any day of it is past the 12th, also against the caller. Of two rows of one device at a time that a
/// change of clocks repeats, the second is taken for the later hour.
public final class LibreViewReader: ImportReader {
    /// The provider of sensors in the catalogue.
    private static let provider = "freestyle_libre_ble"

    /// What was counted until now.
    public private(set) var counts = ImportCounts()
    /// How many octets of the file were read until now.
    public var octetsRead: Int64 { rows.octetsRead }
    /// The line of what was found last, from 1.
    public private(set) var line = 1

    private var rows: CSVRows
    private let rules: ImportRules
    private let columns: LibreViewColumns
    private let order: DateOrder?
    /// The rows of the history, by what makes a scan the same reading.
    private let history: Set<Int>
    /// Rows seen at times that a change of clocks repeats.
    private var repeated: Set<Row> = []

    /// What a device has once, but in an hour that is repeated.
    private struct Row: Hashable {
        var serial: String
        var column: Int
        var time: WallTime
    }

    init(_ source: any OctetSource, _ rules: ImportRules) throws(ImportDamage) {
        self.rules = rules
        guard !rules.zones.isEmpty else {
            throw ImportDamage(.unreadable, expected: "a time zone", found: "none")
        }
        let first = try Self.header(source)
        columns = first.columns
        order = try Self.order(first.rows, first.columns, first.before, asked: rules.dateOrder)
        try source.rewind()
        history = Self.history(try Self.header(source).rows, columns)
        try source.rewind()
        (rows, _, _) = try Self.header(source)
    }

    /// What a device's row says, as far as a scan and a value of the history are one reading by it.
    private static func key(_ row: CSVRows.Row, _ columns: LibreViewColumns, value: Int) -> Int? {
        let places = [columns.serial, columns.time, value]
        guard places.allSatisfy(row.cells.indices.contains) else { return nil }
        var hasher = Hasher()
        for place in places { hasher.combine(row.cells[place].trimmed) }
        return hasher.finalize()
    }

    /// The keys of the history's rows, up to where the file is damaged: that is told when its rows are taken.
    private static func history(_ rows: CSVRows, _ columns: LibreViewColumns) -> Set<Int> {
        var (rows, found): (CSVRows, Set<Int>) = (rows, [])
        while let row = try? rows.next() {
            guard row.cells.indices.contains(columns.type), row.cells[columns.type].trimmed == "0",
                let key = key(row, columns, value: columns.historic)
            else { continue }
            found.insert(key)
        }
        return found
    }

    /// Reads up to the header: a line or two about the file stand before it.
    private static func header(
        _ source: any OctetSource
    ) throws(ImportDamage) -> (rows: CSVRows, columns: LibreViewColumns, before: [String]) {
        var lines = CSVRows(source, separator: nil)
        var before: [String] = []
        for _ in 0..<4 {
            guard let row = try lines.next() else { break }
            guard let columns = LibreViewColumns(row.cells.joined()) else {
                before += row.cells
                continue
            }
            lines.separator = columns.separator
            return (lines, columns, before)
        }
        throw ImportDamage(
            .unknownFormat, line: 1, expected: "LibreView's columns, Device Timestamp and Record Type among them",
            found: before.first ?? "an empty file")
    }

    /// The order of day and month that the caller says, or else what the file proves; `nil` if no date needs it.
    ///
    /// - Throws: ``ImportDamage`` if its dates may mean two days each, or contradict each other or the caller.
    private static func order(
        _ rows: CSVRows, _ columns: LibreViewColumns, _ before: [String], asked: DateOrder?
    ) throws(ImportDamage) -> DateOrder? {
        var rows = rows
        var proofs: [DateOrder: Int] = [:]
        var ambiguous: (line: Int, text: String)?
        func look(_ text: String, _ line: Int) {
            guard let date = LibreViewDate(text), date.isYearLast else { return }
            if date.first > 12, date.second <= 12 { proofs[.dayFirst] = proofs[.dayFirst] ?? line }
            if date.second > 12, date.first <= 12 { proofs[.monthFirst] = proofs[.monthFirst] ?? line }
            if date.first != date.second, ambiguous == nil { ambiguous = (line, text) }
        }
        // When the file was made is written in the same order.
        if asked == nil {
            for cell in before.joined(separator: ",").split(whereSeparator: { ",;\t".contains($0) }) {
                look(String(cell), 1)
            }
        }
        // Damage is told when the rows before it have been taken.
        while let row = try? rows.next() {
            if columns.time < row.cells.count { look(row.cells[columns.time], row.line) }
            if let day = proofs[.dayFirst], let month = proofs[.monthFirst] {
                throw ImportDamage(
                    .ambiguousDates, line: max(day, month), expected: "dates in one order",
                    found: "a day past the 12th first in line \(day) and second in line \(month)")
            }
        }
        if let (order, line) = proofs.first {
            guard asked == nil || asked == order else {
                let place = order == .dayFirst ? "first" : "second"
                throw ImportDamage(
                    .ambiguousDates, line: line, expected: "dates in the order of `--date-order`",
                    found: "a date with the day \(place)",
                    hint: "The file proves the other order: leave out `--date-order`.")
            }
            return order
        }
        if let asked { return asked }
        guard let ambiguous else { return nil }
        throw ImportDamage(
            .ambiguousDates, line: ambiguous.line, expected: "a date whose day and month can be told apart",
            found: "'\(ambiguous.text)'",
            hint: "No day in the file is past the 12th. Say `--date-order dmy` if the day comes first, else `mdy`.")
    }

    /// The next sample, or the next row that can be none; `nil` at the end of the file.
    public func next() throws(ImportDamage) -> ImportItem? {
        while let row = try rows.next() {
            counts.read += 1
            line = row.line
            do throws(ImportRefusal) {
                if let sample = try sample(row) { return .sample(sample) }
            } catch {
                return .refused(error)
            }
        }
        return nil
    }

    private func sample(_ row: CSVRows.Row) throws(ImportRefusal) -> ImportedSample? {
        func cell(_ place: Int?) -> String {
            guard let place, place < row.cells.count else { return "" }
            return row.cells[place].trimmed
        }
        func refusal(_ place: Int, _ expected: String) -> ImportRefusal {
            let found = cell(place)
            return ImportRefusal(
                line: row.line, field: columns.names[place], expected: expected,
                found: found.isEmpty ? "nothing" : "'\(found)'")
        }
        // A comma within a number would move every cell behind it.
        guard row.cells.count <= columns.count else {
            throw ImportRefusal(
                line: row.line, field: "row", expected: "at most \(columns.count) cells", found: "\(row.cells.count)")
        }
        let place: Int?
        switch cell(columns.type) {
        case "0": place = columns.historic
        case "1": place = columns.scan
        case "2": place = columns.strip
        case let type:
            guard UInt8(type) != nil else { throw refusal(columns.type, "a number from 0 to 6") }
            counts.leave(Self.names[type] ?? "record type \(type)")
            return nil
        }
        guard let place else { throw refusal(columns.type, "0 or 1, as there is no column of test strips") }
        // Where the file ends in a cell it may have been cut: 10 may be the beginning of 101.
        let used = [columns.device, columns.serial, columns.time, columns.type, place]
        guard row.isEnded || used.allSatisfy({ $0 < row.cells.count - 1 }) else {
            throw ImportRefusal(
                line: row.line, field: "row", expected: "a line end behind the last value",
                found: "the end of the file")
        }
        guard let number = Self.number(cell(place)) else { throw refusal(place, "a number, HI or LO") }
        // LibreView writes whole mg/dL: one with decimals among values of mmol/L stands in the wrong column.
        if columns.unit == .milligramsPerDecilitre, let value = number.number, value.hasDecimals,
            value.approximation < Self.mostMillimoles
        {
            throw refusal(place, "a value in mg/dL, and this looks like one in mmol/L")
        }
        guard let time = time(cell(columns.time)) else {
            throw refusal(columns.time, "a date and time such as 20-11-2026 07:30")
        }
        let serial = cell(columns.serial)
        var distinction = serial
        // A finger stick is a measurement of its own, whatever the sensor says at that minute.
        if place == columns.strip { distinction += " strip" }
        var (placed, later) = (time, time)
        if let wall = time.localTime { later = rules.time(of: wall, isLater: true) ?? time }
        if later != time, let wall = time.localTime,
            !repeated.insert(Row(serial: serial, column: place, time: wall)).inserted
        {
            // The file has no offsets: the row that comes second is the hour that came second.
            placed = later
            distinction += " later"
        }
        var sample = ImportedSample(
            person: rules.person, provider: Self.provider, source: cell(columns.device), sourceDevice: serial,
            value: .glucose(
                GlucoseValue(
                    concentration: Quantity(number, columns.unit),
                    sampleType: place == columns.strip ? nil : .interstitialFluid)),
            time: placed, distinction: distinction)
        // The sensor keeps its history by itself; a scan is what it showed when somebody asked.
        // One that says what the history has at that minute is the same reading, and of the history.
        if place == columns.scan, Self.key(row, columns, value: place).map(history.contains) != true {
            sample.sensorSource = .scan
        }
        return sample
    }

    /// Above what any meter shows in mmol/L.
    private static let mostMillimoles = 40.0

    /// What a cell says: a number, `HI` or `LO`, or the limit that was passed, such as `>400`.
    private static func number(_ text: String) -> MeasuredNumber? {
        if let number = TextValue.decimal(text.utf8, comma: true) { return .value(number) }
        let limit = text.dropFirst().drop(while: \.isWhitespace)
        switch text.uppercased() {
        case "HI", "HIGH": return .positiveInfinity
        case "LO", "LOW": return .negativeInfinity
        case let words where words.hasPrefix(">") && TextValue.decimal(limit.utf8, comma: true) != nil:
            return .positiveInfinity
        case let words where words.hasPrefix("<") && TextValue.decimal(limit.utf8, comma: true) != nil:
            return .negativeInfinity
        default: return nil
        }
    }

    private static let names = ["3": "ketone", "4": "insulin", "5": "food", "6": "note or change of time"]

    private func time(_ text: String) -> ImportedTime? {
        if let date = LibreViewDate(text), let wall = date.wallTime(order) { return rules.time(of: wall) }
        var text = text
        return text.withUTF8 { TextValue.time($0) }
    }
}

/// A date as LibreView writes it, before it is known which number is the day: `20-11-2026 07:30`, `11-20-2026 7:30 PM`.
struct LibreViewDate {
    let first: Int
    let second: Int
    let third: Int
    let isYearLast: Bool
    let hour: Int
    let minute: Int
    let second60: Int

    init?(_ text: String) {
        let words = text.split(separator: " ").filter { $0 != "UTC" }
        guard (2...3).contains(words.count) else { return nil }
        let date = words[0].split(omittingEmptySubsequences: false) { "-/.".contains($0) }
        let clock = words[1].split(separator: ":", omittingEmptySubsequences: false)
        guard date.count == 3, (2...3).contains(clock.count) else { return nil }
        let numbers = (date + clock).compactMap { part in
            part.utf8.count <= 4 && part.utf8.allSatisfy { $0 &- 48 < 10 } ? Int(part) : nil
        }
        guard numbers.count == date.count + clock.count else { return nil }
        (first, second, third) = (numbers[0], numbers[1], numbers[2])
        guard (date[0].utf8.count == 4) != (date[2].utf8.count == 4) else { return nil }
        isYearLast = date[2].utf8.count == 4
        var hour = numbers[3]
        if words.count == 3 {
            guard (1...12).contains(hour) else { return nil }
            switch words[2].uppercased() {
            case "AM", "A.M.": hour %= 12
            case "PM", "P.M.": hour = hour % 12 + 12
            default: return nil
            }
        }
        self.hour = hour
        minute = numbers[4]
        second60 = clock.count == 3 ? numbers[5] : 0
    }

    /// The wall-clock time; `nil` if no calendar has it.
    ///
    /// - Parameter order: the order of day and month; without one both have to be the same number.
    func wallTime(_ order: DateOrder?) -> WallTime? {
        guard isYearLast else {
            return WallTime(year: first, month: second, day: third, hour: hour, minute: minute, second: second60)
        }
        let isDayFirst = order != .monthFirst
        return WallTime(
            year: third, month: isDayFirst ? second : first, day: isDayFirst ? first : second, hour: hour,
            minute: minute, second: second60)
    }
}

extension ExactDecimal {
    /// Whether it was written with decimals that are not all zero.
    fileprivate var hasDecimals: Bool { approximation != approximation.rounded() }
}

extension String {
    fileprivate var trimmed: String {
        guard first?.isWhitespace == true || last?.isWhitespace == true else { return self }
        let start = drop(while: \.isWhitespace)
        return String(start[..<(start.lastIndex { !$0.isWhitespace }.map(start.index(after:)) ?? start.startIndex)])
    }
}
