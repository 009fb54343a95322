/// The tables, as steps: one that was released is never edited, only followed by another. The schema's version is the
/// number of steps that were taken.
enum CentralSchema {
    /// Instants are microseconds since 1970.
    static let sqlite = [
        """
        CREATE TABLE reading (
            gateway TEXT NOT NULL, id TEXT NOT NULL, revision INTEGER NOT NULL, batch INTEGER NOT NULL,
            taken INTEGER, kind TEXT, person TEXT, body TEXT, retracted INTEGER NOT NULL,
            received INTEGER NOT NULL,
            PRIMARY KEY (gateway, id)
        ) STRICT, WITHOUT ROWID;
        CREATE TABLE gateway (
            gateway TEXT NOT NULL PRIMARY KEY, heard INTEGER, version TEXT, backlog INTEGER, oldest INTEGER,
            stored INTEGER NOT NULL DEFAULT 0, highest_batch INTEGER, status TEXT
        ) STRICT, WITHOUT ROWID;
        CREATE TABLE gateway_token (
            digest TEXT NOT NULL PRIMARY KEY, gateway TEXT NOT NULL, created INTEGER NOT NULL
        ) STRICT, WITHOUT ROWID;
        CREATE TABLE set_aside (
            number INTEGER PRIMARY KEY AUTOINCREMENT, received INTEGER NOT NULL, gateway TEXT NOT NULL,
            reason TEXT NOT NULL, words TEXT NOT NULL, document BLOB NOT NULL
        ) STRICT;
        """,
        """
        CREATE TABLE desired_configuration (
            gateway TEXT NOT NULL PRIMARY KEY, version INTEGER NOT NULL UNIQUE, settings TEXT NOT NULL,
            created INTEGER NOT NULL
        ) STRICT, WITHOUT ROWID;
        ALTER TABLE gateway ADD COLUMN configuration TEXT;
        CREATE INDEX reading_batch ON reading (gateway, batch);
        """,
        // How many bytes the whole document has, of which a large one's begin alone is kept.
        """
        ALTER TABLE set_aside ADD COLUMN bytes INTEGER;
        ALTER TABLE set_aside ADD COLUMN digest TEXT;
        CREATE UNIQUE INDEX set_aside_document ON set_aside (gateway, digest);
        """,
    ]

    /// One statement each: libpq's parameterised calls take no more.
    static let postgreSQL = [
        [
            """
            CREATE TABLE reading (
                gateway text NOT NULL, id text NOT NULL, revision bigint NOT NULL, batch bigint NOT NULL,
                taken timestamptz, kind text, person text, body jsonb, retracted boolean NOT NULL,
                received timestamptz NOT NULL,
                PRIMARY KEY (gateway, id)
            )
            """,
            """
            CREATE TABLE gateway (
                gateway text PRIMARY KEY, heard timestamptz, version text, backlog bigint, oldest timestamptz,
                stored bigint NOT NULL DEFAULT 0, highest_batch bigint, status jsonb
            )
            """,
            "CREATE TABLE gateway_token (digest text PRIMARY KEY, gateway text NOT NULL, created timestamptz NOT NULL)",
            """
            CREATE TABLE set_aside (
                number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, received timestamptz NOT NULL,
                gateway text NOT NULL, reason text NOT NULL, words text NOT NULL, document bytea NOT NULL
            )
            """,
        ],
        [
            """
            CREATE TABLE desired_configuration (
                gateway text PRIMARY KEY, version bigint NOT NULL UNIQUE, settings text NOT NULL,
                created timestamptz NOT NULL
            )
            """,
            "ALTER TABLE gateway ADD COLUMN configuration jsonb",
            "CREATE INDEX reading_batch ON reading (gateway, batch)",
        ],
        [
            "ALTER TABLE set_aside ADD COLUMN bytes bigint", "ALTER TABLE set_aside ADD COLUMN digest text",
            "CREATE UNIQUE INDEX set_aside_document ON set_aside (gateway, digest)",
        ],
    ]
}
