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
            let wasReplaced = try isReplaced(found.key, found.reading)
            outcomes.append(try enterAgain(found.key, found.reading, record, frame))
            guard let former else { return }
            let takesPlace = wasReplaced && former.reading.time.instant == entry.instant
            outcomes += try withdraw(former.key, former.reading, by: frame, for: takesPlace ? found.key : nil)
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
            return outcomes.append(.new(made))
        }
        try attach(row, to: former.key, .withdrawal)
        if former.reading.time.instant == entry.instant {
            try replace(former.key, by: key)
        } else {
            try setWithdrawn(former.key, former.reading)
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

    /// Whether another entry has taken the place of this one there. One that was only withdrawn keeps its own.
    private func isReplaced(_ key: Int64, _ reading: Reading) throws -> Bool {
        guard reading.excluded == .withdrawn else { return false }
        return try Bool.fetchOne(
            db, sql: "SELECT NOT EXISTS (SELECT 1 FROM outbox WHERE reading = ?)", arguments: [key]) ?? false
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
}
