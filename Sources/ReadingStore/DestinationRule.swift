import Foundation
import GRDB
import HealthReadings
import Synchronization

/// How readings go to a destination, as the settings say.
public struct DestinationRule: Sendable, Hashable {
    /// Whether readings go only when somebody asks.
    public var isManual: Bool
    /// How many days before the first contact with its device, or before the destination was first enabled, a reading
    /// may have been measured; `nil`: what ``ReadingStore/setBackfillDays(_:)`` says.
    public var backfillDays: Int?
    /// Which readings it gets.
    public var selection: DestinationSelection

    /// Creates a rule.
    public init(
        isManual: Bool = false, backfillDays: Int? = nil, selection: DestinationSelection = DestinationSelection()
    ) {
        self.isManual = isManual
        self.backfillDays = backfillDays
        self.selection = selection
    }
}

/// Which readings a destination gets; `nil` means all.
public struct DestinationSelection: Sendable, Hashable {
    /// Kinds of readings.
    public var kinds: Set<ReadingKind>?
    /// The client's ids of people.
    public var people: Set<String>?
    /// Devices by their address or by the id of their model.
    public var devices: Devices?

    /// Addresses and models.
    public struct Devices: Sendable, Hashable {
        /// Bits of addresses, public or random; see `DeviceAddress.bits`.
        public var addresses: Set<UInt64>
        /// Ids of the catalogue's models.
        public var models: Set<String>

        /// Creates a choice of devices.
        public init(addresses: Set<UInt64> = [], models: Set<String> = []) {
            self.addresses = addresses
            self.models = models
        }
    }

    /// Creates a selection.
    public init(kinds: Set<ReadingKind>? = nil, people: Set<String>? = nil, devices: Devices? = nil) {
        self.kinds = kinds
        self.people = people
        self.devices = devices
    }
}

extension ReadingStore {
    private static let ruleSetting = "destination.rule."
    private static let gatewaySetting = "gateway.id"

    /// Says how readings go to a destination; kept over restarts.
    public func setRule(_ rule: DestinationRule, of name: String) async throws {
        guard try await read({ db in try Self.rule(db, of: name) }) != rule else { return }
        try await write(.setting) { db in try Self.set(db, Self.ruleSetting + name, lines: rule.lines) }
    }

    /// How readings go to a destination, as the store was told last.
    package func rule(of name: String) async throws -> DestinationRule {
        try await read { db in try Self.rule(db, of: name) }
    }

    static func rule(_ db: Database, of name: String) throws -> DestinationRule {
        DestinationRule(lines: try lines(db, ruleSetting + name))
    }

    /// Queues again what was delivered to a destination, at the same timestamps, so that it replaces what is there.
    ///
    /// - Parameters:
    ///   - name: the destination's name.
    ///   - kinds: only these; `nil`: all.
    ///   - range: only what has a timestamp in it, both ends included; `nil`: all.
    /// - Returns: how many readings wait again. Readings that were pruned are gone and not among them.
    /// - Throws: why the key is missing.
    @discardableResult
    public func redeliver(
        to name: String, kinds: Set<ReadingKind>? = nil, in range: ClosedRange<Instant>? = nil
    ) async throws -> Int {
        try await requireKeys()
        let seconds = Self.seconds(in: range)
        let chosen = kinds.map { " AND resource IN (\($0.map { String($0.code) }.sorted().joined(separator: ",")))" }
        return try await write(.requeue) { db in
            guard let known = try Self.destinations(db).first(where: { $0.name == name }) else {
                throw StoreError.unknown("destination \(name)")
            }
            try db.execute(
                sql: """
                    UPDATE outbox SET state = \(outbox: .waiting), revision = \(OutboxRevision.next), attempts = 0, words = NULL
                    WHERE destination = ? AND state = \(outbox: .delivered) AND timestamp BETWEEN ? AND ?\(chosen ?? "")
                    """, arguments: [known.key.rawValue, seconds.first, seconds.last])
            return db.changesCount
        }
    }

    /// The gateway's own id: made when a store is first opened and part of the store, so that a restart, other settings
    /// and a restored export leave it as it is.
    ///
    /// - Returns: a UUID in lower case.
    public func gatewayID() async throws -> String {
        if let id = knownGateway.withLock(\.self) { return id }
        var id = try await read { db in try Self.lines(db, Self.gatewaySetting).first }
        if id == nil {
            id = try await write(.setting) { db in
                if let id = try Self.lines(db, Self.gatewaySetting).first { return id }
                let id = UUID().uuidString.lowercased()
                try Self.set(db, Self.gatewaySetting, lines: [id])
                return id
            }
        }
        guard let id else { throw StoreError.corrupt(detail: "the gateway has no id") }
        knownGateway.withLock { $0 = id }
        return id
    }

