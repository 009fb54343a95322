import GRDB
import HealthReadings
import Synchronization

/// What a person has said about one kind of their readings.
public struct Consent: Sendable, Hashable {
    /// The kind of readings.
    public var kind: ReadingKind
    /// Whether they may be delivered and shown.
    public var isGranted: Bool
    /// When it was said; `nil`: it was not, and the settings' standard stands.
    public var at: Instant?
    /// The name of the destination that it is about; `nil`: everything, which includes what this gateway itself shows.
    public var destination: String?
}

/// Consent for each kind of data: what is not consented to is stored, and neither delivered nor shown.
///
/// A person may say it of everything, or of one destination. What was said stays on record with its time; of each the last
/// word counts, and a denial wins over a grant. Where nobody has said anything, the settings' standard does.
///
/// What was granted before destinations were told apart was granted to the one that there was, `vital`, and to the gateway's
/// own page and API.
extension ReadingStore {
    /// The tables, as the migration makes them.
    static let consentSchema = """
        CREATE TABLE consent (
            key INTEGER PRIMARY KEY, user INTEGER NOT NULL REFERENCES user ON DELETE CASCADE, kind INTEGER NOT NULL,
            is_granted INTEGER NOT NULL, at INTEGER NOT NULL
        ) STRICT;
        CREATE INDEX consent_user ON consent (user, kind, key);
        """

    /// What tells words about destinations apart, as the migration makes it.
    static let destinationConsentSchema = """
        -- destination: the one that it is about; NULL: all. is_early: granted before destinations were told apart, and so
        -- to the first alone.
        ALTER TABLE consent ADD COLUMN destination INTEGER REFERENCES destination;
        ALTER TABLE consent ADD COLUMN is_early INTEGER NOT NULL DEFAULT 0;
        UPDATE consent SET is_early = 1 WHERE is_granted = 1;
        """

    /// Says what stands where a person has said nothing; kept over restarts.
    public func setConsentStandard(granted: Bool) async throws {
        guard try await read({ db in try Self.consentStandard(db) }) != granted else { return }
        try await write(.setting) { db in
            try Self.set(db, "consent.default", lines: granted ? [] : ["denied"])
        }
    }

    /// Records what a person says now about one kind of their readings.
    ///
    /// - Parameters:
    ///   - kind: the kind of readings.
    ///   - granted: whether they may be delivered and shown.
    ///   - user: the person.
    ///   - destination: the destination that it is about; `nil`: everything.
    public func setConsent(
        _ kind: ReadingKind, granted: Bool, of user: UserKey, at destination: DestinationKey? = nil
    ) async throws {
        try await setConsents([kind], granted: granted, of: user, at: destination)
    }

    /// Records what a person says now about several kinds of their readings, in one commit.
    ///
    /// - Parameters:
    ///   - kinds: the kinds of readings.
    ///   - granted: whether they may be delivered and shown.
    ///   - user: the person.
    ///   - destination: the destination that it is about; `nil`: everything.
    public func setConsents(
        _ kinds: [ReadingKind], granted: Bool, of user: UserKey, at destination: DestinationKey? = nil
    ) async throws {
        let now = now()
        try await write(.setting) { db in
            for kind in kinds {
                try db.execute(
                    sql: "INSERT INTO consent (user, kind, is_granted, at, destination) VALUES (?, ?, ?, ?, ?)",
                    arguments: [user.rawValue, kind.code, granted, now.microseconds, destination?.rawValue])
            }
        }
    }

    /// How a person's consent stands, for each kind.
    ///
    /// - Parameters:
    ///   - user: the person.
    ///   - destination: at which destination; `nil`: in what this gateway itself shows.
    public func consents(of user: UserKey, at destination: DestinationKey? = nil) async throws -> [Consent] {
        try await read { db in
            let words = try ConsentWords(db)
            let name = try destination.flatMap { key in try Self.destinations(db).first { $0.key == key }?.name }
            return ReadingKind.allCases.map { kind in
                let word = words.word(user: user.rawValue, kind: kind.code, at: destination)
                return Consent(
                    kind: kind, isGranted: word?.isGranted ?? words.standard, at: word?.at, destination: name)
            }
        }
    }

