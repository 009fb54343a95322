import Crypto
import Foundation
import GatewaySettings
import HealthReadings
import Synchronization

/// What is known of backups by their names, in a file of the state directory: their SHA-256 when they were last read whole, which of
/// them this gateway made, and which are on another disk than the store.
///
/// A disk that loses a bit says nothing of it. To compare a digest takes no passphrase, and less time than to open a backup.
struct BackupRecords: Sendable {
    private struct Record: Codable {
        var digest: String
        /// Whether this gateway made it. Another one may have the same id and use the same directory: a store that was made of a
        /// backup has the id of the gateway that made the backup.
        var isOwn: Bool
        /// The directory that this gateway made it in, if that was on another disk than the store.
        var otherDisk: String?
        /// Where that disk was mounted; `nil` also if an earlier version has made it.
        var mountPoint: String?
    }

    private static let turn = Mutex(())
    private let path: String

    init(in stateDirectory: String) { path = stateDirectory + "/backup-digests.json" }

    /// The digest that a backup had; `nil` for one that was never read here.
    func digest(of name: String) -> String? { all[name]?.digest }

    /// The names of the backups that this gateway made.
    var own: Set<String> { Set(all.filter(\.value.isOwn).keys) }

    /// The backups that this gateway made in a directory while that was on another disk than the store.
    func made(onOtherDisk directory: String) -> Set<String> {
        Set(all.filter { $0.value.isOwn && $0.value.otherDisk == directory }.keys)
    }

    /// Where the disk was mounted on which a directory was while this gateway made backups in it.
    func mountPoints(of directory: String) -> Set<String> {
        Set(all.values.filter { $0.isOwn && $0.otherDisk == directory }.compactMap(\.mountPoint))
    }

    /// Writes down a backup's digest, and drops the digests of backups that are gone.
    ///
    /// - Parameters:
    ///   - digest: the SHA-256.
    ///   - name: the backup.
    ///   - isOwn: whether this gateway makes it now. If not, what was known of that stays, and so does what is known of the
    ///     other backups that this gateway made: the newest may not have its name yet.
    ///   - otherDisk: the directory that it is in, if that is on another disk than the store. If it is not made now, what was known
    ///     of that stays.
    ///   - mountPoint: where that disk is mounted.
    ///   - names: the backups that there are.
    /// - Throws: `PrivateFile.Failure`: the next check opens the whole backup instead.
    func keep(
        _ digest: String, of name: String, isOwn: Bool = false, otherDisk: String? = nil, mountPoint: String? = nil,
        among names: some Sequence<String>
    ) throws {
        try Self.turn.withLock { _ in
            var kept = all
            let former = kept[name]
            kept[name] = Record(
                digest: digest, isOwn: isOwn || former?.isOwn == true, otherDisk: isOwn ? otherDisk : former?.otherDisk,
                mountPoint: isOwn ? mountPoint : former?.mountPoint)
            let there = Set(names).union([name])
            kept = kept.filter { there.contains($0.key) || !isOwn && $0.value.isOwn }
            try PrivateFile.write(Array(JSONEncoder().encode(kept)), to: path)
        }
    }

    private var all: [String: Record] {
        OrdinaryFile.contents(path).flatMap { try? JSONDecoder().decode([String: Record].self, from: $0) } ?? [:]
    }

    /// The SHA-256 of a file's octets in hexadecimal digits.
    static func digest(ofFileAt path: String) throws -> String {
        let file = try FileHandle(forReadingFrom: URL(fileURLWithPath: path))
        defer { try? file.close() }
        var hash = SHA256()
        while let octets = try file.read(upToCount: 1 << 20), !octets.isEmpty { hash.update(data: octets) }
        return hash.finalize().hexadecimal()
    }
}
