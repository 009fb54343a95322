import CoreFoundation
import Foundation
import HealthReadings

/// A file that has its name only when it is whole and durable; until then it is called `NAME.part`.
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
    /// - Throws: `POSIXError`; for a device or a pipe where they are not wanted, and always for a socket and a directory.
    package init(_ path: String, streams: Bool = false) throws(POSIXError) {
        let (opened, named, part): (Int32, String, String?)
        switch try Self.place(path) {
        case .file(let target):
            (named, part) = (target, target + ".part")
            unlink(target + ".part")
            opened = open(target + ".part", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
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
        close(descriptor)
        if let part { unlink(part) }
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
        try look(part ?? path)
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
        guard fsync(descriptor) == 0, rename(part, path) == 0 else { throw Self.failure() }
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
