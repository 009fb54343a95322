import Crypto
import Foundation

/// The key under which readings that were pruned are recognised when their device sends them again.
///
/// Where the store's content is sealed, so is the key, in the database; else it stands in a file of its own: an identity
/// of a cuff's reading is a hash over its values too, of which there are few enough to try them all. Whoever has the
/// database and not this file cannot.
enum PruneKey {
    static let fileName = "pruned.key"

    static func path(in directory: String) -> String { directory + "/" + fileName }

    /// The key; nil where there is none, or none that is whole.
    static func read(in directory: String) -> SymmetricKey? {
        guard (try? StoreFiles.requireRegular(path(in: directory))) != nil,
            let data = FileManager.default.contents(atPath: path(in: directory)), data.count == 32
        else { return nil }
        return SymmetricKey(data: data)
    }

    /// Makes a key: whole and durable, mode 0600, before anything is recognised by it.
    static func make(in directory: String) throws -> SymmetricKey {
        let key = SymmetricKey(size: .bits256)
        try write(key, in: directory)
        return key
    }

    static func write(_ key: SymmetricKey, in directory: String) throws {
        try StoreFiles.replace(path(in: directory), with: key.withUnsafeBytes(Array.init))
    }

    /// What the database remembers of a key, to tell another one by.
    static func check(_ key: SymmetricKey) -> String { key.check(of: "check") }
}
