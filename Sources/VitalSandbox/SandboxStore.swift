import Foundation
import GRDB

/// The sandbox's own database: users, connected sources, samples, and a log of the posts accepted.
struct SandboxStore: Sendable {
    let writer: any DatabaseWriter
    /// Whether what happens is kept as events for a webhook.
    let tellsEvents: Bool

    /// Opens, and creates or migrates when needed.
    init(_ storage: SandboxConfiguration.Storage, tellsEvents: Bool = false) throws(SandboxError) {
        self.tellsEvents = tellsEvents
        var configuration = Configuration()
        configuration.foreignKeysEnabled = true
        configuration.busyMode = .timeout(5)
        configuration.prepareDatabase { database in
            // An answer of 200 means that the data survives a power cut, as a client may drop its copy then.
            try database.execute(sql: "PRAGMA synchronous = FULL")
        }
        let path: String
        do {
            switch storage {
            case .inMemory:
                path = ":memory:"
                writer = try DatabaseQueue(configuration: configuration)
            case .directory(let directory):
                path = directory + "/sandbox.sqlite"
                try Self.prepareFiles(directory: directory, file: path)
                writer = try DatabasePool(path: path, configuration: configuration)
            }
        } catch {
            throw .cannotOpenStorage(path: storage.path, reason: Self.words(error))
        }
        do {
            try Self.migrator.migrate(writer)
        } catch {
            throw .cannotOpenStorage(path: path, reason: Self.words(error))
        }
    }

    private static func words(_ error: any Error) -> String {
        (error as? DatabaseError)?.message ?? (error as NSError).localizedDescription
    }

    /// Readings are a person's own: folder and file are for their owner only, from the first octet on.
    private static func prepareFiles(directory: String, file: String) throws {
        let files = FileManager.default
        if !files.fileExists(atPath: directory) {
            try files.createDirectory(
                atPath: directory, withIntermediateDirectories: true, attributes: [.posixPermissions: 0o700])
        }
        if !files.fileExists(atPath: file) {
            _ = files.createFile(atPath: file, contents: nil, attributes: [.posixPermissions: 0o600])
        }
    }

    private static var migrator: DatabaseMigrator {
        var migrator = DatabaseMigrator()
        migrator.registerMigration("1: users, sources, posts, samples") { database in
            try database.execute(sql: schema)
            try database.execute(
                sql: "INSERT INTO setting (name, value) VALUES ('team_id', ?)",
                arguments: [UUID().uuidString.lowercased()])
        }
        migrator.registerMigration("2: links") { database in try database.execute(sql: links) }
        migrator.registerMigration("3: sessions, summaries") { database in try database.execute(sql: third) }
        migrator.registerMigration("4: names that are for reading") { database in
            // Earlier versions took them for names to write by.
            try database.execute(
                sql: """
                    UPDATE sample SET resource = 'temperature' WHERE resource = 'body_temperature';
                    UPDATE sample SET resource = 'body_mass' WHERE resource = 'weight';
                    """)
        }
        migrator.registerMigration("5: events") { database in try database.execute(sql: events) }
        return migrator
    }

    private static let third = """
        CREATE TABLE token (
            token TEXT PRIMARY KEY NOT NULL, kind TEXT NOT NULL CHECK (kind IN ('sign_in', 'access', 'refresh')),
            user_id TEXT NOT NULL REFERENCES person ON DELETE CASCADE, expires_at INTEGER NOT NULL
        ) STRICT;
        CREATE INDEX token_of_user ON token (user_id);
        CREATE TABLE summary (
            user_id TEXT NOT NULL REFERENCES person ON DELETE CASCADE, kind TEXT NOT NULL, provider TEXT NOT NULL,
            stage TEXT NOT NULL, start_date TEXT NOT NULL, end_date TEXT NOT NULL, time_zone TEXT NOT NULL,
            is_final_chunk INTEGER NOT NULL, data TEXT NOT NULL,
            UNIQUE (user_id, kind, provider, start_date, end_date)
        ) STRICT;
        """

    private static let links = """
        CREATE TABLE link (
            token TEXT PRIMARY KEY NOT NULL, user_id TEXT NOT NULL REFERENCES person ON DELETE CASCADE,
            provider TEXT, redirect_url TEXT, offered TEXT, redirects_on_close INTEGER NOT NULL,
            expires_at INTEGER NOT NULL, consumed INTEGER NOT NULL DEFAULT 0
        ) STRICT;
        CREATE INDEX link_of_user ON link (user_id);
        """

    private static let schema = """
        CREATE TABLE setting (name TEXT PRIMARY KEY NOT NULL, value TEXT NOT NULL) STRICT;
        CREATE TABLE person (
            user_id TEXT PRIMARY KEY NOT NULL, client_user_id TEXT NOT NULL UNIQUE, created_on TEXT NOT NULL,
            zone TEXT, zone_updated_at TEXT, birth_date TEXT, birth_date_updated_at TEXT,
            ingestion_start TEXT, ingestion_end TEXT
        ) STRICT;
        CREATE TABLE source (
            user_id TEXT NOT NULL REFERENCES person ON DELETE CASCADE, slug TEXT NOT NULL, created_on TEXT NOT NULL,
            status TEXT NOT NULL CHECK (status IN ('connected', 'error', 'paused')),
            error_type TEXT, error_message TEXT, errored_at TEXT, provider_id TEXT, granted_permissions TEXT,
            PRIMARY KEY (user_id, slug)
        ) STRICT;
        CREATE TABLE post (
            id INTEGER PRIMARY KEY AUTOINCREMENT, request_id TEXT NOT NULL, received_at TEXT NOT NULL,
            user_id TEXT NOT NULL REFERENCES person ON DELETE CASCADE,
            resource TEXT NOT NULL, provider TEXT NOT NULL, stage TEXT NOT NULL, start_date TEXT, end_date TEXT,
            time_zone TEXT NOT NULL, is_final_chunk INTEGER NOT NULL, encoding TEXT NOT NULL,
            body_octets INTEGER NOT NULL, inflated_octets INTEGER NOT NULL, items INTEGER NOT NULL,
            inserted INTEGER NOT NULL, updated INTEGER NOT NULL, unchanged INTEGER NOT NULL,
            unknown_fields TEXT NOT NULL
        ) STRICT;
        CREATE INDEX post_of_user ON post (user_id);
        CREATE TABLE sample (
            id INTEGER PRIMARY KEY AUTOINCREMENT,
            user_id TEXT NOT NULL REFERENCES person ON DELETE CASCADE,
            resource TEXT NOT NULL, provider TEXT NOT NULL, type TEXT NOT NULL,
            at INTEGER NOT NULL, unit TEXT NOT NULL, value TEXT, systolic TEXT, diastolic TEXT, pulse TEXT,
            offset INTEGER NOT NULL, stage TEXT NOT NULL, time_zone TEXT NOT NULL, item TEXT NOT NULL,
            revisions INTEGER NOT NULL DEFAULT 0, first_post INTEGER NOT NULL, last_post INTEGER NOT NULL,
            UNIQUE (user_id, resource, provider, type, at)
        ) STRICT;
        CREATE INDEX sample_in_time ON sample (user_id, resource, at, id);
        """

    /// The team every user belongs to.
    func teamID(_ database: Database) throws -> String {
        try String.fetchOne(database, sql: "SELECT value FROM setting WHERE name = 'team_id'") ?? ""
    }
}

extension SandboxConfiguration.Storage {
    fileprivate var path: String {
        switch self {
        case .inMemory: ":memory:"
        case .directory(let path): path
        }
    }
}
