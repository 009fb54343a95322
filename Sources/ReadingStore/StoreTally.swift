import GRDB
import HealthReadings
import Synchronization

/// What is counted in a part of the store: sums, so that the parts' make the whole's.
protocol StoreTally: Sendable {
    init()
    mutating func add(_ other: Self)
}

/// How the readings of a part of the store stand.
struct ReadingTally: StoreTally {
    struct Counts: Sendable {
        var waiting = 0
        var delivered = 0
        var refused = 0
        /// In microseconds since 1970.
        var lastDelivery: Int64?
    }

    /// Where readings wait, and as whose and what.
    struct Target: Hashable, Sendable {
        var destination: Int64
        var user: Int64
        var resource: Int64
        var provider: String
    }

    /// What waits for one reason.
    struct Held: Sendable {
        var count = 0
        /// The oldest timestamp among them, in seconds.
        var oldest = Int64.max
    }

    /// How the readings of one person stand that are certainly theirs; see ``OwnReadings``.
    struct Person: Sendable {
        /// Readings, by the code of their kind.
        var kinds: [Int64: Int] = [:]
        /// Readings, by device.
        var devices: [Int64: Int] = [:]
        /// By destination, of all their readings.
        var places: [Int64: Counts] = [:]
        /// The same at all destinations that were not removed.
        var anywhere = Counts()

        fileprivate func plus(_ other: Person) -> Person {
            var sum = self
            sum.kinds.merge(other.kinds, uniquingKeysWith: +)
            sum.devices.merge(other.devices, uniquingKeysWith: +)
            sum.places.merge(other.places) { $0.plus($1) }
            sum.anywhere = anywhere.plus(other.anywhere)
            return sum
        }
    }

    /// What decides on how a reading counts besides its own rows.
    struct Rules: Sendable, Hashable {
        /// Destinations that were removed.
        var removed: Set<Int64>
        /// Those that can hold something.
        var holds: [Int64: DeviceHolds]
        /// Devices that people share by slots.
        var shared: Set<Int64>

        init(_ db: Database) throws {
            let (destinations, common) = (try ReadingStore.destinations(db), try DeviceHolds.Common(db))
            try self.init(db, destinations, try destinations.map { ($0.key, try DeviceHolds(db, $0, common)) })
        }

        init(_ db: Database, _ holds: HoldRules) throws {
            try self.init(db, holds.destinations, holds.devices.map { ($0, $1) })
        }

        private init(
            _ db: Database, _ destinations: [StoredDestination], _ devices: [(DestinationKey, DeviceHolds)]
        ) throws {
            shared = try OwnReadings.sharedDevices(db)
            removed = Set(destinations.filter { $0.state == .removed }.map(\.key.rawValue))
            holds = Dictionary(uniqueKeysWithValues: devices.filter { !$1.holdsNothing }.map { ($0.rawValue, $1) })
        }

        /// Whether others say the same of all readings of some devices: those of other devices do not matter.
        fileprivate func isLike(_ other: Rules, for devices: (Int64) -> Bool) -> Bool {
            removed == other.removed && shared.filter(devices) == other.shared.filter(devices)
                && holds.mapValues { $0.only(devices) } == other.holds.mapValues { $0.only(devices) }
        }
    }

    /// Readings, by the code of their kind.
    var kinds: [Int64: Int] = [:]
    /// Readings, by device.
    var devices: [Int64: Int] = [:]
    /// By person.
    var people: [Int64: Person] = [:]
    /// Readings that are never delivered.
    var excluded = 0
    /// By destination.
    var places: [Int64: Counts] = [:]
    /// At all destinations that were not removed: a reading counts once.
    var anywhere = Counts()
    /// How many readings wait, by target.
    var waiting: [Target: Int] = [:]
    /// How many of them are held, and why.
    var held: [Target: [Hold: Held]] = [:]
    /// The oldest timestamp of what waits and is not held, in seconds, by target: only where something can be held.
    var oldestFree: [Target: Int64] = [:]
    /// What is not delivered before its context has come.
    var awaitingContext: [Target: Held] = [:]
    /// Withdrawn readings that a destination has, or may have, by destination.
    var withdrawnThere: [Int64: Int] = [:]

    mutating func add(_ other: ReadingTally) {
        kinds.merge(other.kinds, uniquingKeysWith: +)
        devices.merge(other.devices, uniquingKeysWith: +)
        people.merge(other.people) { $0.plus($1) }
        excluded += other.excluded
        places.merge(other.places) { $0.plus($1) }
        anywhere = anywhere.plus(other.anywhere)
        waiting.merge(other.waiting, uniquingKeysWith: +)
        held.merge(other.held) { $0.merging($1) { $0.plus($1) } }
        oldestFree.merge(other.oldestFree, uniquingKeysWith: min)
        awaitingContext.merge(other.awaitingContext) { $0.plus($1) }
        withdrawnThere.merge(other.withdrawnThere, uniquingKeysWith: +)
    }

