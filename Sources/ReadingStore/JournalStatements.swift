import GRDB

/// The statements of the hot path, looked up once for a transaction.
struct JournalStatements {
    let findReading: PreparedStatement
    let loadReading: PreparedStatement
    let findSameFrame: PreparedStatement
    let countRepeat: PreparedStatement
    let insertFrame: PreparedStatement
    let insertReading: PreparedStatement
    let attach: PreparedStatement
    let insertOutbox: PreparedStatement
    let findWaiting: PreparedStatement
    let sendAgain: PreparedStatement

    static let findReadingSQL = """
        SELECT \(ReadingRow.columns) FROM reading AS r WHERE r.id = ?
        """
    static let loadReadingSQL = """
        SELECT \(ReadingRow.columns) FROM reading AS r WHERE r.key = ?
        """
    static let insertFrameSQL = """
        INSERT INTO frame (key, device, contact, format, ordinal, received_at, state, mark, payload)
        VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
        """
    static let attachSQL = "INSERT OR IGNORE INTO reading_frame (reading, frame, role) VALUES (?, ?, ?)"
    static let insertOutboxSQL = """
        INSERT INTO outbox
            (reading, destination, user, resource, provider, type, timestamp, share, tag, offset_minutes, revision)
        VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, \(OutboxRevision.first))
        ON CONFLICT (timestamp, destination, user, resource, provider, type, share) WHERE share IS NOT NULL DO NOTHING
        """
    static let findWaitingSQL = """
        SELECT frame, contact FROM waiting_context WHERE device = ? AND sequence_epoch = ? AND sequence = ? ORDER BY frame
        """

    init(_ db: Database) throws {
        findReading = try PreparedStatement(db, Self.findReadingSQL)
        loadReading = try PreparedStatement(db, Self.loadReadingSQL)
        findSameFrame = try PreparedStatement(
            db,
            """
            SELECT \(FrameRow.columns) FROM reading_frame AS b JOIN frame AS f ON f.key = b.frame
            WHERE b.reading = ? AND b.role = ? AND f.format = ?
            """)
        countRepeat = try PreparedStatement(db, "UPDATE frame SET repeats = repeats + 1 WHERE key = ?")
        insertFrame = try PreparedStatement(db, Self.insertFrameSQL)
        insertReading = try PreparedStatement(db, ReadingRow.insert)
        attach = try PreparedStatement(db, Self.attachSQL)
        insertOutbox = try PreparedStatement(db, Self.insertOutboxSQL)
        findWaiting = try PreparedStatement(db, Self.findWaitingSQL)
        sendAgain = try PreparedStatement(
            db,
            """
            UPDATE outbox SET state = \(outbox: .waiting), revision = \(OutboxRevision.next), attempts = 0, words = NULL
            WHERE reading = ? AND state IN (\(outbox: .waiting), \(outbox: .delivered), \(outbox: .handedOver))
                AND destination IN (SELECT key FROM destination WHERE has_unique_seconds & \(trait: .takesContexts) <> 0)
            """)
    }
}
