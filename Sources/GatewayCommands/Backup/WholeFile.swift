import CoreFoundation
import Foundation
import HealthReadings

/// A file that has its name only when it is whole and durable; until then it is called `NAME.part`.
///
/// The part is locked while it is written: a second writer of the same file is refused. The part of a writer that was
/// killed is replaced by the next one.
///
/// A symbolic link is followed: what it leads to is replaced, and the link stays. A device, a pipe or a socket is never replaced.
package struct WholeFile: ~Copyable {
    /// What stands at a path.
    private enum Place {
        /// Nothing, or a file that may be replaced, at the path that links lead to.
        case file(String)
        /// A device or a pipe.
        case stream
    }

    private let path: String
    /// `nil` for a device or a pipe, which is written to as it is.
    private let part: String?
    private var descriptor: Int32
    /// How many octets were written.
    package private(set) var count = 0

    /// The most links that lead to each other, as the kernel has it.
    private static let mostLinks = 40

    /// Begins a file that only its owner can read.
    ///
    /// - Parameters:
    ///   - path: where it is to be.
    ///   - streams: whether octets go into a device or a pipe that stands there, as `cp` does it; it waits for a pipe's reader.
    /// - Throws: `POSIXError`; for a device or a pipe where they are not wanted, and always for a socket and a
    ///   directory; `EBUSY` while another writer writes the same file.
    package init(_ path: String, streams: Bool = false) throws(POSIXError) {
        let (opened, named, part): (Int32, String, String?)
        switch try Self.place(path) {
        case .file(let target):
            (named, part) = (target, target + ".part")
            opened = try Self.begin(target + ".part")
        case .stream:
            guard streams else { throw POSIXError(.EEXIST) }
            (named, part) = (path, nil)
            opened = open(path, O_WRONLY | O_CLOEXEC | O_NOCTTY)
        }
        guard opened >= 0 else { throw Self.failure() }
        (self.path, self.part, descriptor) = (named, part, opened)
    }

    deinit {
        guard descriptor >= 0 else { return }
        // Another writer may have begun the same file while this one was checked.
        if let part, (try? Self.lock(descriptor, at: part)) != nil { unlink(part) }
        close(descriptor)
    }

    /// Creates the part, in the place of what a writer that was killed has left.
    ///
    /// Only the writer that has a part locked removes it, or gives it the file's name.
    private static func begin(_ part: String) throws(POSIXError) -> Int32 {
        let left = open(part, O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC)
        if left >= 0 || errno != ENOENT {
            defer { if left >= 0 { close(left) } }
            if left >= 0 { try lock(left, at: part) }
            unlink(part)
        }
        let created = open(part, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
        guard created >= 0 else { throw failure() }
        do throws(POSIXError) { try lock(created, at: part) } catch {
            close(created)
            throw error
        }
        return created
    }

    /// Removes the part that a writer which was killed has left; one that is being written stays.
    ///
    /// - Parameter part: the part's path.
    package static func clear(_ part: String) {
        let left = open(part, O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC)
        guard left >= 0 else { return }
        defer { close(left) }
        if (try? lock(left, at: part)) != nil { unlink(part) }
    }

    /// Locks a part, unless it is another writer's or has another name by now.
    private static func lock(_ descriptor: Int32, at part: String) throws(POSIXError) {
        // Some file systems have no locks.
        let isTaken = flock(descriptor, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK
        var (own, found) = (stat(), stat())
        guard !isTaken, fstat(descriptor, &own) == 0, lstat(part, &found) == 0, own.st_dev == found.st_dev,
            own.st_ino == found.st_ino
        else { throw POSIXError(.EBUSY) }
    }

    private static func place(_ path: String) throws(POSIXError) -> Place {
        var (target, found) = (path, stat())
        // Links of the kernel's own, such as /dev/stdout, lead to what has no path.
        if stat(path, &found) == 0 {
            switch found.st_mode & S_IFMT {
            case S_IFREG: break
            case S_IFDIR: throw POSIXError(.EISDIR)
            case S_IFCHR, S_IFIFO: return .stream
            // Nobody means to write over a disk.
            case S_IFBLK: throw POSIXError(.EEXIST)
            default: throw POSIXError(.ENXIO)
            }
        }
        for _ in 0..<mostLinks {
            guard lstat(target, &found) == 0, found.st_mode & S_IFMT == S_IFLNK else { return .file(target) }
            guard let link = try? FileManager.default.destinationOfSymbolicLink(atPath: target) else {
                throw POSIXError(.EIO)
            }
            target = link.hasPrefix("/") ? link : parentDirectory(of: target) + "/" + link
        }
        throw POSIXError(.ELOOP)
    }

    /// Writes octets at the end.
    ///
    /// - Throws: `POSIXError`.
    package mutating func write(_ octets: [UInt8]) throws(POSIXError) {
        var rest = octets[...]
        while !rest.isEmpty {
            let count = rest.withUnsafeBytes { Foundation.write(descriptor, $0.baseAddress, $0.count) }
            guard count >= 0 || errno == EINTR else { throw Self.failure() }
            rest = rest.dropFirst(max(count, 0))
        }
        count += octets.count
    }

    /// Looks at the file, whole and durable, before it has its name.
    ///
    /// - Parameter look: is given its present path; what it throws leaves no file.
    /// - Throws: `POSIXError`, and what `look` throws.
    package mutating func check(_ look: (String) throws -> Void) throws {
        guard fsync(descriptor) == 0 else { throw Self.failure() }
        guard let part else { return try look(path) }
        // On SMB, nobody reads a locked file through another descriptor.
        flock(descriptor, LOCK_UN)
        try look(part)
        try Self.lock(descriptor, at: part)
    }

    /// Gives the file its name. It survives a power cut from then on.
    ///
    /// - Parameter replaces: whether it takes the place of another one, which is gone then: it stays even if the name isn't
    ///   durable.
    /// - Returns: whether the name is durable; a power cut may bring the replaced file back otherwise.
    /// - Throws: `POSIXError`.
    @discardableResult
    package consuming func finish(replaces: Bool = false) throws(POSIXError) -> Bool {
        guard let part else {
            let ended = close(descriptor)
            descriptor = -1
            guard ended == 0 else { throw Self.failure() }
            return true
        }
        // What came to stand there meanwhile is looked at as what stood there before.
        guard case .file(path) = try Self.place(path) else { throw POSIXError(.EEXIST) }
        guard fsync(descriptor) == 0 else { throw Self.failure() }
        try Self.lock(descriptor, at: part)
        guard rename(part, path) == 0 else { throw Self.failure() }
        close(descriptor)
        descriptor = -1
        guard synchronizeDirectory(parentDirectory(of: path)) else {
            if replaces { return false }
            // Whoever is told that there is no file must not find one.
            let failure = Self.failure()
            unlink(path)
            throw failure
        }
        return true
    }

    private static func failure() -> POSIXError { POSIXError(POSIXErrorCode(rawValue: errno) ?? .EIO) }
}
