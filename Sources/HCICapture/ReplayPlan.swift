import GATTClient
import GATTProfiles
import HealthReadings

/// A connection as it will be offered: its entry with the handle map and the address that hold for it.
struct ReplayPlan: Sendable {
    let entry: ConnectionEntry
    let characteristics: [Characteristic]
    let advertisement: Advertisement
    let routes: [Route]
    /// The services of makers' own that the recorded host wrote to, each as the handles of its characteristics' values.
    let dialogues: [Set<UInt16>]

    /// A characteristic in replay.
    struct Route: Sendable {
        var handle: UInt16
        var uuid: BluetoothUUID
        /// Whether its values are records that a device is asked for, or what comes with them.
        var isRecord: Bool
        /// The control point whose report procedure releases the values; -1 where enabling alone does.
        var gate: Int
        /// How many values the capture holds.
        var total: Int
        /// Whether its service is one of ``ReplayPlan/dialogues``.
        var isInDialogue: Bool
        var isControlPoint: Bool { uuid == .recordAccessControlPoint }
        /// Whether its values are records, and no control point is known that they were asked for at.
        var isUnasked: Bool { isRecord && gate < 0 }
        /// Whether its values are records that a reader can leave: an answer that was not asked for is none.
        var canBeLeft: Bool { !isControlPoint && !isInDialogue }
    }

    /// - Parameters:
    ///   - entry: the connection.
    ///   - table: what its handles are.
    ///   - address: the address that its peer is known by.
    init(_ entry: ConnectionEntry, table: AttributeTable, address: DeviceAddress?) {
        self.entry = entry
        characteristics = table.characteristics
        advertisement = Advertisement(
            address: address, name: entry.name, services: Self.services(table, characteristics),
            seenAt: entry.start)
        dialogues = Self.dialogues(characteristics, entry)
        routes = Self.routes(characteristics, entry, dialogues)
    }

    var connection: ReplayConnection {
        ReplayConnection(path: entry.file.path, handle: entry.handle, start: entry.start)
    }

    /// Whether there is anything to read: a value that the device sent, or what its clock showed. A host that only bonds,
    /// or tries a bond, gets neither, and asks for no records.
    private var hasAnything: Bool {
        entry.attValues > 0
            || routes.contains { BluetoothUUID.clocks.contains($0.uuid) && entry.conversation.reads[$0.handle] != nil }
    }

    /// The values left where so many were consumed of each route (none, by default), and the questions that found no
    /// answer, by the handle they were written to.
    func unread(consumed: [Int] = [], unanswered: [UInt16: Int] = [:]) -> [ReplayWarning] {
        routes.indices.compactMap { place in
            let route = routes[place]
            if let questions = unanswered[route.handle] {
                return .questionsUnanswered(connection, characteristic: route.uuid, questions: questions)
            }
            let left = route.total - (place < consumed.count ? consumed[place] : 0)
            guard route.canBeLeft, left > 0 else { return nil }
            return .valuesLeftUnread(connection, characteristic: route.uuid, values: left)
        }
    }

    /// The first of the 16-bit numbers that makers have for services of their own (Assigned Numbers, 3.11: member UUIDs).
    private static let firstOfMakers: UInt16 = 0xFC00

    private static func dialogues(_ characteristics: [Characteristic], _ entry: ConnectionEntry) -> [Set<UInt16>] {
        // Where only a handle map names characteristics, those of makers' own are taken for one service's.
        let own = characteristics.filter { ($0.service ?? $0.uuid).assignedNumber.map { $0 >= firstOfMakers } ?? true }
        return Dictionary(grouping: own, by: \.service).values
            .filter { service in !service.contains { $0.uuid == .recordAccessControlPoint } }
            .map { Set($0.map(\.valueHandle)) }
            .filter { !$0.isDisjoint(with: entry.conversation.written) }
            .sorted { ($0.min() ?? 0) < ($1.min() ?? 0) }
    }

    private static func routes(
        _ characteristics: [Characteristic], _ entry: ConnectionEntry, _ dialogues: [Set<UInt16>]
    ) -> [Route] {
        let counts = Dictionary(entry.counts.map { ($0.handle, $0.count) }, uniquingKeysWith: +)
        let controlPoints = characteristics.filter { $0.uuid == .recordAccessControlPoint }
        return characteristics.map { characteristic in
            let isRecord = BluetoothUUID.askedFor.contains(characteristic.uuid)
            let controlPoint = controlPoints.first {
                $0.service == characteristic.service || $0.service == nil || characteristic.service == nil
            }
            return Route(
                handle: characteristic.valueHandle, uuid: characteristic.uuid, isRecord: isRecord,
                gate: isRecord ? controlPoint.map { Int($0.valueHandle) } ?? -1 : -1,
                total: counts[characteristic.valueHandle] ?? 0,
                isInDialogue: dialogues.contains { $0.contains(characteristic.valueHandle) })
        }
    }

    /// The services that were discovered; where only a handle map names characteristics, those the specifications put
    /// them in.
    private static func services(_ table: AttributeTable, _ characteristics: [Characteristic]) -> [BluetoothUUID] {
        var services: [BluetoothUUID] = []
        for uuid in table.services.map(\.uuid)
            + characteristics.compactMap({ $0.service ?? ServiceProfile.homes[$0.uuid] })
        where !services.contains(uuid) {
            services.append(uuid)
        }
        return services
    }

