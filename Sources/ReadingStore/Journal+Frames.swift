import GRDB
import HealthReadings

/// Frames, and the contexts that some of them are.
extension Journal {
    // MARK: Contexts

    /// Stores the context of a record, with the record where that has come: the one of this contact first, else the
    /// newest with its number in the epoch.
    func add(_ context: GlucoseContext, of sequence: UInt16, _ frame: Frame) throws -> FrameOutcome {
        let isPruned = contact.records[sequence] == nil && contact.prunedSequences.contains(sequence)
        // A number that passes names nothing that another contact brought.
        let isPassing = decoder.passingNumber(of: frame, model: contact.description.model) != nil
        guard !isPruned, let key = try contact.records[sequence] ?? (isPassing ? nil : newestReading(sequence)) else {
            guard !isPruned,
                try isPassing || pruned?.hasSequence(sequence, device: contact.device, epoch: epoch) != true
            else {
                // Its record was pruned, and this is no part of anything that is still to come.
                try forgetStoredFrame()
                return .nothing
            }
            return try wait(frame, for: sequence)
        }
        if try isKept(frame, by: key, .context) { return .repeated(try load(key).id) }
        try attach(try keep(frame, .context), to: key, .context)
        try set(context, of: key)
        return .revised(try load(key))
    }

    /// Removes the frame that is being read again, where one is.
    func forgetStoredFrame() throws {
        if let storedFrame { try run("DELETE FROM frame WHERE key = ?", storedFrame) }
    }

    /// Removes the contexts of this contact that wait for a record.
    func forgetWaiting(_ sequence: UInt16) throws {
        let find = statements.findWaiting
        find.bind(1, contact.device)
        find.bind(2, Int64(epoch))
        find.bind(3, Int64(sequence))
        var frames: [Int64] = []
        while try find.next() { if find.int(1) == contact.contact { frames.append(find.int(0)) } }
        for frame in frames {
            try run("DELETE FROM waiting_context WHERE frame = ?", frame)
            try run("DELETE FROM frame WHERE key = ?", frame)
        }
    }

    private func newestReading(_ sequence: UInt16) throws -> Int64? {
        let select = try PreparedStatement(
            db,
            """
            SELECT key FROM reading WHERE device = ? AND sequence_epoch = ? AND sequence = ? AND kind = \(kind: .glucose)
            ORDER BY key DESC LIMIT 1
            """)
        select.bind(1, contact.device)
        select.bind(2, Int64(epoch))
        select.bind(3, Int64(sequence))
        return try select.firstInt()
    }

    private func wait(_ frame: Frame, for sequence: UInt16) throws -> FrameOutcome {
        let select = try PreparedStatement(
            db,
            """
            SELECT \(FrameRow.columns) FROM waiting_context AS w JOIN frame AS f ON f.key = w.frame
            WHERE w.device = ? AND w.sequence_epoch = ? AND w.sequence = ? AND f.key IS NOT ?
            """)
        select.bind(1, contact.device)
        select.bind(2, Int64(epoch))
        select.bind(3, Int64(sequence))
        select.bind(4, storedFrame)
        if let same = try firstFrame(of: select, where: { $0 == frame.payload }) {
            try countRepeat(same)
            let update = try PreparedStatement(db, "UPDATE waiting_context SET contact = ? WHERE frame = ?")
            update.bind(1, contact.contact)
            update.bind(2, same)
            try update.run()
            return .waiting
        }
        let insert = try PreparedStatement(
            db,
            """
            INSERT OR IGNORE INTO waiting_context (frame, device, sequence_epoch, sequence, contact)
            VALUES (?, ?, ?, ?, ?)
            """)
        insert.bind(1, try keep(frame, .context))
        insert.bind(2, contact.device)
        insert.bind(3, Int64(epoch))
        insert.bind(4, Int64(sequence))
        insert.bind(5, contact.contact)
        try insert.run()
        return .waiting
    }

    /// Joins the contexts that waited for a record: those of this contact, else whichever there are, unless the number
    /// passes.
    ///
    /// - Returns: whether the reading's context is another now.
    func joinWaiting(_ numbering: Numbering?, _ key: Int64) throws -> Bool {
        guard let numbering else { return false }
        let find = statements.findWaiting
        find.bind(1, contact.device)
        find.bind(2, Int64(epoch))
        find.bind(3, Int64(numbering.number))
        var waiting: [(frame: Int64, isOurs: Bool)] = []
        while try find.next() { waiting.append((find.int(0), find.int(1) == contact.contact)) }
        guard !waiting.isEmpty else { return false }
        let ours = waiting.filter(\.isOurs)
        var isJoined = false
        for (frame, _) in ours.isEmpty && !numbering.isPassing ? waiting : ours {
            try run("DELETE FROM waiting_context WHERE frame = ?", frame)
            let stored = try storedFrame(frame)
            if try isKept(stored, by: key, .context) {
                try run("DELETE FROM frame WHERE key = ?", frame)
            } else {
                try attach(frame, to: key, .context)
                isJoined = true
            }
        }
        if isJoined { try setNewestContext(of: key) }
        return isJoined
    }

