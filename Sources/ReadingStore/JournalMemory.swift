import GRDB
import HealthReadings

/// What the journal found out in one transaction and need not ask for in the next; any other write makes it void.
struct JournalMemory: Sendable {
    let holds: HoldRules
    /// The rows that stand for what came out of other programs' data.
    let imports: [Int64]
    /// Whether readings may have ids that another gateway gave them.
    let hasImportedIDs: Bool
    /// The number of the frame's row that comes next.
    let nextFrame: Int64
    /// The number of the reading's row, or of the change, that comes next.
    let nextReading: Int64
    /// The second that was noted last of when readings came.
    let notedSecond: Int64?

    init(of journal: Journal) {
        let numbers = journal.numbers
        (holds, imports) = (journal.holds, journal.imports)
        hasImportedIDs = journal.hasImportedIDs
        nextFrame = numbers.frame
        nextReading = numbers.reading
        notedSecond = numbers.notedSecond
    }

    /// - Parameter holds: the rules, where they are known.
    init(_ db: Database, _ sealing: Sealing, holds known: HoldRules? = nil) throws {
        holds = try known ?? HoldRules(db, sealing)
        imports = try Int64.fetchAll(
            db.cachedStatement(sql: "SELECT key FROM device WHERE model = ? AND address IS NULL"),
            arguments: [ImportedSample.model])
        hasImportedIDs = try !ReadingStore.lines(db, Journal.importedIDs).isEmpty
        nextFrame = try PreparedStatement(db, "SELECT max(key) + 1 FROM frame").firstInt() ?? 1
        nextReading = try Changes(db: db).newest() + 1
        notedSecond = try Changes(db: db).newestNotedSecond()
        guard max(nextFrame, nextReading) < Int64.max / 2 else {
            throw StoreError.corrupt(detail: "a row has the number \(max(nextFrame, nextReading) - 1)")
        }
    }
}

/// The numbers of the rows that come next in a transaction. A row's number is part of what its seal is bound to: it is
/// chosen first.
///
/// Readings and changes of readings share one sequence (see ``Changes``).
final class RowNumbers {
    fileprivate(set) var frame: Int64
    fileprivate(set) var reading: Int64
    fileprivate(set) var notedSecond: Int64?
    /// The first number of this transaction: nobody has seen what is stored under it or a later one.
    let first: Int64
    private let db: Database
    private let second: Int64

    /// - Parameter now: the time of the transaction.
    init(_ db: Database, _ memory: JournalMemory, now: Instant) {
        self.db = db
        frame = memory.nextFrame
        reading = memory.nextReading
        first = memory.nextReading
        notedSecond = memory.notedSecond
        second = now.seconds
    }

    /// For changes alone.
    init(_ db: Database, now: Instant) throws {
        self.db = db
        frame = 0
        reading = try Changes(db: db).newest() + 1
        first = reading
        notedSecond = try Changes(db: db).newestNotedSecond()
        second = now.seconds
    }

    func takeFrame() -> Int64 {
        defer { frame += 1 }
        return frame
    }

    /// The number of a new reading, or of a change.
    func takeReading() throws -> Int64 {
        if notedSecond != second {
            try Changes(db: db).noteSecond(second, from: reading)
            notedSecond = second
        }
        defer { reading += 1 }
        return reading
    }
}
