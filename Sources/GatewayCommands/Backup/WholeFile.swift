import Foundation
import HealthReadings

/// A file that has its name only when it is whole and durable; until then it is called `NAME.part`.
package struct WholeFile: ~Copyable {
    private let path: String
    private let part: String
    private var descriptor: Int32
    /// How many octets were written.
    package private(set) var count = 0

    /// Begins a file that only its owner can read.
    ///
    /// - Throws: `POSIXError`.
    package init(_ path: String) throws(POSIXError) {
        self.path = path
        part = path + ".part"
        unlink(part)
        descriptor = open(part, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { throw Self.failure() }
    }

    deinit {
        guard descriptor >= 0 else { return }
        close(descriptor)
        unlink(part)
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
        try look(part)
    }

    /// Gives the file its name. It survives a power cut from then on.
    ///
    /// - Parameter replaces: whether it takes the place of another one, which is gone then: it stays even if the name isn't
    ///   durable.
    /// - Returns: whether the name is durable; a power cut may bring the replaced file back otherwise.
    /// - Throws: `POSIXError`.
    @discardableResult
    package consuming func finish(replaces: Bool = false) throws(POSIXError) -> Bool {
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