    init() {}

    /// Counts the readings with some keys: one walk along their rows, and one along the outbox's.
    init(_ db: Database, _ keys: ClosedRange<Int64>, _ rules: Rules) throws {
        let rows = try PreparedStatement(
            db,
            """
            SELECT key, kind, device, record_exclusion IS NOT NULL OR time_exclusion IS NOT NULL, user,
                CASE time_exclusion WHEN \(Exclusion.otherUser.code) THEN 2 ELSE time_exclusion IS NOT NULL END
            FROM reading WHERE key BETWEEN ? AND ? ORDER BY key
            """)
        let outbox = try PreparedStatement(
            db,
            """
            SELECT reading, destination, state, delivered_at, user, resource, provider, timestamp,
                handed_over_at IS NOT NULL
            FROM outbox WHERE reading BETWEEN ? AND ? ORDER BY reading
            """)
        for statement in [rows, outbox] {
            statement.bind(1, keys.lowerBound)
            statement.bind(2, keys.upperBound)
        }
        defer {
            rows.reset()
            outbox.reset()
        }
        var (course, run) = (Course(rules: rules), Run())
        var isMore = try outbox.next()
        while try rows.next() {
            let (key, device, user) = (rows.int(0), rows.int(2), rows.int(4))
            let isOwn = rows.int(5) == 0 || rows.int(5) == 1 && !rules.shared.contains(device)
            run.take(kind: rows.int(1), device: device, user: user, isOwn: isOwn, into: &self)
            let isExcluded = rows.int(3) != 0
            if isExcluded { excluded += 1 }
            var (states, delivery): (OutboxStates, Int64?) = ([], nil)
            while isMore, outbox.int(0) <= key {
                if outbox.int(0) == key {
                    let taken = course.take(outbox, device, isExcluded: isExcluded, into: &self)
                    states.formUnion(taken.states)
                    delivery = max(delivery ?? .min, taken.delivery ?? .min)
                    run.places[outbox.int(1), default: Counts()].add(taken.own, taken.ownDelivery)
                }
                isMore = try outbox.next()
            }
            let last = delivery.flatMap { $0 == .min ? nil : $0 }
            anywhere.add(states, last)
            run.anywhere.add(states, last)
        }
        course.end(&self)
        run.end(&self)
    }

    /// Readings that follow one another are mostly of one kind, device and person.
    private struct Run {
        private var kind: Int64 = 0
        private var device: Int64 = 0
        private var user: Int64 = 0
        private var isOwn = false
        private var count = 0
        var places: [Int64: Counts] = [:]
        var anywhere = Counts()

        mutating func take(kind: Int64, device: Int64, user: Int64, isOwn: Bool, into tally: inout ReadingTally) {
            if kind != self.kind || device != self.device || user != self.user || isOwn != self.isOwn {
                end(&tally)
                (self.kind, self.device, self.user, self.isOwn) = (kind, device, user, isOwn)
            }
            count += 1
        }

        mutating func end(_ tally: inout ReadingTally) {
            guard count > 0 else { return }
            tally.kinds[kind, default: 0] += count
            tally.devices[device, default: 0] += count
            var person = Person(places: places, anywhere: anywhere)
            if isOwn { (person.kinds, person.devices) = ([kind: count], [device: count]) }
            tally.people[user] = tally.people[user]?.plus(person) ?? person
            (count, places, anywhere) = (0, [:], Counts())
        }
    }

    /// Where the walk along the outbox is: neighbours are mostly of one target.
    private struct Course {
        let rules: Rules
        private var target: Target?
        private var count = 0
        private var oldestFree = Int64.max

        init(rules: Rules) { self.rules = rules }

        /// What a row says.
        struct Taken {
            /// Its state and time of delivery.
            var own: OutboxStates
            var ownDelivery: Int64?
            /// The same, unless its destination was removed.
            var states: OutboxStates = []
            var delivery: Int64?
        }

