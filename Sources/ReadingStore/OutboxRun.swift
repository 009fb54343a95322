import HealthReadings

/// Rows of the outbox whose readings were stored one after the other: one statement changes them all.
///
/// A backlog is mostly one device's, so a batch of it is one run.
struct OutboxRun {
    /// The store's numbers of the readings, without a gap.
    private(set) var readings: ClosedRange<Int64>
    let destination: DestinationKey
    let revision: Int64

    var count: Int { readings.count }

    /// How a statement that changes runs begins.
    ///
    /// A plain `UPDATE` can fail halfway and keep what came before it in the transaction, so SQLite keeps the former pages
    /// of a statement that changes many rows: those of a batch no longer fit its memory, and go to a file outside of the
    /// store's directory. A change that fails here ends its whole transaction anyway.
    static let update = "UPDATE OR ROLLBACK outbox"

    /// The condition on the rows of `outbox`, with parameters 1 to 3; parameter 4 is the revision.
    ///
    /// The plus keeps SQLite from taking an index that begins with the destination: it would walk along every row there.
    static let condition = "reading BETWEEN ?1 AND ?2 AND +destination = ?3"

    /// The runs of what is to be changed; an id that is named twice counts once.
    static func runs(of ids: [OutboxID]) -> [OutboxRun] {
        let sorted = ids.sorted {
            ($0.destination.rawValue, $0.revision, $0.reading) < ($1.destination.rawValue, $1.revision, $1.reading)
        }
        return sorted.reduce(into: []) { runs, id in
            if let last = runs.last, last.destination == id.destination, last.revision == id.revision,
                id.reading <= last.readings.upperBound || id.reading - 1 == last.readings.upperBound
            {
                runs[runs.count - 1].readings = last.readings.lowerBound...id.reading
            } else {
                runs.append(
                    OutboxRun(
                        readings: id.reading...id.reading, destination: id.destination, revision: id.revision))
            }
        }
    }
}

extension PreparedStatement {
    /// Binds the parameters 1 to 4 of ``OutboxRun/condition`` and the revision.
    func bind(_ run: OutboxRun) {
        bind(1, run.readings.lowerBound)
        bind(2, run.readings.upperBound)
        bind(3, run.destination.rawValue)
        bind(4, run.revision)
    }
}
