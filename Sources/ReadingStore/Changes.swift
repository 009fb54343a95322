import GRDB
import HealthReadings

/// The order in which readings came and changed: one sequence of numbers that is never reused and never reordered.
///
/// A reading's row is numbered when it is stored, so a new reading is a change without a row of its own. A later change
/// takes the next number of the same sequence, in the transaction that makes it, and a row of the table `change`. Of a
/// reading that changes again only the last change is kept: whoever reads from behind any number sees the state that
/// counts. Transactions follow one another, so nothing is ever committed behind a number that somebody has passed.
struct Changes {
    /// What a row of the table says.
    enum Kind: Int64 {
        /// The reading differs from before.
        case revised = 1
        /// The reading is another person's now; the row is for those who could see it.
        case left
        /// Readings of the person were pruned.
        case pruned
        /// Readings were erased.
        case erased
    }

    let db: Database

    static let schema = """
        -- number: of the same sequence as the keys of readings. kind: 1 revised, 2 left its person, 3 pruned, 4 erased.
        -- user: whose change it was before, or whose readings were pruned. revision: how often the reading was stored.
        CREATE TABLE change (
            number INTEGER PRIMARY KEY, kind INTEGER NOT NULL, reading INTEGER REFERENCES reading ON DELETE CASCADE,
            user INTEGER REFERENCES user ON DELETE CASCADE, revision INTEGER NOT NULL
        ) STRICT;
        CREATE INDEX change_reading ON change (reading, kind) WHERE reading IS NOT NULL;
        CREATE INDEX change_user ON change (user) WHERE user IS NOT NULL;
        -- When the numbers from this one on were given, in seconds.
        CREATE TABLE change_second (number INTEGER PRIMARY KEY, second INTEGER NOT NULL) STRICT;
        -- Who reads changes under a name, and up to which number they have them. kinds: a bit for each kind of reading;
        -- NULL: all. user: whose changes; NULL: everybody's.
        CREATE TABLE subscriber (
            name TEXT NOT NULL PRIMARY KEY, position INTEGER NOT NULL, kinds INTEGER,
            user INTEGER REFERENCES user ON DELETE CASCADE, created_at INTEGER NOT NULL, advanced_at INTEGER
        ) STRICT, WITHOUT ROWID;
        CREATE INDEX subscriber_user ON subscriber (user) WHERE user IS NOT NULL;
        -- A reading that this destination tells by its id is not delivered there before this is done.
        ALTER TABLE retraction ADD COLUMN blocks INTEGER REFERENCES reading ON DELETE SET NULL;
        CREATE INDEX retraction_blocks ON retraction (blocks, destination) WHERE blocks IS NOT NULL;
        INSERT INTO setting (name, value) VALUES ('changes.feed', lower(hex(randomblob(6))));
        """

    // MARK: Numbers

    /// The newest number; 0 for an empty store.
    func newest() throws -> Int64 {
        try PreparedStatement(
            db,
            """
            SELECT max(coalesce((SELECT max(key) FROM reading), 0), coalesce((SELECT max(number) FROM change), 0))
            """
        ).firstInt() ?? 0
    }

    /// Whether nothing but new readings has a higher number.
    func noneBut(newReadingsBehind number: Int64) throws -> Bool {
        let select = try PreparedStatement(db, "SELECT NOT EXISTS (SELECT 1 FROM change WHERE number > ?)")
        select.bind(1, number)
        return try select.firstInt() == 1
    }

    func newestNotedSecond() throws -> Int64? {
        try PreparedStatement(db, "SELECT second FROM change_second ORDER BY number DESC LIMIT 1").firstInt()
    }

    func noteSecond(_ second: Int64, from number: Int64) throws {
        let insert = try PreparedStatement(db, "INSERT OR REPLACE INTO change_second (number, second) VALUES (?, ?)")
        insert.bind(1, number)
        insert.bind(2, second)
        try insert.run()
    }

    /// When a number was given; `nil` for a reading that an earlier version stored.
    func instant(of number: Int64) throws -> Instant? {
        let select = try PreparedStatement(
            db, "SELECT second FROM change_second WHERE number <= ? ORDER BY number DESC LIMIT 1")
        select.bind(1, number)
        return try select.firstInt().map(Instant.init(seconds:))
    }

    // MARK: Noting

