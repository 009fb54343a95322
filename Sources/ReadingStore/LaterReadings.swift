import GRDB
import HealthReadings

/// What a store was like when readings were collected from it, so that only what came since has to be read.
package struct ReadingsMark: Sendable, Hashable {
    /// How often something changed that is no reading and decides on readings: settings, people, keys.
    fileprivate var decisions: Int
    /// The newest number of ``Changes``.
    fileprivate var newest: Int64
    /// A device's label may be learned with a later contact.
    fileprivate var devices: [Int64: DeviceDescription]
}

extension ReadingStore {
    /// What the store is like now.
    package func readingsMark() async throws -> ReadingsMark {
        let decisions = decisionCount
        return try await read { [sealing] db in try Self.mark(db, sealing, decisions) }
    }

    /// Puts the readings that came since into a value that others were put into, in no order.
    ///
    /// - Parameters:
    ///   - query: the same as for the others.
    ///   - mark: what the store was like when the others were read.
    ///   - contents: the value with the others.
    ///   - add: puts in a reading.
    /// - Returns: the value, and what the store is like now; `nil` if more has happened than that readings came: then all have to
    ///   be read anew.
    package func collect<Contents: Sendable>(
        _ query: ReadingQuery, since mark: ReadingsMark, into contents: Contents,
        _ add: @escaping @Sendable (inout Contents, Reading) -> Void
    ) async throws -> (contents: Contents, mark: ReadingsMark)? {
        let decisions = decisionCount
        return try await read { [sealing] db in
            let present = try Self.mark(db, sealing, decisions)
            guard present.decisions == mark.decisions, present.devices == mark.devices,
                try Changes(db: db).noneBut(newReadingsBehind: mark.newest)
            else { return nil }
            var contents = contents
            try query.later(db, sealing, than: mark.newest) { add(&contents, $0) }
            return (contents, present)
        }
    }

    private static func mark(_ db: Database, _ sealing: Sealing, _ decisions: Int) throws -> ReadingsMark {
        try sealing.requireKeys()
        let cache = DeviceCache(db, sealing)
        let keys = try Int64.fetchAll(db, sql: "SELECT key FROM device")
        return ReadingsMark(
            decisions: decisions, newest: try Changes(db: db).newest(),
            devices: Dictionary(
                uniqueKeysWithValues: try keys.map { ($0, try cache.description($0)) }))
    }
}
