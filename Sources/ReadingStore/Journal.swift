import GRDB
import HealthReadings

/// Turns the frames of one contact into rows, within one transaction.
struct Journal {
    private(set) var contact: ContactState
    let db: Database
    let epoch: Int
    let decoder: any FrameDecoding
    let statements: JournalStatements
    let holds: HoldRules
    /// The rows that stand for what came out of other programs' data; empty for most stores.
    let imports: [Int64]
    /// Whether readings may have ids that another gateway gave them.
    private(set) var hasImportedIDs: Bool
    let numbers: RowNumbers
    let sealing: Sealing
    let rows: RowReader
    /// Readings whose content was removed; nil where there are none.
    let pruned: PrunedReadings?
    /// The row of the frame that is being read again; nil for one that has just come.
    var storedFrame: Int64?
    /// The records of other programs that say something else than they said when their readings were pruned.
    var revisedPruned: [ReadingID: Record] = [:]

    init(
        _ db: Database, contact: consuming ContactState, epoch: Int, decoder: any FrameDecoding, sealing: Sealing,
        pruned: PrunedReadings?, memory: JournalMemory, numbers: RowNumbers
    ) throws {
        // Nothing is begun that could not be sealed.
        try sealing.requireKeys()
        self.sealing = sealing
        self.pruned = pruned
        rows = RowReader(db, sealing)
        self.db = db
        self.contact = contact
        self.epoch = epoch
        self.decoder = decoder
        statements = try JournalStatements(db)
        holds = memory.holds
        imports = memory.imports
        hasImportedIDs = memory.hasImportedIDs
        self.numbers = numbers
    }

    /// The setting that says so, for good: such a reading stays when what it was imported from has gone.
    static let importedIDs = "imported.ids"

    /// Notes that readings have ids that another gateway gave them.
    mutating func noteImportedIDs() throws {
        guard !hasImportedIDs else { return }
        try ReadingStore.set(db, Self.importedIDs, lines: ["1"])
        hasImportedIDs = true
    }

    /// Stores one frame with all that follows from it, and adds what became of it: of a scan, of each of its records.
    mutating func add(_ frame: Frame, _ decoded: DecodedFrame, into outcomes: inout [FrameOutcome]) throws {
        switch decoded {
        case .record(let record): outcomes.append(try add(record, frame))
        case .glucoseContext(let sequence, let context): outcomes.append(try add(context, of: sequence, frame))
        case .sensor(let scan): try add(scan, frame, into: &outcomes)
        case .entry(let entry): try add(entry, frame, into: &outcomes)
        case .imported(let sample): outcomes.append(try add(sample, frame))
        case .withdrawal(let withdrawal): outcomes.append(try add(withdrawal, frame))
        case .figures(let decision): outcomes.append(try add(decision, frame))
        case .nothing:
            try keepApart(frame, .nothing)
            outcomes.append(.nothing)
        case .malformed(let error):
            try keepApart(frame, .malformed)
            outcomes.append(.malformed(error))
        }
    }

    // MARK: Records

    enum Match {
        case none(ReadingID, clash: Int, with: ReadingID?)
        case existing(Int64, Reading)
        /// It was stored and delivered, and its content was removed since.
        case pruned(ReadingID)
    }

    private mutating func add(_ record: Record, _ frame: Frame) throws -> FrameOutcome {
        switch try find(record, frame) {
        case .pruned(let id):
            try leave(numbering(record, frame))
            return .repeated(id)
        case .existing(let key, let reading):
            note(numbering(record, frame), key)
            return try repeated(key, reading, record, frame)
        case .none(let id, let clash, let other):
            let time = try time(of: record, frame)
            let (key, made) = try insert(
                record, frame, as: keep(frame, .record), id: id, clash: clash, time: time)
            var reading = made
            // A context that came before its record was taken for the other's, unless the other came here too.
            let isMisjoined = record.sequence.map { contact.records[$0] == nil } ?? false
            let numbering = numbering(record, frame)
            note(numbering, key)
            if let other, isMisjoined { try moveContexts(of: record, from: other, to: key) }
            if try joinWaiting(numbering, key) || other != nil { reading = try load(key) }
            return other.map { .clash(reading, with: $0) } ?? .new(reading)
        }
    }

    /// How a glucose record is named by its context.
    struct Numbering {
        var number: UInt16
        /// Whether the number names another record in the next contact.
        var isPassing: Bool
    }

    /// How the context of a record names it; nil where the record has no number, or no context.
    private func numbering(_ record: Record, _ frame: Frame) -> Numbering? {
        guard record.value.kind == .glucose else { return nil }
        if let number = decoder.passingNumber(of: frame, model: contact.description.model) {
            return Numbering(number: number, isPassing: true)
        }
        return record.sequence.map { Numbering(number: $0, isPassing: false) }
    }

