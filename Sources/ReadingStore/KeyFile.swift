import Crypto
import Foundation
import HealthReadings

/// Where the key is kept that seals a store's content.
public struct StoreKeySource: Sendable, Hashable {
    /// The file: 32 octets in base64 a line, the newest key last. Older ones stay until no row needs them.
    public var path: String
    /// Whether the store may write the file: make a key where there is none, replace one that is rotated or destroyed.
    /// A systemd credential is somebody else's.
    public var isWritable: Bool

    /// Makes a source.
    public init(path: String, isWritable: Bool = true) {
        self.path = path
        self.isWritable = isWritable
    }
}

/// The file with a store's keys.
struct KeyFile {
    let source: StoreKeySource

    /// The keys, oldest first; nil where there is no file.
    ///
    /// - Throws: ``StoreError/keyUnusable(path:reason:)``.
    func read() throws -> [SymmetricKey]? {
        let descriptor = open(source.path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)
        guard descriptor >= 0 else {
            if errno == ENOENT { return nil }
            throw unusable("cannot be read: \(String(cString: strerror(errno)))")
        }
        defer { close(descriptor) }
        var status = stat()
        guard fstat(descriptor, &status) == 0, status.st_mode & S_IFMT == S_IFREG else {
            throw unusable("is no ordinary file")
        }
        var octets = [UInt8](repeating: 0, count: 4096)
        let count = Foundation.read(descriptor, &octets, octets.count)
        guard count >= 0 else { throw unusable("cannot be read: \(String(cString: strerror(errno)))") }
        guard count < octets.count else { throw unusable("is longer than keys are") }
        let lines = octets[..<count].split(whereSeparator: { $0 == UInt8(ascii: "\n") || $0 == UInt8(ascii: "\r") })
        let keys = try lines.map { line in
            guard let key = SymmetricKey(base64: String(decoding: line, as: UTF8.self)) else {
                throw unusable("has a line that is not 32 octets in base64")
            }
            return key
        }
        guard !keys.isEmpty else { throw unusable("is empty") }
        return keys
    }

    /// Puts keys into the file, whole and durable, mode 0600, in the place of those it had; these are overwritten. None:
    /// the file goes. A symbolic link stays: its target is replaced, or the key would move to where the link is.
    func replace(with keys: [SymmetricKey]) throws {
        let path = Self.followingLinks(source.path)
        let former = open(path, O_WRONLY | O_CLOEXEC | O_NONBLOCK)
        defer { if former >= 0 { close(former) } }
        if keys.isEmpty {
            unlink(path + ".new")
            guard unlink(path) == 0 || errno == ENOENT else { throw StoreFiles.failure(path) }
            // The removal must be durable before the bytes are overwritten: a file of zeros that a power cut brings back
            // would lock the store.
            try StoreFiles.synchronise(directory: parentDirectory(of: path))
        } else {
            try StoreFiles.replace(path, with: Array(keys.map { $0.base64 + "\n" }.joined().utf8))
        }
        try Self.overwrite(former, path: path)
    }

    private static func followingLinks(_ path: String) -> String {
        guard let target = realpath(path, nil) else { return path }
        defer { free(target) }
        return String(cString: target)
    }

    private static func overwrite(_ descriptor: Int32, path: String) throws {
        var status = stat()
        guard descriptor >= 0, fstat(descriptor, &status) == 0, status.st_mode & S_IFMT == S_IFREG,
            1...4096 ~= status.st_size
        else { return }
        try StoreFiles.write([UInt8](repeating: 0, count: Int(status.st_size)), to: descriptor, path: path)
    }

    /// What a new store says that finds a key here.
    var sharingWarning: String {
        "the key in \(source.path) was there before this store. If another store uses it, give this one a file of its own "
            + "(store.key_file): `store rotate-key` and `store forget` of one store destroy the key of the other"
    }

    private func unusable(_ reason: String) -> StoreError { .keyUnusable(path: source.path, reason: reason) }

    /// What the database remembers of a key, to know it by.
    static func check(_ key: SymmetricKey) -> String { key.check(of: "healthrelay check") }
}

extension SymmetricKey {
    var base64: String { withUnsafeBytes { Data($0).base64EncodedString() } }

    init?(base64: String) {
        guard let data = Data(base64Encoded: base64), data.count == 32 else { return nil }
        self.init(data: data)
    }

    /// What tells this key from others and says nothing of it: 16 hexadecimal digits.
    func check(of word: String) -> String {
        HMAC<SHA256>.authenticationCode(for: Data(word.utf8), using: self).prefix(8)
            .hexadecimal()
    }
}
