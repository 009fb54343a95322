import GRDB
import HealthReadings

/// What waits whatever its source says: what nobody has consented to, what the destination was not selected for, all of
/// an ignored device, and what a device measured long before it was first met.
///
/// How old a reading may be is counted from the first contact with its device, or from when the destination was first
/// enabled if that came later; not from now: a reading that waited for a year for its server is still delivered.
struct DeviceHolds: Sendable, Hashable {
    /// What holds for every destination.
    struct Common: Sendable {
        fileprivate let ignored: Set<Int64>
        fileprivate let consents: ConsentWords
        /// When each device was first met, in seconds.
        let firstContacts: [Int64: Int64]
        /// Whether devices are ignored by their model or address.
        let namesDevices: Bool

        init(_ db: Database) throws {
            consents = try ConsentWords(db)
            let origins = try ReadingStore.ignoredOrigins(db)
            namesDevices = !origins.models.isEmpty || !origins.addresses.isEmpty
            ignored = try DeviceHolds.devices(db, models: origins.models, addresses: origins.addresses)
            firstContacts = try DeviceHolds.firstContacts(db)
        }
    }

    private var ignored: Set<Int64>
    /// Readings of a device (its row) before this second are older than the backfill.
    private var cutoffs: [Int64: Int64]
    private var consents: ConsentHolds
    private var selection: SelectionHolds
    /// nil: a reading may be however old.
    private let backfill: Backfill?

    init(_ db: Database, _ destination: DestinationKey) throws {
        guard let known = try ReadingStore.destinations(db).first(where: { $0.key == destination }) else {
            throw StoreError.unknown("destination \(destination.rawValue)")
        }
        try self.init(db, known, Common(db))
    }

    init(_ db: Database, _ destination: StoredDestination, _ common: Common) throws {
        consents = common.consents.holds(at: destination.key)
        ignored = common.ignored
        let rule = try ReadingStore.rule(db, of: destination.name)
        selection = try SelectionHolds(db, rule.selection)
        let backfill = try (rule.backfillDays ?? ReadingStore.backfillDays(db)).map {
            Backfill(days: $0, enabled: destination.enabledAt?.seconds ?? .min)
        }
        self.backfill = backfill
        cutoffs = backfill.map { common.firstContacts.mapValues($0.cutoff) } ?? [:]
    }

    /// How old a reading may be.
    private struct Backfill: Sendable, Hashable {
        /// Days before the first contact with its device.
        let days: Int
        /// When the destination was first enabled, in seconds.
        let enabled: Int64

        func cutoff(_ first: Int64) -> Int64 {
            let seconds = Int64(days).multipliedReportingOverflow(by: 86_400)
            let cutoff = max(first, enabled).subtractingReportingOverflow(seconds.partialValue)
            return seconds.overflow || cutoff.overflow ? .min : cutoff.partialValue
        }
    }

    /// Whether devices are chosen by their model or address.
    var namesDevices: Bool { selection.namesDevices }

    /// People who have granted kinds that wait until they have said so again.
    var peopleToConfirm: Set<Int64> { consents.asked }

    /// The same for one kind of one person's readings; of others it says nothing. Its conditions stay short, however many people
    /// there are.
    func only(user: Int64, kind: ReadingKind) -> DeviceHolds {
        var holds = self
        holds.consents = consents.only(user: user, kind: kind.code)
        return holds
    }

    /// The same where devices were first met then, in seconds.
    func meeting(_ firsts: [Int64: Int64?]) -> DeviceHolds {
        var holds = self
        for (device, first) in firsts {
            holds.cutoffs[device] = first.flatMap { backfill?.cutoff($0) }
        }
        return holds
    }

    /// Starts that a contact can have, in microseconds since 1970: until 2100. Anything else is damage.
    static let plausibleStarts: ClosedRange<Int64> = 0...4_102_444_800_000_000

    /// When each device was first met, in seconds; a start that is damaged would hold every reading before it.
    static func firstContacts(_ db: Database) throws -> [Int64: Int64] {
        let select = try PreparedStatement(
            db,
            """
            SELECT key, (SELECT min(started_at) FROM contact WHERE device = device.key
                AND started_at BETWEEN \(plausibleStarts.lowerBound) AND \(plausibleStarts.upperBound))
            FROM device
            """)
        defer { select.reset() }
        var contacts: [Int64: Int64] = [:]
        while try select.next() {
            contacts[select.int(0)] = select.optionalInt(1).map { Instant(microseconds: $0).seconds }
        }
        return contacts
    }

