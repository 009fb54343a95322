import GRDB
import HealthReadings

/// Chooses the place of a reading at a destination and queues it there.
struct OutboxPlacement {
    let db: Database
    let sealing: Sealing
    let destinations: [StoredDestination]
    let pruned: PrunedReadings?
    let insert: PreparedStatement

    /// Queues a reading at its time, or at the first free second behind it: chosen once, kept for ever.
    ///
    /// - Parameter start: the first second that may be free.
    /// - Returns: the second it has.
    func queue(
        _ reading: Int64, of kind: ReadingKind, device: (key: Int64, description: DeviceDescription),
        in series: ContactState.Series, from start: Int64, at destination: StoredDestination
    ) throws -> Int64 {
        let share = destination.hasUniqueSeconds ? Self.share(of: device.description, at: destination) : nil
        insert.bind(1, reading)
        insert.bind(2, destination.key.rawValue)
        insert.bind(3, series.user)
        insert.bind(4, series.kind)
        insert.bind(5, series.provider)
        insert.bind(6, series.type)
        insert.bind(8, share)
        insert.bind(10, destination.keepsOffset ? try offset(of: series.user, at: start) : nil)
        let others = destination.hasUniqueSeconds ? formerNames(of: destination) : []
        let places = [destination.key.rawValue] + others
        var timestamp = try second(of: reading, at: others) ?? start
        while true {
            let tag = OutboxTag(
                reading: reading, destination: destination.name, user: series.user, resource: series.kind,
                provider: series.provider, type: series.type, timestamp: timestamp)
            insert.bind(7, timestamp)
            insert.bind(9, octets: try tag.made(sealing))
            let isHeld =
                try destination.hasUniqueSeconds
                && (isTaken(timestamp, kind, device: device.key, series, at: destination.key.rawValue, destination)
                    || destination.isOneSeries
                        && places.contains { place in
                            // A weight and the weight of a composition are the same kind of event there.
                            try (BodySummaryRules.kinds.contains(kind) ? BodySummaryRules.kinds : [kind]).contains {
                                try isTakenByKind($0, timestamp, series, reading, at: place)
                            }
                        }
                    || others.contains { other in
                        try isTaken(timestamp, kind, device: device.key, series, at: other, destination)
                            || isTakenByAnother(reading, timestamp, series, share, at: other)
                    })
            let hasNamesake =
                try !isHeld && share == Self.nameless
                && places.contains { place in
                    try isTakenByNamesake(reading, timestamp, series, device.description.model, at: place)
                }
            if !isHeld, !hasNamesake, try insert.run() > 0 { return timestamp }
            timestamp &+= 1
        }
    }

    /// Destinations that are the same place under another name: what they were given is there.
    private func formerNames(of destination: StoredDestination) -> [Int64] {
        guard let address = destination.address else { return [] }
        return destinations.filter {
            $0.key != destination.key && $0.kind == destination.kind && $0.address == address
        }.map(\.key.rawValue)
    }

    /// The second that a reading has at one of these.
    private func second(of reading: Int64, at destinations: [Int64]) throws -> Int64? {
        for destination in destinations {
            let timestamp = try Int64.fetchOne(
                db, sql: "SELECT timestamp FROM outbox WHERE reading = ? AND destination = ?",
                arguments: [reading, destination])
            if let timestamp { return timestamp }
        }
        return nil
    }

    /// What tells readings of one second apart at a destination with unique seconds, besides the series: nothing, or the
    /// device, by the digits that it is known by there.
    private static func share(of device: DeviceDescription, at destination: StoredDestination) -> Int64 {
        guard destination.isSeriesByDevice else { return 0 }
        return Int64(DeviceAlias(device).digits, radix: 16).map { $0 + 2 } ?? nameless
    }

    /// The share of every device without digits.
    private static let nameless: Int64 = 1