    private mutating func note(_ numbering: Numbering?, _ key: Int64) {
        guard let number = numbering?.number else { return }
        contact.records[number] = key
        contact.prunedSequences.remove(number)
    }

    /// Keeps nothing of a record that was pruned, nor of a context that came before it in this contact.
    private mutating func leave(_ numbering: Numbering?) throws {
        try forgetStoredFrame()
        guard let number = numbering?.number else { return }
        contact.records[number] = nil
        contact.prunedSequences.insert(number)
        try forgetWaiting(number)
    }

    /// Stores a record that came with the frame of this row.
    mutating func insert(
        _ record: Record, _ frame: Frame, as row: Int64, id: ReadingID, clash: Int, time: ResolvedTime,
        context: GlucoseContext? = nil
    ) throws -> (key: Int64, reading: Reading) {
        var timeExclusion = exclusion(of: record, at: time, receivedAt: frame.receivedAt)
        let owner = contact.owner(of: record)
        if timeExclusion == nil, record.exclusion == nil, let facts = record.sensor, try isSuperseded(facts) {
            timeExclusion = .superseded
        }
        let key = try numbers.takeReading()
        let stored = StoredReading(
            key: key, id: id,
            columns: ReadingColumns(
                id: try sealing.stored(id), kind: record.value.kind.code, device: contact.device,
                user: owner ?? contact.user, sequenceEpoch: Int64(epoch), clash: Int64(clash),
                sequence: record.sequence.map(Int64.init), baseTime: record.baseTime?.secondsSinceEpoch,
                timeOffsetMinutes: record.timeOffsetMinutes.map(Int64.init),
                timeOffsetIsUnknown: record.timeOffsetIsUnknown ? 1 : 0, recordExclusion: record.exclusion?.code,
                timeExclusion: timeExclusion?.code, time: time.instant?.seconds, timeBasis: time.basis.code,
                timeUncertaintyMinutes: time.uncertaintyMinutes.map(Int64.init),
                clockDifference: time.clock?.differenceSeconds, clockReadAt: time.clock?.readAt.microseconds,
                receivedAt: frame.receivedAt.microseconds),
            content: ReadingContent(of: record, context: context))
        ReadingRow.bind(
            statements.insertReading, stored.columns, content: try sealing.blob(of: stored), key: key)
        try statements.insertReading.run()
        try attach(row, to: key, .record)
        // This machine's clock may turn out to have been behind.
        if timeExclusion == .implausibleTime, let moment = frame.bootTime { try note(moment, of: row) }
        if let facts = record.sensor { try insert(facts, of: key) }
        var reading = Reading(
            id: id, record: record, context: context, device: contact.description, time: time,
            person: try rows.people.name(owner ?? contact.user), excluded: record.exclusion ?? timeExclusion,
            receivedAt: frame.receivedAt)
        if reading.excluded == nil, record.isDelivered {
            try enqueue(key, reading, of: owner)
            // Until its context has come it may be none of the kind it looks like.
            if decoder.awaitsContext(frame, model: contact.description.model) { try setOutbox(key, .withdrawn) }
            reading.deliveries = holds.waiting(
                reading, user: owner ?? contact.user, provider: contact.description.provider, device: contact.device)
        }
        return (key, reading)
    }

    /// Why a record is excluded by its time or its user.
    private func exclusion(of record: Record, at time: ResolvedTime, receivedAt: Instant) -> Exclusion? {
        // A person's word for the time was looked at when it was entered: no clock can have been unset.
        if record.entry != nil { return nil }
        if record.imported != nil { return ImportedSample.exclusion(of: time, receivedAt: receivedAt) }
        return TimeResolution.exclusion(of: time, receivedAt: receivedAt)
            ?? (contact.owner(of: record) == nil ? .otherUser : nil)
    }

    /// A record that is stored already: its frame is kept if it is another, and what the device says anew is noted.
    private mutating func repeated(
        _ key: Int64, _ reading: Reading, _ record: Record, _ frame: Frame
    ) throws -> FrameOutcome {
        if reading.isTakenOver {
            try adopt(key, reading, record, frame, as: keep(frame, .record))
            _ = try joinWaiting(numbering(record, frame), key)
            return .revised(try load(key))
        }
        var isKept = try isKept(frame, by: key, .record)
        if !isKept, storedFrame != nil, try same(frame, of: key, .record) != nil {
            // It was kept while it waited for the rest, and the reading has one like it.
            try forgetStoredFrame()
            isKept = true
        }
        if !isKept, !FrameBatch.keeps(frame.format),
            record.heeding(reading.record).asEarlier(reading.record, in: frame.format) == reading.record,
            try isDropped(frameOf: reading, key)
        {
            // Its octets were let go, and it says what it said.
            try forgetStoredFrame()
            isKept = true
        }
        if !isKept { try attach(try keep(frame, .record), to: key, .record) }
        // What waited for the record may have made another of the reading.
        let isJoined = try joinWaiting(numbering(record, frame), key)
        let reading = isJoined ? try load(key) : reading
        // What its context has made it stays, whatever the record says by itself.
        let record = record.heeding(reading.record)
        guard !isKept || record.isRead(otherwiseThan: reading.record), reading.record != record else {
            return isJoined ? .revised(reading) : .repeated(reading.id)
        }
        let time = try reading.excluded == .noTime ? time(of: record, frame) : nil
        try revise(key, from: reading, to: record, at: time)
        return .revised(try load(key))
    }