    /// Gives a clashing record the contexts that came in this contact and were taken for those of the other.
    mutating func moveContexts(of record: Record, from other: ReadingID, to key: Int64) throws {
        guard record.value.kind == .glucose, let (previous, _) = try reading(other) else { return }
        let move = try PreparedStatement(
            db,
            """
            UPDATE reading_frame SET reading = ?1 WHERE reading = ?2 AND role = \(role: .context)
                AND frame IN (SELECT f.key FROM reading_frame AS b JOIN frame AS f ON f.key = b.frame
                    WHERE b.reading = ?2 AND f.contact = ?3)
            """)
        move.bind(1, key)
        move.bind(2, previous)
        move.bind(3, contact.contact)
        guard try move.run() > 0 else { return }
        try setNewestContext(of: previous)
        try setNewestContext(of: key)
    }

    /// Reads the newest context frame of a reading again; without one the reading has no context.
    private func setNewestContext(of key: Int64) throws {
        let select = try PreparedStatement(
            db, "SELECT max(frame) FROM reading_frame WHERE reading = ? AND role = \(role: .context)")
        select.bind(1, key)
        guard let newest = try select.firstInt(),
            case .glucoseContext(_, let context) = decoder.decode(
                try storedFrame(newest), model: contact.description.model)
        else { return try set(nil, of: key) }
        try set(context, of: key)
    }

    private func set(_ context: GlucoseContext?, of key: Int64) throws {
        var isOther = false
        try change(key) { stored in
            isOther = stored.content.context != context
            stored.content.context = context
        }
        if isOther {
            statements.sendAgain.bind(1, key)
            try statements.sendAgain.run()
        }
        if let context, decoder.contextsDecide(model: contact.description.model) { try heed(context, of: key) }
    }

    // MARK: Frames

    /// The row of a frame, made unless it is being read again.
    func keep(_ frame: Frame, _ state: FrameState) throws -> Int64 {
        let mark = state.isApart ? try sealing.stored(frame.payload) : nil
        if let storedFrame {
            let update = try PreparedStatement(db, "UPDATE frame SET state = ?, mark = ? WHERE key = ?")
            update.bind(1, state.rawValue)
            update.bind(2, octets: mark)
            update.bind(3, storedFrame)
            try update.run()
            return storedFrame
        }
        let stored = StoredFrame(
            key: numbers.takeFrame(),
            columns: FrameColumns(
                device: contact.device, contact: contact.contact, format: Int64(frame.format.rawValue),
                ordinal: Int64(frame.ordinal), receivedAt: frame.receivedAt.microseconds),
            payload: frame.payload)
        var parameters = Parameters(of: statements.insertFrame)
        parameters.put(stored.key)
        parameters.put(stored.columns.device)
        parameters.put(stored.columns.contact)
        parameters.put(stored.columns.format)
        parameters.put(stored.columns.ordinal)
        parameters.put(stored.columns.receivedAt)
        parameters.put(state.rawValue)
        parameters.put(octets: mark)
        parameters.put(octets: try sealing.blob(of: stored))
        try statements.insertFrame.run()
        return stored.key
    }

    /// Writes what a frame that grows has grown to.
    func rewrite(_ frame: Frame, _ row: Int64) throws {
        let stored = StoredFrame(
            key: row,
            columns: FrameColumns(
                device: contact.device, contact: contact.contact, format: Int64(frame.format.rawValue),
                ordinal: Int64(frame.ordinal), receivedAt: frame.receivedAt.microseconds),
            payload: frame.payload)
        let update = try PreparedStatement(
            db, "UPDATE frame SET payload = ?, received_at = ?, mark = ? WHERE key = ? AND state = \(frame: .pending)")
        update.bind(1, octets: try sealing.blob(of: stored))
        update.bind(2, stored.columns.receivedAt)
        update.bind(3, octets: try sealing.stored(frame.payload))
        update.bind(4, row)
        guard try update.run() > 0 else { throw StoreError.unknown("frame \(row)") }
    }

