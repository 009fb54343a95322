import Crypto
import Foundation

/// The key under which readings that were pruned are recognised when their device sends them again.
///
/// Where the store's content is sealed, so is the key, in the database; else it stands in a file of its own: an identity of a cuff's reading is a hash over its values too, of which there are few
/// enough to try them all. Whoever has the database and not this file cannot.
enum PruneKey {
    static let fileName = "pruned.key"

    static func path(in directory: String) -> String { directory + "/" + fileName }

    /// The key; nil where there is none, or none that is whole.
    static func read(in directory: String) -> SymmetricKey? {
        guard let data = FileManager.default.contents(atPath: path(in: directory)), data.count == 32 else { return nil }
        return SymmetricKey(data: data)
    }

    /// Makes a key: whole and durable, mode 0600, before anything is recognised by it.
    static func make(in directory: String) throws -> SymmetricKey {
        let key = SymmetricKey(size: .bits256)
        try write(key, in: directory)
        return key
    }

    static func write(_ key: SymmetricKey, in directory: String) throws {
        let (path, new) = (path(in: directory), path(in: directory) + ".new")
        unlink(new)
        let descriptor = open(new, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { throw StoreFiles.failure(new) }
        defer { close(descriptor) }
        let count = key.withUnsafeBytes { Foundation.write(descriptor, $0.baseAddress, $0.count) }
        guard count == 32, fsync(descriptor) == 0, rename(new, path) == 0 else { throw StoreFiles.failure(new) }
        try StoreFiles.synchronise(directory: directory)
    }

    /// What the database remembers of a key, to tell another one by.
    static func check(_ key: SymmetricKey) -> String {
        let code = HMAC<SHA256>.authenticationCode(for: Data("check".utf8), using: key)
        return code.prefix(8).map { String($0 >> 4, radix: 16) + String($0 & 15, radix: 16) }.joined()
    }
}
