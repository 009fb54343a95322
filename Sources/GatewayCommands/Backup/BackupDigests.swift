import Crypto
import Foundation
import GatewaySettings
import HealthReadings

/// What backups were when they were last read whole: their SHA-256 by their names, in a file of the state directory.
///
/// A disk that loses a bit says nothing of it. To compare a digest takes no passphrase, and less time than to open a backup.
struct BackupDigests: Sendable {
    private let path: String

    init(in stateDirectory: String) { path = stateDirectory + "/backup-digests.json" }

    /// The digest that a backup had; `nil` for one that was never read here.
    func digest(of name: String) -> String? { all[name] }

    /// Writes down a backup's digest, and drops the digests of backups that are gone.
    ///
    /// If that fails, the next check opens the whole backup instead.
    func keep(_ digest: String, of name: String, among names: some Sequence<String>) {
        var kept = all
        kept[name] = digest
        let there = Set(names).union([name])
        kept = kept.filter { there.contains($0.key) }
        guard let octets = try? JSONEncoder().encode(kept) else { return }
        try? PrivateFile.write(Array(octets), to: path)
    }

    private var all: [String: String] {
        OrdinaryFile.contents(path).flatMap { try? JSONDecoder().decode([String: String].self, from: $0) } ?? [:]
    }

    /// The SHA-256 of a file's octets in hexadecimal digits.
    static func digest(ofFileAt path: String) throws -> String {
        let file = try FileHandle(forReadingFrom: URL(fileURLWithPath: path))
        defer { try? file.close() }
        var hash = SHA256()
        while let octets = try file.read(upToCount: 1 << 20), !octets.isEmpty { hash.update(data: octets) }
        var digits = ""
        for octet in hash.finalize() {
            if octet < 16 { digits += "0" }
            digits += String(octet, radix: 16)
        }
        return digits
    }
}
