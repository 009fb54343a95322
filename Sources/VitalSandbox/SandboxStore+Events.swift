import Foundation
import GRDB

/// Something that the API tells a team's backend: an event as a webhook carries it.
struct SandboxEvent: Sendable, Equatable {
    var number: Int64
    /// The `svix-id`, the same at each attempt.
    var message: String
    var body: String
    /// How often it was tried.
    var attempts: Int
    /// When it is to be tried next, in milliseconds since 1970.
    var dueAt: Int64
}

extension SandboxStore {
    static let events = """
        CREATE TABLE event (
            id INTEGER PRIMARY KEY AUTOINCREMENT, message TEXT NOT NULL UNIQUE, type TEXT NOT NULL,
            user_id TEXT NOT NULL REFERENCES person ON DELETE CASCADE, created_at TEXT NOT NULL, body TEXT NOT NULL,
            state TEXT NOT NULL DEFAULT 'waiting' CHECK (state IN ('waiting', 'delivered', 'failed')),
            attempts INTEGER NOT NULL DEFAULT 0, due_at INTEGER NOT NULL DEFAULT 0, last_answer TEXT
        ) STRICT;
        CREATE INDEX event_due ON event (due_at, id) WHERE state = 'waiting';
        CREATE INDEX event_of_user ON event (user_id);
        """

    /// Keeps an event in the transaction of what it tells, if events are told to anybody.
    func note(_ type: String, user: String, _ data: [JSONValue.Member], _ database: Database) throws {
        guard tellsEvents else { return }
        let client = try String.fetchOne(
            database, sql: "SELECT client_user_id FROM person WHERE user_id = ?", arguments: [user])
        let body = JSONValue.object([
            .init(name: "event_type", value: .string(type)),
            .init(name: "team_id", value: .string(try teamID(database))),
            .init(name: "user_id", value: .string(user)), .init(name: "client_user_id", value: .text(client)),
            .init(name: "data", value: .object([.init(name: "user_id", value: .string(user))] + data)),
        ])
        try database.execute(
            sql: "INSERT INTO event (message, type, user_id, created_at, body) VALUES (?, ?, ?, ?, ?)",
            arguments: [
                "msg_" + UUID().uuidString.replacingOccurrences(of: "-", with: "").lowercased(), type, user,
                Timestamp.now.text, body.text,
            ])
    }

    /// Tells of samples that a post has brought or changed; of a backfill, only that there is one.
    func note(
        _ post: SamplePost, new: [TimeseriesBody.Item], changed: [TimeseriesBody.Item], user: String,
        _ database: Database
    ) throws {
        guard tellsEvents else { return }
        let envelope = post.envelope
        let provider = JSONValue.object(Self.provider(envelope.provider))
        let name =
            post.samples.first.map { post.summary == nil ? $0.resource.readName : post.resource } ?? post.resource
        guard envelope.stage == "daily" else {
            return try note(
                "historical.data.\(name).created", user: user,
                [
                    .init(name: "start_date", value: .text(envelope.start?.text)),
                    .init(name: "end_date", value: .text(envelope.end?.text)),
                    .init(name: "is_final", value: .bool(envelope.isFinalChunk)),
                    .init(name: "provider", value: .string(envelope.provider)),
                ], database)
        }
        if post.summary != nil { return try noteBody(post, user: user, database) }
        for (word, items) in [("created", new), ("updated", changed)] where !items.isEmpty {
            try note(
                "daily.data.\(name).\(word)", user: user,
                [
                    .init(name: "source", value: provider), .init(name: "provider", value: provider),
                    .init(name: "data", value: .array(items.map { Self.datum($0) })),
                ], database)
        }
    }

    private static func datum(_ item: TimeseriesBody.Item) -> JSONValue {
        var members = [JSONValue.Member(name: "timestamp", value: .string(item.at.text))]
        for (name, token) in [("value", item.value), ("systolic", item.systolic), ("diastolic", item.diastolic)] {
            if let token { members.append(.init(name: name, value: .number(token))) }
        }
        members += [
            .init(name: "unit", value: .string(item.unit)), .init(name: "type", value: .string(item.type)),
            .init(name: "timezone_offset", value: .integer(item.offset)),
        ]
        return .object(members)
    }

    /// A body summary is told day by day: the newest weight and fat of each.
    private func noteBody(_ post: SamplePost, user: String, _ database: Database) throws {
        var days: [String: (weight: TimeseriesBody.Item?, fat: TimeseriesBody.Item?)] = [:]
        for (resource, item) in post.samples {
            let local = Timestamp(microseconds: item.at.microseconds + Int64(item.offset) * 1_000_000)
            let day = String(local.text.prefix(10))
            switch resource {
            case .bodyMass where (days[day]?.weight?.at).map({ $0 <= item.at }) ?? true:
                days[day, default: (nil, nil)].weight = item
            case .bodyFatPercentage where (days[day]?.fat?.at).map({ $0 <= item.at }) ?? true:
                days[day, default: (nil, nil)].fat = item
            default: break
            }
        }
        for (day, values) in days.sorted(by: { $0.key < $1.key }) {
            try note(
                "daily.data.body.created", user: user,
                [
                    .init(name: "id", value: .string("\(user)-\(post.envelope.provider)-\(day)")),
                    .init(name: "calendar_date", value: .string(day)),
                    .init(name: "date", value: .string(day + "T00:00:00+00:00")),
                    .init(name: "weight", value: values.weight?.value.map(JSONValue.number) ?? .null),
                    .init(name: "fat", value: values.fat?.value.map(JSONValue.number) ?? .null),
                    .init(name: "source", value: .object(Self.provider(post.envelope.provider))),
                ], database)
        }
    }

    /// The event that is to be tried first; nil if none waits.
    func nextEvent() async throws -> SandboxEvent? {
        try await writer.read { database in
            try Row.fetchOne(
                database, sql: "SELECT * FROM event WHERE state = 'waiting' ORDER BY due_at, id LIMIT 1"
            ).map { row in
                SandboxEvent(
                    number: row["id"], message: row["message"], body: row["body"], attempts: row["attempts"],
                    dueAt: row["due_at"])
            }
        }
    }

    /// Notes what an attempt came to.
    ///
    /// - Parameter next: when it is tried again; nil if it is not.
    func settle(_ event: SandboxEvent, answer: String, isDelivered: Bool, next: Int64?) async throws {
        try await writer.write { database in
            try database.execute(
                sql: "UPDATE event SET attempts = attempts + 1, state = ?, due_at = ?, last_answer = ? WHERE id = ?",
                arguments: [
                    isDelivered ? "delivered" : next == nil ? "failed" : "waiting", next ?? 0, answer, event.number,
                ])
        }
    }

    /// Events as they are kept, oldest first, after a row.
    func events(after: Int64, limit: Int) async throws -> JSONValue {
        try await writer.read { database in
            let rows = try Row.fetchAll(
                database, sql: "SELECT * FROM event WHERE id > ? ORDER BY id LIMIT ?", arguments: [after, limit + 1])
            return try Self.page("events", rows, limit) { row in
                let body: String = row["body"]
                return [
                    "id": .integer(row["id"]), "message": .string(row["message"]), "type": .string(row["type"]),
                    "user_id": .string(row["user_id"]), "created_at": .string(row["created_at"]),
                    "state": .string(row["state"]), "attempts": .integer(row["attempts"]),
                    "last_answer": .text(row["last_answer"]), "body": try JSONTextParser.parse(Array(body.utf8)),
                ]
            }
        }
    }
}
