import GRDB
import HealthReadings

/// What came out of other programs' data: one frame, one reading.
extension Journal {
    /// Stores a sample, unless it is stored already: then nothing changes, however it was written this time.
    ///
    /// - Parameter otherID: what ``otherID(of:from:)`` gives; `nil`: its own id.
    mutating func add(_ sample: ImportedSample, _ frame: Frame, as otherID: ReadingID? = nil) throws -> FrameOutcome {
        let id = otherID ?? sample.id
        guard let found = try reading(id) else { return try add(sample, id, frame) }
        if sample.recordName != nil { return try revise(found.key, found.reading, by: sample, frame) }
        if storedFrame != nil, try !isKept(frame, by: found.key, .record) {
            try attach(keep(frame, .record), to: found.key, .record)
        }
        return .repeated(id)
    }

    /// The id that a sample has here because it was imported as somebody else's and moved to its person since, or with other
    /// digits; `nil` if it is here under its own id, or not at all.
    ///
    /// - Parameter people: as whose it may have been imported.
    func otherID(of sample: ImportedSample, from people: [String]) throws -> ReadingID? {
        guard sample.originalID == nil, try !holds(sample.id) else { return nil }
        for id in sample.otherIDs {
            if try holds(id) ? holds(id, otherwise: sample) : pruned?.owner(of: id) == contact.user { return id }
        }
        for person in people {
            var other = sample
            other.person = person
            for id in [other.id] + other.otherIDs {
                if try holds(id), let found = try reading(id)?.reading, found.person == sample.person,
                    try id == other.id || holds(id, otherwise: sample)
                {
                    return id
                }
                // And was pruned then.
                if try pruned?.owner(of: id) == contact.user { return id }
            }
        }
        return nil
    }

    /// Whether the reading of one of a sample's other ids can be the sample. Of a glucose in the sample's own unit it can't: each of
    /// two scans of a minute has a row of its own.
    private func holds(_ id: ReadingID, otherwise sample: ImportedSample) throws -> Bool {
        guard sample.recordName == nil, case .glucose(let glucose) = sample.value else { return true }
        guard case .glucose(let stored)? = try reading(id)?.reading.record.value else { return false }
        return stored.concentration?.unit != glucose.concentration?.unit
    }

    /// Notes what the other program says anew of a record that it names. An older version than the stored one says nothing; of
    /// versions that don't say how old they are, the last that came is the truth.
    private mutating func revise(
        _ key: Int64, _ reading: Reading, by sample: ImportedSample, _ frame: Frame
    ) throws -> FrameOutcome {
        let isKept = try isKept(frame, by: key, .record)
        if isKept, storedFrame != nil { return .repeated(reading.id) }
        var record = sample.record
        let isOlder = reading.record.imported?.isNewer(than: sample.updatedAt) ?? false
        // What a person has withdrawn stays so, whatever the other program says.
        if reading.excluded == .withdrawn, reading.record.imported?.isRetracted != true {
            record.exclusion = .withdrawn
        }
        let isNews = !isOlder && record != reading.record
        // An earlier version that comes again is kept again: the frames say what was said last.
        if !isKept || isNews { try attach(keep(frame, .record), to: key, .record) }
        guard isNews else { return .repeated(reading.id) }
        // The time of what is delivered stays, since destinations know it by that.
        let isElsewhere = sample.kind.isKept && reading.time.instant != sample.time.instant
        try revise(key, from: reading, to: record, at: isElsewhere ? sample.time.resolved : nil)
        var former = reading.record
        former.imported?.updatedAt = record.imported?.updatedAt
        return former == record ? .repeated(reading.id) : .revised(try load(key))
    }

    /// Stores a sample of which no reading has the id.
    mutating func add(_ sample: ImportedSample, _ id: ReadingID, _ frame: Frame) throws -> FrameOutcome {
        let record = sample.record
        let match: PrunedReadings.Match = try pruned?.find(id, record) ?? .none
        if case .other = match, sample.recordName != nil { revisedPruned[id] = record }
        switch match {
        case .same, .other:
            // Whatever digits it was written with.
            try forgetStoredFrame()
            return .repeated(id)
        case .none: break
        }
        if sample.originalID != nil { try noteImportedIDs() }
        let row = try keep(frame, .record)
        let (_, made) = try insert(
            record, frame, as: row, id: id, clash: 0, time: sample.time.resolved, context: sample.context)
        return .new(made)
    }

