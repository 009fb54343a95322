import GRDB
import HealthReadings

/// Why readings that are not delivered wait, as things stand now: fetched once for a statement, asked for each row.
struct HoldRules: Sendable, Hashable {
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
    private var firstContacts: [Int64: Int64]
    private let ignoresDevices: Bool
    private(set) var devices: [DestinationKey: DeviceHolds] = [:]
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
        (firstContacts, ignoresDevices) = (common.firstContacts, common.namesDevices)
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

    /// Whether devices are chosen, or ignored, by their model or address.
    var nameDevices: Bool { ignoresDevices || devices.values.contains(where: \.namesDevices) }

    /// Heeds when devices were first met, by their rows and in seconds.
    ///
    /// - Returns: whether that changes anything.
    mutating func heed(_ firsts: [Int64: Int64?]) -> Bool {
        let changed = firsts.filter { firstContacts[$0.key] != $0.value }
        guard !changed.isEmpty else { return false }
        for (device, first) in changed { firstContacts[device] = first }
        devices = devices.mapValues { $0.meeting(changed) }
        return true
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
    /// A row of the outbox.
    struct Entry {
        fileprivate let destination: Int64
        fileprivate let provider: String
        fileprivate let state: Int64
        fileprivate let timestamp: Int64
        fileprivate let words: [UInt8]
    }

    /// The rows of the outbox of some readings.
    struct Entries {
        fileprivate var entries: [Entry] = []
        /// Where those of each reading are, in the readings' order.
        fileprivate var ranges: [Range<Int>]

        subscript(place: Int) -> ArraySlice<Entry> { entries[ranges[place]] }
    }

    /// Up to this distance, walking on to the next reading's row costs less than looking for it.
    private static let stride: Int64 = 8

    private let holds: HoldRules
    private let sealing: Sealing
    private let select: PreparedStatement

    init(_ db: Database, _ holds: HoldRules, _ sealing: Sealing) throws {
        self.holds = holds
        self.sealing = sealing
        select = try PreparedStatement(
            db,
            """
            SELECT reading, destination, provider, state, words, timestamp FROM outbox WHERE reading BETWEEN ? AND ?
            ORDER BY reading, destination
            """)
    }

    /// The rows of the outbox of readings, by the keys of these. A page's readings were stored one after the other mostly:
    /// their rows are walked along together.
    func entries(of keys: [Int64]) throws -> Entries {
        var found = Entries(ranges: Array(repeating: 0..<0, count: keys.count))
        let wanted = keys.indices.sorted { keys[$0] < keys[$1] }
        var start = wanted.startIndex
        while start < wanted.endIndex {
            var end = start + 1
            while end < wanted.endIndex {
                // In a file that was changed they may lie further apart than 64 bits can say.
                let (gap, isTooFar) = keys[wanted[end]].subtractingReportingOverflow(keys[wanted[end - 1]])
                guard !isTooFar, gap <= Self.stride else { break }
                end += 1
            }
            try walk(wanted[start..<end], of: keys, &found)
            start = end
        }
        return found
    }

    private func walk(_ wanted: ArraySlice<Int>, of keys: [Int64], _ found: inout Entries) throws {
        guard var next = wanted.first, let last = wanted.last else { return }
        select.bind(1, keys[next])
        select.bind(2, keys[last])
        defer { select.reset() }
        var rest = wanted.dropFirst()
        while try select.next() {
            let key = select.int(0)
            while keys[next] < key, let following = rest.popFirst() { next = following }
            guard keys[next] == key else { continue }
            let (end, state) = (found.entries.count, select.int(3))
            found.entries.append(
                Entry(
                    destination: select.int(1), provider: select.text(2) ?? "", state: state,
                    timestamp: select.int(5),
                    words: state == OutboxState.refused.rawValue ? select.octets(4) : []))
            found.ranges[next] = (found.ranges[next].isEmpty ? end : found.ranges[next].lowerBound)..<end + 1
        }
    }

    /// How a reading stands with each destination that may get it.
    ///
    /// - Parameters:
    ///   - entries: its rows of the outbox.
    ///   - key: its row.
    ///   - columns: its columns.
    func deliveries(
        _ entries: ArraySlice<Entry>, of key: Int64, _ columns: ReadingColumns
    ) throws -> [DestinationDelivery] {
        guard columns.recordExclusion == nil, columns.timeExclusion == nil else { return [] }
        var deliveries: [DestinationDelivery] = []
        for entry in entries {
            guard let place = holds.destinations.firstIndex(where: { $0.key.rawValue == entry.destination }),
                let state = OutboxState(rawValue: entry.state)
            else { continue }
            // A removed destination gets nothing any more; what it has is still told.
            guard holds.destinations[place].state != .removed || state == .delivered || state == .handedOver else {
                continue
            }
            let shown: DeliveryState =
                switch state {
                case .delivered: .delivered
                case .handedOver: .handedOver
                case .refused: .refused(words: try sealing.words(entry.words, on: key, at: entry.destination))
                // A record that may still turn out to be of another kind waits for its context.
                case .waiting, .withdrawn:
                    holds.hold(
                        user: columns.user, provider: entry.provider, kind: try ReadingKind(code: columns.kind),
                        device: columns.device, seconds: columns.time, at: holds.destinations[place]
                    ).map { .held($0) } ?? (state == .withdrawn ? .held(.awaitingContext) : .waiting)
                }
            deliveries.append(
                DestinationDelivery(
                    destination: holds.destinations[place].name, state: shown,
                    sentTime: entry.timestamp == columns.time ? nil : Instant(seconds: entry.timestamp)))
        }
        return deliveries
    }
}