    /// Notes that a reading differs from before. Nobody has seen one of the same transaction.
    func noteRevision(of reading: Int64, _ numbers: RowNumbers) throws {
        guard reading < numbers.first else { return }
        let number = try numbers.takeReading()
        let update = try PreparedStatement(
            db,
            """
            UPDATE change SET number = ?1, revision = revision + 1
            WHERE reading = ?2 AND kind = \(Kind.revised.rawValue)
            """)
        update.bind(1, number)
        update.bind(2, reading)
        guard try update.run() == 0 else { return }
        let insert = try PreparedStatement(
            db, "INSERT INTO change (number, kind, reading, revision) VALUES (?, \(Kind.revised.rawValue), ?, 2)")
        insert.bind(1, number)
        insert.bind(2, reading)
        try insert.run()
    }

    /// Notes that a reading is another person's now.
    func noteDeparture(of reading: Int64, from user: Int64, _ numbers: RowNumbers) throws {
        try db.execute(
            sql: "DELETE FROM change WHERE reading = ? AND kind = \(Kind.left.rawValue) AND user = ?",
            arguments: [reading, user])
        try db.execute(
            sql: """
                INSERT INTO change (number, kind, reading, user, revision)
                VALUES (?, \(Kind.left.rawValue), ?, ?, 0)
                """, arguments: [try numbers.takeReading(), reading, user])
    }

    /// Notes that readings of a person were pruned. Of several times the last is kept.
    ///
    /// - Parameter number: the number taken before the readings went.
    func notePruning(of user: Int64, as number: Int64) throws {
        try db.execute(
            sql: "DELETE FROM change WHERE user = ? AND kind = \(Kind.pruned.rawValue)", arguments: [user])
        try db.execute(
            sql: "INSERT INTO change (number, kind, user, revision) VALUES (?, \(Kind.pruned.rawValue), ?, 0)",
            arguments: [number, user])
    }

    /// Notes that readings were erased, without whose. Of several times the last is kept.
    ///
    /// - Parameter number: the number taken before the readings went.
    func noteErasure(as number: Int64) throws {
        try db.execute(sql: "DELETE FROM change WHERE kind = \(Kind.erased.rawValue)")
        try db.execute(
            sql: "INSERT INTO change (number, kind, revision) VALUES (?, \(Kind.erased.rawValue), 0)",
            arguments: [number])
    }

    /// Removes the seconds at which nothing came that is still there.
    func forgetSeconds() throws {
        try db.execute(
            sql: """
                DELETE FROM change_second AS s WHERE NOT EXISTS (
                    SELECT 1 FROM reading AS r WHERE r.key >= s.number AND r.key < coalesce(
                        (SELECT min(number) FROM change_second WHERE number > s.number), \(Int64.max)))
                    AND NOT EXISTS (
                    SELECT 1 FROM change AS c WHERE c.number >= s.number AND c.number < coalesce(
                        (SELECT min(number) FROM change_second WHERE number > s.number), \(Int64.max)))
                """)
    }

    // MARK: The feed

    static let feedSetting = "changes.feed"

    /// The name of the sequence: a store that was made of an export goes on with one of its own.
    func feed() throws -> String { try ReadingStore.lines(db, Self.feedSetting).first ?? "" }

    /// Begins a sequence: positions of before are unknown from then on.
    func renewFeed() throws {
        try db.execute(
            sql: "INSERT OR REPLACE INTO setting (name, value) VALUES (?, lower(hex(randomblob(6))))",
            arguments: [Self.feedSetting])
    }

    /// Rows that no version writes.
    func findings() throws -> [VerificationFinding] {
        try Int64.fetchAll(
            db,
            sql: """
                SELECT number FROM change AS c WHERE kind NOT BETWEEN 1 AND 4 OR number < 1
                    OR (kind <= 2) <> (reading IS NOT NULL) OR (kind IN (2, 3)) <> (user IS NOT NULL)
                    OR EXISTS (SELECT 1 FROM reading WHERE key = c.number) OR c.reading >= c.number
                    OR (kind = 1 AND EXISTS (SELECT 1 FROM change AS o
                        WHERE o.reading = c.reading AND o.kind = 1 AND o.number < c.number))
                """
        ).map { VerificationFinding(problem: .changesDamaged, subject: "change \($0)") }
            + String.fetchAll(
                db, sql: "SELECT name FROM subscriber WHERE position NOT BETWEEN 0 AND ?", arguments: [try newest()]
            ).map { VerificationFinding(problem: .changesDamaged, subject: "subscriber \($0)") }
    }
}