    /// Plans the replay of captures: which connections are offered, with which handle map, and what is wrong with the
    /// others.
    static func make(
        _ indexes: [CaptureIndex], handleMap: HandleMap?, address: DeviceAddress?
    ) -> (plans: [ReplayPlan], warnings: [ReplayWarning]) {
        var plans: [ReplayPlan] = []
        var warnings: [ReplayWarning] = []
        // An address that a person types doesn't say of which kind it is. Another connection may.
        let address = address.map { given in
            indexes.flatMap(\.entries).compactMap(\.address).first { $0.bits == given.bits } ?? given
        }
        let donors = indexes.map { Donors($0.entries, given: address) }
        let allDonors = Donors(indexes.flatMap(\.entries), given: address)
        for (index, fileDonors) in zip(indexes, donors) {
            for entry in index.entries {
                let peer = Self.peer(of: entry, given: address)
                var table = entry.conversation.table
                // A host that keeps a table may still ask for a part of it, and a capture may begin within a discovery.
                let named = entry.conversation.namedByRead
                // What was read counts, too: without its clock a meter's times would be taken to be right.
                let valued = (entry.counts.map(\.handle) + entry.conversation.reads.keys).filter { named[$0] == nil }
                if table.isEmpty || !table.names(valued) {
                    for other in fileDonors.tables(of: peer, at: entry.start)
                        + allDonors.tables(of: peer, at: entry.start)
                    where table.isEmpty || !table.names(valued) {
                        if table.agrees(with: other) { table.fill(with: other) }
                    }
                }
                if let handleMap { table.fill(with: handleMap.uuids) }
                table.fill(with: named)
                let plan = ReplayPlan(entry, table: table, address: peer)
                if entry.lostPDUs > 0 { warnings.append(.packetsLost(plan.connection, count: entry.lostPDUs)) }
                guard !table.isEmpty else {
                    if entry.attValues > 0 { warnings.append(.noHandleMap(plan.connection, values: entry.attValues)) }
                    continue
                }
                guard plan.hasAnything else { continue }
                if plan.advertisement.address == nil { warnings.append(.addressUnknown(plan.connection)) }
                if peer?.isResolvablePrivate == true { warnings.append(.addressPrivate(plan.connection)) }
                for count in entry.counts where !plan.routes.contains(where: { $0.handle == count.handle }) {
                    warnings.append(.unknownHandle(plan.connection, handle: count.handle, values: count.count))
                }
                plans.append(plan)
            }
        }
        // As they began: plans of one moment stay in the order of the files.
        let order = plans.indices.sorted { (plans[$0].entry.start, $0) < (plans[$1].entry.start, $1) }
        return (order.map { plans[$0] }, warnings)
    }

    /// The address that a peer is known by. The given one stands for one that the capture does not show, and for a private
    /// one whose identity it does not show: that changes from connection to connection.
    fileprivate static func peer(of entry: ConnectionEntry, given: DeviceAddress?) -> DeviceAddress? {
        guard let shown = entry.address, !shown.isResolvablePrivate else { return given ?? entry.address }
        return shown
    }
}

/// What discovery has said of each device: a bonded host keeps the table and does not ask again.
private struct Donors {
    /// When a connection began, and its place among all of them, which tells those of one moment apart.
    typealias Moment = (start: Instant, place: Int)

    /// A table, and the connections that have it, as they began. A capture of months has the same few again and again.
    private struct Known {
        let table: AttributeTable
        var moments: [Moment]
    }

    private let byAddress: [DeviceAddress: [Known]]

    /// More tables than a device has, however often it is updated. Each of them may be looked at for each of its connections.
    private static let mostTables = 256

    init(_ entries: [ConnectionEntry], given: DeviceAddress?) {
        var found: [DeviceAddress: (places: [AttributeTable: Int], known: [Known])] = [:]
        for (place, entry) in entries.enumerated() where !entry.conversation.table.isEmpty {
            guard let address = ReplayPlan.peer(of: entry, given: given) else { continue }
            let (table, moment): (AttributeTable, Moment) = (entry.conversation.table, (entry.start, place))
            let count = found[address]?.known.count ?? 0
            if let known = found[address]?.places[table] {
                found[address]?.known[known].moments.append(moment)
            } else if count < Self.mostTables {
                found[address, default: ([:], [])].places[table] = count
                found[address]?.known.append(Known(table: table, moments: [moment]))
            }
        }
        byAddress = found.mapValues { device in
            device.known.map { Known(table: $0.table, moments: $0.moments.sorted { Self.isBefore($0, $1) }) }
        }
    }

    private static func isBefore(_ one: Moment, _ other: Moment) -> Bool {
        (one.start, one.place) < (other.start, other.place)
    }

    /// The tables of the connections to a device, the nearest before a moment first, and then those after it; each once.
    func tables(of address: DeviceAddress?, at moment: Instant) -> [AttributeTable] {
        guard let address, let known = byAddress[address] else { return [] }
        var before: [(nearest: Moment, table: AttributeTable)] = []
        var after = before
        for each in known {
            var (low, high) = (0, each.moments.count)
            while low < high {
                let middle = (low + high) / 2
                if each.moments[middle].start <= moment { low = middle + 1 } else { high = middle }
            }
            if low > 0 {
                before.append((each.moments[low - 1], each.table))
            } else {
                after.append((each.moments[0], each.table))
            }
        }
        before.sort { Self.isBefore($1.nearest, $0.nearest) }
        after.sort { Self.isBefore($0.nearest, $1.nearest) }
        return (before + after).map { $0.table }
    }
}
