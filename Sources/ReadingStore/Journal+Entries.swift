import GRDB
import HealthReadings

/// What people entered: one frame, one reading, and what it takes the place of.
extension Journal {
    /// Stores an entry, and withdraws what it corrects.
    mutating func add(_ entry: ManualEntry, _ frame: Frame, into outcomes: inout [FrameOutcome]) throws {
        let record = entry.record
        let id = entry.id
        let former = try entry.corrects.flatMap { $0 == id ? nil : try reading($0) }
        if let found = try reading(id) {
            let known = Set(try OutboxPlace.all(of: found.key, db).map(\.destination))
            // One that was only withdrawn keeps its own place.
            let wasReplaced = found.reading.excluded == .withdrawn && known.isEmpty
            outcomes.append(try enterAgain(found.key, found.reading, record, frame))
            var takesPlace = false
            if let former {
                takesPlace = try wasReplaced && record.exclusion == nil && hasPlace(former, at: entry.instant)
                outcomes += try withdraw(former.key, former.reading, by: frame, for: takesPlace ? found.key : nil)
            }
            // Only where it was queued just now: anywhere else it may be on its way to its second.
            if !takesPlace { try takeOver(found.key, at: entry.instant, besides: known) }
            return
        }
        if try isPruned(entry) {
            // Destinations have the pruned entry at its own second, so taking the former back takes nothing of it away.
            var withdrawn: [FrameOutcome] = []
            if let former { withdrawn = try withdraw(former.key, former.reading, by: frame) }
            if withdrawn.isEmpty { try forgetStoredFrame() }
            outcomes.append(.repeated(id))
            outcomes += withdrawn
            return
        }
        let row = try keep(frame, .record)
        let (key, made) = try insert(
            record, frame, as: row, id: id, clash: 0, time: entry.time, context: entry.context)
        guard let former, former.reading.record.entry != nil, former.reading.excluded != .withdrawn else {
            try takeOver(key, at: entry.instant)
            return outcomes.append(.new(made))
        }
        try attach(row, to: former.key, .withdrawal)
        // What nobody can have goes to no destination, and so replaces nothing there.
        if try made.excluded == nil && hasPlace(former, at: entry.instant) {
            try replace(former.key, by: key)
        } else {
            try setWithdrawn(former.key, former.reading)
            try takeOver(key, at: entry.instant)
        }
        outcomes.append(.new(try load(key)))
        outcomes.append(.revised(try load(former.key)))
    }

    /// Whether an entry was stored and delivered, and its content was removed since.
    func isPruned(_ entry: ManualEntry) throws -> Bool {
        guard case .same? = try pruned?.find(entry.id, entry.record) else { return false }
        return true
    }

    /// Withdraws an entry, or what was imported.
    mutating func add(_ withdrawal: EntryWithdrawal, _ frame: Frame) throws -> FrameOutcome {
        guard let found = try reading(withdrawal.reading) else {
            try keepApart(frame, .nothing)
            return .nothing
        }
        if case .source(let updatedAt) = withdrawal.origin {
            return try retract(found.key, found.reading, at: updatedAt, by: frame)
        }
        return try withdraw(found.key, found.reading, by: frame).first ?? .repeated(found.reading.id)
    }

    /// Withdraws what the program that it was imported from has taken back; nothing happens if it has said something newer since.
    private mutating func retract(
        _ key: Int64, _ reading: Reading, at updatedAt: Instant?, by frame: Frame
    ) throws -> FrameOutcome {
        var record = reading.record
        guard let facts = record.imported, reading.excluded != .withdrawn, !facts.isNewer(than: updatedAt) else {
            return .repeated(reading.id)
        }
        try attach(keep(frame, .record), to: key, .withdrawal)
        record.exclusion = .withdrawn
        record.imported?.isRetracted = true
        record.imported?.updatedAt = updatedAt ?? facts.updatedAt
        try revise(key, from: reading, to: record)
        return .revised(try load(key))
    }

    /// Leaves a reading out of figures, or takes it back in. Nothing of what destinations have changes.
    mutating func add(_ decision: FigureDecision, _ frame: Frame) throws -> FrameOutcome {
        guard let found = try reading(decision.reading) else {
            try keepApart(frame, .nothing)
            return .nothing
        }
        guard !found.reading.stands(as: decision) else { return .repeated(decision.reading) }
        try attach(keep(frame, .record), to: found.key, .figures)
        try change(found.key) { $0.content.leftOut = decision.omission }
        return .revised(try load(found.key))
    }

