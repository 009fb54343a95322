import GRDB
import HealthReadings

/// Why readings that are not delivered wait, as things stand now: fetched once for a statement, asked for each row.
struct HoldRules: Sendable {
    private struct Key: Hashable {
        var user: Int64
        var provider: String
    }

    private let isLocked: Bool
    private let ignored: Set<String>
    private let isSyncEnabled: Bool
    private let sources: [Key: Hold?]
    private let devices: DeviceHolds
    private let unknown: Set<UnknownResource>

    init(_ db: Database, _ sealing: Sealing) throws {
        isLocked = sealing.refusal != nil
        ignored = try ReadingStore.ignoredOrigins(db).providers
        isSyncEnabled = try ReadingStore.isSyncEnabled(db)
        devices = try DeviceHolds(db)
        unknown = try ReadingStore.unknownToServer(db)
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
    /// - Parameters:
    ///   - kind: what kind of reading it is.
    ///   - device: the row of its device.
    ///   - seconds: when it was measured; nil: unknown.
    ///   - state: its outbox row's; nil where it has none, being excluded.
    func hold(
        user: Int64, provider: String, kind: ReadingKind, device: Int64, seconds: Int64?, state: OutboxState?
    ) -> Hold? {
        guard state == .waiting || state == .refused else { return nil }
        if isLocked { return .locked }
        let apart = devices.hold(user: user, kind: kind, device: device, seconds: seconds)
        if apart != .noConsent, ignored.contains(provider) { return .ignored }
        return apart ?? hold(user: user, provider: provider, kind: kind, state: state)
    }

    /// Why the readings of a person, kind and provider wait that nothing holds for their own sake.
    func hold(user: Int64, provider: String, kind: ReadingKind, state: OutboxState?) -> Hold? {
        guard state == .waiting || state == .refused else { return nil }
        if isLocked { return .locked }
        if ignored.contains(provider) { return .ignored }
        if !isSyncEnabled { return .syncDisabled }
        let source = sources[Key(user: user, provider: provider)] ?? .some(.noSource)
        if let source { return source }
        if state == .refused { return .rejected }
        return unknown.contains(UnknownResource(user: user, kind: kind, provider: provider)) ? .sourceError : nil
    }
}