    /// Whether a reading has this id, found without reading what it holds.
    func holds(_ id: ReadingID) throws -> Bool {
        let find = statements.findReading
        for candidate in try sealing.candidates(for: id) {
            find.bind(1, candidate)
            guard try find.next() else { continue }
            find.reset()
            return true
        }
        return false
    }
}

/// What another gateway's export brought, and a meter that this gateway reads brings too: one reading.
extension Journal {
    /// Has a reading that came out of another gateway's export become what the meter itself says.
    ///
    /// Its id, its person and its time stay: destinations may have it under them. A time that is more than a day and a zone's
    /// difference from what the meter says is no other gateway's resolution of the same record, and does not stay.
    ///
    /// - Parameter row: the row of the meter's frame.
    mutating func adopt(_ key: Int64, _ reading: Reading, _ record: Record, _ frame: Frame, as row: Int64) throws {
        try attach(row, to: key, .record)
        let record = record.heeding(reading.record)
        let resolved = try record.sensor == nil ? time(of: record, frame) : nil
        let isElsewhen =
            if let ours = resolved?.instant, let theirs = reading.time.instant {
                abs(ours.seconds - theirs.seconds) > Self.otherFormSpan
            } else { false }
        let isSameSeries =
            !isElsewhen && reading.device.provider == contact.description.provider
            && reading.record.sampleTypeCode == record.sampleTypeCode
        // Its key at a server would be another.
        if !isSameSeries { try Retracting(db: db, sealing: sealing).takeBack(key, id: reading.id, staysOfPerson: true) }
        let clash = (0..<Self.mostClashes).first { clash in
            identity(of: record, frame, epoch: epoch, clash: clash)
                .id(device: contact.identity, kind: record.value.kind) == reading.id
        }
        try change(key) { stored in
            stored.columns.device = contact.device
            stored.columns.sequenceEpoch = Int64(epoch)
            stored.columns.clash = Int64(clash ?? 0)
            stored.columns.sequence = record.sequence.map(Int64.init)
            stored.content = ReadingContent(of: record, context: reading.context, leftOut: reading.leftOut)
        }
        if let facts = record.sensor { try insert(facts, of: key) }
        try revise(key, from: reading, to: record, at: isElsewhen ? resolved : nil)
        guard !isSameSeries else { return }
        let revised = try load(key)
        guard revised.excluded == nil, revised.record.isDelivered else { return }
        let known = try Int64.fetchAll(db, sql: "SELECT destination FROM outbox WHERE reading = ?", arguments: [key])
        let owner = try Int64.fetchOne(db, sql: "SELECT user FROM reading WHERE key = ?", arguments: [key])
        try enqueue(key, revised, of: owner, besides: Set(known))
    }

    /// Records that share all but their values: two are rare.
    private static let mostClashes = 16

    /// The same record under the id that another gateway gave it: it had begun the meter's numbers anew more often, or less.
    func fromOtherGateway(_ record: Record, _ frame: Frame) throws -> Match? {
        guard !imports.isEmpty, let baseTime = record.baseTime,
            let time = try time(of: record, frame).instant?.seconds
        else { return nil }
        let names = [contact.description.address?.description, contact.description.serial].compactMap(\.self)
        let measurement = Measurement(value: record.value, sequence: record.sequence, baseTime: baseTime, time: time)
        var (imported, adopted): ([Match], [Match]) = ([], [])
        lazy var own = ownIDs(of: record, frame)
        for (key, reading) in try measured(measurement, on: imports + [contact.device]) {
            if let facts = reading.record.imported {
                if facts.hasOriginalID, facts.device.map(names.contains) == true {
                    imported.append(.existing(key, reading))
                }
            } else if reading.record.sequence == record.sequence, reading.record.userSlot == record.userSlot,
                reading.record.value == record.value, !own.contains(reading.id)
            {
                // The meter has brought it before, and it has kept the other gateway's id.
                adopted.append(.existing(key, reading))
            }
        }
        // Of equal records of a memory each is one of them.
        let place = Int(record.occurrence ?? 0)
        if place < adopted.count { return adopted[place] }
        return imported.first
    }

