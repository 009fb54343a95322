import GRDB
import HealthReadings

/// What a person has said about one kind of their readings.
public struct Consent: Sendable, Hashable {
    /// The kind of readings.
    public var kind: ReadingKind
    /// Whether they may be delivered and shown.
    public var isGranted: Bool
    /// When it was said; nil: it was not, and the settings' standard stands.
    public var at: Instant?
}

/// Consent for each kind of data: what is not consented to is stored, and neither delivered nor shown.
///
/// What was said stays on record with its time; the last word counts. Where nobody has said anything, the settings'
/// standard does.
extension ReadingStore {
    /// The tables, as the migration makes them.
    static let consentSchema = """
        CREATE TABLE consent (
            key INTEGER PRIMARY KEY, user INTEGER NOT NULL REFERENCES user ON DELETE CASCADE, kind INTEGER NOT NULL,
            is_granted INTEGER NOT NULL, at INTEGER NOT NULL
        ) STRICT;
        CREATE INDEX consent_user ON consent (user, kind, key);
        """

    /// Says what stands where a person has said nothing; kept over restarts.
    public func setConsentStandard(granted: Bool) async throws {
        guard try await read({ db in try Self.consentStandard(db) }) != granted else { return }
        try await write(.setting) { db in
            try Self.set(db, "consent.default", lines: granted ? [] : ["denied"])
        }
    }

    /// Records what a person says now about one kind of their readings.
    public func setConsent(_ kind: ReadingKind, granted: Bool, of user: UserKey) async throws {
        let now = now()
        try await write(.setting) { db in
            try db.execute(
                sql: "INSERT INTO consent (user, kind, is_granted, at) VALUES (?, ?, ?, ?)",
                arguments: [user.rawValue, kind.code, granted, now.microseconds])
        }
    }

    /// How a person's consent stands, for each kind.
    public func consents(of user: UserKey) async throws -> [Consent] {
        try await read { db in
            let standard = try Self.consentStandard(db)
            let said = try Self.lastWords(db)
            return ReadingKind.allCases.map { kind in
                let word = said[ConsentKey(user: user.rawValue, kind: kind.code)]
                return Consent(kind: kind, isGranted: word?.isGranted ?? standard, at: word?.at)
            }
        }
    }

    /// Everything a person has said, the latest first.
    public func consentHistory(of user: UserKey) async throws -> [Consent] {
        try await read { db in
            try Row.fetchAll(
                db, sql: "SELECT kind, is_granted, at FROM consent WHERE user = ? ORDER BY key DESC",
                arguments: [user.rawValue]
            ).map { row in
                Consent(
                    kind: try ReadingKind(code: try row.value(0)), isGranted: try row.value(1),
                    at: Instant(microseconds: try row.value(2)))
            }
        }
    }

    /// The kinds that a person's consent allows; nil: that everybody's allows.
    public func consentedKinds(of user: UserKey?) async throws -> Set<ReadingKind> {
        try await read { db in
            let rules = try ConsentHolds(db)
            let users = try user.map { [$0.rawValue] } ?? Int64.fetchAll(db, sql: "SELECT key FROM user")
            return Set(
                ReadingKind.allCases.filter { kind in users.allSatisfy { rules.isGranted(user: $0, kind: kind.code) } })
        }
    }

    fileprivate static func consentStandard(_ db: Database) throws -> Bool {
        try lines(db, "consent.default").first != "denied"
    }

    fileprivate static func lastWords(_ db: Database) throws -> [ConsentKey: (isGranted: Bool, at: Instant)] {
        let select = try PreparedStatement(
            db,
            """
            SELECT user, kind, is_granted, at FROM consent
            WHERE key IN (SELECT max(key) FROM consent GROUP BY user, kind)
            """)
        defer { select.reset() }
        var words: [ConsentKey: (isGranted: Bool, at: Instant)] = [:]
        while try select.next() {
            words[ConsentKey(user: select.int(0), kind: select.int(1))] = (
                select.int(2) != 0, Instant(microseconds: select.int(3))
            )
        }
        return words
    }
}

/// Whose consent to what.
private struct ConsentKey: Hashable, Sendable {
    var user: Int64
    var kind: Int64
}

/// What waits because nobody has consented to its delivery.
struct ConsentHolds: Sendable {
    private let standard: Bool
    private let words: [ConsentKey: Bool]

    init(_ db: Database) throws {
        standard = try ReadingStore.consentStandard(db)
        words = try ReadingStore.lastWords(db).mapValues(\.isGranted)
    }

    /// Whether a person's readings of a kind may be delivered and shown.
    func isGranted(user: Int64, kind: Int64) -> Bool {
        words[ConsentKey(user: user, kind: kind)] ?? standard
    }

    /// The condition on `outbox AS o` that a reading waits for consent; nil where none does.
    var condition: String? {
        let differing = words.filter { $0.value != standard }.keys.sorted { ($0.user, $0.kind) < ($1.user, $1.kind) }
        let list = differing.map { "(\($0.user),\($0.kind))" }.joined(separator: ",")
        guard !differing.isEmpty else { return standard ? nil : "TRUE" }
        return "(o.user, o.resource) \(standard ? "IN" : "NOT IN") (VALUES \(list))"
    }
}