    func time(of record: Record, _ frame: Frame) throws -> ResolvedTime {
        try contact.times.resolve(
            record, receivedAt: frame.receivedAt,
            byBaseTime: decoder.clockShowsBaseTime(model: contact.description.model)
        ) {
            try precedingInstant(of: record)
        }
    }

    private func precedingInstant(of record: Record) throws -> Instant? {
        guard let sequence = record.sequence else { return nil }
        let select = try PreparedStatement(
            db,
            """
            SELECT time FROM (
                SELECT * FROM (
                    SELECT sequence, time FROM reading
                    WHERE device = ?1 AND sequence_epoch = ?2 AND sequence < ?3 AND time IS NOT NULL
                    ORDER BY sequence DESC LIMIT 1)
                UNION ALL
                SELECT * FROM (
                    SELECT sequence, time FROM pruned WHERE device = ?1 AND sequence_epoch = ?2 AND sequence < ?3
                    ORDER BY sequence DESC LIMIT 1)
            ) ORDER BY sequence DESC LIMIT 1
            """)
        select.bind(1, contact.device)
        select.bind(2, Int64(epoch))
        select.bind(3, Int64(sequence))
        return try select.firstInt().map(Instant.init(seconds:))
    }

    /// Changes a stored reading; if it differs then, that is a change others hear of.
    func change(_ key: Int64, _ body: (inout StoredReading) throws -> Void) throws {
        guard try ReadingRow.change(db, key, rows, body) else { return }
        try Changes(db: db).noteRevision(of: key, numbers)
    }

    // MARK: The outbox

    /// Queues a reading for each destination that takes its kind.
    ///
    /// - Parameters:
    ///   - owner: whose it is; `nil`: nobody's.
    ///   - known: destinations that it is queued for already.
    mutating func enqueue(
        _ key: Int64, _ reading: Reading, of owner: Int64?, besides known: Set<Int64> = []
    ) throws {
        guard let wanted = reading.time.instant?.seconds, let owner else { return }
        let series = ContactState.Series(
            user: owner, kind: reading.kind.code, provider: contact.description.provider,
            type: reading.record.sampleTypeCode)
        let placement = OutboxPlacement(
            db: db, sealing: sealing, destinations: holds.destinations, pruned: pruned, insert: statements.insertOutbox)
        for destination in holds.destinations
        where destination.takes(reading.kind) && !known.contains(destination.key.rawValue) {
            let place = ContactState.SampleKey(
                destination: destination.key.rawValue, series: series, timestamp: wanted)
            let first = contact.nextFreeTimestamp[place] ?? wanted
            let timestamp = try placement.queue(
                key, of: reading.kind, device: (contact.device, contact.description), in: series, from: first,
                at: destination)
            if timestamp != first { contact.nextFreeTimestamp[place] = timestamp &+ 1 }
        }
    }

    /// Gives a stored reading the exclusion that its record has now, and what the device says of it; nil where it is excluded
    /// as it was.
    mutating func judge(_ key: Int64, _ record: Record) throws -> FrameOutcome? {
        let reading = try load(key)
        let judged = record.heeding(reading.record)
        guard judged.value == reading.record.value, judged.exclusion != reading.record.exclusion else { return nil }
        var revised = reading.record
        (revised.status, revised.exclusion) = (judged.status, judged.exclusion)
        try revise(key, from: reading, to: revised)
        return .revised(try load(key))
    }

    /// Excludes a stored reading whose record stands elsewhere, or nowhere, in the memory of the model that the device is now
    /// known as; and lets one that was excluded so count again.
    ///
    /// - Parameter decoded: the record's frame by that model.
    mutating func place(_ key: Int64, _ decoded: DecodedFrame) throws -> FrameOutcome? {
        let reading = try load(key)
        var revised = reading.record
        if case .record(let record) = decoded, record.userSlot == reading.record.userSlot,
            !record.heeding(reading.record).isRead(otherwiseThan: reading.record)
        {
            revised.exclusion = record.exclusion
        } else {
            revised.exclusion = .superseded
        }
        guard revised.exclusion != reading.record.exclusion else { return nil }
        try revise(key, from: reading, to: revised)
        return .revised(try load(key))
    }

