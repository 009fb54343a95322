import Foundation
import GRDB
import HealthReadings
import Logging
import Synchronization

/// What a change of keys has done.
public struct KeyChange: Sendable, Hashable {
    /// How many readings were re-encrypted with the newest key.
    public var readings = 0
    /// The rows that could not be read, as ``ReadingStore/verify(progress:)`` names them. They stay as they are, and
    /// nothing reads them: the key that sealed them is not kept for their sake.
    public var unreadable: [String] = []
}

/// Re-encrypts rows with another key, encrypts rows in the clear, or decrypts all.
extension ReadingStore {
    /// Re-encrypts rows that are not under the newest key, while the store does its other work.
    func resealInBackground() {
        guard sealing.inUse.count > 1 || sealing.hasRetired else { return }
        resealing.withLock { task in
            guard task == nil else { return }
            task = Task(priority: .background) { [weak self] in
                do {
                    guard let change = try await self?.reseal() else { return }
                    self?.logger.notice("\(change.readings) readings were sealed with the store's newest key")
                } catch {
                    // Opening the store goes on with it.
                    if !Task.isCancelled {
                        self?.logger.warning("cannot seal all readings with the newest key yet: \(error)")
                    }
                }
                self?.resealing.withLock { $0 = nil }
            }
        }
    }

    /// Returns when no row is under a former key, and the former keys are gone.
    ///
    /// It takes the place of what runs in the background, which goes on if this is stopped.
    ///
    /// - Returns: what it has done itself.
    @discardableResult
    func finishResealing(progress: @escaping StoreProgress.Handler = { _ in }) async throws -> KeyChange {
        if let task = resealing.withLock(\.self) {
            // It ends with its transaction.
            task.cancel()
            await task.value
        }
        do {
            var change = KeyChange()
            while sealing.inUse.count > 1 || sealing.hasRetired { change += try await reseal(progress: progress) }
            return change
        } catch {
            resealInBackground()
            throw error
        }
    }

    /// Seals every row anew that is not under the newest key, some hundred a transaction, then writes the files anew, so
    /// that no octet of what stood there is left in them.
    ///
    /// A row that cannot be read stays as it is, and the others are re-encrypted all the same.
    func reseal(progress: @escaping StoreProgress.Handler = { _ in }) async throws -> KeyChange {
        var change = KeyChange()
        // What was stopped in its last step has every row under the newest key.
        if sealing.inUse.count > 1 {
            // Taken before the walk: the rows it has passed are not under a key that becomes the newest meanwhile.
            let current = sealing.current
            change += try await resealRows(progress)
            guard try await retireFormer(of: current, &change) else {
                // What could not be read is met again.
                var again = try await reseal(progress: progress)
                again.readings += change.readings
                return again
            }
        }
        if !change.unreadable.isEmpty {
            logger.warning(
                "rows that cannot be read stay as they are: `healthrelay store verify` names them",
                metadata: [
                    "count": "\(change.unreadable.count)",
                    "rows": "\(KeyChange.listed(change.unreadable))",
                ])
        }
        try dropPruneKeyFile()
        try await rewriteFiles(progress: progress)
        // Whoever is stopped before has not done all: the next one sees by what is retired that there is something left.
        try await removeRetired()
        // The log could be emptied, so no reader sees an older commit.
        sealing.forgetRetired()
        return change
    }

    /// Walks along frames and readings. A walk that was cut short begins again, and passes what it has sealed already.
    private func resealRows(_ progress: StoreProgress.Handler) async throws -> KeyChange {
        var change = KeyChange()
        let (frames, readings) = (try await keyRange(of: "frame"), try await keyRange(of: "reading"))
        let total = frames.count + readings.count
        for (isReadings, earlier) in [(false, Int64(0)), (true, frames.count)] {
            var last: Int64 = 0
            while true {
                let after = last
                let batch = try await write(.reseal) { [sealing] db in
                    try isReadings ? Self.resealReadings(db, after, sealing) : Self.resealFrames(db, after, sealing)
                }
                guard let batch else { break }
                last = batch.last
                change += batch.change
                let done = (isReadings ? readings : frames).count(through: last)
                progress(StoreProgress(.sealing, done: earlier + done, of: total))
                try Task.checkCancellation()
            }
        }
        return change
    }

