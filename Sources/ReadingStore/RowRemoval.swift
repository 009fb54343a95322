import GRDB

/// Removes readings and frames with everything that refers to them.
struct RowRemoval {
    let db: Database

    /// Removes a reading with all that is its own; a frame goes with the last of its readings.
    ///
    /// - Returns: how many frames that were.
    func removeReading(_ reading: Int64) throws -> Int {
        let own = try PreparedStatement(db, "SELECT frame FROM reading_frame WHERE reading = ?")
        own.bind(1, reading)
        var frames: [Int64] = []
        while try own.next() { frames.append(own.int(0)) }
        for table in [
            "outbox WHERE reading", "sensor_record WHERE reading", "reading_frame WHERE reading", "reading WHERE key",
        ] {
            let delete = try PreparedStatement(db, "DELETE FROM \(table) = ?")
            delete.bind(1, reading)
            try delete.run()
        }
        let isLeft = try PreparedStatement(db, "SELECT 1 FROM reading_frame WHERE frame = ? LIMIT 1")
        return try frames.reduce(0) { count, frame in
            isLeft.bind(1, frame)
            return try isLeft.firstInt() == nil ? count + removeFrame(frame) : count
        }
    }

    /// Removes a frame that no reading has.
    ///
    /// - Returns: how many that were.
    func removeFrame(_ frame: Int64) throws -> Int {
        let context = try PreparedStatement(db, "DELETE FROM waiting_context WHERE frame = ?")
        context.bind(1, frame)
        try context.run()
        let delete = try PreparedStatement(db, "DELETE FROM frame WHERE key = ?")
        delete.bind(1, frame)
        return try delete.run()
    }
}
