import Crypto
import Foundation
import GRDB
import HealthReadings
import Logging
import Synchronization

/// What pruning has removed, and what it has left.
public struct Pruning: Sendable, Hashable {
    /// Readings measured before this instant were looked at.
    public var olderThan: Instant
    /// Readings removed.
    public var readings = 0
    /// Frames removed with them.
    public var frames = 0
    /// Older readings that stay because they wait for the server.
    public var waiting = 0
    /// Older readings that stay because the server refused them.
    public var refused = 0
    /// Older readings that stay because they are never delivered.
    public var excluded = 0
}

extension ReadingStore {
    /// Removes the content of readings that the server has and that were measured longer than `age` ago.
    ///
    /// Only what was delivered goes, and trend values of a sensor that gave way to its history: what waits, what was
    /// refused and what is never delivered stays. Frames, contexts and values go; that the reading was there stays
    /// known, without its value, so that a device that is read from its beginning brings none of it back and its
    /// sequence numbers go on. A scan's frame goes with the last of its readings.
    ///
    /// Readings go in transactions of some hundred. After the last the files are written anew, as
    /// ``eraseUser(_:retracts:except:rewritesFiles:progress:)`` does it; where that is cut short, it is done when the store is opened next.
    ///
    /// - Parameters:
    ///   - age: counted from now.
    ///   - progress: called after each transaction with how many rows of readings were looked at.
    /// - Throws: ``lockedBecause`` if the key is missing; ``StoreError/pruneKeyMissing(path:)``,
    ///   ``StoreError/inputOutput(detail:)``, ``StoreError/diskFull``; ``StoreError/tooLittleSpace(path:needed:free:)`` where the
    ///   readings are gone and the files could not be written anew; `CancellationError`: what is left goes when it is
    ///   called again.
    @discardableResult
    public func prune(
        olderThan age: Duration, progress: @escaping StoreProgress.Handler = { _ in }
    ) async throws -> Pruning {
        let cutoff = now().advanced(by: .zero - age)
        try await requireKeys()
        let key = try await requirePruneKey()
        var pruning = Pruning(olderThan: cutoff)
        let keys = try await keyRange(of: "reading")
        let walk: Result<Void, any Error>
        do {
            try await prune(.everything, before: cutoff, key, notedAs: nil) { batch in
                pruning.readings += batch.readings
                pruning.frames += batch.frames
                if let last = batch.last { progress(keys.progress(.removing, at: last.key)) }
            }
            walk = .success(())
        } catch { walk = .failure(error) }
        // Also if it was stopped, or failed, on its way.
        if pruning.readings > 0 { try await endPruning() }
        try walk.get()
        try await finishErasure(progress: progress)
        return try await kept(pruning)
    }

    /// Removes what was measured before an instant, a batch after the other.
    ///
    /// - Parameter noted: the part that it is counted as where the owner's settings let go of it; `nil`: somebody asked for
    ///   it, and the files are written anew afterwards, or by the next start.
    func prune(
        _ part: PruneBatch.Part, before cutoff: Instant, _ key: SymmetricKey, notedAs noted: Retention.Part?,
        _ removed: (PruneBatch) -> Void
    ) async throws {
        var last: PruneBatch.Position?
        while true {
            let (after, now) = (last, now())
            let batch = try await write(.prune) { [sealing] db in
                let batch = try PruneBatch.run(
                    db, part, before: cutoff, after: after, key: key, rows: RowReader(db, sealing),
                    numbers: RowNumbers(db, now: now))
                guard batch.readings > 0 else { return batch }
                if let noted {
                    try Thinning.note(db, noted, before: cutoff, readings: batch.readings, frames: batch.frames)
                } else {
                    try Self.markUnfinished(db)
                }
                return batch
            } committed: { [self] _ in
                // A contact that goes on must not join a context to what is gone.
                contacts.withLock { $0 = [:] }
            }
            guard let newest = batch.last else { return }
            last = newest
            removed(batch)
            // Readers and other writers have their turn between two transactions.
            try Task.checkCancellation()
        }
    }

    /// Tells those who read changes that readings went.
    func endPruning() async throws {
        try await write(.prune) { db in try Changes(db: db).forgetSeconds() }
        publishRemoval()
    }

