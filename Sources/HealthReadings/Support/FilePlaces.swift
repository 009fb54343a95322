#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

/// What a path names, links followed.
package enum FileKind: Sendable, Hashable {
    /// Nothing, or nothing that can be looked at.
    case absent
    /// An ordinary file.
    case regular
    case directory
    /// A FIFO, a device or a socket: opening or reading one may wait for ever.
    case special

    /// Looks at a path.
    package init(at path: String) {
        var status = stat()
        guard stat(path, &status) == 0 else {
            self = .absent
            return
        }
        switch status.st_mode & S_IFMT {
        case S_IFREG: self = .regular
        case S_IFDIR: self = .directory
        default: self = .special
        }
    }

    /// Whether a file can be opened or made here without waiting for ever.
    package var isAbsentOrRegular: Bool { self == .absent || self == .regular }
}

/// Makes the names in a directory durable, as they have to be after a file was made, renamed or removed.
///
/// - Returns: whether it worked; if not, `errno` says why.
package func synchronizeDirectory(_ path: String) -> Bool {
    let descriptor = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
    guard descriptor >= 0 else { return false }
    let (status, code) = (fsync(descriptor), errno)
    close(descriptor)
    errno = code
    return status == 0
}

/// The directory that a path is in: `.` for a name alone.
///
/// Foundation's `deletingLastPathComponent` traps if the path is a single character.
package func parentDirectory(of path: String) -> String {
    let path = trimmingSlashes(path[...])
    guard let slash = path.lastIndex(of: "/") else { return path.isEmpty ? "/" : "." }
    let parent = trimmingSlashes(path[..<slash])
    return parent.isEmpty ? "/" : String(parent)
}

private func trimmingSlashes(_ path: Substring) -> Substring {
    var path = path
    while path.last == "/" { path.removeLast() }
    return path
}
