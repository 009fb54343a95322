import GRDB
import HealthReadings

/// Whether a record is stored already, and under which id.
extension Journal {
    /// Looks for a record under the id that it has now, and under those that it may have got before.
    func find(_ record: Record, _ frame: Frame) throws -> Match {
        var (clash, other): (Int, ReadingID?) = (0, nil)
        var displaced: UInt64 = 0
        while true {
            let identity = identity(of: record, frame, epoch: epoch, clash: clash)
            let usual = identity.id(device: contact.identity, kind: record.value.kind)
            let id = ReadingID(high: usual.high, low: usual.low &+ displaced)
            guard let found = try reading(id) else {
                switch try pruned?.find(id, record) ?? .none {
                case .same: return .pruned(id)
                case .other where !identity.countsClashes: return .pruned(id)
                case .other:
                    other = other ?? id
                    clash += 1
                    continue
                case .none: break
                }
                if clash == 0,
                    let found = try elsewhere(record, frame) ?? inOtherForm(record, frame)
                        ?? fromOtherGateway(record, frame)
                {
                    return found
                }
                return .none(id, clash: clash, with: other)
            }
            if found.reading.record.value == record.value, found.reading.record.sensor == record.sensor {
                return .existing(found.key, found.reading)
            }
            if record.isSameRecording(as: found.reading.record) { return .existing(found.key, found.reading) }
            if found.reading.isTakenOver, found.reading.record.value.hasMainValues(of: record.value) {
                return .existing(found.key, found.reading)
            }
            // An id that a file names need not be that record's.
            guard found.reading.kind == record.value.kind else {
                other = other ?? id
                displaced += 1
                continue
            }
            // It has taken its mean pressure from another form since, or was read as another model's.
            if !identity.countsClashes {
                return .existing(found.key, found.reading)
            }
            other = other ?? id
            clash += 1
        }
    }

    /// The same record under an id it got earlier: reading an old memory or an old capture again brings nothing.
    private func elsewhere(_ record: Record, _ frame: Frame) throws -> Match? {
        if let found = try underEarlierID(record, as: record, frame) ?? untimed(record, frame) { return found }
        guard contact.description.model != nil, case .record(let plain) = decoder.decode(frame, model: nil),
            identity(of: plain, frame, epoch: epoch, clash: 0) != identity(of: record, frame, epoch: epoch, clash: 0)
        else { return nil }
        return try beforeModel(plain, as: record, frame)
    }

    /// The same record from before a composition got the time of its weight, or a device was known to have recalled what it
    /// sent: it was known by its contact then.
    private func untimed(_ record: Record, _ frame: Frame) throws -> Match? {
        guard
            record.value.kind == .bodyComposition && record.baseTime != nil
                || record.occurrence != nil && record.sequence == nil
        else { return nil }
        var plain = record
        (plain.baseTime, plain.occurrence) = (nil, nil)
        return try found(plain, as: record, frame, epoch: epoch, of: contact.identity)
            ?? underEarlierID(plain, as: record, frame)
    }

    /// The same record as another protocol of the device brought it.
    private func inOtherForm(_ record: Record, _ frame: Frame) throws -> Match? {
        guard decoder.comesByTwoProtocols(model: contact.description.model), let baseTime = record.baseTime,
            let time = try time(of: record, frame).instant?.seconds
        else { return nil }
        // The clock may have been compared anew since, and the zone be another.
        let select = try PreparedStatement(
            db,
            """
            SELECT key FROM reading INDEXED BY reading_kind_time
            WHERE kind = ? AND time BETWEEN ? AND ? AND device = ? AND base_time = ? ORDER BY key
            """)
        select.bind(1, record.value.kind.code)
        select.bind(2, time - Self.otherFormSpan)
        select.bind(3, time + Self.otherFormSpan)
        select.bind(4, contact.device)
        select.bind(5, baseTime.secondsSinceEpoch)
        defer { select.reset() }
        while try select.next() {
            let key = select.int(0)
            let reading = try load(key)
            if record.isSameMeasurement(as: reading.record) { return .existing(key, reading) }
        }
        return try prunedInOtherForm(record, frame)
    }

    /// The same record as another protocol of the device brought it, if it was pruned since.
    ///
    /// Only digests of its values are left, so each form that it may have had is looked for. The id of a form is made
    /// of its time, slot and all values: no other measurement has it.
    private func prunedInOtherForm(_ record: Record, _ frame: Frame) throws -> Match? {
        guard let pruned else { return nil }
        let addresses: [DeviceAddress?] = [contact.identity] + contact.aliases.map { Optional($0.address) }
        for form in record.otherForms {
            let identity = identity(of: form, frame, epoch: epoch, clash: 0)
            for address in addresses {
                let id = identity.id(device: address, kind: form.value.kind)
                if case .none = try pruned.find(id, form) { continue }
                return .pruned(id)
            }
        }
        return nil
    }

    /// How far apart two forms of one record may have been placed, in seconds: a day and a zone's difference.
    static let otherFormSpan: Int64 = 26 * 3600

    /// The same record from the time when the device's model was not known, and its frames were read by the standard
    /// alone.
    private func beforeModel(_ plain: Record, as record: Record, _ frame: Frame) throws -> Match? {
        if plain.sequence != nil, record.sequence == nil, let baseTime = record.baseTime {
            // The number that it had then may have been another.
            return try numbered(baseTime, record, frame)
        }
        let match =
            try found(plain, as: record, frame, epoch: epoch, of: contact.identity)
            ?? underEarlierID(plain, as: record, frame)
        // Two records that the standard cannot tell apart have other octets.
        guard case .existing(let key, _) = match else { return match }
        return try same(frame, of: key, .record) == nil ? nil : match
    }

