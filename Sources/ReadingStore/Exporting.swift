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

extension ReadingStore {
    /// Hands on the whole store as it is now, in order, to whoever writes it somewhere: devices, people, frames,
    /// readings, what waits and what was delivered, sealed under a passphrase (``ExportFormat``).
    ///
    /// It takes as much room again in the state directory while it runs; the store goes on meanwhile.
    ///
    /// - Parameter write: is given some 100 kB at a time, and waited for.
    /// - Throws: ``ExportError/passphraseTooShort``, ``StoreError/keyMissing(path:)``, ``StoreError/diskFull``, and what
    ///   `write` throws.
    public func export(passphrase: String, to write: ([UInt8]) async throws -> Void) async throws {
        var sealer = try ExportSealer(passphrase: passphrase)
        try await requireKeys()
        let path = directory + "/export-\(UUID().uuidString).sqlite"
        defer { for suffix in ["", "-journal", "-wal", "-shm"] { unlink(path + suffix) } }
        try await copy(to: path)
        try await write(sealer.header)
        try await write(sealer.add(manifest()))
        let file = try FileHandle(forReadingFrom: URL(fileURLWithPath: path))
        defer { try? file.close() }
        while let octets = try file.read(upToCount: 1 << 20), !octets.isEmpty {
            try Task.checkCancellation()
            try await write(sealer.add(octets))
        }
        try await write(sealer.end())
    }

    /// The keys, in one line: a copy of them that were sealed under themselves would be of no use elsewhere.
    private func manifest() throws -> [UInt8] {
        let keys = sealing.current > 0 || sealing.inUse.contains { $0 > 0 } ? try keyFile.read() ?? [] : []
        let pruneKey = sealing.current > 0 ? nil : PruneKey.read(in: directory)
        let manifest = ExportManifest(keys: keys.map(\.base64), pruneKey: pruneKey?.base64)
        return try Array(JSONEncoder().encode(manifest)) + [UInt8(ascii: "\n")]
    }

    /// Copies the database as of one commit, without the octets of rows that have gone.
    private func copy(to path: String) async throws {
        let result = await withCheckedContinuation {
            (continuation: CheckedContinuation<Result<Void, any Error>, Never>) in
            // It takes as long as the disk does: no thread of the pool's may wait for that.
            DispatchQueue.global().async { [self] in
                continuation.resume(
                    returning: Result {
                        try StoreFiles.prepareDatabase(path)
                        let copy = try DatabaseQueue(path: path)
                        try pool.backup(to: copy)
                        try copy.writeWithoutTransaction { db in
                            try db.execute(sql: "PRAGMA journal_mode = DELETE; VACUUM")
                        }
                        try copy.close()
                    })
            }
        }
        do { try result.get() } catch { throw StoreError.mapping(error) }
    }
}

extension SymmetricKey {
    var base64: String { withUnsafeBytes { Data($0).base64EncodedString() } }

    init?(base64: String) {
        guard let data = Data(base64Encoded: base64), data.count == 32 else { return nil }
        self.init(data: data)
    }
}
