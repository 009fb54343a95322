import HealthReadings

/// How another program writes its data.
public enum ImportFormat: String, Sendable, Hashable, CaseIterable {
    /// The `export.xml` of Apple Health.
    case appleHealth = "apple_health"
    /// The CSV of LibreView.
    case libreView = "libreview"
    /// The CSV that `query --format csv` writes.
    case csv
}

/// A file of another program's data.
public final class ImportFile {
    private let source: any OctetSource
    /// How it is written.
    public let format: ImportFormat
    /// Its octets in all; `nil` where that is not known, as of a pipe.
    public let size: Int64?

    /// Opens a file.
    ///
    /// - Parameters:
    ///   - path: where it is.
    ///   - format: how it is written; `nil`: what its first octets say.
    /// - Throws: ``ImportDamage`` if it cannot be read, or is nothing that can be imported.
    public convenience init(path: String, format: ImportFormat? = nil) throws(ImportDamage) {
        let source = try FileSource(path: path)
        try self.init(source, size: source.size, format: format)
    }

    /// Takes data that is in memory.
    public convenience init(octets: [UInt8], format: ImportFormat? = nil) throws(ImportDamage) {
        try self.init(MemorySource(octets), size: Int64(octets.count), format: format)
    }

    private init(_ source: any OctetSource, size: Int64?, format: ImportFormat?) throws(ImportDamage) {
        let ahead = try AheadSource(source)
        self.source = ahead
        self.size = size
        let found = try Self.format(of: ahead.head)
        guard let wanted = format ?? found else { throw Self.unknown(ahead.head) }
        self.format = wanted
    }

    /// A reader of the file; one for each.
    ///
    /// - Throws: ``ImportDamage`` if the file is not written so, or its dates may mean two days each.
    public func reader(_ rules: ImportRules) throws(ImportDamage) -> any ImportReader {
        switch format {
        case .appleHealth: try AppleHealthReader(source, rules)
        case .libreView: try LibreViewReader(source, rules)
        case .csv: try OwnCSVReader(source, rules)
        }
    }

    /// What the first octets say; `nil` if they say nothing that is known.
    private static func format(of head: [UInt8]) throws(ImportDamage) -> ImportFormat? {
        if head.starts(with: [0x50, 0x4B, 0x03, 0x04]) {
            throw ImportDamage(
                .unknownFormat, expected: "an XML or CSV file", found: "a ZIP archive",
                hint: "Unzip it first: `unzip export.zip`, then import apple_health_export/export.xml.")
        }
        if head.starts(with: [0xFE, 0xFF]) || head.starts(with: [0xFF, 0xFE]) {
            throw ImportDamage(.unknownFormat, expected: "text in UTF-8", found: "text in UTF-16")
        }
        var text = head[...]
        if text.starts(with: [0xEF, 0xBB, 0xBF]) { text = text.dropFirst(3) }
        let first = text.first { !" \t\r\n".utf8.contains($0) }
        if first == UInt8(ascii: "<") { return .appleHealth }
        if OwnCSVReader.isHeader(text.prefix { !"\r\n".utf8.contains($0) }) { return .csv }
        let lines = text.split(maxSplits: 3) { "\r\n".utf8.contains($0) }.prefix(3)
        return lines.contains { LibreViewColumns(String(decoding: $0, as: UTF8.self)) != nil } ? .libreView : nil
    }

    /// Whether it is the CSV of `report`.
    private static func isReport(_ head: [UInt8]) -> Bool {
        let line = String(decoding: head.prefix { $0 != UInt8(ascii: "\n") }, as: UTF8.self)
        return ["id,time,local_date,", "id;time;local_date;"].contains { line.contains($0) }
    }

    private static func unknown(_ head: [UInt8]) -> ImportDamage {
        ImportDamage(
            .unknownFormat, line: 1,
            expected: "an Apple Health export.xml, a LibreView CSV or a CSV of `healthrelay query`",
            found: head.isEmpty
                ? "an empty file"
                : String(decoding: head.prefix { $0 != UInt8(ascii: "\n") }.prefix(60), as: UTF8.self),
            hint: isReport(head)
                ? "The CSV of a report lacks what an import needs: write one with `healthrelay query --format csv`."
                : nil)
    }
}

/// A source whose first octets were looked at.
private final class AheadSource: OctetSource {
    private static let ahead = 4096

    let head: [UInt8]
    private let source: any OctetSource
    private var position = 0

    init(_ source: any OctetSource) throws(ImportDamage) {
        self.source = source
        var head = [UInt8](repeating: 0, count: Self.ahead)
        var count = 0
        while count < head.count {
            let more: Int
            do {
                more = try head.withUnsafeMutableBytes { buffer in
                    try source.read(into: UnsafeMutableRawBufferPointer(rebasing: buffer[count...]))
                }
            } catch let error as ImportDamage { throw error } catch {
                throw ImportDamage(.unreadable, expected: "a file that can be read", found: "\(error)")
            }
            if more == 0 { break }
            count += more
        }
        self.head = Array(head[..<count])
    }

    func read(into buffer: UnsafeMutableRawBufferPointer) throws(ImportDamage) -> Int {
        guard position < head.count else { return try source.read(into: buffer) }
        let count = min(buffer.count, head.count - position)
        head.withUnsafeBytes { all in
            buffer.copyMemory(from: UnsafeRawBufferPointer(rebasing: all[position..<position + count]))
        }
        position += count
        return count
    }

    func rewind() throws(ImportDamage) {
        try source.rewind()
        // The file's beginning comes from the source again.
        position = head.count
    }
}
