import Foundation
import GRDB
import HealthReadings
import Synchronization

/// The files of a store, made so that only their owner reads them.
enum StoreFiles {
    static let databaseName = "readings.sqlite"
    static let lockName = "store.lock"

    /// Makes the directory (0700) durably where it is missing. One that exists keeps its mode: it may be somebody's own.
    static func prepareDirectory(_ path: String) throws {
        var status = stat()
        if stat(path, &status) == 0 {
            guard status.st_mode & S_IFMT == S_IFDIR else {
                throw StoreError.cannotCreate(path: path, reason: "it is not a directory")
            }
            return
        }
        let parents = missingParents(of: path)
        do {
            try FileManager.default.createDirectory(
                atPath: path, withIntermediateDirectories: true, attributes: [.posixPermissions: 0o700])
        } catch {
            throw failure(path)
        }
        guard chmod(path, 0o700) == 0 else { throw failure(path) }
        do {
            // A power cut takes the whole store if the directory's own name is not durable.
            for parent in parents { try synchronise(directory: parent) }
        } catch StoreError.notPermitted {
            // A directory that may be written and not read cannot be opened to synchronise it.
        } catch {
            // The next opening finds it missing and tries again.
            rmdir(path)
            throw error
        }
    }

    /// The directories that get a new entry when this one is made together with its missing parents.
    private static func missingParents(of path: String) -> [String] {
        var (parents, child): ([String], String) = ([], path)
        while child != "/", !child.isEmpty, access(child, F_OK) != 0 {
            child = parentDirectory(of: child)
            parents.append(child)
        }
        return parents
    }

    /// Makes the database file (0600) where it is missing, and looks at one that exists before SQLite may touch it.
    ///
    /// SQLite gives its journal files the mode of the database.
    static func prepareDatabase(_ path: String) throws {
        for suffix in ["", "-wal", "-shm", "-journal"] { try requireRegular(path + suffix) }
        let descriptor = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0o600)
        guard descriptor >= 0 else { throw failure(path) }
        defer { close(descriptor) }
        var header = [UInt8](repeating: 0, count: 16)
        let count = read(descriptor, &header, header.count)
        guard count >= 0 else { throw failure(path) }
        guard count == 0 || (count == header.count && header == Array("SQLite format 3\0".utf8)) else {
            throw StoreError.foreign(path: path)
        }
    }

    /// Refuses what is no ordinary file: opening or reading a FIFO or a device may wait for ever.
    ///
    /// - Throws: ``StoreError/foreign(path:)``. A file that is missing is none.
    static func requireRegular(_ path: String) throws {
        guard FileKind(at: path).isAbsentOrRegular else { throw StoreError.foreign(path: path) }
    }

    /// Puts octets into a file, whole and durable, mode 0600, in the place of what it had.
    static func replace(_ path: String, with octets: [UInt8]) throws {
        let new = path + ".new"
        unlink(new)
        let descriptor = open(new, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { throw failure(new) }
        defer { close(descriptor) }
        try write(octets, to: descriptor, path: new)
        guard rename(new, path) == 0 else { throw failure(path) }
        try synchronise(directory: parentDirectory(of: path))
    }

    /// Writes octets where the descriptor stands, and waits until they are durable.
    static func write(_ octets: [UInt8], to descriptor: Int32, path: String) throws {
        var rest = octets[...]
        while !rest.isEmpty {
            let count = rest.withUnsafeBytes { Foundation.write(descriptor, $0.baseAddress, $0.count) }
            guard count > 0 || (count < 0 && errno == EINTR) else { throw failure(path) }
            rest = rest.dropFirst(max(count, 0))
        }
        guard fsync(descriptor) == 0 else { throw failure(path) }
    }

    /// Removes what exports and imports that were killed have left in a directory: copies of the store, and keys.
    static func removeLeftovers(in directory: String) throws {
        try StoreExport.clear(directory)
        try StoreImport.clear(directory)
        for name in try FileManager.default.contentsOfDirectory(atPath: directory)
        where name.hasPrefix(temporaryPrefix) {
            guard unlink(directory + "/" + name) == 0 || errno == ENOENT else { throw failure(directory + "/" + name) }
        }
    }

    /// What SQLite's temporary files are called. It removes their names as soon as they are open.
    private static let temporaryPrefix = "etilqs_"

    /// Writes a database anew, its intermediate copy in a file of the directory (mode 0600) and not in memory, which it
    /// would fill: `/tmp` may be memory too.
    static func vacuum(_ db: Database, in directory: String) throws {
        try sortBeside(db, in: directory)
        try db.execute(sql: "PRAGMA temp_store = FILE; VACUUM")
    }

    /// Has SQLite put what it sorts into the directory of the database: the system's own for such files may be memory.
    static func sortBeside(_ db: Database, in directory: String) throws {
        let place = directory.escaping(["'": "''"])
        try db.execute(sql: "PRAGMA temp_store_directory = '\(place)'")
    }

    /// Makes names in a directory durable.
    static func synchronise(directory: String) throws {
        guard synchronizeDirectory(directory) else { throw failure(directory) }
    }

    /// The error for what a system call on a path just said, or for another number of an error.
    static func failure(_ path: String, _ code: Int32 = errno) -> StoreError {
        switch code {
        case EACCES, EPERM, EROFS: .notPermitted(path: path)
        case ENOSPC, EDQUOT: .diskFull
        case EIO: .inputOutput(detail: String(cString: strerror(code)))
        default: .cannotCreate(path: path, reason: String(cString: strerror(code)))
        }
    }
}

extension ReadingStore {
    /// The files of a directory's database that exist; none where it holds no store.
    public static func databaseFiles(in directory: String) -> [String] {
        ["", "-wal", "-shm"].map { directory + "/" + StoreFiles.databaseName + $0 }.filter { access($0, F_OK) == 0 }
    }
}

/// Ownership of a store: an exclusive `flock` on a file that names the owner, released by the kernel at any death.
final class StoreLock: Sendable {
    /// Nil once it is given up.
    private let descriptor: Mutex<Int32?>

    /// - Throws: ``StoreError/locked(pid:)`` where another open store, of this process or another, holds it.
    init(path: String) throws {
        try StoreFiles.requireRegular(path)
        let descriptor = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0o600)
        guard descriptor >= 0 else { throw StoreFiles.failure(path) }
        guard flock(descriptor, LOCK_EX | LOCK_NB) == 0 else {
            defer { close(descriptor) }
            guard errno == EWOULDBLOCK else { throw StoreFiles.failure(path) }
            var text = [UInt8](repeating: 0, count: 16)
            let count = pread(descriptor, &text, text.count, 0)
            throw StoreError.locked(
                pid: Int32(String(decoding: text.prefix(max(0, count)), as: UTF8.self).prefix { $0.isNumber }))
        }
        let text = Array("\(getpid())\n".utf8)
        guard ftruncate(descriptor, 0) == 0, pwrite(descriptor, text, text.count, 0) == text.count else {
            defer { close(descriptor) }
            throw StoreFiles.failure(path)
        }
        self.descriptor = Mutex(descriptor)
    }

    func release() {
        descriptor.withLock { descriptor in
            if let descriptor {
                // Closing alone would leave it with a process that is just being started, until that runs its program.
                flock(descriptor, LOCK_UN)
                close(descriptor)
            }
            descriptor = nil
        }
    }

    deinit { release() }
}