    /// Notes that no row is under a former key.
    ///
    /// - Parameter current: the generation of the newest key when the walk over the rows began.
    /// - Returns: whether that is so: the newest key may have changed on the way.
    private func retireFormer(of current: UInt64, _ change: inout KeyChange) async throws -> Bool {
        let pruneKey = pruneKey.withLock(\.self)
        let devices = try await write(.reseal) { [self] db -> KeyChange? in
            // Rows that came meanwhile are under the newest key, unless that changed on the way.
            guard sealing.current == current else { return nil }
            var devices = try Self.resealDevices(db, sealing)
            try Retracting.reseal(db, sealing, &devices)
            if current > 0 { try PeopleTags(db: db, sealing: sealing).renew(&devices) }
            try Self.retireOtherGenerations(db, sealing)
            if let pruneKey { try keep(pruneKey, db) }
            try Self.markUnfinished(db)
            return devices
        } committed: { [sealing] devices in
            if devices != nil { sealing.retireOthers() }
        }
        if let devices { change += devices }
        return devices != nil
    }

    private static let size = 500

    /// Of devices there are few.
    private static func resealDevices(_ db: Database, _ sealing: Sealing) throws -> KeyChange {
        var change = KeyChange()
        for row in try Row.fetchAll(db, sql: "SELECT key, label FROM device WHERE label IS NOT NULL") {
            let (key, blob): (Int64, Data) = (try row.value(0), try row.value(1))
            let octets = try change.read("device \(key)") {
                try Sealing.generation(of: Array(blob)) == sealing.current
                    ? nil : sealing.open(Array(blob), at: .device(key))
            }
            guard let octets else { continue }
            try db.execute(
                sql: "UPDATE device SET label = ? WHERE key = ?",
                arguments: [Data(try sealing.seal(octets, at: .device(key))), key])
        }
        return change
    }

    private static func resealFrames(
        _ db: Database, _ after: Int64, _ sealing: Sealing
    ) throws -> (last: Int64, change: KeyChange)? {
        try db.execute(sql: "PRAGMA secure_delete = ON")
        let select = try PreparedStatement(
            db,
            """
            SELECT \(FrameRow.columns), f.mark IS NOT NULL FROM frame AS f WHERE f.key > ? ORDER BY f.key LIMIT \(size)
            """)
        select.bind(1, after)
        defer { select.reset() }
        let reader = RowReader(db, sealing)
        var rows: [(frame: StoredFrame, isApart: Bool)] = []
        var (last, change): (Int64?, KeyChange) = (nil, KeyChange())
        while try select.next() {
            last = select.int(0)
            let frame = try change.read("frame \(select.int(0))") {
                try Sealing.generation(of: select.octets(1)) == sealing.current ? nil : reader.frame(select)
            }
            if let frame { rows.append((frame, select.int(FrameRow.count) != 0)) }
        }
        let update = try PreparedStatement(db, "UPDATE frame SET payload = ?, mark = ? WHERE key = ?")
        for (frame, isApart) in rows {
            update.bind(1, octets: try sealing.blob(of: frame))
            update.bind(2, octets: isApart ? try sealing.stored(frame.payload) : nil)
            update.bind(3, frame.key)
            try update.run()
        }
        return last.map { ($0, change) }
    }

    private static func resealReadings(
        _ db: Database, _ after: Int64, _ sealing: Sealing
    ) throws -> (last: Int64, change: KeyChange)? {
        let select = try PreparedStatement(
            db,
            """
            SELECT \(ReadingRow.columns) FROM reading AS r WHERE r.key > ? ORDER BY r.key LIMIT \(size)
            """)
        select.bind(1, after)
        defer { select.reset() }
        let reader = RowReader(db, sealing)
        var readings: [StoredReading] = []
        var (last, change): (Int64?, KeyChange) = (nil, KeyChange())
        while try select.next() {
            let key = ReadingRow.key(select)
            last = key
            // A reading that was changed meanwhile is under the newest key already; what was said of it may not be.
            let reading = try change.read("reading \(key)") {
                try Sealing.generation(of: select.octets(ReadingRow.content)) == sealing.current
                    ? nil : reader.stored(select)
            }
            if let reading { readings.append(reading) }
        }
        change.readings = readings.count
        for var reading in readings {
            reading.columns.id = try sealing.stored(reading.id)
            try ReadingRow.seal(db, reading, sealing)
        }
        guard let last else { return nil }
        try resealQueue(db, after, last, sealing, &change)
        return (last, change)
    }