    /// An entry that is stored already: nothing follows from it, unless it was withdrawn since.
    private mutating func enterAgain(
        _ key: Int64, _ reading: Reading, _ record: Record, _ frame: Frame
    ) throws -> FrameOutcome {
        let isWithdrawn = reading.excluded == .withdrawn
        // A frame with these octets may have come before the withdrawal: that it came again has to be known later.
        if try isWithdrawn || !isKept(frame, by: key, .record) { try attach(keep(frame, .record), to: key, .record) }
        guard reading.record != record else { return .repeated(reading.id) }
        try revise(key, from: reading, to: record)
        return isWithdrawn ? .new(try load(key)) : .repeated(reading.id)
    }

    /// - Parameter successor: the entry that takes its place at destinations; `nil`: none does.
    private mutating func withdraw(
        _ key: Int64, _ reading: Reading, by frame: Frame, for successor: Int64? = nil
    ) throws -> [FrameOutcome] {
        guard reading.record.isWithdrawable, reading.excluded != .withdrawn else { return [] }
        try attach(keep(frame, .record), to: key, .withdrawal)
        if let successor {
            try replace(key, by: successor)
        } else {
            try setWithdrawn(key, reading)
        }
        return [.revised(try load(key))]
    }

    /// Whether an entry that stands has places at destinations that one of this time can take.
    private func hasPlace(_ former: (key: Int64, reading: Reading), at instant: Instant) throws -> Bool {
        guard former.reading.excluded != .withdrawn, former.reading.time.instant == instant else { return false }
        return try Bool.fetchOne(
            db, sql: "SELECT EXISTS (SELECT 1 FROM outbox WHERE reading = ?)", arguments: [former.key]) ?? false
    }

    /// Has destinations take the reading back, and gives it to none.
    private mutating func setWithdrawn(_ key: Int64, _ reading: Reading) throws {
        var record = reading.record
        record.exclusion = .withdrawn
        try revise(key, from: reading, to: record)
    }

    /// Has an entry take the place of another of the same time, under the same timestamp: a destination that tells
    /// readings by their second replaces the value there.
    ///
    /// Each destination that can takes the former back first, whatever it tells readings by: a note at Nightscout is
    /// told by its id, and a point of InfluxDB keeps the fields that the new one lacks.
    private func replace(_ former: Int64, by key: Int64) throws {
        let places = try OutboxPlace.all(of: former, db)
        try retractReplaced(former)
        try change(former) { $0.columns.recordExclusion = Exclusion.withdrawn.code }
        // It may be entered again.
        try OutboxRevision.leaveBehind(db, "reading = ?", former)
        try db.execute(sql: "DELETE FROM outbox WHERE reading = ?", arguments: [former])
        for place in places { try place.hand(to: key, db, sealing) }
    }

    /// Gives an entry the second of its own time where a withdrawn reading has left its value behind: a destination that takes
    /// nothing back, and that tells readings by their second, replaces the value there.
    ///
    /// - Parameter known: destinations where the entry keeps the second that it has.
    private func takeOver(_ key: Int64, at instant: Instant, besides known: Set<Int64> = []) throws {
        let rows = try Row.fetchAll(
            db,
            sql: """
                SELECT w.reading, w.destination, w.timestamp, w.revision, w.delivered_at, w.handed_over_at
                FROM outbox AS o CROSS JOIN outbox AS w ON w.timestamp = ?2 AND w.destination = o.destination
                    AND w.user = o.user AND w.resource = o.resource AND w.provider = o.provider AND w.type = o.type
                    AND w.share = o.share
                CROSS JOIN destination AS d ON d.key = w.destination CROSS JOIN reading AS r ON r.key = w.reading
                WHERE o.reading = ?1 AND o.timestamp <> ?2 AND o.state = \(outbox: .waiting) AND o.attempts = 0
                    AND o.delivered_at IS NULL AND o.handed_over_at IS NULL
                    AND w.state = \(outbox: .withdrawn) AND (w.delivered_at IS NOT NULL OR w.handed_over_at IS NOT NULL)
                    AND d.can_retract = 0 AND (r.record_exclusion IS NOT NULL OR r.time_exclusion IS NOT NULL)
                """, arguments: [key, instant.seconds])
        for row in rows {
            let former: Int64 = try row.value(0)
            let place = OutboxPlace(
                destination: try row.value(1), timestamp: try row.value(2), revision: try row.value(3),
                deliveredAt: try row.value(4), offeredAt: try row.value(5))
            guard !known.contains(place.destination) else { continue }
            // It may count again.
            try OutboxRevision.leaveBehind(db, "reading = ?", former)
            try db.execute(
                sql: "DELETE FROM outbox WHERE reading = ? AND destination = ?", arguments: [former, place.destination])
            try place.hand(to: key, db, sealing)
        }
    }
}
