import Foundation
import GRDB

/// Checks that the indexes of a table have what the table has, as `PRAGMA integrity_check` does.
///
/// SQLite looks each row up in each index, at random places: with ten million readings most of them have to come from the disk. Here
/// table and indexes are each read from end to end, and sums over their entries compared. An entry that is missing, left over,
/// another's or elsewhere than its order says is found; which one it is isn't told.
///
/// A table without row numbers is looked up by its primary key as an index is, so the order of its rows is checked, too: SQLite's
/// `quick_check` doesn't look at it.
struct IndexCheck {
    /// The names of the tables that have indexes, or no row numbers.
    static func tables(_ db: Database) throws -> [String] {
        try String.fetchAll(
            db,
            sql: """
                SELECT tbl_name FROM sqlite_schema WHERE type = 'index'
                UNION SELECT name FROM pragma_table_list WHERE schema = 'main' AND wr ORDER BY 1
                """)
    }

    /// - Parameter table: its pages were found sound by `PRAGMA quick_check`.
    /// - Returns: what is wrong, in words like SQLite's.
    static func findings(_ db: Database, table: String) throws -> [String] {
        do {
            guard let check = try IndexCheck(db, table) else {
                return try String.fetchAll(db, sql: "PRAGMA integrity_check(\(table.quotedDatabaseIdentifier))")
                    .filter { $0 != "ok" }
            }
            return try check.findings(db)
        } catch let error as DatabaseError where error.resultCode.primaryResultCode == .SQLITE_CORRUPT {
            return ["\(error.message ?? "malformed") in the indexes of \(table)"]
        }
    }

    private let table: String
    /// The table itself, where no index stands for it.
    private let rows: String
    /// The columns by which a table without row numbers is ordered; empty: it has row numbers.
    private let primaryKey: [String]
    private let indexes: [Index]

    /// - Returns: nil if an index has what these sums don't cover: expressions, other collations, descending order.
    init?(_ db: Database, _ table: String) throws {
        let hasNoRowNumbers = try Bool.fetchOne(
            db, sql: "SELECT wr FROM pragma_table_list WHERE schema = 'main' AND name = ?", arguments: [table])
        var rows = "\(table.quotedDatabaseIdentifier) NOT INDEXED"
        var primaryKey: [String] = []
        var indexes: [Index] = []
        for row in try Row.fetchAll(
            db, sql: "SELECT name, origin, partial, \"unique\" FROM pragma_index_list(?)", arguments: [table])
        {
            let (name, origin): (String, String) = (try row.value(0), try row.value(1))
            if hasNoRowNumbers == true, origin == "pk" {
                // This index is the table, of which NOT INDEXED may take another.
                rows = "\(table.quotedDatabaseIdentifier) INDEXED BY \(name.quotedDatabaseIdentifier)"
                guard let index = try Index(db, name, isPartial: false, isUnique: true) else { return nil }
                primaryKey = Array(index.columns.prefix(index.keys))
                continue
            }
            let (isPartial, isUnique): (Bool, Bool) = (try row.value(2), try row.value(3))
            guard let index = try Index(db, name, isPartial: isPartial, isUnique: isUnique) else { return nil }
            indexes.append(index)
        }
        (self.table, self.rows) = (table, rows)
        (self.primaryKey, self.indexes) = (primaryKey, indexes)
    }

    private func findings(_ db: Database) throws -> [String] {
        guard !indexes.isEmpty || !primaryKey.isEmpty else { return [] }
        let rows = try tableSums(db)
        var findings = rows.isOutOfOrder ? ["row not in PRIMARY KEY order for \(table)"] : []
        for (index, expected) in zip(indexes, rows.sums) {
            let found = try index.sum(db, of: table)
            if found.sum.entries != expected.entries {
                findings.append("wrong # of entries in index \(index.name)")
            } else if found.sum != expected {
                findings.append("entries in index \(index.name) are not those of its table")
            }
            if found.isOutOfOrder { findings.append("entries out of order in index \(index.name)") }
            if found.isRepeated { findings.append("non-unique entry in index \(index.name)") }
        }
        return findings
    }