        mutating func take(
            _ row: PreparedStatement, _ device: Int64, isExcluded: Bool, into tally: inout ReadingTally
        ) -> Taken {
            let (place, state, deliveredAt) = (row.int(1), OutboxStates(of: row.int(2)), row.optionalInt(3))
            tally.places[place, default: Counts()].add(state, deliveredAt)
            if state == .waiting {
                if target.map({ $0.isOf(row) }) != true {
                    end(&tally)
                    target = Target(row)
                }
                count += 1
                if let target, let holds = rules.holds[place], let kind = try? ReadingKind(code: target.resource) {
                    let timestamp = row.int(7)
                    if let hold = holds.hold(user: target.user, kind: kind, device: device, seconds: timestamp) {
                        tally.held[target, default: [:]][hold, default: Held()].add(timestamp)
                    } else {
                        oldestFree = min(oldestFree, timestamp)
                    }
                }
            }
            if state == .withdrawn {
                if deliveredAt != nil || row.int(8) != 0 { tally.withdrawnThere[place, default: 0] += 1 }
                if !isExcluded { tally.awaitingContext[Target(row), default: Held()].add(row.int(7)) }
            }
            var taken = Taken(own: state, ownDelivery: deliveredAt)
            if !rules.removed.contains(place) { (taken.states, taken.delivery) = (state, deliveredAt) }
            return taken
        }

        mutating func end(_ tally: inout ReadingTally) {
            if let target, count > 0 {
                tally.waiting[target, default: 0] += count
                if oldestFree < .max { tally.oldestFree[target] = min(oldestFree, tally.oldestFree[target] ?? .max) }
            }
            (count, oldestFree) = (0, .max)
        }
    }
}

extension ReadingStore {
    /// How the readings stand, counted anew where something has changed.
    ///
    /// - Parameters:
    ///   - holds: why readings wait, where that is known; it is asked for where something has changed.
    ///   - commits: how many commits there were before `db` began to read.
    func readingTally(
        _ db: Database, _ holds: @autoclosure () throws -> HoldRules? = nil, at commits: Int
    ) throws -> ReadingTally {
        if let sum = countedReadings.withLock({ $0.sum(at: commits) }) { return sum }
        let rules = try presentRules(db, holds())
        return try tally(db, "reading", countedReadings, rules, at: commits) { try ReadingTally(db, $0, rules) }
    }

    /// ``readingTally(_:_:at:)`` where little has to be counted anew. `nil` where nothing was counted, or much has changed since: the
    /// rules, or most readings.
    func knownTally(
        _ db: Database, _ holds: @autoclosure () throws -> HoldRules? = nil, at commits: Int
    ) throws -> ReadingTally? {
        if let sum = countedReadings.withLock({ $0.sum(at: commits) }) { return sum }
        guard countedReadings.withLock(\.isBegun) else { return nil }
        let rules = try presentRules(db, holds())
        let isNear = countedReadings.withLock { $0.edition(of: rules) != nil && $0.changedBlocks <= 16 }
        guard isNear else { return nil }
        return try tally(db, "reading", countedReadings, rules, at: commits) { try ReadingTally(db, $0, rules) }
    }

    /// The rules by which readings count now. What was counted by others that say the same of it is kept.
    private func presentRules(_ db: Database, _ holds: HoldRules?) throws -> ReadingTally.Rules {
        let rules = try holds.map { try ReadingTally.Rules(db, $0) } ?? ReadingTally.Rules(db)
        countedReadings.withLock { $0.adopt(rules) }
        return rules
    }

    /// How many readings each device has.
    func readingsByDevice(_ db: Database, at commits: Int) throws -> [Int64: Int] {
        // Until everything was counted once, counting the devices' alone takes less time.
        if countedReadings.withLock(\.isBegun) { return try readingTally(db, at: commits).devices }
        let rows = try PreparedStatement(db, "SELECT device, count(*) FROM reading GROUP BY device")
        defer { rows.reset() }
        var counts: [Int64: Int] = [:]
        while try rows.next() { counts[rows.int(0)] = Int(rows.int(1)) }
        return counts
    }

    func frameTally(_ db: Database, at commits: Int) throws -> FrameTally {
        try tally(db, "frame", countedFrames, true, at: commits) { try FrameTally(db, $0) }
    }

    /// The newest readings that each of some destinations has.
    func newestTally(_ db: Database, _ destinations: Set<Int64>, at commits: Int) throws -> NewestTally {
        if let sum = countedNewest.withLock({ $0.edition(of: destinations) == nil ? nil : $0.sum(at: commits) }) {
            return sum
        }
        return try tally(db, "reading", countedNewest, destinations, at: commits) {
            try NewestTally(db, $0, destinations)
        }
    }

    func contactTally(_ db: Database, at commits: Int) throws -> ContactTally {
        try tally(db, "contact", countedContacts, true, at: commits) { try ContactTally(db, $0) }
    }

