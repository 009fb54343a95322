import GRDB
import HealthReadings

/// Scans of sensors: one frame, many records.
extension Journal {
    /// Stores the records of a scan.
    mutating func add(_ scan: SensorScan, _ frame: Frame, into outcomes: inout [FrameOutcome]) throws {
        guard !scan.records.isEmpty else {
            try keepApart(frame, .nothing)
            outcomes.append(.nothing)
            return
        }
        var starts = try SensorStarts(db, device: contact.device, epoch: epoch)
        try starts.note(scan, scannedAt: frame.receivedAt)
        // The frame belongs to all of its records: where the first has it already, they all do.
        var (isStored, stored): (Bool, Int64?) = (false, nil)
        search: for record in scan.records {
            switch try find(record, frame) {
            case .existing(let key, let reading):
                isStored = try !reading.isTakenOver && isKept(frame, by: key, .record)
                break search
            case .pruned: continue
            case .none: break search
            }
        }
        for record in scan.records {
            guard let facts = record.sensor else { continue }
            switch try find(record, frame) {
            case .pruned(let id): outcomes.append(.repeated(id))
            case .existing(let key, let reading) where reading.isTakenOver:
                stored = try stored ?? keep(frame, .record)
                if let stored { try adopt(key, reading, record, frame, as: stored) }
                let adopted = try load(key)
                if adopted.excluded == nil {
                    if facts.source == .history {
                        outcomes += try supersede(minute: facts.minute, by: key)
                    } else if try isSuperseded(facts) {
                        try supersede(key)
                    }
                }
                outcomes.append(.revised(try load(key)))
            case .existing(let key, let reading):
                if !isStored {
                    stored = try stored ?? keep(frame, .record)
                    if let stored { try attach(stored, to: key, .record) }
                }
                outcomes.append(.repeated(reading.id))
            case .none(let id, let clash, let other):
                let row = try stored ?? keep(frame, .record)
                stored = row
                let time = starts.resolve(facts, scannedAt: frame.receivedAt)
                let (key, reading) = try insert(record, frame, as: row, id: id, clash: clash, time: time)
                outcomes.append(other.map { .clash(reading, with: $0) } ?? .new(reading))
                if facts.source == .history, reading.excluded == nil {
                    outcomes += try supersede(minute: facts.minute, by: key)
                }
            }
        }
    }

    /// Stores what a sensor's record is found by besides its id.
    func insert(_ facts: SensorFacts, of reading: Int64) throws {
        let insert = try PreparedStatement(
            db,
            """
            INSERT INTO sensor_record (reading, device, source, minute) VALUES (?, ?, ?, ?)
            """)
        var parameters = Parameters(of: insert)
        parameters.put(reading)
        parameters.put(contact.device)
        parameters.put(Int64(facts.source.rawValue))
        parameters.put(Int64(facts.minute))
        try insert.run()
    }

    /// Whether the minute's history record, which wins it, is stored and delivered.
    func isSuperseded(_ facts: SensorFacts) throws -> Bool {
        guard facts.source == .trend else { return false }
        return try !deliverable(minute: facts.minute, source: .history).isEmpty
            || pruned?.hasMinute(facts.minute, .history, device: contact.device, epoch: epoch, user: contact.user)
                ?? false
    }

    private func deliverable(minute: UInt16, source: SensorFacts.Source) throws -> [Int64] {
        let select = try PreparedStatement(
            db,
            """
            SELECT s.reading FROM sensor_record AS s JOIN reading AS r ON r.key = s.reading
            WHERE s.device = ? AND s.minute = ? AND s.source = ? AND r.user = ? AND r.sequence_epoch = ?
                AND r.record_exclusion IS NULL AND r.time_exclusion IS NULL
            """)
        select.bind(1, contact.device)
        select.bind(2, Int64(minute))
        select.bind(3, Int64(source.rawValue))
        select.bind(4, contact.user)
        select.bind(5, Int64(epoch))
        var keys: [Int64] = []
        while try select.next() { keys.append(select.int(0)) }
        return keys
    }

    /// Has the history record take the place of its minute's trend record: at the server too, under the same timestamp.
    private func supersede(minute: UInt16, by history: Int64) throws -> [FrameOutcome] {
        let places =
            try pruned?.takeTimestamps(ofTrend: minute, device: contact.device, epoch: epoch, user: contact.user) ?? []
        for place in places {
            // How often what was pruned had changed is not known: mostly never.
            try OutboxPlace(
                destination: place.destination, timestamp: place.timestamp, revision: 0, deliveredAt: place.deliveredAt
            ).hand(to: history, db, sealing)
        }
        return try deliverable(minute: minute, source: .trend).map { trend in
            let places = try OutboxPlace.all(of: trend, db)
            try supersede(trend)
            for place in places { try place.hand(to: history, db, sealing) }
            return .revised(try load(trend))
        }
    }

    /// Takes a trend record out of what counts and is delivered.
    private func supersede(_ trend: Int64) throws {
        // A destination that tells readings by their second has the history record in the trend record's place. One
        // that tells them by id has both, and takes back the trend record.
        if holds.destinations.contains(where: { !$0.hasUniqueSeconds }) { try retractReplaced(trend) }
        try change(trend) { $0.columns.timeExclusion = Exclusion.superseded.code }
        // It comes back only after its person is erased: the history record's row, whose revision is higher, goes then.
        try db.execute(sql: "DELETE FROM outbox WHERE reading = ?", arguments: [trend])
    }

    /// Asks every destination that can to take back a reading whose place another takes, before that one is sent.
    func retractReplaced(_ former: Int64) throws {
        let retracting = Retracting(db: db, sealing: sealing)
        try retracting.countReplaced(former)
        try retracting.retract(former, id: load(former).id)
    }
}
