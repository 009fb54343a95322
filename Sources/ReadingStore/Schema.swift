import GRDB

/// The tables, as migrations: one that was released is never edited, only followed by another.
///
/// Kinds, bases and the like are small numbers (see `Codes.swift`); instants are microseconds or, for readings' own
/// times, whole seconds; a device's wall clock is seconds since 1970-01-01T00:00:00 on the same wall.
enum Schema {
    /// `HRLY`: says in the file's header whose it is.
    static let applicationID: Int32 = 0x4852_4C59

    /// The migrations that walk along a table of readings or deliveries, most to write it anew, and about how many times the part
    /// of the file that is in use each of them writes.
    static let rewriting: [String: Double] = [
        "6 contents that can be sealed": 2, "11 destinations": 2, "24 deliveries that grow at their end": 2,
        "25 places of pruned readings together, rules of devices": 1,
        // It writes little of readings, a seventh of a store that has none but pruned ones, and reads everything.
        "26 renumbered readings by their time": 0.25,
    ]

    static let migrator: DatabaseMigrator = {
        var migrator = DatabaseMigrator()
        migrator.registerMigration("1 frames, readings, outbox") { db in try db.execute(sql: first) }
        migrator.registerMigration("2 when bonds were made") { db in try db.execute(sql: second) }
        migrator.registerMigration("3 sensors") { db in try db.execute(sql: third) }
        migrator.registerMigration("4 barred devices") { db in try db.execute(sql: fourth) }
        migrator.registerMigration("5 pruned readings") { db in try db.execute(sql: fifth) }
        migrator.registerMigration("6 contents that can be sealed", migrate: ContentMigration.run)
        migrator.registerMigration("7 consent") { db in try db.execute(sql: ReadingStore.consentSchema) }
        migrator.registerMigration("8 labels that can be sealed", migrate: DeviceLabel.migrate)
        migrator.registerMigration("9 the body summary", migrate: BodySummaryRules.migrate)
        migrator.registerMigration("10 tags of the outbox") { db in
            // What decides where a reading is delivered, under the key; see `OutboxTag`.
            try db.execute(sql: "ALTER TABLE outbox ADD COLUMN tag BLOB")
        }
        migrator.registerMigration("11 destinations", migrate: DestinationTables.migrate)
        migrator.registerMigration("12 people at destinations", migrate: DestinationTables.migratePeople)
        migrator.registerMigration("13 retractions") { db in try db.execute(sql: ReadingStore.retractionSchema) }
        migrator.registerMigration("14 tags of people") { db in try db.execute(sql: PeopleTags.schema) }
        migrator.registerMigration("15 consent by destination") { db in
            try db.execute(sql: ReadingStore.destinationConsentSchema)
        }
        migrator.registerMigration("16 offsets of the outbox") { db in try db.execute(sql: OutboxPlacement.schema) }
        // No table changes: an earlier program could not read the contents of records that a device recalls.
        migrator.registerMigration("17 recalled records") { _ in }
        // Nor here: it could not read those that a person entered.
        migrator.registerMigration("18 entries by hand") { _ in }
        migrator.registerMigration("19 changes and their readers") { db in try db.execute(sql: Changes.schema) }
        // Nor here: it could not read those that came out of another program's data.
        migrator.registerMigration("20 imported readings") { _ in }
        // Nor here: it could not read those that a person leaves out of figures.
        migrator.registerMigration("21 readings left out of figures") { _ in }
        migrator.registerMigration("22 numbered batches") { db in
            try db.execute(sql: ReadingStore.numberedBatchSchema)
        }
        // Nor here: it could not read which of a sensor's values an imported one is, nor that octets were let go.
        migrator.registerMigration("23 scans of imported sensors, frames let go") { _ in }
        migrator.registerMigration("24 deliveries that grow at their end", migrate: OutboxTable.migrate)
        migrator.registerMigration("25 places of pruned readings together, rules of devices") { db in
            try PrunedPlaces.migrate(db)
            try Judgement.migrate(db)
        }
        // An index cannot break what refers to a row: looking at all of them would take longer than making it.
        migrator.registerMigration(
            "26 renumbered readings by their time", foreignKeyChecks: .immediate, migrate: Journal.indexRenumbered)
        return migrator
    }()

