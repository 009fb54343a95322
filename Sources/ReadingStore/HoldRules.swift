import GRDB
import HealthReadings

/// Why readings that are not delivered wait, as things stand now: fetched once for a statement, asked for each row.
struct HoldRules {
    private struct Key: Hashable {
        var user: Int64
        var provider: String
    }

    private let ignored: Set<String>
    private let isSyncEnabled: Bool
    private let sources: [Key: Hold?]

    init(_ db: Database) throws {
        ignored = try ReadingStore.ignoredProviders(db)
        isSyncEnabled = try ReadingStore.isSyncEnabled(db)
        let select = try PreparedStatement(db, "SELECT user, provider, status FROM source")
        defer { select.reset() }
        var sources: [Key: Hold?] = [:]
        while try select.next() {
            let provider = select.text(1) ?? ""
            let status = ConnectedSource.Status(rawValue: select.text(2) ?? "") ?? .error
            sources[Key(user: select.int(0), provider: provider)] =
                .some(ConnectedSource(provider: provider, status: status).hold)
        }
        self.sources = sources
    }

    /// Why a reading waits; nil where it does not wait, or only for the next delivery.
    ///
    /// - Parameter state: its outbox row's; nil where it has none, being excluded.
    func hold(user: Int64, provider: String, state: OutboxState?) -> Hold? {
        guard state == .waiting || state == .refused else { return nil }
        if ignored.contains(provider) { return .ignored }
        if !isSyncEnabled { return .syncDisabled }
        let source = sources[Key(user: user, provider: provider)] ?? .some(.noSource)
        return source ?? (state == .refused ? .rejected : nil)
    }
}
