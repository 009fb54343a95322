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

/// The connections with discovery, by device: a bonded host keeps the table and does not ask again.
private struct Donors {
    private let byAddress: [DeviceAddress: [ConnectionEntry]]

    init(_ entries: [ConnectionEntry], given: DeviceAddress?) {
        var found: [DeviceAddress: [ConnectionEntry]] = [:]
        for entry in entries where !entry.conversation.table.isEmpty {
            if let address = ReplayPlan.peer(of: entry, given: given) { found[address, default: []].append(entry) }
        }
        byAddress = found.mapValues { entries in entries.sorted { $0.start < $1.start } }
    }

    /// The tables of the connections to a device, the nearest before a moment first, and then those after it.
    func tables(of address: DeviceAddress?, at moment: Instant) -> [AttributeTable] {
        guard let address, let entries = byAddress[address] else { return [] }
        let next = entries.firstIndex { $0.start > moment } ?? entries.count
        let before: [AttributeTable] = entries[..<next].reversed().map(\.conversation.table)
        return before + entries[next...].map(\.conversation.table)
    }
}
