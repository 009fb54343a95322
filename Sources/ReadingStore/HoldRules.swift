import GRDB
import HealthReadings

/// Why readings that are not delivered wait, as things stand now: fetched once for a statement, asked for each row.
struct HoldRules: Sendable {
    private struct Key: Hashable {
        var destination: Int64
        var user: Int64
        var provider: String
    }

    /// The destinations, removed ones included.
    let destinations: [StoredDestination]
    private let isLocked: Bool
    private let ignored: Set<String>
    private let isSyncEnabled: Bool
    private let sources: [Key: Hold?]
    private var devices: [DestinationKey: DeviceHolds] = [:]
    private var manual: Set<DestinationKey> = []
    private var unknown: [DestinationKey: Set<UnknownResource>] = [:]
    private var refused: [DestinationKey: Set<UnknownResource>] = [:]

    /// - Parameter heedsMode: whether what goes only when somebody asks is held.
    init(_ db: Database, _ sealing: Sealing, heedsMode: Bool = true) throws {
        isLocked = sealing.refusal != nil
        ignored = try ReadingStore.ignoredOrigins(db).providers
        isSyncEnabled = try ReadingStore.isSyncEnabled(db)
        let known = try ReadingStore.destinations(db)
        destinations = known
        let common = try DeviceHolds.Common(db)
        for destination in known {
            devices[destination.key] = try DeviceHolds(db, destination, common)
            if heedsMode, try ReadingStore.rule(db, of: destination.name).isManual { manual.insert(destination.key) }
        }
        for destination in known.map(\.key) {
            unknown[destination] = try ReadingStore.unknownToServer(db, destination)
            refused[destination] = try ReadingStore.refusedWhole(db, destination)
        }
        let select = try PreparedStatement(
            db, "SELECT destination, user, provider, status, created_once, tag FROM source")
        defer { select.reset() }
        var sources: [Key: Hold?] = [:]
        while try select.next() {
            let provider = select.text(2) ?? ""
            let tag = PersonTag.source(
                of: select.int(1), at: known.first { $0.key.rawValue == select.int(0) }?.name ?? "",
                provider: provider, status: select.text(3) ?? "", wasCreatedOnce: select.int(4) != 0)
            // What was changed outside of this program is not believed.
            let status =
                tag.holds(select.octets(5), sealing)
                ? ConnectedSource.Status(rawValue: select.text(3) ?? "") ?? .error : .error
            sources[Key(destination: select.int(0), user: select.int(1), provider: provider)] =
                .some(ConnectedSource(provider: provider, status: status).hold)
        }
        self.sources = sources
    }

    /// How a reading that was just queued stands with each destination.
    func waiting(_ reading: Reading, user: Int64, provider: String, device: Int64) -> [DestinationDelivery] {
        destinations.filter { $0.takes(reading.kind) }.map { destination in
            let hold = hold(
                user: user, provider: provider, kind: reading.kind, device: device,
                seconds: reading.time.instant?.seconds, at: destination)
            return DestinationDelivery(destination: destination.name, state: hold.map { .held($0) } ?? .waiting)
        }
    }

    /// Why a reading that is not delivered waits; nil where it waits only for the next delivery.
    ///
    /// - Parameters:
    ///   - device: the row of its device.
    ///   - seconds: when it was measured; nil: unknown.
    func hold(
        user: Int64, provider: String, kind: ReadingKind, device: Int64, seconds: Int64?,
        at destination: StoredDestination
    ) -> Hold? {
        if isLocked { return .locked }
        let apart = devices[destination.key]?.hold(user: user, kind: kind, device: device, seconds: seconds)
        if apart != .noConsent, apart != .notSelected, ignored.contains(provider) { return .ignored }
        return apart ?? hold(user: user, provider: provider, kind: kind, at: destination)
    }

    /// Why the readings of a person, kind and provider wait that nothing holds for their own sake.
    func hold(user: Int64, provider: String, kind: ReadingKind, at destination: StoredDestination) -> Hold? {
        if isLocked { return .locked }
        if ignored.contains(provider) { return .ignored }
        if !isSyncEnabled { return .syncDisabled }
        if let hold = destination.hold(isManual: manual.contains(destination.key)) { return hold }
        if destination.needsSource {
            let source =
                sources[Key(destination: destination.key.rawValue, user: user, provider: provider)] ?? .some(.noSource)
            if let source { return source }
        }
        let entry = UnknownResource(user: user, kind: kind, provider: provider)
        return isUnknown(entry, at: destination.key) || isRefusedWhole(entry, at: destination.key) ? .sourceError : nil
    }

    /// Whether the destination did not know a kind when it was sent last.
    func isUnknown(_ resource: UnknownResource, at destination: DestinationKey) -> Bool {
        unknown[destination]?.contains(resource) ?? false
    }

    /// Whether the destination refused every reading when it was sent last.
    func isRefusedWhole(_ resource: UnknownResource, at destination: DestinationKey) -> Bool {
        refused[destination]?.contains(resource) ?? false
    }
}

/// Reads how readings stand with the destinations they are queued for: what every document shows as `deliveries`.
struct DeliveryReader {
    private let holds: HoldRules
    private let sealing: Sealing
    private let select: PreparedStatement

    init(_ db: Database, _ holds: HoldRules, _ sealing: Sealing) throws {
        self.holds = holds
        self.sealing = sealing
        select = try PreparedStatement(
            db, "SELECT destination, provider, state, words FROM outbox WHERE reading = ? ORDER BY destination")
    }

    /// How a reading stands with each destination that may get it.
    ///
    /// - Parameters:
    ///   - reading: the reading; only its kind, its time and whether it is excluded are looked at.
    ///   - key: its row.
    ///   - device: the row of its device.
    func deliveries(
        of reading: Reading, _ key: Int64, user: Int64, device: Int64
    ) throws -> [DestinationDelivery] {
        guard reading.excluded == nil else { return [] }
        select.bind(1, key)
        defer { select.reset() }
        var deliveries: [DestinationDelivery] = []
        while try select.next() {
            let place = select.int(0)
            guard let destination = holds.destinations.first(where: { $0.key.rawValue == place }),
                let state = OutboxState(rawValue: select.int(2))
            else { continue }
            // A removed destination gets nothing any more; what it has is still told.
            guard destination.state != .removed || state == .delivered || state == .handedOver else { continue }
            let shown: DeliveryState =
                switch state {
                case .delivered: .delivered
                case .handedOver: .handedOver
                case .refused: .refused(words: try sealing.words(select.octets(3), on: key, at: place))
                // A record that may still turn out to be of another kind waits for its context.
                case .waiting, .withdrawn:
                    holds.hold(
                        user: user, provider: select.text(1) ?? "", kind: reading.kind, device: device,
                        seconds: reading.time.instant?.seconds, at: destination
                    ).map { .held($0) } ?? (state == .withdrawn ? .held(.awaitingContext) : .waiting)
                }
            deliveries.append(DestinationDelivery(destination: destination.name, state: shown))
        }
        return deliveries
    }
}