    /// A reading of this time, value and octets that has a number.
    private func numbered(_ baseTime: WallTime, _ record: Record, _ frame: Frame) throws -> Match? {
        let select = try PreparedStatement(
            db,
            """
            SELECT key FROM reading
            WHERE device = ? AND sequence_epoch <= ? AND sequence IS NOT NULL AND base_time = ? AND kind = ? ORDER BY key
            """)
        select.bind(1, contact.device)
        select.bind(2, Int64(epoch))
        select.bind(3, baseTime.secondsSinceEpoch)
        select.bind(4, record.value.kind.code)
        defer { select.reset() }
        while try select.next() {
            let key = select.int(0)
            let reading = try load(key)
            if reading.record.value == record.value, try same(frame, of: key, .record) != nil {
                return .existing(key, reading)
            }
        }
        return nil
    }

    /// A record under an id it got before two addresses were known to be one device, or before a sequence epoch was begun
    /// that it did not belong to.
    ///
    /// - Parameters:
    ///   - earlier: the record as it was read when it got the id.
    ///   - record: as it is read now.
    private func underEarlierID(_ earlier: Record, as record: Record, _ frame: Frame) throws -> Match? {
        for alias in contact.aliases where alias.deviceEpoch == epoch {
            if let found = try found(earlier, as: record, frame, epoch: alias.ownEpoch, of: alias.address) {
                return found
            }
        }
        // Without a trustworthy time two measurements could agree in number and value by chance.
        guard epoch > 0, earlier.sequence != nil, let baseTime = earlier.baseTime else { return nil }
        for past in try pastEpochs(holding: baseTime, record.baseTime ?? baseTime) {
            if let found = try found(earlier, as: record, frame, inPast: past) { return found }
        }
        assert(
            (try? !(0..<epoch).contains { try found(earlier, as: record, frame, inPast: $0) != nil }) ?? true,
            "an earlier epoch has the record, unnoticed")
        return nil
    }

    /// The earlier epochs that may have a numbered record with one of two base times, the newest first.
    ///
    /// A sensor that begins its numbers anew every two weeks has hundreds of epochs after ten years, and its readings of this
    /// moment are in one of them. The first is always one of them: most devices have no other, and no index has their readings.
    ///
    /// A row has the device, the epoch and the number that its id is made of, and one of the two base times, where this gateway gave
    /// the id to a device with an address. Otherwise each epoch is one that may have it.
    private func pastEpochs(holding baseTime: WallTime, _ other: WallTime) throws -> [Int] {
        guard !hasImportedIDs, contact.identity != nil else { return (0..<epoch).reversed() }
        let select = try PreparedStatement(db, Self.pastEpochsSQL)
        select.bind(1, contact.device)
        select.bind(2, baseTime.secondsSinceEpoch)
        select.bind(3, other.secondsSinceEpoch)
        select.bind(4, Int64(epoch))
        defer { select.reset() }
        var epochs: [Int] = []
        while try select.next() { epochs.append(Int(select.int(0))) }
        return epochs + [0]
    }

    static let pastEpochsSQL =
        ["reading", "pruned"].map { table in
            """
            SELECT sequence_epoch FROM \(table) INDEXED BY \(table)_renumbered
            WHERE device = ?1 AND base_time IN (?2, ?3) AND sequence IS NOT NULL AND sequence_epoch > 0 AND sequence_epoch < ?4
            """
        }.joined(separator: " UNION ") + " ORDER BY sequence_epoch DESC"

    /// Indexes what has a number in another epoch than a device's first. Whether another gateway gave ids was not noted before: it
    /// may have, where anything was imported.
    static func indexRenumbered(_ db: Database) throws {
        try db.execute(
            sql: """
                CREATE INDEX reading_renumbered ON reading (device, base_time) WHERE sequence IS NOT NULL AND sequence_epoch > 0;
                CREATE INDEX pruned_renumbered ON pruned (device, base_time) WHERE sequence IS NOT NULL AND sequence_epoch > 0;
                """)
        let imported = "SELECT EXISTS (SELECT 1 FROM device WHERE model = ? AND address IS NULL)"
        if try Bool.fetchOne(db, sql: imported, arguments: [ImportedSample.model]) ?? false {
            try ReadingStore.set(db, importedIDs, lines: ["1"])
        }
    }

    /// What has the id that a record had in an earlier epoch, if it is that record.
    private func found(_ earlier: Record, as record: Record, _ frame: Frame, inPast past: Int) throws -> Match? {
        let id = identity(of: earlier, frame, epoch: past, clash: 0)
            .id(device: contact.identity, kind: earlier.value.kind)
        if let found = try reading(id), [earlier, record].contains(found.reading.record),
            found.reading.excluded != .implausibleTime
        {
            return .existing(found.key, found.reading)
        }
        if case .same? = try pruned?.find(id, earlier) { return .pruned(id) }
        return nil
    }

    /// What has the id that a record got as a device's with this address in this epoch, if it has the record's value.
    private func found(
        _ earlier: Record, as record: Record, _ frame: Frame, epoch: Int, of address: DeviceAddress?
    ) throws -> Match? {
        let id = identity(of: earlier, frame, epoch: epoch, clash: 0).id(device: address, kind: earlier.value.kind)
        if let found = try reading(id), [earlier.value, record.value].contains(found.reading.record.value) {
            return .existing(found.key, found.reading)
        }
        if case .same? = try pruned?.find(id, earlier) { return .pruned(id) }
        return nil
    }

    func identity(of record: Record, _ frame: Frame, epoch: Int, clash: Int) -> ReadingIdentity {
        ReadingIdentity(
            of: record, serial: contact.description.serial, epoch: epoch, frame: frame,
            contactStart: contact.startedAt, clash: clash)
    }
}
