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

    /// What is held whatever its source says.
    struct Held: Sendable {
        var count = 0
        /// The oldest timestamp among them, in seconds.
        var oldest = Int64.max
    }

    /// What decides on how a reading counts besides its own rows.
    struct Rules: Sendable, Hashable {
        /// Destinations that were removed.
        var removed: Set<Int64>
        /// Those that can hold something.
        var holds: [Int64: DeviceHolds]

        init(_ db: Database) throws {
            let (destinations, common) = (try ReadingStore.destinations(db), try DeviceHolds.Common(db))
            self.init(destinations, try destinations.map { ($0.key, try DeviceHolds(db, $0, common)) })
        }

        init(_ holds: HoldRules) { self.init(holds.destinations, holds.devices.map { ($0, $1) }) }

        private init(_ destinations: [StoredDestination], _ devices: [(DestinationKey, DeviceHolds)]) {
            removed = Set(destinations.filter { $0.state == .removed }.map(\.key.rawValue))
            holds = Dictionary(uniqueKeysWithValues: devices.filter { !$1.holdsNothing }.map { ($0.rawValue, $1) })
        }
    }

    /// Readings, by the code of their kind.
    var kinds: [Int64: Int] = [:]
    /// Readings, by device.
    var devices: [Int64: Int] = [:]
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

    mutating func add(_ other: ReadingTally) {
        kinds.merge(other.kinds, uniquingKeysWith: +)
        devices.merge(other.devices, uniquingKeysWith: +)
        excluded += other.excluded
        places.merge(other.places) { $0.plus($1) }
        anywhere = anywhere.plus(other.anywhere)
        waiting.merge(other.waiting, uniquingKeysWith: +)
        held.merge(other.held) { $0.merging($1) { $0.plus($1) } }
        oldestFree.merge(other.oldestFree, uniquingKeysWith: min)
    }

    init() {}

    /// Counts the readings with some keys: one walk along their rows, and one along the outbox's.
    init(_ db: Database, _ keys: ClosedRange<Int64>, _ rules: Rules) throws {
        let rows = try PreparedStatement(
            db,
            """
            SELECT key, kind, device, record_exclusion IS NOT NULL OR time_exclusion IS NOT NULL FROM reading
            WHERE key BETWEEN ? AND ? ORDER BY key
            """)
        let outbox = try PreparedStatement(
            db,
            """
            SELECT reading, destination, state, delivered_at, user, resource, provider, timestamp FROM outbox
            WHERE reading BETWEEN ? AND ? ORDER BY reading
            """)
        for statement in [rows, outbox] {
            statement.bind(1, keys.lowerBound)
            statement.bind(2, keys.upperBound)
        }
        defer {
            rows.reset()
            outbox.reset()
        }
        var course = Course(rules: rules)
        var isMore = try outbox.next()
        while try rows.next() {
            let (key, device) = (rows.int(0), rows.int(2))
            kinds[rows.int(1), default: 0] += 1
            devices[device, default: 0] += 1
            excluded += Int(rows.int(3))
            var states: OutboxStates = []
            while isMore, outbox.int(0) <= key {
                if outbox.int(0) == key { states.formUnion(course.take(outbox, device, into: &self)) }
                isMore = try outbox.next()
            }
            anywhere.add(states)
        }
        course.end(&self)
    }

    /// Where the walk along the outbox is: neighbours are mostly of one target.
    private struct Course {
        let rules: Rules
        private var target: Target?
        private var count = 0
        private var oldestFree = Int64.max

        init(rules: Rules) { self.rules = rules }

        /// - Returns: the row's state, unless its destination was removed.
        mutating func take(_ row: PreparedStatement, _ device: Int64, into tally: inout ReadingTally) -> OutboxStates {
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
            guard !rules.removed.contains(place) else { return [] }
            tally.anywhere.add([], deliveredAt)
            return state
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

/// How many frames there are.
struct FrameTally: StoreTally {
    var count = 0

    mutating func add(_ other: FrameTally) { count += other.count }

    init() {}

    /// Counts the frames with some keys.
    init(_ db: Database, _ keys: ClosedRange<Int64>) throws {
        let rows = try PreparedStatement(db, "SELECT count(*) FROM frame WHERE key BETWEEN ? AND ?")
        rows.bind(1, keys.lowerBound)
        rows.bind(2, keys.upperBound)
        defer { rows.reset() }
        count = Int(try rows.firstInt() ?? 0)
    }
}

/// What was counted in the blocks of a table, each until one of its rows changes.
struct CountedBlocks<Tally: StoreTally, Rules: Sendable & Hashable>: Sendable {
    /// What was counted.
    struct Counted: Sendable {
        var blocks: [Int64: Tally] = [:]
        /// In parts of blocks that have changed.
        var parts: [Int64: Tally] = [:]

        var isEmpty: Bool { blocks.isEmpty && parts.isEmpty }
    }

    /// The last commits that changed a block or part, and with how many commits there were before they were counted.
    private struct Numbered: Sendable {
        var counted: [Int64: (tally: Tally, commits: Int)] = [:]
        var touched: [Int64: Int] = [:]

        func knows(_ number: Int64, sinceAllChanged commits: Int) -> Bool {
            counted[number].map { $0.commits >= max(commits, touched[number] ?? 0) } ?? false
        }

        mutating func keep(_ tallies: [Int64: Tally], at commits: Int) {
            for (number, tally) in tallies { counted[number] = (tally, commits) }
        }
    }

    /// How many parts are known at most: those of the blocks that change now.
    private static var mostParts: Int { 512 }

    private var rules: Rules?
    private var blocks = Numbered()
    private var parts = Numbered()
    private var allTouched = 0

    /// Whether anything was counted.
    var isBegun: Bool { !blocks.counted.isEmpty }

    /// Notes what a commit has changed.
    ///
    /// - Parameters:
    ///   - changed: the numbers of parts; `nil`: perhaps all.
    ///   - commit: how many commits there are with this one.
    mutating func note(_ changed: Set<Int64>?, by commit: Int) {
        guard let changed else {
            allTouched = commit
            return
        }
        for part in changed {
            parts.touched[part] = commit
            blocks.touched[RowBlock.number(ofPart: part)] = commit
        }
    }

    /// What is known of a block.
    func known(_ block: Int64, _ rules: Rules) -> Tally? {
        self.rules == rules && knows(block) ? blocks.counted[block]?.tally : nil
    }

    /// What is known of a part.
    func known(part: Int64, _ rules: Rules) -> Tally? {
        self.rules == rules && knows(part: part) ? parts.counted[part]?.tally : nil
    }

    /// Whether no commit has changed a block since it was counted.
    func knows(_ block: Int64) -> Bool { blocks.knows(block, sinceAllChanged: allTouched) }

    /// Whether no commit has changed a part since it was counted.
    func knows(part: Int64) -> Bool { parts.knows(part, sinceAllChanged: allTouched) }

    /// Whether a block changes: its rows will be counted again soon.
    func changes(_ block: Int64) -> Bool { blocks.touched[block] != nil }

    /// Keeps what was counted.
    ///
    /// - Parameter commits: how many there were before it was counted.
    mutating func keep(_ counted: Counted, _ rules: Rules, at commits: Int) {
        if self.rules != rules {
            self.rules = rules
            (blocks.counted, parts.counted) = ([:], [:])
        }
        if parts.counted.count + counted.parts.count > Self.mostParts { parts.counted = [:] }
        blocks.keep(counted.blocks, at: commits)
        parts.keep(counted.parts, at: commits)
    }
}

extension ReadingStore {
    /// How the readings stand, counted anew where something has changed.
    ///
    /// - Parameter commits: how many commits there were before `db` began to read.
    func readingTally(_ db: Database, _ holds: HoldRules? = nil, at commits: Int) throws -> ReadingTally {
        let rules = try holds.map { ReadingTally.Rules($0) } ?? ReadingTally.Rules(db)
        return try tally(db, "reading", countedReadings, rules, at: commits) { try ReadingTally(db, $0, rules) }
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

    private func tally<Tally: StoreTally, Rules: Hashable & Sendable>(
        _ db: Database, _ table: StaticString, _ counted: borrowing Mutex<CountedBlocks<Tally, Rules>>, _ rules: Rules,
        at commits: Int, _ count: (ClosedRange<Int64>) throws -> Tally
    ) throws -> Tally {
        let next = try PreparedStatement(db, "SELECT key FROM \(table) WHERE key >= ? ORDER BY key LIMIT 1")
        defer { next.reset() }
        var (sum, fresh) = (Tally(), CountedBlocks<Tally, Rules>.Counted())
        var first = Int64.min
        while true {
            next.bind(1, first)
            guard let key = try next.firstInt() else { break }
            let block = RowBlock.number(of: key)
            if let known = counted.withLock({ $0.known(block, rules) }) {
                sum.add(known)
            } else {
                let tally = try self.tally(of: block, counted, rules, into: &fresh.parts, count)
                fresh.blocks[block] = tally
                sum.add(tally)
            }
            let last = RowBlock.keys(block).upperBound
            guard last < .max else { break }
            first = last + 1
        }
        if !fresh.isEmpty { counted.withLock { [fresh] in $0.keep(fresh, rules, at: commits) } }
        return sum
    }

    private func tally<Tally: StoreTally, Rules: Hashable & Sendable>(
        of block: Int64, _ counted: borrowing Mutex<CountedBlocks<Tally, Rules>>, _ rules: Rules,
        into parts: inout [Int64: Tally], _ count: (ClosedRange<Int64>) throws -> Tally
    ) throws -> Tally {
        guard counted.withLock({ $0.changes(block) }) else { return try count(RowBlock.keys(block)) }
        var sum = Tally()
        for part in RowBlock.parts(block) {
            if let known = counted.withLock({ $0.known(part: part, rules) }) {
                sum.add(known)
            } else {
                let tally = try count(RowBlock.Part.keys(part))
                parts[part] = tally
                sum.add(tally)
            }
        }
        return sum
    }
}

/// States that a reading has at several destinations.
private struct OutboxStates: OptionSet {
    let rawValue: Int64

    static let waiting = OutboxStates(of: OutboxState.waiting.rawValue)
    static let delivered = OutboxStates(of: OutboxState.delivered.rawValue)
    static let refused = OutboxStates(of: OutboxState.refused.rawValue)

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