    /// What the rows of the table add up to, for each index, and whether they are out of the order of their primary key.
    private func tableSums(_ db: Database) throws -> (sums: [EntrySum], isOutOfOrder: Bool) {
        // Rows come as they are kept. Each is compared with the one before by the first of the columns.
        var columns = primaryKey
        var places: [[Int32]] = []
        var conditions: [Int32?] = []
        func place(_ column: String) -> Int32 {
            if let known = columns.firstIndex(of: column) { return Int32(known) }
            columns.append(column)
            return Int32(columns.count - 1)
        }
        for index in indexes {
            places.append(index.columns.map(place))
            conditions.append(index.condition.map { place("(\($0)) IS TRUE") })
        }
        let select = try PreparedStatement(
            db, "SELECT \(columns.joined(separator: ", ")) FROM \(rows)", isKept: false)
        defer { select.reset() }
        var sums = indexes.map { _ in EntrySum() }
        var values = columns.map { _ in UInt64(0) }
        var former = primaryKey.map { _ in StoredValue() }
        var (isFirst, isOutOfOrder) = (true, false)
        while try select.next() {
            var order = StoredValue.Order.same
            for column in values.indices {
                let value = select.value(Int32(column))
                values[column] = value.digest
                if column < former.count {
                    let next = former[column].replace(by: value)
                    if order == .same { order = next }
                }
            }
            if !isFirst, !former.isEmpty, order != .after { isOutOfOrder = true }
            isFirst = false
            for index in sums.indices {
                if let condition = conditions[index], select.int(condition) == 0 { continue }
                var entry = EntryDigest()
                for place in places[index] { entry.add(values[Int(place)]) }
                sums[index].add(entry)
            }
        }
        return (sums, isOutOfOrder)
    }

    /// An index of the table.
    private struct Index {
        let name: String
        /// What an entry has, in its order: what is indexed, and the row's number or primary key.
        let columns: [String]
        /// How many of the columns are indexed.
        let keys: Int
        let isUnique: Bool
        /// Which rows it has; nil: all.
        let condition: String?

        init?(_ db: Database, _ name: String, isPartial: Bool, isUnique: Bool) throws {
            var columns: [String] = []
            var keys = 0
            for row in try Row.fetchAll(
                db, sql: "SELECT cid, name, \"desc\", coll, key FROM pragma_index_xinfo(?) ORDER BY seqno",
                arguments: [name])
            {
                let (column, isDescending, isKey): (Int, Bool, Bool) = (
                    try row.value(0), try row.value(2), try row.value(4)
                )
                let collation: String = try row.value(3)
                guard column >= -1, !isDescending, collation == "BINARY" else { return nil }
                let named: String? = try row.value(1)
                columns.append(named?.quotedDatabaseIdentifier ?? "rowid")
                if isKey { keys += 1 }
            }
            var condition: String?
            if isPartial {
                let made = try String.fetchOne(
                    db, sql: "SELECT sql FROM sqlite_schema WHERE name = ?", arguments: [name])
                guard let made, let word = made.range(of: ") WHERE ") else { return nil }
                condition = String(made[word.upperBound...])
            }
            (self.name, self.columns, self.keys) = (name, columns, keys)
            (self.isUnique, self.condition) = (isUnique, condition)
        }

        /// Reads it from end to end.
        ///
        /// SQLite takes all columns from the index, and for the condition that the index has it looks at no row. If the condition is
        /// that the first column isn't null, SQLite begins behind the nulls: those are asked for by themselves.
        func sum(_ db: Database, of table: String) throws -> (sum: EntrySum, isOutOfOrder: Bool, isRepeated: Bool) {
            let select = try PreparedStatement(
                db,
                """
                SELECT \(columns.joined(separator: ", ")) FROM \(table.quotedDatabaseIdentifier)
                INDEXED BY \(name.quotedDatabaseIdentifier) \(condition.map { "WHERE \($0)" } ?? "")
                ORDER BY \(columns.joined(separator: ", "))
                """, isKept: false)
            defer { select.reset() }
            var sum = EntrySum()
            var (isOutOfOrder, isRepeated) = (false, false)
            var hasFirstNull = false
            var former = columns.map { _ in StoredValue() }
            while try select.next() {
                var entry = EntryDigest()
                var differs: (column: Int, isAfter: Bool)?
                var hasNull = false
                for column in former.indices {
                    let value = select.value(Int32(column))
                    entry.add(value.digest)
                    let order = former[column].replace(by: value)
                    if differs == nil, order != .same { differs = (column, order == .after) }
                    if column < keys, former[column].isNull { hasNull = true }
                }
                if sum.entries > 0 {
                    if differs?.isAfter != true { isOutOfOrder = true }
                    if isUnique, !hasNull, differs.map({ $0.column >= keys }) ?? true { isRepeated = true }
                }
                if former.first?.isNull == true { hasFirstNull = true }
                sum.add(entry)
            }
            if !hasFirstNull { try addPassedOver(to: &sum, db, of: table) }
            return (sum, isOutOfOrder, isRepeated)
        }

