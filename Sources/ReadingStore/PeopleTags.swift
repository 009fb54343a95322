import Foundation
import GRDB
import HealthReadings

/// What decides to whose account readings go, authenticated under the key: a person's client id, their id at a
/// destination, and a source of theirs there.
///
/// A tag is the number of its key (LEB128) and 16 octets of HMAC-SHA256. A row of a store in the clear has none.
enum PersonTag {
    case person(Int64, clientUserID: String)
    /// Bound to the destination's name: ids at two destinations cannot change places, nor can the destinations.
    case id(of: Int64, at: String, String)
    case source(of: Int64, at: String, provider: String, status: String, wasCreatedOnce: Bool)

    /// The tag for a row; `nil` where content is in the clear.
    ///
    /// - Throws: why the key is missing.
    func made(_ sealing: Sealing) throws -> [UInt8]? {
        guard let keys = try sealing.currentKeys() else { return nil }
        var writer = ContentWriter()
        writer.put(keys.generation)
        return writer.octets + code(keys)
    }

    /// Checks that the row is as it was written. While the key is missing nothing is known of it: nothing is delivered.
    ///
    /// - Throws: ``StoreError/corrupt(detail:)`` where it is not.
    func check(_ tag: [UInt8], _ sealing: Sealing) throws {
        guard sealing.refusal == nil else { return }
        guard !tag.isEmpty else {
            guard sealing.current == 0 else { throw changed }
            return
        }
        var reader = ContentReader(tag)
        guard let generation = try? reader.number(), let keys = try? sealing.keys(of: generation), keys.bindsColumns,
            reader.rest.elementsEqual(code(keys))
        else { throw changed }
    }

    func holds(_ tag: [UInt8], _ sealing: Sealing) -> Bool { (try? check(tag, sealing)) != nil }

    /// The row, as ``ReadingStore/verify(progress:)`` names it.
    var subject: String {
        switch self {
        case .person(let key, _): "person \(key)"
        case .id(let key, let destination, _): "id of person \(key) at \(destination)"
        case .source(let key, let destination, let provider, _, _):
            "source \(provider) of person \(key) at \(destination)"
        }
    }

    var changed: StoreError {
        .corrupt(detail: "\(subject) was changed outside of this program; nothing is delivered for them")
    }

    private func code(_ keys: GenerationKeys) -> [UInt8] {
        var writer = ContentWriter()
        switch self {
        case .person(let key, let name):
            writer.put(UInt64(1))
            writer.put(signed: key)
            writer.put(name)
        case .id(let key, let destination, let id):
            writer.put(UInt64(2))
            writer.put(signed: key)
            writer.put(destination)
            writer.put(id)
        case .source(let key, let destination, let provider, let status, let wasCreatedOnce):
            writer.put(UInt64(3))
            writer.put(signed: key)
            for text in [destination, provider, status] { writer.put(text) }
            writer.put(UInt64(wasCreatedOnce ? 1 : 0))
        }
        return keys.people.code(of: writer.octets)
    }
}

/// The tags of all people, ids and sources.
struct PeopleTags {
    let db: Database
    let sealing: Sealing

    static let schema = """
        -- What authenticates a row under the key; see `PersonTag`.
        ALTER TABLE user ADD COLUMN tag BLOB;
        ALTER TABLE destination_user ADD COLUMN tag BLOB;
        ALTER TABLE source ADD COLUMN tag BLOB;
        """

    private struct Entry {
        var row: PersonTag
        var tag: [UInt8]
        /// The table, the condition that selects the row, and the condition's arguments.
        var place: (table: String, condition: String, arguments: [any DatabaseValueConvertible])
    }

    // MARK: One row

    /// Writes a person's tag. A person who is made without the key has none until it is there.
    func sign(person key: Int64) throws {
        for entry in try people(key) { try write(entry.row.made(sealing), entry) }
    }

    /// Checks all people.
    func checkPeople() throws { for entry in try people() { try entry.row.check(entry.tag, sealing) } }

    /// Checks one person, if the store has them.
    func check(person key: Int64) throws {
        for entry in try people(key) { try entry.row.check(entry.tag, sealing) }
    }

    // MARK: All rows

    /// Signs every row without a tag: the store was not sealed, or by a version that signed no people.
    func signAll() throws {
        for entry in try all() where entry.tag.isEmpty { try write(entry.row.made(sealing), entry) }
    }

