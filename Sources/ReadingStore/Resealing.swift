import Foundation
import GRDB
import HealthReadings

/// How rows go over from one key to another, out of the clear, or into it.
extension ReadingStore {
    /// Has rows go over to the newest key beside whatever else the store does, where some are not under it.
    func resealInBackground() {
        guard sealing.inUse.count > 1 else { return }
        resealing.withLock { task in
            guard task == nil else { return }
            task = Task(priority: .background) { [weak self] in
                do {
                    guard let count = try await self?.reseal() else { return }
                    self?.logger.notice("\(count) readings went over to the store's newest key")
                } catch {
                    // Opening the store goes on with it.
                    if !Task.isCancelled {
                        self?.logger.warning("readings still to go over to the newest key: \(error)")
                    }
                }
                self?.resealing.withLock { $0 = nil }
            }
        }
    }

    /// Returns when no row is under a former key.
    func finishResealing() async throws {
        while sealing.inUse.count > 1 {
            guard let task = resealing.withLock(\.self) else {
                _ = try await reseal()
                continue
            }
            await task.value
        }
    }

    /// Seals every row anew that is not under the newest key, some hundred a transaction, then writes the files anew, so
    /// that no octet of what stood there is left in them.
    ///
    /// - Returns: how many readings that were.
    func reseal() async throws -> Int {
        var (frame, reading, count): (Int64, Int64, Int) = (0, 0, 0)
        while true {
            let after = frame
            guard let last = try await write(.reseal, { [sealing] db in try Self.resealFrames(db, after, sealing) })
            else { break }
            frame = last
            try Task.checkCancellation()
        }
        while true {
            let after = reading
            let batch = try await write(.reseal) { [sealing] db in try Self.resealReadings(db, after, sealing) }
            guard let batch else { break }
            reading = batch.last
            count += batch.count
            try Task.checkCancellation()
        }
        let pruneKey = pruneKey.withLock(\.self)
        let current = sealing.current
        let isDone = try await write(.reseal) { [self] db in
            // Rows that came meanwhile are under the newest key, unless that changed on the way.
            guard sealing.current == current else { return false }
            try Self.resealDevices(db, sealing)
            try Self.retireOtherGenerations(db, current: current)
            if let pruneKey { try keep(pruneKey, db) }
            try Self.markUnfinished(db)
            return true
        } committed: { [sealing] isDone in
            if isDone { sealing.retireOthers() }
        }
        guard isDone else { return try await count + reseal() }
        try dropPruneKeyFile()
        try await rewriteFiles()
        // The log could be emptied, so no reader sees an older commit.
        sealing.forgetRetired()
        try await removeRetired()
        return count
    }

    private static let size = 500

    /// Of devices there are few.
    private static func resealDevices(_ db: Database, _ sealing: Sealing) throws {
        for row in try Row.fetchAll(db, sql: "SELECT key, label FROM device WHERE label IS NOT NULL") {
            let (key, blob): (Int64, Data) = (row[0], row[1])
            guard try Sealing.generation(of: Array(blob)) != sealing.current else { continue }
            let octets = try sealing.open(Array(blob), at: .device(key))
            try db.execute(
                sql: "UPDATE device SET label = ? WHERE key = ?",
                arguments: [Data(try sealing.seal(octets, at: .device(key))), key])
        }
    }

    private static func resealFrames(_ db: Database, _ after: Int64, _ sealing: Sealing) throws -> Int64? {
        try db.execute(sql: "PRAGMA secure_delete = ON")
        let select = try PreparedStatement(
            db, "SELECT key, payload, mark IS NOT NULL FROM frame WHERE key > ? ORDER BY key LIMIT \(size)")
        select.bind(1, after)
        var rows: [(key: Int64, blob: [UInt8], isApart: Bool)] = []
        while try select.next() { rows.append((select.int(0), select.octets(1), select.int(2) != 0)) }
        let update = try PreparedStatement(db, "UPDATE frame SET payload = ?, mark = ? WHERE key = ?")
        for row in rows where try Sealing.generation(of: row.blob) != sealing.current {
            let payload = try sealing.open(row.blob, at: .frame(row.key))
            update.bind(1, octets: try sealing.seal(payload, at: .frame(row.key)))
            update.bind(2, octets: row.isApart ? try sealing.stored(payload) : nil)
            update.bind(3, row.key)
            try update.run()
        }
        return rows.last?.key
    }

    private static func resealReadings(
        _ db: Database, _ after: Int64, _ sealing: Sealing
    ) throws -> (last: Int64, count: Int)? {
        let select = try PreparedStatement(
            db,
            """
            SELECT \(ReadingRow.columns), o.words FROM reading AS r LEFT JOIN outbox AS o ON o.reading = r.key
            WHERE r.key > ? ORDER BY r.key LIMIT \(size)
            """)
        select.bind(1, after)
        let reader = RowReader(db, sealing)
        var rows: [(key: Int64, id: ReadingID, content: ReadingContent, words: String)] = []
        var last: Int64?
        while try select.next() {
            let key = ReadingRow.key(select)
            last = key
            guard try Sealing.generation(of: select.octets(ReadingRow.count - 1)) != sealing.current else { continue }
            let (id, content) = try reader.content(select)
            rows.append((key, id, content, try sealing.words(select.octets(ReadingRow.count), on: key)))
        }
        let update = try PreparedStatement(db, "UPDATE reading SET id = ?, content = ? WHERE key = ?")
        let updateWords = try PreparedStatement(db, "UPDATE outbox SET words = ? WHERE reading = ?")
        for row in rows {
            update.bind(1, try sealing.stored(row.id))
            update.bind(2, octets: try sealing.seal(row.content, of: row.id, row: row.key))
            update.bind(3, row.key)
            try update.run()
            guard !row.words.isEmpty else { continue }
            updateWords.bind(1, octets: try sealing.seal(Array(row.words.utf8), at: .words(row.key)))
            updateWords.bind(2, row.key)
            try updateWords.run()
        }
        return last.map { ($0, rows.count) }
    }
}