    /// Everything a person has said, the latest first.
    public func consentHistory(of user: UserKey) async throws -> [Consent] {
        try await read { db in
            try Row.fetchAll(
                db,
                sql: """
                    SELECT c.kind, c.is_granted, c.at, d.name FROM consent AS c
                    LEFT JOIN destination AS d ON d.key = c.destination WHERE c.user = ? ORDER BY c.key DESC
                    """,
                arguments: [user.rawValue]
            ).map { row in
                Consent(
                    kind: try ReadingKind(code: try row.value(0)), isGranted: try row.value(1),
                    at: Instant(microseconds: try row.value(2)), destination: try row.value(3))
            }
        }
    }

    /// The kinds that this gateway itself may show by a person's consent; `nil`: by everybody's.
    public func consentedKinds(of user: UserKey?) async throws -> Set<ReadingKind> {
        // Each event stream asks for each event.
        let decisions = decisionCount
        if let known = consentsKnown.withLock({ $0.kinds(of: user, at: decisions) }) { return known }
        let kinds = try await read { db in
            let rules = try ConsentWords(db).holds(at: nil)
            let users = try user.map { [$0.rawValue] } ?? Int64.fetchAll(db, sql: "SELECT key FROM user")
            return Set(
                ReadingKind.allCases.filter { kind in users.allSatisfy { rules.isGranted(user: $0, kind: kind.code) } })
        }
        consentsKnown.withLock { $0.keep(kinds, of: user, at: decisions) }
        return kinds
    }

    static let importedSetting = "store.imported"

    /// When this store was made of an export; `nil`: it was not.
    ///
    /// What people had said before is as it was when the export was made: what they have withdrawn since is not in it.
    public func importedAt() async throws -> Instant? {
        try await read { db in
            try Self.lines(db, Self.importedSetting).first.flatMap { Int64($0) }.map { Instant(microseconds: $0) }
        }
    }

    fileprivate static func consentStandard(_ db: Database) throws -> Bool {
        try lines(db, "consent.default").first != "denied"
    }
}

/// The kinds that were consented to, and how many decisions there were before they were read.
struct KnownConsents: Sendable {
    private var decisions = 0
    private var kinds: [UserKey?: Set<ReadingKind>] = [:]

    func kinds(of user: UserKey?, at decisions: Int) -> Set<ReadingKind>? {
        self.decisions == decisions ? kinds[user] : nil
    }

    mutating func keep(_ found: Set<ReadingKind>, of user: UserKey?, at decisions: Int) {
        guard decisions >= self.decisions else { return }
        if decisions > self.decisions { (self.decisions, kinds) = (decisions, [:]) }
        kinds[user] = found
    }
}

/// Whose consent to what.
private struct ConsentKey: Hashable, Sendable {
    var user: Int64
    var kind: Int64
}

/// The last words of all people about everything and about each destination.
struct ConsentWords: Sendable {
    struct Word: Sendable {
        /// Its number: of two words the one that was said later has the higher one, whatever the clock was.
        var number: Int64
        var isGranted: Bool
        var at: Instant
        /// Whether it was said before destinations were told apart.
        var isEarly: Bool
    }

    /// What stands where nobody has said anything.
    let standard: Bool
    private var general: [ConsentKey: Word] = [:]
    private var own: [DestinationKey: [ConsentKey: Word]] = [:]

    init(_ db: Database) throws {
        standard = try ReadingStore.consentStandard(db)
        for (destination, words) in try Self.lastWords(db) {
            if let destination { own[destination] = words } else { general = words }
        }
        try heedFormerNames(db)
    }