    /// Whether a reading of a device without digits has a second at a destination where each device's readings are a series,
    /// and the device is called there as this reading's is. What is imported has no other device than `imported`, whoever
    /// the provider is.
    private func isTakenByNamesake(
        _ reading: Int64, _ timestamp: Int64, _ series: ContactState.Series, _ model: String?, at destination: Int64
    ) throws -> Bool {
        let select = try PreparedStatement(
            db,
            """
            SELECT EXISTS (
                SELECT 1 FROM outbox AS o INDEXED BY outbox_timestamp CROSS JOIN reading AS r ON r.key = o.reading
                CROSS JOIN device AS d ON d.key = r.device
                WHERE o.timestamp = ?4 AND o.destination = ?1 AND o.user = ?2 AND o.resource = ?3 AND o.type = ?5
                    AND o.share = \(Self.nameless) AND o.reading <> ?6 AND d.model IS ?7)
                OR EXISTS (
                SELECT 1 FROM pruned_place AS p INDEXED BY pruned_place_timestamp
                CROSS JOIN pruned AS r ON r.identity = p.identity CROSS JOIN device AS d ON d.key = r.device
                WHERE \(PrunedPlaces.holds("?1")) AND p.timestamp = ?4 AND r.user = ?2 AND r.kind = ?3 AND p.type = ?5
                    AND d.address IS NULL AND d.model IS ?7)
            """)
        defer { select.reset() }
        select.bind(1, destination)
        select.bind(2, series.user)
        select.bind(3, series.kind)
        select.bind(4, timestamp)
        select.bind(5, series.type)
        select.bind(6, reading)
        select.bind(7, model)
        return try select.firstInt() == 1
    }

    private func isTakenByAnother(
        _ reading: Int64, _ timestamp: Int64, _ series: ContactState.Series, _ share: Int64?, at destination: Int64
    ) throws -> Bool {
        try Bool.fetchOne(
            db,
            sql: """
                SELECT EXISTS (SELECT 1 FROM outbox WHERE destination = ? AND user = ? AND resource = ? AND provider = ?
                    AND type = ? AND timestamp = ? AND share = ? AND reading <> ?)
                """,
            arguments: [
                destination, series.user, series.kind, series.provider, series.type, timestamp, share, reading,
            ]) ?? false
    }

    static let schema = """
        -- What the person's clock showed ahead of UTC, in minutes, when the reading was queued; for destinations that keep it.
        ALTER TABLE outbox ADD COLUMN offset_minutes INTEGER;
        """

    /// The offset of a person's clock at an instant, in minutes; chosen once, since a zone's rules may be corrected later.
    private func offset(of user: Int64, at seconds: Int64) throws -> Int64? {
        let instant = Instant(seconds: seconds)
        let zone = try ReadingStore.zone(db, of: user, at: instant).flatMap(ZoneRules.named)
        return zone.map { $0.offsetSeconds(at: instant) / 60 }
    }

    /// Whether a reading of the same kind has a second at a destination for which they are one series.
    private func isTakenByKind(
        _ kind: ReadingKind, _ timestamp: Int64, _ series: ContactState.Series, _ reading: Int64, at destination: Int64
    ) throws -> Bool {
        let select = try PreparedStatement(
            db,
            """
            SELECT EXISTS (
                SELECT 1 FROM outbox WHERE destination = ?1 AND user = ?2 AND resource = ?3
                    AND timestamp = ?4 AND reading <> ?5 AND share IS NOT NULL)
                OR EXISTS (
                SELECT 1 FROM pruned_place AS p JOIN pruned AS r ON r.identity = p.identity
                WHERE \(PrunedPlaces.holds("?1")) AND p.timestamp = ?4 AND r.user = ?2 AND r.kind = ?3)
            """)
        defer { select.reset() }
        select.bind(1, destination)
        select.bind(2, series.user)
        select.bind(3, kind.code)
        select.bind(4, timestamp)
        select.bind(5, reading)
        return try select.firstInt() == 1
    }

    /// - Parameters:
    ///   - place: the row of the destination, or the one under which it was known before.
    ///   - destination: the destination.
    private func isTaken(
        _ timestamp: Int64, _ kind: ReadingKind, device: Int64, _ series: ContactState.Series, at place: Int64,
        _ destination: StoredDestination
    ) throws -> Bool {
        guard !destination.isSeriesByDevice else {
            return try pruned?.holds(
                at: place, user: series.user, kind: series.kind, device: device, timestamp: timestamp) ?? false
        }
        return try BodySummaryRules.isTaken(
            timestamp, db, at: place, kind: kind, user: series.user, provider: series.provider, device: device)
            || pruned?.holds(
                at: place, user: series.user, kind: series.kind, provider: series.provider, type: series.type,
                timestamp: timestamp) ?? false
    }
}
