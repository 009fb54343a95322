import Crypto
import Dispatch
import Foundation
import GRDB

/// What goes before the database in an export.
struct ExportManifest: Codable {
    /// The keys that the database's rows are sealed under, 32 octets in base64 each.
    var keys: [String]
    /// The key of pruned readings where the database does not hold it, 32 octets in base64.
    var pruneKey: String?
}

/// A copy of the database on its way into an export.
enum StoreExport {
    /// Hidden, and like no name that a person gives an export.
    private static let prefix = ".exporting-"

    static func newPath(in directory: String) -> String { "\(directory)/\(prefix)\(UUID().uuidString)" }

    /// Removes a copy, and what SQLite puts beside it.
    static func remove(_ path: String) {
        for suffix in ["", "-journal", "-wal", "-shm"] { unlink(path + suffix) }
    }

    /// Removes what exports that were killed have left.
    static func clear(_ directory: String) throws {
        for name in try FileManager.default.contentsOfDirectory(atPath: directory) where name.hasPrefix(prefix) {
            let path = directory + "/" + name
            guard unlink(path) == 0 || errno == ENOENT else { throw StoreFiles.failure(path) }
        }
    }
}

extension ReadingStore {
    /// Hands on the whole store as it is now, in order, to whoever writes it somewhere: devices, people, frames,
    /// readings, what waits and what was delivered, sealed under a passphrase (``ExportFormat``).
    ///
    /// It takes as much room again in the state directory while it runs; the store goes on meanwhile. An export that is
    /// stopped leaves nothing, and begins anew when it is asked for again.
    ///
    /// - Parameters:
    ///   - passphrase: opens the export again; see ``ExportFormat``.
    ///   - progress: called now and then; first with how many bytes there will be.
    ///   - write: is given some 100 kB at a time, and waited for.
    /// - Throws: ``ExportError/passphraseTooShort``, ``StoreError/keyMissing(path:)``, ``StoreError/diskFull``,
    ///   ``StoreError/tooLittleSpace(path:needed:free:)``, `CancellationError`, and what `write` throws.
    public func export(
        passphrase: String, progress: @escaping StoreProgress.Handler = { _ in },
        to write: ([UInt8]) async throws -> Void
    ) async throws {
        var sealer = try ExportSealer(passphrase: passphrase)
        try await requireKeys()
        let size = try await usedBytes()
        try DiskSpace.require(size, at: directory)
        progress(StoreProgress(.copying, of: size))
        let path = StoreExport.newPath(in: directory)
        defer { StoreExport.remove(path) }
        // A change of keys may end while the copy is made.
        let before = try keysInUse()
        let needed = try await copy(to: path) { progress(StoreProgress(.copying, done: $0, of: size)) }
        let manifest = try manifest(of: before + keysInUse(), needed)
        try await write(sealer.header)
        try await write(sealer.add(Array(JSONEncoder().encode(manifest)) + [UInt8(ascii: "\n")]))
        let file = try Self.naming { try FileHandle(forReadingFrom: URL(fileURLWithPath: path)) }
        defer { try? file.close() }
        var told = StoreProgress(.exporting, of: Int64(try Self.naming { try file.seekToEnd() }))
        try Self.naming { try file.seek(toOffset: 0) }
        while let octets = try Self.naming({ try file.read(upToCount: 1 << 20) }), !octets.isEmpty {
            try Task.checkCancellation()
            try await write(sealer.add(octets))
            told.done += Int64(octets.count)
            progress(told)
        }
        try await write(sealer.end())
    }

    /// Gives the file operations of Foundation the store's errors.
    private static func naming<Value>(_ body: () throws -> Value) throws -> Value {
        do { return try body() } catch { throw StoreError.mapping(error) }
    }

    private func keysInUse() throws -> [SymmetricKey] {
        try sealing.inUse == [0] ? [] : keyFile.read() ?? []
    }

    /// The keys that open the copy, for its first line: under themselves they would be of no use elsewhere.
    private func manifest(of keys: [SymmetricKey], _ needed: KeysOfCopy) throws -> ExportManifest {
        let opening = try needed.checks.map { check in
            guard let key = keys.last(where: { KeyFile.check($0) == check }) else {
                throw StoreError.keyWrong(path: keyFile.source.path)
            }
            return key.base64
        }
        return ExportManifest(
            keys: opening, pruneKey: needed.hasPruneKey ? nil : PruneKey.read(in: directory)?.base64)
    }

    /// Copies the database as of one commit, without the octets of rows that have gone.
    ///
    /// - Parameter progress: called now and then with how many bytes the copy has.
    private func copy(to path: String, progress: @escaping @Sendable (Int64) -> Void) async throws -> KeysOfCopy {
        let stopSwitch = StopSwitch {
            var status = stat()
            if stat(path, &status) == 0 { progress(Int64(status.st_size)) }
        }
        let source = directory + "/" + StoreFiles.databaseName
        let result = await withTaskCancellationHandler {
            await withCheckedContinuation {
                (continuation: CheckedContinuation<Result<KeysOfCopy, any Error>, Never>) in
                // It takes as long as the disk does: no thread of the pool's may wait for that.
                DispatchQueue.global().async {
                    continuation.resume(returning: Result { try Self.copy(source, to: path, stopSwitch) })
                }
            }
        } onCancel: {
            stopSwitch.stop()
        }
        do { return try result.get() } catch { throw StoreError.mapping(error) }
    }

    private static func copy(_ source: String, to path: String, _ stopSwitch: StopSwitch) throws -> KeysOfCopy {
        do {
            try fill(path, from: source, readOnly: false, stopSwitch)
        } catch let error as DatabaseError where error.resultCode == .SQLITE_CORRUPT {
            // It may be an index alone.
            StoreExport.remove(path)
            try fill(path, from: source, readOnly: true, stopSwitch)
        }
        var copyConfiguration = Configuration()
        harden(&copyConfiguration)
        let copy = try DatabaseQueue(path: path, configuration: copyConfiguration)
        defer { try? copy.close() }
        return try copy.inDatabase { db in
            try KeysOfCopy(
                checks: Set(KeyList(db).entries.filter { $0.number > 0 }.map(\.check)).sorted(),
                hasPruneKey: !lines(db, pruneKeySetting).isEmpty)
        }
    }
}

extension ReadingStore {
    /// Has a connection of its own write the copy: those of the pool are kept from writing anything, or write for the store.
    ///
    /// - Parameter readOnly: whether the connection is opened to read only. SQLite then forgets CHECK constraints, takes the
    ///   tables of the copy for others and fills them row by row, which takes three times as long. Of the tables that have
    ///   such constraints, readings among them, no index is read then: the copy's are made anew.
    private static func fill(_ path: String, from source: String, readOnly: Bool, _ stopSwitch: StopSwitch) throws {
        try StoreFiles.prepareDatabase(path)
        var configuration = Configuration()
        harden(&configuration)
        configuration.readonly = readOnly
        let queue = try DatabaseQueue(path: source, configuration: configuration)
        defer { try? queue.close() }
        try queue.inDatabase { db in
            // Nobody needs the copy after a power cut.
            try db.execute(sql: "PRAGMA synchronous = OFF")
            try stopSwitch.watching(db) { try db.execute(sql: "VACUUM INTO ?", arguments: [path]) }
        }
    }
}

/// What has to be known to read a copy.
private struct KeysOfCopy {
    /// Of the keys that its rows are sealed under.
    let checks: [String]
    let hasPruneKey: Bool
}