    private static let first = """
        CREATE TABLE setting (name TEXT NOT NULL PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID;

        CREATE TABLE user (
            key INTEGER PRIMARY KEY, client_user_id TEXT NOT NULL UNIQUE, server_user_id TEXT,
            created_at INTEGER NOT NULL
        ) STRICT;
        CREATE TABLE user_zone (
            user INTEGER NOT NULL REFERENCES user ON DELETE CASCADE, begins_at INTEGER NOT NULL, zone TEXT NOT NULL,
            PRIMARY KEY (user, begins_at)
        ) STRICT, WITHOUT ROWID;
        CREATE TABLE source (
            user INTEGER NOT NULL REFERENCES user ON DELETE CASCADE, provider TEXT NOT NULL,
            status TEXT NOT NULL CHECK (status IN ('connected', 'paused', 'error', 'revoked', 'absent')),
            created_once INTEGER NOT NULL DEFAULT 0, connected_at INTEGER, checked_at INTEGER,
            PRIMARY KEY (user, provider)
        ) STRICT, WITHOUT ROWID;

        -- A device's identity is the address its readings' ids were hashed with; others of its addresses are beside it.
        CREATE TABLE device (
            key INTEGER PRIMARY KEY, address INTEGER, address_kind INTEGER, serial TEXT, model TEXT, name TEXT,
            provider TEXT NOT NULL, battery_percent INTEGER, last_seen INTEGER,
            sequence_epoch INTEGER NOT NULL DEFAULT 0, is_paired INTEGER NOT NULL DEFAULT 0,
            is_proven INTEGER NOT NULL DEFAULT 0, user INTEGER REFERENCES user
        ) STRICT;
        CREATE INDEX device_serial ON device (serial, model) WHERE serial IS NOT NULL;
        -- own_epoch, device_epoch: an address whose readings were stored as another device's before the two were known
        -- to be one; its numbers' epoch then, and the epoch of the device it joined.
        CREATE TABLE device_address (
            address INTEGER NOT NULL, address_kind INTEGER NOT NULL, device INTEGER NOT NULL REFERENCES device,
            own_epoch INTEGER, device_epoch INTEGER, last_seen INTEGER,
            PRIMARY KEY (address, address_kind)
        ) STRICT, WITHOUT ROWID;
        CREATE INDEX device_address_device ON device_address (device);
        CREATE TABLE clock_epoch (
            key INTEGER PRIMARY KEY, device INTEGER NOT NULL REFERENCES device, correction_minutes INTEGER NOT NULL,
            started_at INTEGER NOT NULL, first_difference INTEGER NOT NULL, difference INTEGER NOT NULL,
            read_at INTEGER NOT NULL
        ) STRICT;
        CREATE INDEX clock_epoch_device ON clock_epoch (device, read_at);
        CREATE TABLE contact (
            key INTEGER PRIMARY KEY, device INTEGER NOT NULL REFERENCES device, user INTEGER NOT NULL REFERENCES user,
            started_at INTEGER NOT NULL, zone TEXT NOT NULL, sequence_epoch INTEGER NOT NULL,
            clock_device_time INTEGER, clock_read_at INTEGER, ended_at INTEGER, is_complete INTEGER, error TEXT,
            announced INTEGER, received INTEGER, gaps TEXT
        ) STRICT;
        CREATE INDEX contact_device ON contact (device, started_at);

        -- What came, as it came. boot_id and boot_time (CLOCK_BOOTTIME, microseconds) stand for a reception whose
        -- clock was not trusted. state: 0 to be decoded, 1 record, 2 context, 3 says nothing, 4 malformed.
        CREATE TABLE frame (
            key INTEGER PRIMARY KEY, device INTEGER NOT NULL REFERENCES device,
            contact INTEGER NOT NULL REFERENCES contact, format INTEGER NOT NULL, ordinal INTEGER NOT NULL,
            received_at INTEGER NOT NULL, boot_id BLOB, boot_time INTEGER, state INTEGER NOT NULL,
            repeats INTEGER NOT NULL DEFAULT 0, payload BLOB NOT NULL
        ) STRICT;
        CREATE INDEX frame_apart ON frame (device, format, payload) WHERE state IN (0, 3, 4);

        -- A quantity is digits × 10^exponent and a unit; without digits the exponent says why there is no number;
        -- without a unit there is no quantity. a: glucose or systolic, b: diastolic, c: mean arterial, p: pulse.
        CREATE TABLE reading (
            key INTEGER PRIMARY KEY, id BLOB NOT NULL UNIQUE CHECK (length(id) = 16), kind INTEGER NOT NULL,
            device INTEGER NOT NULL REFERENCES device, user INTEGER NOT NULL REFERENCES user,
            sequence_epoch INTEGER NOT NULL, clash INTEGER NOT NULL, sequence INTEGER, base_time INTEGER,
            time_offset_minutes INTEGER, time_offset_unknown INTEGER NOT NULL,
            a_digits INTEGER, a_exponent INTEGER, a_unit INTEGER, b_digits INTEGER, b_exponent INTEGER, b_unit INTEGER,
            c_digits INTEGER, c_exponent INTEGER, c_unit INTEGER, p_digits INTEGER, p_exponent INTEGER, p_unit INTEGER,
            sample_type INTEGER, sample_location INTEGER, status INTEGER NOT NULL, user_slot INTEGER,
            record_exclusion INTEGER, time_exclusion INTEGER,
            time INTEGER, time_basis INTEGER NOT NULL, time_uncertainty_minutes INTEGER,
            clock_difference INTEGER, clock_read_at INTEGER, received_at INTEGER NOT NULL
        ) STRICT;
        CREATE INDEX reading_time ON reading (time, id);
        CREATE INDEX reading_kind_time ON reading (kind, time, id);
        CREATE INDEX reading_sequence ON reading (device, sequence_epoch, sequence) WHERE sequence IS NOT NULL;

        -- role: 1 record, 2 context.
        CREATE TABLE reading_frame (
            reading INTEGER NOT NULL REFERENCES reading, frame INTEGER NOT NULL REFERENCES frame, role INTEGER NOT NULL,
            PRIMARY KEY (reading, frame)
        ) STRICT, WITHOUT ROWID;
        CREATE INDEX reading_frame_frame ON reading_frame (frame);

        CREATE TABLE reading_context (
            reading INTEGER PRIMARY KEY REFERENCES reading,
            carbohydrate TEXT, carbohydrate_digits INTEGER, carbohydrate_exponent INTEGER, carbohydrate_unit INTEGER,
            meal TEXT, tester TEXT, health TEXT,
            exercise_intensity INTEGER, exercise_seconds INTEGER,
            medication TEXT, medication_digits INTEGER, medication_exponent INTEGER, medication_unit INTEGER,
            hba1c_digits INTEGER, hba1c_exponent INTEGER, hba1c_unit INTEGER
        ) STRICT;
        CREATE TABLE waiting_context (
            frame INTEGER PRIMARY KEY REFERENCES frame, device INTEGER NOT NULL, sequence_epoch INTEGER NOT NULL,
            sequence INTEGER NOT NULL, contact INTEGER NOT NULL
        ) STRICT;
        CREATE INDEX waiting_context_sequence ON waiting_context (device, sequence_epoch, sequence);

        -- state: 0 waiting, 1 delivered, 2 refused by the server, 3 withdrawn (excluded after it was queued).
        CREATE TABLE outbox (
            reading INTEGER PRIMARY KEY REFERENCES reading, user INTEGER NOT NULL REFERENCES user,
            resource INTEGER NOT NULL, provider TEXT NOT NULL, type INTEGER NOT NULL, timestamp INTEGER NOT NULL,
            state INTEGER NOT NULL DEFAULT 0, revision INTEGER NOT NULL DEFAULT 0,
            attempts INTEGER NOT NULL DEFAULT 0, delivered_at INTEGER, server_said TEXT
        ) STRICT;
        CREATE UNIQUE INDEX outbox_timestamp ON outbox (user, resource, provider, type, timestamp);
        CREATE INDEX outbox_waiting ON outbox (user, resource, provider, timestamp) WHERE state = 0;
        CREATE INDEX outbox_refused ON outbox (timestamp) WHERE state = 2;
        """

