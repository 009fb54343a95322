import GRDB
import HealthReadings

/// A kind of data that the server did not know when readings of one provider were sent.
struct UnknownResource: Hashable, Sendable {
    var user: Int64
    var kind: ReadingKind
    var provider: String
}

extension ReadingStore {
    private static let unknownSetting = "server.unknown_resources"

    /// Notes whether the server knows the resource of a kind. Readings of an unknown one wait as `source_error`; the
    /// provider's other kinds go on. Kept over restarts.
    public func setUnknownToServer(
        _ isUnknown: Bool, user: UserKey, resource: ReadingKind, provider: String
    ) async throws {
        let entry = UnknownResource(user: user.rawValue, kind: resource, provider: provider)
        guard try await read({ db in try Self.unknownToServer(db).contains(entry) }) != isUnknown else { return }
        try await write(.setting) { db in
            var entries = try Self.unknownToServer(db)
            if isUnknown { entries.insert(entry) } else { entries.remove(entry) }
            try Self.set(
                db, Self.unknownSetting,
                lines: entries.map { "\($0.user) \($0.kind.code) \($0.provider)" }.sorted())
        }
    }

    static func unknownToServer(_ db: Database) throws -> Set<UnknownResource> {
        Set(
            try lines(db, unknownSetting).compactMap { line in
                let parts = line.split(separator: " ", maxSplits: 2)
                guard parts.count == 3, let user = Int64(parts[0]), let code = Int64(parts[1]),
                    let kind = try? ReadingKind(code: code)
                else { return nil }
                return UnknownResource(user: user, kind: kind, provider: String(parts[2]))
            })
    }
}