    /// Notes when a frame was received by the time since the machine began.
    func note(_ moment: BootTime, of frame: Int64) throws {
        let update = try PreparedStatement(db, "UPDATE frame SET boot_id = ?, boot_time = ? WHERE key = ?")
        update.bind(1, octets: Array(moment.boot.utf8))
        update.bind(2, moment.microseconds)
        update.bind(3, frame)
        try update.run()
    }

    func attach(_ frame: Int64, to reading: Int64, _ role: FrameRole) throws {
        statements.attach.bind(1, reading)
        statements.attach.bind(2, frame)
        statements.attach.bind(3, role.rawValue)
        try statements.attach.run()
    }

    /// Whether a reading has a frame of these octets already, but for a number that passes; it is then counted, and not
    /// stored a second time.
    func isKept(_ frame: Frame, by reading: Int64, _ role: FrameRole) throws -> Bool {
        guard let same = try same(frame, of: reading, role) else { return false }
        guard storedFrame == nil else { return same == storedFrame }
        try countRepeat(same)
        return true
    }

    /// Whether a reading has no record's frame any more, since it was let go.
    func isDropped(frameOf reading: Reading, _ key: Int64) throws -> Bool {
        guard try reading.receivedAt.microseconds < FrameBatch.horizon(db) else { return false }
        let select = try PreparedStatement(
            db, "SELECT EXISTS (SELECT 1 FROM reading_frame WHERE reading = ? AND role = \(role: .record))")
        select.bind(1, key)
        return try select.firstInt() == 0
    }

    /// The frame of a reading that has these octets, but for a number that passes.
    func same(_ frame: Frame, of reading: Int64, _ role: FrameRole) throws -> Int64? {
        let find = statements.findSameFrame
        find.bind(1, reading)
        find.bind(2, role.rawValue)
        find.bind(3, Int64(frame.format.rawValue))
        let model = contact.description.model
        let wanted = decoder.lastingOctets(of: frame, model: model)
        return try firstFrame(of: find) { payload in
            var stored = frame
            stored.payload = payload
            return decoder.lastingOctets(of: stored, model: model) == wanted
        }
    }

    /// Keeps a frame that belongs to no reading, once for its device.
    func keepApart(_ frame: Frame, _ state: FrameState) throws {
        if storedFrame == nil {
            let select = try PreparedStatement(
                db,
                """
                SELECT key FROM frame INDEXED BY frame_apart
                WHERE device = ? AND format = ? AND mark = ? AND mark IS NOT NULL LIMIT 1
                """)
            select.bind(1, contact.device)
            select.bind(2, Int64(frame.format.rawValue))
            for mark in try sealing.candidates(for: frame.payload) {
                select.bind(3, octets: mark)
                if let same = try select.firstInt() { return try countRepeat(same) }
            }
        }
        _ = try keep(frame, state)
    }

    /// The first frame, of a statement that gives ``FrameRow/columns``, with such octets.
    private func firstFrame(of select: PreparedStatement, where isWanted: ([UInt8]) -> Bool) throws -> Int64? {
        defer { select.reset() }
        while try select.next() {
            let frame = try rows.frame(select)
            if isWanted(frame.payload) { return frame.key }
        }
        return nil
    }

    private func countRepeat(_ frame: Int64) throws {
        statements.countRepeat.bind(1, frame)
        try statements.countRepeat.run()
    }

    private func storedFrame(_ key: Int64) throws -> Frame {
        let select = try PreparedStatement(db, "SELECT \(FrameRow.columns) FROM frame AS f WHERE f.key = ?")
        select.bind(1, key)
        guard try select.next() else { throw StoreError.corrupt(detail: "frame \(key) is missing") }
        defer { select.reset() }
        return try rows.frame(select).frame
    }

    private func run(_ sql: String, _ key: Int64) throws {
        let statement = try PreparedStatement(db, sql)
        statement.bind(1, key)
        try statement.run()
    }

    // MARK: Readings

    func reading(_ id: ReadingID) throws -> (key: Int64, reading: Reading)? {
        let find = statements.findReading
        for candidate in try sealing.candidates(for: id) {
            find.bind(1, candidate)
            guard try find.next() else { continue }
            defer { find.reset() }
            return (ReadingRow.key(find), try rows.reading(find))
        }
        return nil
    }

    func load(_ key: Int64) throws -> Reading {
        let load = statements.loadReading
        load.bind(1, key)
        guard try load.next() else { throw StoreError.corrupt(detail: "reading \(key) is missing") }
        defer { load.reset() }
        var reading = try rows.reading(load)
        let deliveries = try DeliveryReader(db, holds, sealing)
        reading.deliveries = try deliveries.deliveries(deliveries.entries(of: [key])[0], of: key, rows.columns(load))
        return reading
    }
}
