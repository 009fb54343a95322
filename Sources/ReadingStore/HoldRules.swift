import GRDB
import HealthReadings

/// How readings stand with their destination, and why those that are not delivered wait, as things stand now: fetched once
/// for a statement, asked for each row.
struct HoldRules: Sendable {
    private struct Key: Hashable {
        var user: Int64
        var provider: String
    }

    /// The name of the one destination that the outbox has rows for.
    static let destination = "vital"

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
        unknown = try ReadingStore.unknownToServer(db).union(try ReadingStore.refusedWhole(db))
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

    /// How a reading stands with each destination that may get it: what every document shows as `deliveries`.
    ///
    /// - Parameters:
    ///   - reading: the reading; only its kind, its time and whether it is excluded are looked at.
    ///   - device: the row of its device.
    ///   - state: its outbox row's; `nil` if it has none.
    ///   - words: the receiver's words, asked for only if it refused the reading.
    func deliveries(
        of reading: Reading, user: Int64, provider: String, device: Int64, state: OutboxState?,
        words: () throws -> String
    ) rethrows -> [DestinationDelivery] {
        guard let state, reading.excluded == nil else { return [] }
        switch state {
        case .delivered: return Self.delivered
        case .refused: return [.init(destination: Self.destination, state: .refused(words: try words()))]
        // A record that may still turn out to be of another kind waits for its context.
        case .waiting, .withdrawn:
            let hold = hold(
                user: user, provider: provider, kind: reading.kind, device: device,
                seconds: reading.time.instant?.seconds)
            return hold.map { [.init(destination: Self.destination, state: .held($0))] } ?? Self.waiting
        }
    }

    // A page has thousands of these.
    private static let waiting = [DestinationDelivery(destination: destination, state: .waiting)]
    private static let delivered = [DestinationDelivery(destination: destination, state: .delivered)]

    /// Why a reading that is not delivered waits; nil where it waits only for the next delivery.
    private func hold(user: Int64, provider: String, kind: ReadingKind, device: Int64, seconds: Int64?) -> Hold? {
        if isLocked { return .locked }
        let apart = devices.hold(user: user, kind: kind, device: device, seconds: seconds)
        if apart != .noConsent, ignored.contains(provider) { return .ignored }
        return apart ?? hold(user: user, provider: provider, kind: kind)
    }

    /// Why the readings of a person, kind and provider wait that nothing holds for their own sake.
    func hold(user: Int64, provider: String, kind: ReadingKind) -> Hold? {
        if isLocked { return .locked }
        if ignored.contains(provider) { return .ignored }
        if !isSyncEnabled { return .syncDisabled }
        let source = sources[Key(user: user, provider: provider)] ?? .some(.noSource)
        if let source { return source }
        return unknown.contains(UnknownResource(user: user, kind: kind, provider: provider)) ? .sourceError : nil
    }
}