    private static let second = """
        ALTER TABLE device ADD COLUMN paired_at INTEGER;
        ALTER TABLE device ADD COLUMN proven_at INTEGER;
        """

    private static let fourth = """
        -- Its person was erased: no bond that is found lets it be read, before a person pairs it anew.
        ALTER TABLE device ADD COLUMN is_barred INTEGER NOT NULL DEFAULT 0;
        """

    private static let fifth = """
        -- What is remembered of a reading whose content was removed: keyed digests of its id and its value, its place in
        -- the device's numbers, and its key at the server. No value.
        CREATE TABLE pruned (
            identity BLOB NOT NULL PRIMARY KEY CHECK (length(identity) = 16),
            value BLOB NOT NULL CHECK (length(value) = 16), kind INTEGER NOT NULL,
            device INTEGER NOT NULL REFERENCES device, user INTEGER NOT NULL REFERENCES user,
            sequence_epoch INTEGER NOT NULL, sequence INTEGER, base_time INTEGER, time INTEGER NOT NULL,
            source INTEGER, minute INTEGER,
            provider TEXT, type INTEGER, timestamp INTEGER, delivered_at INTEGER
        ) STRICT, WITHOUT ROWID;
        CREATE INDEX pruned_sequence ON pruned (device, sequence_epoch, sequence) WHERE sequence IS NOT NULL;
        CREATE INDEX pruned_minute ON pruned (device, minute) WHERE minute IS NOT NULL;
        CREATE INDEX pruned_timestamp ON pruned (user, kind, provider, type, timestamp);
        """

    private static let third = """
        -- source: 1 trend, 2 history; calibration: 0 none, 1 factory estimate.
        CREATE TABLE sensor_record (
            reading INTEGER PRIMARY KEY REFERENCES reading, device INTEGER NOT NULL REFERENCES device,
            source INTEGER NOT NULL, minute INTEGER NOT NULL, glucose INTEGER NOT NULL, temperature INTEGER NOT NULL,
            adjustment INTEGER NOT NULL, quality INTEGER NOT NULL, flags INTEGER NOT NULL, has_error INTEGER NOT NULL,
            calibration INTEGER NOT NULL
        ) STRICT;
        CREATE INDEX sensor_record_minute ON sensor_record (device, minute);
        -- When a sensor started, as it counts for its minutes from from_minute on; seconds.
        CREATE TABLE sensor_start (
            device INTEGER NOT NULL REFERENCES device, from_minute INTEGER NOT NULL, started_at INTEGER NOT NULL,
            scanned_at INTEGER NOT NULL, PRIMARY KEY (device, from_minute)
        ) STRICT, WITHOUT ROWID;
        """
}
