import GRDB

/// How many frames there are.
struct FrameTally: StoreTally {
    var count = 0
    var malformed = 0
    /// Those that are still to be decoded.
    var pending = 0

    mutating func add(_ other: FrameTally) {
        count += other.count
        malformed += other.malformed
        pending += other.pending
    }

    init() {}

    /// Counts the frames with some keys.
    init(_ db: Database, _ keys: ClosedRange<Int64>) throws {
        let rows = try PreparedStatement(
            db,
            """
            SELECT count(*), total(state = \(frame: .malformed)), total(state = \(frame: .pending)) FROM frame
            WHERE key BETWEEN ? AND ?
            """)
        rows.bind(1, keys.lowerBound)
        rows.bind(2, keys.upperBound)
        defer { rows.reset() }
        guard try rows.next() else { return }
        (count, malformed, pending) = (Int(rows.int(0)), Int(rows.int(1)), Int(rows.int(2)))
    }
}

/// The newest readings that destinations have.
struct NewestTally: StoreTally {
    struct Place: Hashable, Sendable, Comparable {
        var destination: Int64
        var device: Int64
        var user: Int64
        var resource: Int64

        static func < (lhs: Place, rhs: Place) -> Bool {
            (lhs.destination, lhs.device, lhs.user, lhs.resource) < (
                rhs.destination, rhs.device, rhs.user, rhs.resource
            )
        }
    }

    struct Newest: Sendable, Comparable {
        /// In seconds.
        var timestamp: Int64
        /// Its row.
        var reading: Int64

        static func < (lhs: Newest, rhs: Newest) -> Bool { (lhs.timestamp, lhs.reading) < (rhs.timestamp, rhs.reading) }
    }

    var newest: [Place: Newest] = [:]

    mutating func add(_ other: NewestTally) { newest.merge(other.newest, uniquingKeysWith: max) }

    init() {}

    /// Looks at the readings with some keys. A destination has one, too, that it was given and that waits to be delivered again.
    init(_ db: Database, _ keys: ClosedRange<Int64>, _ destinations: Set<Int64>) throws {
        let list = destinations.sorted().map(String.init).joined(separator: ",")
        let rows = try PreparedStatement(
            db,
            """
            SELECT o.destination, r.device, o.user, o.resource, o.timestamp, o.reading
            FROM outbox AS o CROSS JOIN reading AS r ON r.key = o.reading
            WHERE o.reading BETWEEN ? AND ? AND o.destination IN (\(list))
                AND (o.state = \(outbox: .delivered) OR o.state IN (\(outbox: .waiting), \(outbox: .handedOver))
                    AND (o.delivered_at IS NOT NULL OR o.handed_over_at IS NOT NULL))
            """)
        rows.bind(1, keys.lowerBound)
        rows.bind(2, keys.upperBound)
        defer { rows.reset() }
        while try rows.next() {
            let place = Place(destination: rows.int(0), device: rows.int(1), user: rows.int(2), resource: rows.int(3))
            let found = Newest(timestamp: rows.int(4), reading: rows.int(5))
            newest[place] = newest[place].map { max($0, found) } ?? found
        }
    }
}

/// How many contacts there are, and who has met which device.
struct ContactTally: StoreTally {
    var count = 0
    /// People, by device.
    var people: [Int64: Set<Int64>] = [:]

    mutating func add(_ other: ContactTally) {
        count += other.count
        people.merge(other.people) { $0.union($1) }
    }

    init() {}

    /// Counts the contacts with some keys.
    init(_ db: Database, _ keys: ClosedRange<Int64>) throws {
        let rows = try PreparedStatement(db, "SELECT device, user FROM contact WHERE key BETWEEN ? AND ?")
        rows.bind(1, keys.lowerBound)
        rows.bind(2, keys.upperBound)
        defer { rows.reset() }
        while try rows.next() {
            count += 1
            people[rows.int(0), default: []].insert(rows.int(1))
        }
    }
}