    private func tally<Tally: StoreTally, Rules: Hashable & Sendable>(
        _ db: Database, _ table: StaticString, _ counted: borrowing Mutex<CountedBlocks<Tally, Rules>>, _ rules: Rules,
        at commits: Int, _ count: (ClosedRange<Int64>) throws -> Tally
    ) throws -> Tally {
        let next = try PreparedStatement(db, "SELECT key FROM \(table) WHERE key >= ? ORDER BY key LIMIT 1")
        defer { next.reset() }
        var fresh = CountedBlocks<Tally, Rules>.Counted()
        let edition = counted.withLock { $0.edition(of: rules) }
        let sum = try tally(
            of: Int64.min...Int64.max, .region, next, counted, edition, into: &fresh, at: commits, count)
        counted.withLock { [fresh] in $0.keep(fresh, sum: sum, rules, at: commits) }
        return sum
    }

    /// Adds up what there is of a level.
    private func tally<Tally: StoreTally, Rules: Hashable & Sendable>(
        of keys: ClosedRange<Int64>, _ level: RowBlock.Level, _ next: PreparedStatement,
        _ counted: borrowing Mutex<CountedBlocks<Tally, Rules>>, _ edition: Int?,
        into fresh: inout CountedBlocks<Tally, Rules>.Counted, at commits: Int,
        _ count: (ClosedRange<Int64>) throws -> Tally
    ) throws -> Tally {
        var sum = Tally()
        var first = keys.lowerBound
        while true {
            next.bind(1, first)
            guard let key = try next.firstInt(), key <= keys.upperBound else { return sum }
            let number = level.number(of: key)
            let own = level.keys(number)
            if let known = counted.withLock({ $0.known(number, at: level, edition, from: commits) }) {
                sum.add(known)
            } else {
                let isCounted = level == .block && !counted.withLock { $0.changes(number, at: level) }
                let tally =
                    if let lower = level.lower, !isCounted {
                        try self.tally(of: own, lower, next, counted, edition, into: &fresh, at: commits, count)
                    } else {
                        try count(own)
                    }
                fresh[level][number] = tally
                sum.add(tally)
            }
            guard own.upperBound < keys.upperBound else { return sum }
            first = own.upperBound + 1
        }
    }
}

/// States that a reading has at several destinations.
private struct OutboxStates: OptionSet {
    let rawValue: Int64

    static let waiting = OutboxStates(of: OutboxState.waiting.rawValue)
    static let delivered = OutboxStates(of: OutboxState.delivered.rawValue)
    static let refused = OutboxStates(of: OutboxState.refused.rawValue)
    static let withdrawn = OutboxStates(of: OutboxState.withdrawn.rawValue)

    init(rawValue: Int64) { self.rawValue = rawValue }
    init(of state: Int64) { rawValue = 1 << state }
}

extension ReadingTally.Counts {
    fileprivate mutating func add(_ states: OutboxStates, _ delivery: Int64? = nil) {
        if states.contains(.waiting) { waiting += 1 }
        if states.contains(.delivered) { delivered += 1 }
        if states.contains(.refused) { refused += 1 }
        if let delivery, delivery > lastDelivery ?? .min { lastDelivery = delivery }
    }

    fileprivate func plus(_ other: Self) -> Self {
        Self(
            waiting: waiting + other.waiting, delivered: delivered + other.delivered, refused: refused + other.refused,
            lastDelivery: [lastDelivery, other.lastDelivery].compactMap(\.self).max())
    }
}

extension ReadingTally.Held {
    fileprivate mutating func add(_ timestamp: Int64) {
        count += 1
        oldest = min(oldest, timestamp)
    }

    fileprivate func plus(_ other: Self) -> Self {
        Self(count: count + other.count, oldest: min(oldest, other.oldest))
    }
}

extension ReadingTally.Target {
    fileprivate init(_ row: PreparedStatement) {
        self.init(destination: row.int(1), user: row.int(4), resource: row.int(5), provider: row.text(6) ?? "")
    }

    fileprivate func isOf(_ row: PreparedStatement) -> Bool {
        destination == row.int(1) && user == row.int(4) && resource == row.int(5) && row.isText(6, provider)
    }
}

extension CountedBlocks where Tally == ReadingTally, Rules == ReadingTally.Rules {
    /// Takes rules for those that was counted by last if they differ for devices alone of which nothing was counted: a new sensor
    /// changes nothing of what there was.
    mutating func adopt(_ rules: ReadingTally.Rules) {
        replaceRules(by: rules) { own, counted in own.isLike(rules) { counted.devices[$0] != nil } }
    }
}