    private func kept(_ pruning: Pruning) async throws -> Pruning {
        try await read { db in
            func count(_ condition: String) throws -> Int {
                try Int.fetchOne(
                    db,
                    sql: """
                        SELECT count(*) FROM reading AS r
                        WHERE coalesce(r.time, r.received_at / 1000000) < ? AND \(condition)
                        """, arguments: [PruneBatch.seconds(before: pruning.olderThan)]) ?? 0
            }
            var pruning = pruning
            let queued = try PruneBatch.queued(db)
            pruning.waiting = try count("\(queued) AND o.state = \(outbox: .waiting))")
            pruning.refused = try count("\(queued) AND o.state = \(outbox: .refused))")
            pruning.excluded = try count("NOT \(queued) AND o.state <> \(outbox: .withdrawn))")
            return pruning
        }
    }

    // MARK: The key

    private static let check = "prune.check"

    /// The setting with the key where content is sealed, and the key with it; else it is in a file of its own.
    static let pruneKeySetting = "prune.key"

    /// Takes the key that pruned readings are recognised by into use; without it they are not, and that is said.
    func loadPruneKey() async throws {
        let sealed = try await read { [sealing] db in
            try Self.lines(db, Self.pruneKeySetting).first.flatMap { Data(base64Encoded: $0) }
                .map { SymmetricKey(data: try sealing.open(Array($0), at: .pruneKey)) }
        }
        let key = sealed ?? PruneKey.read(in: directory)
        let (isNeeded, check) = try await read { db in
            (
                try Bool.fetchOne(db, sql: "SELECT EXISTS (SELECT 1 FROM pruned)") ?? false,
                try String.fetchOne(db, sql: "SELECT value FROM setting WHERE name = ?", arguments: [Self.check])
            )
        }
        if let key, check == nil || PruneKey.check(key) == check {
            pruneKey.withLock { $0 = key }
            guard sealing.current > 0 else { return }
            if sealed == nil { try await write(.setting) { [self] db in try keep(key, db) } }
            // A power cut may have brought the file back.
            try dropPruneKeyFile()
        } else if isNeeded {
            logger.warning(
                "pruned readings are not recognised and may come back: \(PruneKey.fileName) belongs to another store")
        }
    }

    /// Destroys the key where nothing is left that it recognises.
    public func destroyPruneKey() async throws {
        let path = PruneKey.path(in: directory)
        let isUnused = try await write(.setting) { db in
            guard try Bool.fetchOne(db, sql: "SELECT EXISTS (SELECT 1 FROM pruned)") == false else { return false }
            try Self.set(db, Self.check, lines: [])
            try Self.set(db, Self.pruneKeySetting, lines: [])
            return true
        }
        guard isUnused else { return }
        pruneKey.withLock { $0 = nil }
        guard unlink(path) == 0 || errno == ENOENT else { throw StoreFiles.failure(path) }
        try StoreFiles.synchronise(directory: directory)
    }

    /// The key, made where nothing was pruned yet.
    func requirePruneKey() async throws -> SymmetricKey {
        if let key = pruneKey.withLock(\.self) { return try await remember(key) }
        let isNeeded = try await read { db in try Bool.fetchOne(db, sql: "SELECT EXISTS (SELECT 1 FROM pruned)") }
        guard isNeeded == false else { throw StoreError.pruneKeyMissing(path: PruneKey.path(in: directory)) }
        return try await remember(sealing.current > 0 ? SymmetricKey(size: .bits256) : PruneKey.make(in: directory))
    }

    /// Keeps the key where it belongs: sealed in the database, or, where content is in the clear, in its file.
    func keep(_ key: SymmetricKey, _ db: Database) throws {
        guard sealing.current > 0 else {
            try PruneKey.write(key, in: directory)
            return try Self.set(db, Self.pruneKeySetting, lines: [])
        }
        let blob = try sealing.seal(key.withUnsafeBytes(Array.init), at: .pruneKey)
        try Self.set(db, Self.pruneKeySetting, lines: [Data(blob).base64EncodedString()])
    }

    /// Removes the key's file where the database has the key.
    func dropPruneKeyFile() throws {
        guard sealing.current > 0 else { return }
        let path = PruneKey.path(in: directory)
        guard unlink(path) == 0 else {
            if errno == ENOENT { return }
            throw StoreFiles.failure(path)
        }
        try StoreFiles.synchronise(directory: directory)
    }

    private func remember(_ key: SymmetricKey) async throws -> SymmetricKey {
        let check = PruneKey.check(key)
        try await write(.setting) { [self] db in
            try Self.set(db, Self.check, lines: [check])
            if sealing.current > 0 { try keep(key, db) }
        }
        pruneKey.withLock { $0 = key }
        return key
    }
}
