import HealthReadings

/// What came out of other programs' data: one frame, one reading.
extension Journal {
    /// Stores a sample, unless it is stored already: then nothing changes, however it was written this time.
    mutating func add(_ sample: ImportedSample, _ frame: Frame) throws -> FrameOutcome {
        let id = sample.id
        guard let found = try reading(id) else { return try add(sample, id, frame) }
        if storedFrame != nil, try !isKept(frame, by: found.key, .record) {
            try attach(keep(frame, .record), to: found.key, .record)
        }
        return .repeated(id)
    }

    /// Stores a sample of which no reading has the id.
    mutating func add(_ sample: ImportedSample, _ id: ReadingID, _ frame: Frame) throws -> FrameOutcome {
        let record = sample.record
        if try isPruned(id, record) {
            try forgetStoredFrame()
            return .repeated(id)
        }
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

    /// Whether the content of a reading with this id was removed, whatever digits it was written with.
    func isPruned(_ id: ReadingID, _ record: Record) throws -> Bool {
        switch try pruned?.find(id, record) ?? .none {
        case .same, .other: true
        case .none: false
        }
    }
}
