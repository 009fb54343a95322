import GRDB

/// The table of what waits for destinations and what they have, as rows that grow at their end.
///
/// A reading is queued for each destination that takes it, so this table has more rows than any other, and with each commit
/// SQLite writes every page that it touched. Rows are in the order in which they were queued, and the index of seconds begins
/// with the second: what is new comes behind all there is, and no full page is spread over its neighbours. A row has the room
/// for the time of its delivery from the beginning, so that its page isn't split when that comes.
enum OutboxTable {
    /// Writes the table anew.
    static func migrate(_ db: Database) throws { try db.execute(sql: schema) }

    private static let schema = """
        -- state: 0 waiting, 1 delivered, 2 refused, 3 withdrawn (excluded after it was queued), 4 handed over. share: what tells
        -- readings of one second apart where seconds are unique; NULL where they are not. room: as long as a time; until there is
        -- one in delivered_at or handed_over_at.
        CREATE TABLE queued (
            reading INTEGER NOT NULL REFERENCES reading, destination INTEGER NOT NULL REFERENCES destination,
            user INTEGER NOT NULL REFERENCES user, resource INTEGER NOT NULL, provider TEXT NOT NULL,
            type INTEGER NOT NULL, timestamp INTEGER NOT NULL, share INTEGER,
            state INTEGER NOT NULL DEFAULT 0, revision INTEGER NOT NULL DEFAULT 0,
            attempts INTEGER NOT NULL DEFAULT 0, delivered_at INTEGER, words BLOB, tag BLOB, handed_over_at INTEGER,
            offset_minutes INTEGER, room BLOB DEFAULT x'0000000000000000'
        ) STRICT;
        INSERT INTO queued
            (reading, destination, user, resource, provider, type, timestamp, share, state, revision, attempts,
            delivered_at, words, tag, handed_over_at, offset_minutes, room)
        SELECT o.reading, o.destination, o.user, o.resource, o.provider, o.type, o.timestamp,
            CASE WHEN d.has_unique_seconds & 1 THEN o.share END, o.state, o.revision, o.attempts,
            o.delivered_at, o.words, o.tag, o.handed_over_at, o.offset_minutes,
            CASE WHEN o.delivered_at IS NULL AND o.handed_over_at IS NULL THEN x'0000000000000000' END
        FROM outbox AS o LEFT JOIN destination AS d ON d.key = o.destination ORDER BY o.reading, o.destination;
        DROP TABLE outbox;
        ALTER TABLE queued RENAME TO outbox;
        CREATE UNIQUE INDEX outbox_reading ON outbox (reading, destination);
        CREATE UNIQUE INDEX outbox_timestamp
            ON outbox (timestamp, destination, user, resource, provider, type, share) WHERE share IS NOT NULL;
        CREATE INDEX outbox_waiting ON outbox (destination, user, resource, provider, timestamp, reading) WHERE state = 0;
        CREATE INDEX outbox_refused ON outbox (destination, timestamp) WHERE state = 2;
        CREATE INDEX outbox_withdrawn ON outbox (destination) WHERE state = 3;
        CREATE INDEX outbox_handed_over ON outbox (destination, handed_over_at) WHERE state = 4;
        -- Of what doesn't change when a clock is compared again.
        DROP INDEX clock_epoch_device;
        CREATE INDEX clock_epoch_device ON clock_epoch (device, started_at);
        """
}
