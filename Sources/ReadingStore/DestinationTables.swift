import GRDB
import HealthReadings

/// The tables that tell destinations apart: what waits, and what was pruned, belongs to a reading and a destination.
enum DestinationTables {
    /// Moves everything to a single destination named `vital`, which an earlier version delivered to.
    static func migrate(_ db: Database) throws {
        try db.execute(sql: destinations)
        try db.execute(sql: outbox)
        try db.execute(sql: pruned)
    }

    /// Moves people's ids and sources to the destination named `vital`: two servers know a person by two ids.
    static func migratePeople(_ db: Database) throws { try db.execute(sql: people) }

    private static let destinations = """
        -- kinds: a bit for each kind of reading that it can express and was selected for. has_unique_seconds: no two
        -- readings of a series share a second there. state: 1 enabled, 2 disabled, 3 removed, 4 waits since its address
        -- changed. address: a fingerprint of where it is.
        CREATE TABLE destination (
            key INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, kind TEXT NOT NULL, kinds INTEGER NOT NULL,
            has_unique_seconds INTEGER NOT NULL, needs_source INTEGER NOT NULL, state INTEGER NOT NULL,
            enabled_at INTEGER, address TEXT
        ) STRICT;
        INSERT INTO destination VALUES (1, 'vital', 'vital', 510, 1, 1, 1, NULL, NULL);
        """

    private static let outbox = """
        DROP INDEX outbox_timestamp;
        DROP INDEX outbox_waiting;
        DROP INDEX outbox_refused;
        ALTER TABLE outbox RENAME TO former_outbox;
        -- state: 0 waiting, 1 delivered, 2 refused, 3 withdrawn (excluded after it was queued). share: 0 where seconds are
        -- unique; else the reading, so that others may have its second too.
        CREATE TABLE outbox (
            reading INTEGER NOT NULL REFERENCES reading, destination INTEGER NOT NULL REFERENCES destination,
            user INTEGER NOT NULL REFERENCES user, resource INTEGER NOT NULL, provider TEXT NOT NULL,
            type INTEGER NOT NULL, timestamp INTEGER NOT NULL, share INTEGER NOT NULL DEFAULT 0,
            state INTEGER NOT NULL DEFAULT 0, revision INTEGER NOT NULL DEFAULT 0,
            attempts INTEGER NOT NULL DEFAULT 0, delivered_at INTEGER, words BLOB, tag BLOB,
            PRIMARY KEY (reading, destination)
        ) STRICT, WITHOUT ROWID;
        INSERT INTO outbox
            (reading, destination, user, resource, provider, type, timestamp, state, revision, attempts, delivered_at,
            words, tag)
        SELECT reading, 1, user, resource, provider, type, timestamp, state, revision, attempts, delivered_at, words, tag
        FROM former_outbox;
        DROP TABLE former_outbox;
        CREATE UNIQUE INDEX outbox_timestamp
            ON outbox (destination, user, resource, provider, type, timestamp, share);
        CREATE INDEX outbox_waiting ON outbox (destination, user, resource, provider, timestamp) WHERE state = 0;
        CREATE INDEX outbox_refused ON outbox (destination, timestamp) WHERE state = 2;
        """

    private static let people = """
        -- The id that a destination knows a person by.
        CREATE TABLE destination_user (
            destination INTEGER NOT NULL REFERENCES destination,
            user INTEGER NOT NULL REFERENCES user ON DELETE CASCADE, id TEXT NOT NULL,
            PRIMARY KEY (destination, user)
        ) STRICT, WITHOUT ROWID;
        INSERT INTO destination_user SELECT 1, key, server_user_id FROM user WHERE server_user_id IS NOT NULL;
        ALTER TABLE user DROP COLUMN server_user_id;
        ALTER TABLE source RENAME TO former_source;
        CREATE TABLE source (
            destination INTEGER NOT NULL REFERENCES destination,
            user INTEGER NOT NULL REFERENCES user ON DELETE CASCADE, provider TEXT NOT NULL,
            status TEXT NOT NULL CHECK (status IN ('connected', 'paused', 'error', 'revoked', 'absent')),
            created_once INTEGER NOT NULL DEFAULT 0, connected_at INTEGER, checked_at INTEGER,
            PRIMARY KEY (destination, user, provider)
        ) STRICT, WITHOUT ROWID;
        INSERT INTO source SELECT 1, user, provider, status, created_once, connected_at, checked_at FROM former_source;
        DROP TABLE former_source;
        """

    private static let pruned = """
        DROP INDEX pruned_sequence;
        DROP INDEX pruned_minute;
        DROP INDEX pruned_timestamp;
        ALTER TABLE pruned RENAME TO former_pruned;
        CREATE TABLE pruned (
            identity BLOB NOT NULL PRIMARY KEY CHECK (length(identity) = 16),
            value BLOB NOT NULL CHECK (length(value) = 16), kind INTEGER NOT NULL,
            device INTEGER NOT NULL REFERENCES device, user INTEGER NOT NULL REFERENCES user,
            sequence_epoch INTEGER NOT NULL, sequence INTEGER, base_time INTEGER, time INTEGER NOT NULL,
            source INTEGER, minute INTEGER
        ) STRICT, WITHOUT ROWID;
        INSERT INTO pruned
        SELECT identity, value, kind, device, user, sequence_epoch, sequence, base_time, time, source, minute
        FROM former_pruned;
        CREATE INDEX pruned_sequence ON pruned (device, sequence_epoch, sequence) WHERE sequence IS NOT NULL;
        CREATE INDEX pruned_minute ON pruned (device, minute) WHERE minute IS NOT NULL;
        -- Where a pruned reading was delivered, and at which timestamp; without one another reading has taken it over.
        CREATE TABLE pruned_place (
            identity BLOB NOT NULL REFERENCES pruned ON DELETE CASCADE,
            destination INTEGER NOT NULL REFERENCES destination, provider TEXT NOT NULL, type INTEGER NOT NULL,
            timestamp INTEGER, delivered_at INTEGER, PRIMARY KEY (identity, destination)
        ) STRICT, WITHOUT ROWID;
        INSERT INTO pruned_place
        SELECT identity, 1, provider, type, timestamp, delivered_at FROM former_pruned WHERE provider IS NOT NULL;
        CREATE INDEX pruned_place_timestamp ON pruned_place (destination, timestamp, provider, type);
        DROP TABLE former_pruned;
        """
}