    /// The last words about everything (`nil`) and about each destination.
    ///
    /// - Parameter number: the last word that counts.
    private static func lastWords(
        _ db: Database, upTo number: Int64 = .max
    ) throws -> [DestinationKey?: [ConsentKey: Word]] {
        let select = try PreparedStatement(
            db,
            """
            SELECT user, kind, is_granted, at, is_early, destination, key FROM consent
            WHERE key IN (SELECT max(key) FROM consent WHERE key <= ? GROUP BY user, kind, destination)
            """)
        select.bind(1, number)
        defer { select.reset() }
        var found: [DestinationKey?: [ConsentKey: Word]] = [:]
        while try select.next() {
            let key = ConsentKey(user: select.int(0), kind: select.int(1))
            let destination = select.optionalInt(5).map(DestinationKey.init(rawValue:))
            found[destination, default: [:]][key] = Word(
                number: select.int(6), isGranted: select.int(2) != 0, at: Instant(microseconds: select.int(3)),
                isEarly: select.int(4) != 0)
        }
        return found
    }

    /// Has the denials to a destination that is no longer named count at one of the same kind and address that came, or came back,
    /// after it: it is the same one under another name. What somebody says of that name from then on replaces them.
    private mutating func heedFormerNames(_ db: Database) throws {
        guard own.values.contains(where: { words in words.values.contains { !$0.isGranted } }) else { return }
        let destinations = try ReadingStore.destinations(db)
        for heir in destinations where heir.state != .removed && heir.address != nil {
            let returned = try ReadingStore.lastWordBeforeReturn(db, of: heir.key)
            // What was said later of a name that came after this one neither counts nor hides what was said before.
            let earlier = try returned > 0 ? Self.lastWords(db, upTo: returned) : [:]
            var last: [ConsentKey: Word] = [:]
            for former in destinations
            where former.state == .removed && former.kind == heir.kind && former.address == heir.address {
                let words = former.key.rawValue < heir.key.rawValue ? own[former.key] : earlier[former.key]
                last.merge(words ?? [:]) { $0.number > $1.number ? $0 : $1 }
            }
            own[heir.key, default: [:]].merge(last.filter { !$0.value.isGranted }) { said, denial in
                said.number > min(returned, denial.number) ? said : denial
            }
        }
    }

    /// What counts of a person's words; `nil` if they have said nothing about it.
    ///
    /// - Parameter destination: at which destination; `nil`: in what this gateway itself shows.
    func word(user: Int64, kind: Int64, at destination: DestinationKey?) -> Word? {
        word(ConsentKey(user: user, kind: kind), at: destination)
    }

    private func word(_ key: ConsentKey, at destination: DestinationKey?) -> Word? {
        guard let destination else { return general[key] }
        let own = own[destination]?[key]
        let general = general[key].flatMap { $0.isEarly && destination != .vital ? nil : $0 }
        if let general, !general.isGranted { return general }
        return own ?? general
    }

    /// What waits at a destination because nobody has consented to its delivery.
    func holds(at destination: DestinationKey?) -> ConsentHolds {
        let keys = Set(general.keys).union(destination.flatMap { own[$0] }.map { Set($0.keys) } ?? [])
        let words = keys.compactMap { key in word(key, at: destination).map { (key, $0.isGranted) } }
        return ConsentHolds(standard: standard, words: Dictionary(uniqueKeysWithValues: words))
    }
}

/// What waits because nobody has consented to its delivery.
struct ConsentHolds: Sendable, Hashable {
    fileprivate let standard: Bool
    fileprivate let words: [ConsentKey: Bool]

    /// Whether a person's readings of a kind may be delivered and shown.
    func isGranted(user: Int64, kind: Int64) -> Bool {
        words[ConsentKey(user: user, kind: kind)] ?? standard
    }

    /// Whether nobody's reading of any kind waits for consent.
    var isGrantedForAll: Bool { standard && words.values.allSatisfy(\.self) }

    /// The condition on `outbox AS o` that a reading waits for consent; nil where none does.
    var condition: String? {
        let differing = words.filter { $0.value != standard }.keys.sorted { ($0.user, $0.kind) < ($1.user, $1.kind) }
        let list = differing.map { "(\($0.user),\($0.kind))" }.joined(separator: ",")
        guard !differing.isEmpty else { return standard ? nil : "TRUE" }
        return "(o.user, o.resource) \(standard ? "IN" : "NOT IN") (VALUES \(list))"
    }
}
