import GRDB

/// What the journal found out in one transaction and need not ask for in the next; any other write makes it void.
struct JournalMemory: Sendable {
    let holds: HoldRules
    /// The number of the frame's row that comes next.
    let nextFrame: Int64
    /// The number of the reading's row that comes next.
    let nextReading: Int64

    init(holds: HoldRules, numbers: RowNumbers) {
        self.holds = holds
        nextFrame = numbers.frame
        nextReading = numbers.reading
    }

    init(_ db: Database, _ sealing: Sealing) throws {
        holds = try HoldRules(db, sealing)
        nextFrame = try PreparedStatement(db, "SELECT max(key) + 1 FROM frame").firstInt() ?? 1
        nextReading = try PreparedStatement(db, "SELECT max(key) + 1 FROM reading").firstInt() ?? 1
        guard max(nextFrame, nextReading) < Int64.max / 2 else {
            throw StoreError.corrupt(detail: "a row has the number \(max(nextFrame, nextReading) - 1)")
        }
    }
}

/// The numbers of the rows that come next in a transaction. A row's number is part of what its seal is bound to: it is
/// chosen first.
final class RowNumbers {
    fileprivate(set) var frame: Int64
    fileprivate(set) var reading: Int64

    init(_ memory: JournalMemory) {
        frame = memory.nextFrame
        reading = memory.nextReading
    }

    func takeFrame() -> Int64 {
        defer { frame += 1 }
        return frame
    }

    func takeReading() -> Int64 {
        defer { reading += 1 }
        return reading
    }
}