    /// When some devices were first met, in seconds; `nil` for those that were not.
    static func firstContacts(_ db: Database, of devices: Set<Int64>) throws -> [Int64: Int64?] {
        guard !devices.isEmpty else { return [:] }
        let select = try PreparedStatement(
            db,
            """
            SELECT min(started_at) FROM contact WHERE device = ?1 AND EXISTS (SELECT 1 FROM device WHERE key = ?1)
                AND started_at BETWEEN \(plausibleStarts.lowerBound) AND \(plausibleStarts.upperBound)
            """)
        defer { select.reset() }
        var contacts: [Int64: Int64?] = [:]
        for device in devices {
            select.bind(1, device)
            contacts[device] = .some(try select.firstInt().map { Instant(microseconds: $0).seconds })
        }
        return contacts
    }

    /// The rows of devices of these models or with one of these addresses.
    static func devices(_ db: Database, models: Set<String>, addresses: Set<UInt64>) throws -> Set<Int64> {
        guard !models.isEmpty || !addresses.isEmpty else { return [] }
        let select = try PreparedStatement(
            db,
            """
            SELECT d.key, d.model, d.address, a.address
            FROM device AS d LEFT JOIN device_address AS a ON a.device = d.key
            """)
        defer { select.reset() }
        let bits = Set(addresses.map { Int64(bitPattern: $0) })
        var keys: Set<Int64> = []
        while try select.next() {
            let isNamed =
                select.text(1).map(models.contains) ?? false
                || [select.optionalInt(2), select.optionalInt(3)].contains { $0.map(bits.contains) ?? false }
            if isNamed { keys.insert(select.int(0)) }
        }
        return keys
    }

    /// The reasons, the first that holds a reading first.
    static let order: [Hold] = [.noConsent, .notSelected, .ignored, .olderThanBackfill]

    /// Why a reading of this person, kind, device and time waits; nil where none of these is a reason.
    func hold(user: Int64, kind: ReadingKind, device: Int64, seconds: Int64?) -> Hold? {
        if !consents.isGranted(user: user, kind: kind.code) { return .noConsent }
        if !selection.isSelected(user: user, kind: kind, device: device) { return .notSelected }
        if ignored.contains(device) { return .ignored }
        guard let seconds, let cutoff = cutoffs[device], seconds < cutoff else { return nil }
        return .olderThanBackfill
    }

    /// The same for some devices; of others it says nothing.
    func only(_ devices: (Int64) -> Bool) -> DeviceHolds {
        var holds = self
        holds.ignored = ignored.filter(devices)
        holds.cutoffs = cutoffs.filter { devices($0.key) }
        holds.selection = selection.only(devices)
        return holds
    }

    /// Whether nothing can be held, whatever it is.
    var holdsNothing: Bool { holdsNothingButOld && cutoffs.values.allSatisfy { $0 == .min } }

    /// Whether nothing can be held but for its age.
    var holdsNothingButOld: Bool { ignored.isEmpty && selection.isOfAll && consents.isGrantedForAll }

    /// The holds with the condition on `outbox AS o` and `reading AS r` that each is; none where nothing can be held.
    var conditions: [(hold: Hold, sql: String)] { conditions(since: .min) }

    /// Those of ``conditions`` that can hold something that waits.
    ///
    /// - Parameter oldest: the oldest timestamp of what waits.
    func conditions(since oldest: Int64) -> [(hold: Hold, sql: String)] {
        var conditions: [(hold: Hold, sql: String)] = []
        let devices = ignored.sorted().map(String.init).joined(separator: ",")
        if !ignored.isEmpty { conditions.append((.ignored, "r.device IN (\(devices))")) }
        if let latest = cutoffs.values.max(), oldest < latest {
            let cases = cutoffs.sorted { $0.key < $1.key }.map { "WHEN \($0.key) THEN \($0.value)" }
            let old =
                "o.timestamp < \(latest) AND o.timestamp < CASE r.device \(cases.joined(separator: " ")) ELSE o.timestamp END"
            conditions.append((.olderThanBackfill, ignored.isEmpty ? old : "\(old) AND r.device NOT IN (\(devices))"))
        }
        if let unselected = selection.condition {
            conditions =
                [(.notSelected, unselected)] + conditions.map { ($0.hold, "\($0.sql) AND NOT \(unselected)") }
        }
        guard let unwanted = consents.condition else { return conditions }
        return [(.noConsent, unwanted)] + conditions.map { ($0.hold, "\($0.sql) AND NOT (\(unwanted))") }
    }

    /// The condition that a reading is held by none of these; begins with `AND`, empty where nothing can be held.
    var deliverable: String { conditions.map { " AND NOT (\($0.sql))" }.joined() }
}