    /// Every id that this gateway itself gives records like this one: a reading that has one of them is another record.
    private func ownIDs(of record: Record, _ frame: Frame) -> Set<ReadingID> {
        var ids: Set<ReadingID> = []
        let occurrences: [UInt8?] = record.occurrence == nil ? [nil] : (0..<UInt8.max).map { $0 }
        for occurrence in occurrences {
            var each = record
            each.occurrence = occurrence
            for number in 0...epoch {
                for clash in 0..<(record.sequence == nil ? 1 : Self.mostClashes) {
                    ids.insert(
                        identity(of: each, frame, epoch: number, clash: clash)
                            .id(device: contact.identity, kind: record.value.kind))
                }
            }
        }
        return ids
    }

    /// The reading that a meter brought here, and that another gateway's export has under another id.
    func measuredHere(_ sample: ImportedSample) throws -> Reading? {
        guard sample.originalID != nil, let name = sample.sourceDevice, let baseTime = sample.deviceTime?.base else {
            return nil
        }
        let devices = try [DeviceAddress.Kind.public, .random].flatMap { kind -> [Int64] in
            guard let address = DeviceAddress(name, kind: kind) else { return [] }
            return try Int64.fetchAll(
                db,
                sql: """
                    SELECT key FROM device WHERE address = ?1 AND address_kind = ?2
                    UNION SELECT device FROM device_address WHERE address = ?1 AND address_kind = ?2
                    """, arguments: [Int64(bitPattern: address.bits), address.kindCode])
        }
        let measurement = Measurement(
            value: sample.value, sequence: sample.sequence, baseTime: baseTime, time: sample.time.instant.seconds)
        guard !devices.isEmpty else { return nil }
        return try measured(measurement, on: devices).first { $0.reading.record.imported == nil }?.reading
    }

    /// What two gateways agree on if they have read the same record.
    private struct Measurement {
        var value: RecordValue
        var sequence: UInt16?
        var baseTime: WallTime
        /// The resolved time, which they need not agree on, in seconds.
        var time: Int64
    }

    /// The readings of these devices that have this base time and these main values, in the order in which they came.
    private func measured(
        _ measurement: Measurement, on devices: [Int64]
    ) throws -> [(key: Int64, reading: Reading)] {
        let list = devices.map(String.init).joined(separator: ", ")
        let select: PreparedStatement
        if let sequence = measurement.sequence {
            select = try PreparedStatement(
                db,
                """
                SELECT key FROM reading INDEXED BY reading_sequence
                WHERE device IN (\(list)) AND sequence_epoch = 0 AND sequence = ?1 AND base_time = ?2 AND kind = ?3
                UNION ALL SELECT key FROM reading INDEXED BY reading_renumbered
                WHERE device IN (\(list)) AND base_time = ?2 AND sequence = ?1 AND sequence IS NOT NULL AND sequence_epoch > 0
                    AND kind = ?3
                ORDER BY key
                """)
            select.bind(1, Int64(sequence))
            select.bind(2, measurement.baseTime.secondsSinceEpoch)
            select.bind(3, measurement.value.kind.code)
        } else {
            // The clock may have been compared at another moment, and the zone be another.
            select = try PreparedStatement(
                db,
                """
                SELECT key FROM reading INDEXED BY reading_kind_time
                WHERE kind = ?1 AND time BETWEEN ?2 AND ?3 AND base_time = ?4 AND device IN (\(list)) ORDER BY key
                """)
            select.bind(1, measurement.value.kind.code)
            select.bind(2, measurement.time - Self.otherFormSpan)
            select.bind(3, measurement.time + Self.otherFormSpan)
            select.bind(4, measurement.baseTime.secondsSinceEpoch)
        }
        defer { select.reset() }
        var found: [(key: Int64, reading: Reading)] = []
        while try select.next() {
            let reading = try load(select.int(0))
            if reading.record.value.hasMainValues(of: measurement.value) { found.append((select.int(0), reading)) }
        }
        return found
    }
}

extension Reading {
    /// Whether it came out of another gateway's export, with the id that it has there.
    var isTakenOver: Bool { record.imported?.hasOriginalID == true }
}

extension Record {
    /// The record with less and less of what a gateway's export may lack.
    var plainForms: [Record] {
        var forms: [Record] = []
        var plain = self
        if plain.sensor != nil {
            plain.sensor = nil
            forms.append(plain)
        }
        if case .glucose(let glucose) = plain.value, glucose.sampleType != nil || glucose.sampleLocation != nil {
            plain.value = .glucose(GlucoseValue(concentration: glucose.concentration))
            forms.append(plain)
        }
        return forms
    }
}
