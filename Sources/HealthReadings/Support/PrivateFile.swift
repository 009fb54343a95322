#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

/// Small files with secrets: mode 0600, in a directory of mode 0700, replaced as a whole.
package enum PrivateFile {
    /// Why a file can't be kept.
    package struct Failure: Error, Sendable, Hashable {
        /// The file or directory.
        package var path: String
        /// The system's reason.
        package var reason: String

        init(_ path: String) {
            self.path = path
            reason = String(cString: strerror(errno))
        }
    }

    /// Puts a file in the place of one of the same name, and makes its directory if there is none.
    ///
    /// Written beside, synchronised and put in place: a power cut leaves the old file or the new one.
    ///
    /// - Parameter mode: who may read it. It has that mode before it is in its place.
    package static func write(_ octets: [UInt8], to path: String, mode: mode_t = 0o600) throws(Failure) {
        let directory = parentDirectory(of: path)
        if mkdir(directory, 0o700) != 0, errno != EEXIST { throw Failure(directory) }
        _ = synchronizeDirectory(parentDirectory(of: directory))
        let fresh = path + ".new"
        unlink(fresh)
        let file = open(fresh, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
        guard file >= 0 else { throw Failure(fresh) }
        var isInPlace = false
        // On a full disk half a file would take the room that the next attempt needs.
        defer {
            close(file)
            if !isInPlace { unlink(fresh) }
        }
        var written = 0
        while written < octets.count {
            let count = octets[written...].withUnsafeBytes { Self.put(file, $0.baseAddress, $0.count) }
            guard count > 0 || errno == EINTR else { throw Failure(fresh) }
            written += max(count, 0)
        }
        if mode != 0o600, fchmod(file, mode) != 0 { throw Failure(fresh) }
        guard fsync(file) == 0, rename(fresh, path) == 0 else { throw Failure(path) }
        isInPlace = true
        guard synchronizeDirectory(directory) else { throw Failure(directory) }
    }

    private static func put(_ file: Int32, _ octets: UnsafeRawPointer?, _ count: Int) -> Int {
        #if canImport(Glibc)
            Glibc.write(file, octets, count)
        #elseif canImport(Musl)
            Musl.write(file, octets, count)
        #else
            Darwin.write(file, octets, count)
        #endif
    }

    /// What a file holds; `nil` if it can't be read, or holds more.
    package static func read(_ path: String, upTo most: Int) -> [UInt8]? {
        let file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)
        guard file >= 0 else { return nil }
        defer { close(file) }
        var octets: [UInt8] = []
        var part = [UInt8](repeating: 0, count: 65_536)
        while true {
            let count = part.withUnsafeMutableBytes { Self.take(file, $0.baseAddress, $0.count) }
            if count < 0, errno == EINTR { continue }
            guard count >= 0, octets.count + count <= most else { return nil }
            guard count > 0 else { return octets }
            octets += part[..<count]
        }
    }

    private static func take(_ file: Int32, _ octets: UnsafeMutableRawPointer?, _ count: Int) -> Int {
        #if canImport(Glibc)
            Glibc.read(file, octets, count)
        #elseif canImport(Musl)
            Musl.read(file, octets, count)
        #else
            Darwin.read(file, octets, count)
        #endif
    }

    /// Removes a file.
    ///
    /// - Returns: whether there was one.
    package static func remove(_ path: String) throws(Failure) -> Bool {
        guard unlink(path) == 0 else {
            if errno == ENOENT { return false }
            throw Failure(path)
        }
        _ = synchronizeDirectory(parentDirectory(of: path))
        return true
    }
}