    /// Seals anew what destinations said of the readings behind one, up to another, and renews the tags.
    private static func resealQueue(
        _ db: Database, _ after: Int64, _ last: Int64, _ sealing: Sealing, _ change: inout KeyChange
    ) throws {
        let select = try PreparedStatement(
            db,
            """
            SELECT o.rowid, o.destination, o.words, \(OutboxTag.columns) FROM outbox AS o
            WHERE o.reading > ? AND o.reading <= ? ORDER BY o.reading
            """)
        select.bind(1, after)
        select.bind(2, last)
        defer { select.reset() }
        var words: [(reading: Int64, destination: Int64, text: String)] = []
        var tags: [(row: Int64, octets: [UInt8])] = []
        while try select.next() {
            let (row, destination, blob, entry) = (
                select.int(0), select.int(1), select.octets(2), OutboxTag(select, from: 3)
            )
            let reading = entry.reading
            let text = try change.read("words on reading \(reading)") {
                try blob.isEmpty || Sealing.generation(of: blob) == sealing.current
                    ? nil : sealing.words(blob, on: reading, at: destination)
            }
            if let text { words.append((reading, destination, text)) }
            let tag = select.octets(3 + OutboxTag.count - 1)
            let generation: UInt64? = tag.isEmpty ? 0 : try? Sealing.generation(of: tag)
            // A tag that does not hold is kept, and so goes on being noticed.
            if generation != sealing.current, entry.holds(select, from: 3, sealing) {
                tags.append((row, try entry.made(sealing) ?? []))
            }
        }
        let update = try PreparedStatement(db, "UPDATE outbox SET words = ? WHERE reading = ? AND destination = ?")
        for (reading, destination, text) in words {
            update.bind(
                1, octets: try sealing.seal(Array(text.utf8), at: .words(reading, at: destination)))
            update.bind(2, reading)
            update.bind(3, destination)
            try update.run()
        }
        let renew = try PreparedStatement(db, "UPDATE outbox SET tag = ? WHERE rowid = ?")
        for (row, octets) in tags {
            renew.bind(1, octets: octets.nonEmpty)
            renew.bind(2, row)
            try renew.run()
        }
    }

    /// Gives the frames and readings of a device to another: their seals are bound to the device they are of.
    ///
    /// A damaged row goes with the others, but its seal stays as it is, so that ``verify(progress:)`` still names it.
    ///
    /// - Returns: the damaged rows.
    static func moveRows(_ db: Database, from younger: Int64, to older: Int64, _ sealing: Sealing) throws -> [String] {
        var change = KeyChange()
        let rows = RowReader(db, sealing)
        let frames = try Int64.fetchAll(db, sql: "SELECT key FROM frame WHERE device = ?", arguments: [younger])
        let select = try PreparedStatement(db, "SELECT \(FrameRow.columns) FROM frame AS f WHERE f.key = ?")
        let update = try PreparedStatement(db, "UPDATE frame SET device = ?, payload = ? WHERE key = ?")
        for key in frames {
            select.bind(1, key)
            guard try select.next() else { continue }
            let readable = try change.read("frame \(key)") { try rows.frame(select) }
            select.reset()
            guard var frame = readable else {
                try db.execute(sql: "UPDATE frame SET device = ? WHERE key = ?", arguments: [older, key])
                continue
            }
            frame.columns.device = older
            update.bind(1, older)
            update.bind(2, octets: try sealing.blob(of: frame))
            update.bind(3, key)
            try update.run()
        }
        for key in try Int64.fetchAll(db, sql: "SELECT key FROM reading WHERE device = ?", arguments: [younger]) {
            let moved: Void? = try change.read("reading \(key)") {
                try ReadingRow.change(db, key, rows) { $0.columns.device = older }
            }
            if moved == nil {
                try db.execute(sql: "UPDATE reading SET device = ? WHERE key = ?", arguments: [older, key])
            }
        }
        return change.unreadable
    }
}

extension KeyChange {
    /// The first of these rows, for the log.
    static func listed(_ rows: [String]) -> String { rows.prefix(20).joined(separator: ", ") }

    static func += (sum: inout KeyChange, other: KeyChange) {
        sum.readings += other.readings
        sum.unreadable += other.unreadable
    }

    /// What `body` makes of a row; `nil` if there is nothing to do, or the row is damaged, which is noted.
    mutating func read<Value>(_ row: @autoclosure () -> String, _ body: () throws -> Value?) throws
        -> Value?
    {
        if let value = try StoreError.unlessCorrupt(body) { return value }
        unreadable.append(row())
        return nil
    }
}
