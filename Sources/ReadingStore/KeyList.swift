import Crypto
import Foundation
import GRDB
import HealthReadings

/// Which keys rows may be under, as the database lists them, authenticated under the newest of them.
///
/// Without a key nobody can say anew that rows may be in the clear: such rows are taken only while a store is being sealed,
/// and only where they were there when that began. A line for each generation (`0`; `1 CHECK` for seals as earlier versions
/// made them; `2 CHECK bound`; `2 CHECK bound people` once people are signed too), `earlier FRAME READING DEVICE` while
/// there are rows of the first two, and the list's own code, `code HEX`.
struct KeyList: Equatable {
    struct Entry: Equatable {
        /// Which generation; 0: rows in the clear.
        var number: UInt64
        /// What its key is known by (``KeyFile/check(_:)``).
        var check: String
        /// Whether its seals are bound to the columns of their rows.
        var bindsColumns: Bool
        /// Whether the rows of people have tags (``PersonTag``): without them they were changed.
        var signsPeople = false
    }

    var entries: [Entry] = []
    /// Which rows may be of an unbound generation; nil where there are none.
    var earlier: EarlierRows?
    private var code: String?

    private static let setting = "seal.generations"

    // MARK: In the database

    init(_ db: Database) throws {
        let lines = try ReadingStore.lines(db, Self.setting)
        guard !lines.isEmpty else {
            if try !Self.isEmpty(db) { entries = [Entry(number: 0, check: "", bindsColumns: false)] }
            return
        }
        for line in lines {
            let words = line.split(separator: " ").map(String.init)
            switch (words.first, words.count) {
            case ("earlier", 4):
                guard let frame = Int64(words[1]), let reading = Int64(words[2]), let device = Int64(words[3]) else {
                    throw Self.unreadable(line)
                }
                earlier = EarlierRows(frame: frame, reading: reading, device: device)
            case ("code", 2): code = words[1]
            case ("0", 1): entries.append(Entry(number: 0, check: "", bindsColumns: false))
            case (let word?, 2...4):
                guard let number = UInt64(word), number > 0, number < .max,
                    ["bound", "people"].starts(with: words.dropFirst(2))
                else { throw Self.unreadable(line) }
                entries.append(
                    Entry(
                        number: number, check: words[1], bindsColumns: words.count > 2, signsPeople: words.count > 3))
            default: throw Self.unreadable(line)
            }
        }
        guard Set(entries.map(\.number)).count == entries.count else { throw Self.unreadable("of one number twice") }
    }

    /// Writes the list, with its code where there is a key for it.
    mutating func write(_ db: Database, _ keys: [UInt64: GenerationKeys]) throws {
        code = signer.flatMap { keys[$0.number] }.map(makeCode)
        let lines = lines + (code.map { ["code \($0)"] } ?? [])
        if try ReadingStore.lines(db, Self.setting) != lines { try ReadingStore.set(db, Self.setting, lines: lines) }
    }

    /// Takes every generation out: nothing is left that is sealed.
    static func clear(_ db: Database) throws { try ReadingStore.set(db, setting, lines: []) }

    /// Notes that some rows are in the clear again: a migration has made them anew.
    static func noteRowsInTheClear(_ db: Database) throws {
        let known = try ReadingStore.lines(db, setting)
        if !known.isEmpty, !known.contains("0") { try ReadingStore.set(db, setting, lines: known + ["0"]) }
    }

    private static func isEmpty(_ db: Database) throws -> Bool {
        try Bool.fetchOne(
            db,
            sql: """
                SELECT NOT EXISTS (SELECT 1 FROM frame) AND NOT EXISTS (SELECT 1 FROM reading)
                    AND NOT EXISTS (SELECT 1 FROM device WHERE label IS NOT NULL)
                """) ?? true
    }

    private var lines: [String] {
        entries.map { entry in
            entry.number == 0
                ? "0"
                : "\(entry.number) \(entry.check)" + (entry.bindsColumns ? " bound" : "")
                    + (entry.signsPeople ? " people" : "")
        } + (earlier.map { ["earlier \($0.frame) \($0.reading) \($0.device)"] } ?? [])
    }

    private static func unreadable(_ line: String) -> StoreError {
        .corrupt(detail: "the list of keys has the line \(line)")
    }

    // MARK: Authentic

    /// The generation whose key the code is made with; nil where no row is bound to its columns.
    private var signer: Entry? { entries.filter(\.bindsColumns).max { $0.number < $1.number } }

    private func makeCode(_ keys: GenerationKeys) -> String {
        keys.list.code(of: Array(lines.joined(separator: "\n").utf8)).hexadecimal()
    }

    /// Checks that the list is as the owner of the key wrote it.
    ///
    /// One that names no bound generation has no code: an earlier version wrote it, or content is in the clear. What it
    /// lists must then be true of the rows.
    ///
    /// - Throws: ``StoreError/corrupt(detail:)``.
    func authenticate(_ db: Database, _ keys: [UInt64: GenerationKeys]) throws {
        if let signer {
            guard let keys = keys[signer.number], code == makeCode(keys) else {
                throw StoreError.corrupt(detail: "the list of keys was changed")
            }
        } else {
            guard code == nil, earlier == nil else { throw StoreError.corrupt(detail: "the list of keys was changed") }
            try checkRows(db, keys)
        }
    }

    /// Checks that no row is of a generation that is not listed, and that one of each that is opens.
    private func checkRows(_ db: Database, _ keys: [UInt64: GenerationKeys]) throws {
        let sealing = Sealing()
        sealing.set(Sealing.State(inUse: entries.map(\.number), keys: keys, earlier: .all))
        let rows = RowReader(db, sealing)
        func first(_ entry: Entry) -> UInt8 {
            var writer = ContentWriter()
            writer.put(entry.number)
            return writer.octets[0]
        }
        let listed = entries.map { "x'" + first($0).hexadecimal() + "'" }
            .joined(separator: ",")
        for (table, blob) in [("frame", "payload"), ("reading", "content")] {
            guard
                try Bool.fetchOne(
                    db,
                    sql: "SELECT EXISTS (SELECT 1 FROM \(table) WHERE substr(\(blob), 1, 1) NOT IN (\(listed)))")
                    == false
            else { throw StoreError.corrupt(detail: "rows are sealed under a key that is not listed") }
        }
        for entry in entries where entry.number > 0 {
            let frame = try PreparedStatement(
                db, "SELECT \(FrameRow.columns) FROM frame AS f WHERE substr(f.payload, 1, 1) = ? LIMIT 1")
            frame.bind(1, octets: [first(entry)])
            defer { frame.reset() }
            if try frame.next() { _ = try rows.frame(frame) }
            let reading = try PreparedStatement(
                db, "SELECT \(ReadingRow.columns) FROM reading AS r WHERE substr(r.content, 1, 1) = ? LIMIT 1")
            reading.bind(1, octets: [first(entry)])
            defer { reading.reset() }
            if try reading.next() { _ = try rows.content(reading) }
        }
    }
}

extension EarlierRows {
    /// All that are there now.
    init(_ db: Database) throws {
        func last(_ table: StaticString) throws -> Int64 {
            try Int64.fetchOne(db, sql: "SELECT max(key) FROM \(table)") ?? 0
        }
        self.init(frame: try last("frame"), reading: try last("reading"), device: try last("device"))
    }
}
