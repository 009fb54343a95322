import HealthReadings

/// The rows of a CSV file (RFC 4180), one after the other. Lines may end in CR LF, LF or CR; a field in quotes may have line
/// breaks in it.
struct CSVRows {
    /// A row, with the line on which it begins.
    struct Row {
        var line: Int
        var cells: [String]
        /// Whether a line end follows it, rather than the end of the file.
        var isEnded = true
    }

    /// No row of a reading is longer, in octets.
    private static let longest = 64 * 1024

    private let source: any OctetSource
    /// What stands between two cells; `nil` while each row is one.
    var separator: UInt8?
    /// Whether quotes hold cells together.
    var quotes: Bool
    private var buffer = [UInt8](repeating: 0, count: 64 * 1024)
    private var (position, count) = (0, 0)
    private var isAtEnd = false
    private var line = 1
    private(set) var octetsRead: Int64 = 0

    init(_ source: any OctetSource, separator: UInt8? = UInt8(ascii: ","), quotes: Bool = true) {
        self.source = source
        self.quotes = quotes
        self.separator = separator
    }

    /// The next row that is not empty; `nil` at the end.
    ///
    /// - Throws: ``ImportDamage`` for a row that is too long, or quotes that do not end.
    mutating func next() throws(ImportDamage) -> Row? {
        while true {
            guard let row = try row() else { return nil }
            guard row.cells.count == 1, row.cells[0].isEmpty else { return row }
        }
    }

    private mutating func row() throws(ImportDamage) -> Row? {
        let first = line
        var cells: [String] = []
        var cell: [UInt8] = []
        var (isQuoted, isBegun, length) = (false, false, 0)
        func text() -> String { String(decoding: cell, as: UTF8.self) }
        while let octet = try octet() {
            isBegun = true
            length += 1
            guard length <= Self.longest else {
                throw ImportDamage(
                    .damaged, line: first, expected: "a row of at most \(Self.longest >> 10) KiB",
                    found: isQuoted ? "quotes that do not end" : "a longer one")
            }
            if octet == UInt8(ascii: "\n") { line += 1 }
            if isQuoted {
                guard octet == UInt8(ascii: "\"") else {
                    cell.append(octet)
                    continue
                }
                if try peek() == UInt8(ascii: "\"") {
                    cell.append(octet)
                    position += 1
                } else {
                    isQuoted = false
                }
                continue
            }
            switch octet {
            case UInt8(ascii: "\"") where cell.isEmpty && quotes: isQuoted = true
            case separator:
                cells.append(text())
                cell.removeAll(keepingCapacity: true)
            case UInt8(ascii: "\r"):
                if try peek() == UInt8(ascii: "\n") { continue }
                line += 1
                cells.append(text())
                return Row(line: first, cells: cells)
            case UInt8(ascii: "\n"):
                cells.append(text())
                return Row(line: first, cells: cells)
            default: cell.append(octet)
            }
        }
        guard !isQuoted else {
            throw ImportDamage(
                .damaged, line: first, expected: "the end of a text in quotes", found: "the end of the file")
        }
        guard isBegun else { return nil }
        cells.append(text())
        return Row(line: first, cells: cells, isEnded: false)
    }

    private mutating func octet() throws(ImportDamage) -> UInt8? {
        guard let octet = try peek() else { return nil }
        position += 1
        return octet
    }

    private mutating func peek() throws(ImportDamage) -> UInt8? {
        if position < count { return buffer[position] }
        guard !isAtEnd else { return nil }
        let source = source
        do {
            count = try buffer.withUnsafeMutableBytes { try source.read(into: $0) }
        } catch let error as ImportDamage { throw error } catch {
            throw ImportDamage(.unreadable, expected: "a file that can be read", found: "\(error)")
        }
        position = 0
        let isFirst = octetsRead == 0
        octetsRead += Int64(count)
        if count == 0 {
            isAtEnd = true
            return nil
        }
        if isFirst, count >= 3, buffer[0] == 0xEF, buffer[1] == 0xBB, buffer[2] == 0xBF {
            position = 3
            if position == count { return try peek() }
        }
        return buffer[position]
    }
}