    /// Makes this store the gateway that another one was.
    ///
    /// - Parameter id: a UUID in lower case.
    /// - Throws: an error of the database.
    public func setGatewayID(_ id: String) async throws {
        try await write(.setting) { db in try Self.set(db, Self.gatewaySetting, lines: [id]) }
        knownGateway.withLock { $0 = id }
    }
}

extension DestinationRule {
    /// The rule as it is stored: a key and a value a line. A key without a value marks a choice, which differs from none
    /// even if nothing is in it.
    fileprivate var lines: [String] {
        func choice(_ key: String, _ entries: [String]?) -> [String] {
            entries.map { [key] + $0.sorted().map { "\(key) \($0)" } } ?? []
        }
        // One expression of all would take Swift 6.2.3 too long to check.
        var lines = isManual ? ["manual"] : []
        if let backfillDays { lines.append("backfill \(backfillDays)") }
        lines += choice("kind", selection.kinds?.map(\.rawValue))
        lines += choice("person", selection.people.map(Array.init))
        lines += choice("address", selection.devices?.addresses.map { String($0) })
        lines += choice("model", selection.devices.map { Array($0.models) })
        return lines
    }

    fileprivate init(lines: [String]) {
        func choice(_ key: String) -> [String]? {
            guard lines.contains(key) else { return nil }
            // A name may begin with a mark, which makes one letter with the space.
            let beginning = key + " "
            return lines.filter { $0.utf8.starts(with: beginning.utf8) }
                .map { String(decoding: $0.utf8.dropFirst(beginning.utf8.count), as: UTF8.self) }
        }
        let (addresses, models) = (choice("address"), choice("model"))
        self.init(
            isManual: lines.contains("manual"),
            backfillDays: lines.first { $0.hasPrefix("backfill ") }.flatMap { Int($0.dropFirst(9)) },
            selection: DestinationSelection(
                kinds: choice("kind").map { Set($0.compactMap(ReadingKind.init(rawValue:))) },
                people: choice("person").map(Set.init),
                devices: addresses == nil && models == nil
                    ? nil : .init(addresses: Set((addresses ?? []).compactMap(UInt64.init)), models: Set(models ?? [])))
        )
    }
}

/// Which readings the destination was not selected for.
struct SelectionHolds: Sendable, Hashable {
    private let kinds: Set<ReadingKind>?
    private let users: Set<Int64>?
    private var devices: Set<Int64>?

    init(_ db: Database, _ selection: DestinationSelection) throws {
        kinds = selection.kinds
        users = try selection.people.map { people in
            var keys: Set<Int64> = []
            for row in try Row.fetchAll(db, sql: "SELECT key, client_user_id FROM user") {
                let (key, name): (Int64, String) = (try row.value(0), try row.value(1))
                if people.contains(name) { keys.insert(key) }
            }
            return keys
        }
        devices = try selection.devices.map { try DeviceHolds.devices(db, models: $0.models, addresses: $0.addresses) }
    }

    func isSelected(user: Int64, kind: ReadingKind, device: Int64) -> Bool {
        kinds?.contains(kind) ?? true && users?.contains(user) ?? true && devices?.contains(device) ?? true
    }

    /// The same for some devices; of others it says nothing.
    func only(_ devices: (Int64) -> Bool) -> SelectionHolds {
        var holds = self
        holds.devices = self.devices?.filter(devices)
        return holds
    }

    /// Whether devices are chosen by their model or address.
    var namesDevices: Bool { devices != nil }

    /// Whether every reading is selected.
    var isOfAll: Bool { kinds == nil && users == nil && devices == nil }

    /// The condition on `outbox AS o` and `reading AS r` that a reading is not selected; `nil` if all are.
    var condition: String? {
        func list(_ numbers: some Sequence<Int64>) -> String {
            numbers.sorted().map(String.init).joined(separator: ",")
        }
        let conditions = [
            kinds.map { "o.resource NOT IN (\(list($0.map(\.code))))" },
            users.map { "o.user NOT IN (\(list($0)))" },
            devices.map { "r.device NOT IN (\(list($0)))" },
        ].compactMap(\.self)
        return conditions.isEmpty ? nil : "(\(conditions.joined(separator: " OR ")))"
    }
}
