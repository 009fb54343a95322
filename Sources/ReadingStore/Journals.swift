import GRDB

/// The journals of contacts whose frames are looked at again, within one transaction.
struct Journals {
    private let judgement: Judgement
    private let memory: JournalMemory
    private let numbers: RowNumbers
    private var made: [Int64: Journal] = [:]

    init(_ judgement: Judgement) throws {
        self.judgement = judgement
        memory = try JournalMemory(judgement.db, judgement.sealing)
        numbers = RowNumbers(judgement.db, memory, now: judgement.now)
    }

    /// Does something with the journal of a contact.
    ///
    /// - Parameter epoch: the contact's sequence epoch.
    mutating func with<Value>(
        _ contact: Int64, epoch: Int, _ body: (inout Journal) throws -> Value
    ) throws -> Value {
        let (db, sealing) = (judgement.db, judgement.sealing)
        var journal =
            try made.removeValue(forKey: contact)
            ?? Journal(
                db, contact: ContactState(db, sealing, contact: contact), epoch: epoch, decoder: judgement.decoder,
                sealing: sealing, pruned: judgement.pruned, memory: memory, numbers: numbers)
        defer { made[contact] = journal }
        return try body(&journal)
    }
}