    /// Judges the time of a stored reading by when its frame is known by now to have been received. The time itself stays.
    ///
    /// - Parameters:
    ///   - frame: the record's frame.
    ///   - receivedAt: when that was received.
    ///   - isWhole: whether everything came in its contact that there was.
    /// - Returns: `nil` if the reading stays excluded by its time.
    mutating func judgeTime(
        of key: Int64, _ frame: Frame, receivedAt: Instant, isWhole: Bool
    ) throws -> FrameOutcome? {
        let reading = try load(key)
        guard exclusion(of: reading.record, at: reading.time, receivedAt: receivedAt) != .implausibleTime else {
            return nil
        }
        try revise(key, from: reading, to: reading.record, at: reading.time, receivedAt: receivedAt)
        // Until its context has come it may be none of the kind it looks like.
        if !isWhole, reading.context == nil, decoder.awaitsContext(frame, model: contact.description.model) {
            try setOutbox(key, .withdrawn)
        }
        return .revised(try load(key))
    }

    /// Notes what a device says anew of a record. Its time stays: it is the server's key.
    ///
    /// - Parameters:
    ///   - time: the time of a record that had none, or whose time is judged again.
    ///   - receivedAt: when its frame was received, where the reading says it wrongly.
    mutating func revise(
        _ key: Int64, from reading: Reading, to record: Record, at time: ResolvedTime? = nil,
        receivedAt: Instant? = nil
    ) throws {
        try change(key) { stored in
            stored.columns.baseTime = record.baseTime?.secondsSinceEpoch
            stored.columns.timeOffsetMinutes = record.timeOffsetMinutes.map(Int64.init)
            stored.columns.timeOffsetIsUnknown = record.timeOffsetIsUnknown ? 1 : 0
            stored.columns.recordExclusion = record.exclusion?.code
            stored.content = ReadingContent(of: record, context: reading.context, leftOut: reading.leftOut)
            guard let time else { return }
            stored.columns.set(time)
            let exclusion = exclusion(of: record, at: time, receivedAt: receivedAt ?? reading.receivedAt)
            // One that was moved from the contact's person is somebody's, whatever its slot says.
            let isMoved = exclusion == .otherUser && stored.columns.user != contact.user
            stored.columns.timeExclusion = isMoved ? nil : exclusion?.code
        }
        let revised = try load(key)
        guard
            revised.excluded != reading.excluded || revised.record.status != reading.record.status
                || revised.record.value != reading.record.value
        else { return }
        let state: OutboxState = revised.excluded == nil ? .waiting : .withdrawn
        if revised.excluded == nil {
            try Retracting.cancel(db, key)
        } else {
            try Retracting(db: db, sealing: sealing).retract(key, id: revised.id)
        }
        let requeue = try PreparedStatement(
            db,
            """
            UPDATE outbox SET state = ?, revision = \(OutboxRevision.next), attempts = 0, words = NULL WHERE reading = ?
            """)
        requeue.bind(1, state.rawValue)
        requeue.bind(2, key)
        try requeue.run()
        guard revised.excluded == nil, revised.record.isDelivered else { return }
        // A destination that was named while it was excluded has not been given it.
        let known = try Int64.fetchAll(db, sql: "SELECT destination FROM outbox WHERE reading = ?", arguments: [key])
        // Its row says whose it is: somebody may have moved it since it came.
        let owner = try Int64.fetchOne(db, sql: "SELECT user FROM reading WHERE key = ?", arguments: [key])
        try enqueue(key, revised, of: owner, besides: Set(known))
    }

    /// Sets where a reading stands in the outbox, where it is there and was not delivered.
    func setOutbox(_ key: Int64, _ state: OutboxState) throws {
        let update = try PreparedStatement(
            db,
            "UPDATE outbox SET state = ? WHERE reading = ? AND state IN (\(outbox: .waiting), \(outbox: .withdrawn))")
        update.bind(1, state.rawValue)
        update.bind(2, key)
        try update.run()
    }

    /// Heeds what a context says of its record: whether that is of the kind it looks like.
    func heed(_ context: GlucoseContext, of key: Int64) throws {
        let reading = try load(key)
        let exclusion = reading.record.exclusion(with: context)
        if exclusion != reading.record.exclusion {
            try Retracting(db: db, sealing: sealing).retract(key, id: reading.id)
            try change(key) { $0.columns.recordExclusion = exclusion?.code }
            let withdraw = try PreparedStatement(
                db, "UPDATE outbox SET state = ?, revision = \(OutboxRevision.next) WHERE reading = ?")
            withdraw.bind(1, OutboxState.withdrawn.rawValue)
            withdraw.bind(2, key)
            try withdraw.run()
        } else if reading.excluded == nil {
            try setOutbox(key, .waiting)
        }
    }
}
