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
    /// Whether it would be granted if the person had confirmed it since the store was made of an export.
    public var isUnconfirmed = false
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
            let name = try destination.flatMap { key in try Self.destinations(db).first { $0.key == key }?.name }
            return try ConsentWords(db).consents(of: user, at: destination, named: name)
        }
    }

    /// The kinds of a person's readings that destinations don't get until the person has said again whether they may: the store was
    /// made of an export whose deliveries were to wait for that.
    ///
    /// ``setConsents(_:granted:of:at:)`` ends it, whatever is said.
    public func unconfirmedConsents(of user: UserKey) async throws -> Set<ReadingKind> {
        try await read { db in
            let words = try ConsentWords(db)
            let consents = try Self.destinations(db).filter { $0.state != .removed }.flatMap {
                words.consents(of: user, at: $0.key, named: $0.name)
            }
            return Set(consents.filter(\.isUnconfirmed).map(\.kind))
        }
    }

    /// The people of whom ``unconfirmedConsents(of:)`` has kinds, at each destination where there are any.
    package func unconfirmedPeople() async throws -> [DestinationKey: Set<UserKey>] {
        // There may be thousands, and whoever scrapes metrics asks every few seconds.
        let holds = HoldLookup(self)
        return try await read { db in
            let rules = try holds.rules(db)
            var people: [DestinationKey: Set<UserKey>] = [:]
            for place in rules.destinations where place.state != .removed {
                let waiting = rules.devices[place.key]?.peopleToConfirm ?? []
                if !waiting.isEmpty { people[place.key] = Set(waiting.map { UserKey(rawValue: $0) }) }
            }
            return people
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

    /// Notes that the store was made of an export.
    ///
    /// - Parameter asksConsent: whether destinations get nothing of the people in it until these have said again what they may get.
    static func noteImport(_ db: Database, at now: Instant, asksConsent: Bool) throws {
        // What is to be confirmed in the store that was exported is so here, too.
        var numbers = try lines(db, importedSetting).dropFirst().compactMap { Int64($0) }
        if asksConsent {
            numbers = try [("key", "consent"), ("at", "consent"), ("key", "user")].map { column, table in
                try Int64.fetchOne(db, sql: "SELECT max(\(column)) FROM \(table)") ?? 0
            }
        }
        try set(db, importedSetting, lines: ([now.microseconds] + numbers).map { "\($0)" })
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

    /// An export that the store was made of, if its people are to say again what destinations may get.
    private struct Restored: Sendable {
        /// The number of the last word in it.
        private let word: Int64
        /// When the store was made of it, or the latest time of a word in it, which may have been said under a wrong clock.
        private let at: Instant
        /// Its people.
        let people: Set<Int64>

        init?(_ db: Database) throws {
            let numbers = try ReadingStore.lines(db, ReadingStore.importedSetting).compactMap { Int64($0) }
            guard numbers.count == 4 else { return nil }
            (word, at) = (numbers[1], Instant(microseconds: max(numbers[0], numbers[2])))
            // Whoever came later has withdrawn nothing in the store that was exported.
            people = try Set(Int64.fetchAll(db, sql: "SELECT key FROM user WHERE key <= ?", arguments: [numbers[3]]))
        }

        /// Whether a word was said since: by its number, or by its time if the number was another word's that was erased.
        func isBefore(_ said: Word) -> Bool { said.number > word || said.at > at }
    }

    /// What stands where nobody has said anything.
    let standard: Bool
    private let restored: Restored?
    private var general: [ConsentKey: Word] = [:]
    private var own: [DestinationKey: [ConsentKey: Word]] = [:]

    init(_ db: Database) throws {
        standard = try ReadingStore.consentStandard(db)
        restored = try Restored(db)
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

    /// How a person's consent stands, for each kind.
    func consents(of user: UserKey, at destination: DestinationKey?, named name: String?) -> [Consent] {
        let open = destination.flatMap { unconfirmed(at: $0)[user.rawValue] } ?? []
        return ReadingKind.allCases.map { kind in
            let word = word(user: user.rawValue, kind: kind.code, at: destination)
            let isGranted = word?.isGranted ?? standard
            let waits = isGranted && open.contains(kind.code)
            return Consent(
                kind: kind, isGranted: isGranted && !waits, at: word?.at, destination: name, isUnconfirmed: waits)
        }
    }

    /// What waits at a destination because nobody has consented to its delivery.
    func holds(at destination: DestinationKey?) -> ConsentHolds {
        let keys = Set(general.keys).union(destination.flatMap { own[$0] }.map { Set($0.keys) } ?? [])
        var words: [ConsentKey: Bool] = [:]
        for key in keys { words[key] = word(key, at: destination)?.isGranted }
        var (unconfirmed, asked): (Set<Int64>, Set<Int64>) = ([], [])
        if let destination {
            for (user, kinds) in self.unconfirmed(at: destination) {
                if kinds.contains(where: { words[ConsentKey(user: user, kind: $0)] ?? standard }) { asked.insert(user) }
                if kinds.count == Self.kinds.count {
                    unconfirmed.insert(user)
                } else {
                    for kind in kinds { words[ConsentKey(user: user, kind: kind)] = false }
                }
            }
        }
        return ConsentHolds(standard: standard, words: words, unconfirmed: unconfirmed, asked: asked)
    }

    private static let kinds = Set(ReadingKind.allCases.map(\.code))

    /// The kinds of which a person has not said again what they had said, or not said, when the export was made that the store was made
    /// of; of each person for whom there are any.
    private func unconfirmed(at destination: DestinationKey) -> [Int64: Set<Int64>] {
        guard let restored else { return [:] }
        var said: [Int64: Set<Int64>] = [:]
        for words in [general, own[destination] ?? [:]] {
            for (key, word) in words where restored.isBefore(word) { said[key.user, default: []].insert(key.kind) }
        }
        var found: [Int64: Set<Int64>] = [:]
        for user in restored.people {
            let open = said[user].map { Self.kinds.subtracting($0) } ?? Self.kinds
            if !open.isEmpty { found[user] = open }
        }
        return found
    }
}

/// What waits because nobody has consented to its delivery.
struct ConsentHolds: Sendable, Hashable {
    fileprivate let standard: Bool
    fileprivate let words: [ConsentKey: Bool]
    /// People all of whose readings wait until they have said something again.
    fileprivate let unconfirmed: Set<Int64>
    /// People who have granted kinds that wait until they have said so again.
    let asked: Set<Int64>

    /// The same for one kind of one person's readings; of others it says nothing.
    func only(user: Int64, kind: Int64) -> ConsentHolds {
        let key = ConsentKey(user: user, kind: kind)
        return ConsentHolds(
            standard: standard, words: words[key].map { [key: $0] } ?? [:],
            unconfirmed: unconfirmed.intersection([user]), asked: asked.intersection([user]))
    }

    /// Whether a person's readings of a kind may be delivered and shown.
    func isGranted(user: Int64, kind: Int64) -> Bool {
        !unconfirmed.contains(user) && words[ConsentKey(user: user, kind: kind)] ?? standard
    }

    /// Whether nobody's reading of any kind waits for consent.
    var isGrantedForAll: Bool { standard && unconfirmed.isEmpty && words.values.allSatisfy(\.self) }

    /// The condition on `outbox AS o` that a reading waits for consent; nil where none does.
    var condition: String? {
        let differing = words.filter { $0.value != standard }.keys.sorted { ($0.user, $0.kind) < ($1.user, $1.kind) }
        let list = differing.map { "(\($0.user),\($0.kind))" }.joined(separator: ",")
        guard standard || !differing.isEmpty else { return "TRUE" }
        let bySaying = differing.isEmpty ? nil : "(o.user, o.resource) \(standard ? "IN" : "NOT IN") (VALUES \(list))"
        guard !unconfirmed.isEmpty else { return bySaying }
        let people = "o.user IN (\(unconfirmed.sorted().map { "\($0)" }.joined(separator: ",")))"
        return bySaying.map { "(\(people) OR \($0))" } ?? people
    }
}