        /// Adds the entries whose first column is null although the index's condition is that it isn't. There are none in a sound
        /// index, so that this is one look at its beginning.
        private func addPassedOver(to sum: inout EntrySum, _ db: Database, of table: String) throws {
            guard let condition, let first = columns.first else { return }
            let select = try PreparedStatement(
                db,
                """
                SELECT \(columns.joined(separator: ", ")) FROM \(table.quotedDatabaseIdentifier)
                INDEXED BY \(name.quotedDatabaseIdentifier) WHERE (\(condition)) AND \(first) IS NULL
                """, isKept: false)
            defer { select.reset() }
            while try select.next() {
                var entry = EntryDigest()
                for column in columns.indices { entry.add(select.value(Int32(column)).digest) }
                sum.add(entry)
            }
        }
    }
}

/// What entries add up to, in any order.
private struct EntrySum: Equatable {
    private(set) var entries = 0
    private var sum: UInt64 = 0

    mutating func add(_ entry: EntryDigest) {
        entries += 1
        sum &+= entry.value
    }
}

/// A digest of an entry's values. It finds damage, and nobody who means to deceive: seals are for that.
private struct EntryDigest {
    private(set) var value: UInt64 = 0x9E37_79B9_7F4A_7C15

    mutating func add(_ word: UInt64) {
        let product = (value ^ word).multipliedFullWidth(by: 0xD6E8_FEB8_6659_FD93)
        value = (product.high ^ product.low) &+ 0x9E37_79B9_7F4A_7C15
    }

    mutating func add(_ octets: UnsafeRawBufferPointer, as kind: UInt64) {
        add(kind)
        add(UInt64(octets.count))
        let whole = octets.count - octets.count % 8
        for start in stride(from: 0, to: whole, by: 8) {
            add(octets.loadUnaligned(fromByteOffset: start, as: UInt64.self))
        }
        for octet in octets[whole...] { add(UInt64(octet)) }
    }
}

/// A column's value, kept to compare the next one with it.
private struct StoredValue {
    enum Order { case before, same, after }

    private enum Kind: UInt8 {
        case null, integer, real, text, blob
    }

    private var kind = Kind.null
    private var int: Int64 = 0
    private var real = 0.0
    private var octets: [UInt8] = []

    var isNull: Bool { kind == .null }

    /// - Returns: where the new value belongs, by SQLite's order of values: beside the one before.
    mutating func replace(by value: PreparedStatement.Value) -> Order {
        switch value {
        case .null:
            defer { kind = .null }
            return kind == .null ? .same : .before
        case .integer(let value):
            defer { (kind, int) = (.integer, value) }
            return switch kind {
            case .null: .after
            case .integer: Self.order(value, int)
            case .real: Self.order(Double(value), real)
            case .text, .blob: .before
            }
        case .real(let value):
            defer { (kind, real) = (.real, value) }
            return switch kind {
            case .null: .after
            case .integer: Self.order(value, Double(int))
            case .real: Self.order(value, real)
            case .text, .blob: .before
            }
        case .text(let value): return replace(by: value, .text)
        case .blob(let value): return replace(by: value, .blob)
        }
    }

    private mutating func replace(by value: UnsafeRawBufferPointer, _ kind: Kind) -> Order {
        let former = self.kind
        self.kind = kind
        var order = former == kind ? Order.same : former.rawValue < kind.rawValue ? .after : .before
        if order == .same {
            let difference = value.baseAddress.map { memcmp($0, octets, min(octets.count, value.count)) } ?? 0
            order = difference == 0 ? Self.order(value.count, octets.count) : difference > 0 ? .after : .before
        }
        if octets.count == value.count {
            octets.withUnsafeMutableBytes { $0.copyMemory(from: value) }
        } else {
            octets = Array(value)
        }
        return order
    }

    private static func order<Value: Comparable>(_ value: Value, _ former: Value) -> Order {
        value == former ? .same : value > former ? .after : .before
    }
}

extension PreparedStatement.Value {
    /// A digest of the value and of what it is stored as.
    fileprivate var digest: UInt64 {
        var digest = EntryDigest()
        switch self {
        case .null: digest.add(0)
        case .integer(let value):
            digest.add(1)
            digest.add(UInt64(bitPattern: value))
        case .real(let value):
            digest.add(2)
            digest.add(value.bitPattern)
        case .text(let octets): digest.add(octets, as: 3)
        case .blob(let octets): digest.add(octets, as: 4)
        }
        return digest.value
    }
}