    /// Signs people without a name who were made while the key was missing. Nothing could be read for them then: where
    /// a person has anything, the tag was taken away.
    func signUnnamed() throws {
        for entry in try people() where entry.tag.isEmpty {
            guard case .person(let key, "") = entry.row, try !hasAnything(key) else { continue }
            try write(entry.row.made(sealing), entry)
        }
    }

    /// Signs every row with the newest key. A row whose tag does not hold keeps it, and so goes on being noticed.
    func renew(_ change: inout KeyChange) throws {
        for entry in try all() {
            if (try? Sealing.generation(of: entry.tag)) == sealing.current { continue }
            if entry.row.holds(entry.tag, sealing) {
                try write(entry.row.made(sealing), entry)
            } else {
                change.unreadable.append(entry.row.subject)
            }
        }
    }

    /// Removes the tags: the key goes. A row that was changed keeps a tag that never holds.
    func clear() throws {
        for entry in try all() {
            let isGood = !entry.tag.isEmpty && entry.row.holds(entry.tag, sealing)
            try write(isGood ? nil : entry.tag.isEmpty ? [0] : entry.tag, entry)
        }
    }

    /// Removes the tags where nobody can check them: the key of a store without readings is lost. What destinations call
    /// people is asked of them anew.
    func clearUnchecked() throws {
        try db.execute(sql: "UPDATE user SET tag = NULL; DELETE FROM destination_user; DELETE FROM source")
    }

    func findings() throws -> [VerificationFinding] {
        try all().filter { !$0.row.holds($0.tag, sealing) }.map {
            VerificationFinding(problem: .personChanged, subject: $0.row.subject)
        }
    }

    private func write(_ tag: [UInt8]?, _ entry: Entry) throws {
        try db.execute(
            sql: "UPDATE \(entry.place.table) SET tag = ? WHERE \(entry.place.condition)",
            arguments: StatementArguments([tag.map { Data($0) }] + entry.place.arguments))
    }

    private func hasAnything(_ user: Int64) throws -> Bool {
        try Bool.fetchOne(
            db,
            sql: """
                SELECT EXISTS (SELECT 1 FROM reading WHERE user = ?1) OR EXISTS (SELECT 1 FROM outbox WHERE user = ?1)
                    OR EXISTS (SELECT 1 FROM contact WHERE user = ?1) OR EXISTS (SELECT 1 FROM pruned WHERE user = ?1)
                """, arguments: [user]) ?? true
    }

    // MARK: The rows

    private func all() throws -> [Entry] { try people() + ids() + sources() }

    private func people(_ only: Int64? = nil) throws -> [Entry] {
        try Row.fetchAll(
            db, sql: "SELECT key, client_user_id, tag FROM user WHERE ?1 IS NULL OR key = ?1 ORDER BY key",
            arguments: [only]
        ).map { row in
            let key: Int64 = try row.value(0)
            return Entry(
                row: .person(key, clientUserID: try row.value(1)), tag: try row.octets(2),
                place: ("user", "key = ?", [key])
            )
        }
    }

    private func ids() throws -> [Entry] {
        try Row.fetchAll(
            db,
            sql: """
                SELECT u.user, u.destination, d.name, u.id, u.tag FROM destination_user AS u
                LEFT JOIN destination AS d ON d.key = u.destination ORDER BY u.user, u.destination
                """
        ).map { row in
            let (user, destination): (Int64, Int64) = (try row.value(0), try row.value(1))
            return Entry(
                row: .id(of: user, at: try row.value(2) ?? "", try row.value(3)), tag: try row.octets(4),
                place: ("destination_user", "user = ? AND destination = ?", [user, destination]))
        }
    }

    private func sources() throws -> [Entry] {
        try Row.fetchAll(
            db,
            sql: """
                SELECT s.user, s.destination, d.name, s.provider, s.status, s.created_once, s.tag FROM source AS s
                LEFT JOIN destination AS d ON d.key = s.destination ORDER BY s.user, s.destination, s.provider
                """
        ).map { row in
            let (user, destination): (Int64, Int64) = (try row.value(0), try row.value(1))
            let provider: String = try row.value(3)
            return Entry(
                row: .source(
                    of: user, at: try row.value(2) ?? "", provider: provider, status: try row.value(4),
                    wasCreatedOnce: try row.value(5)),
                tag: try row.octets(6),
                place: (
                    "source", "user = ? AND destination = ? AND provider = ?", [user, destination, provider]
                ))
        }
    }
}

extension Row {
    /// A column's octets; none for NULL.
    func octets(_ index: Int) throws -> [UInt8] { try (value(index) as Data?).map { Array($0) } ?? [] }
}
