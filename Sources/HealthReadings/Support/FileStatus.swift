import Foundation

/// Whether others than its owner may read, write or run a file, symbolic links followed; no where it cannot be seen.
package func isOpenToOthers(fileAt path: String) -> Bool {
    var status = stat()
    return stat(path, &status) == 0 && status.st_mode & 0o077 != 0
}

/// Who may do what with a file, symbolic links followed; `nil` where it cannot be seen.
package func permissions(ofFileAt path: String) -> mode_t? {
    var status = stat()
    return stat(path, &status) == 0 ? status.st_mode & 0o777 : nil
}

/// Why nothing is seen at a path, as an `errno`; 0 where something is, a symbolic link too, wherever it leads.
package func lookupError(at path: String) -> Int32 {
    var status = stat()
    return lstat(path, &status) == 0 ? 0 : errno
}

/// Who owns a file, symbolic links followed.
package struct FileOwner: Sendable {
    package let user: uid_t
    package let group: gid_t

    /// The owner of the file at a path; `nil` where none can be seen.
    package init?(at path: String) {
        var status = stat()
        guard stat(path, &status) == 0 else { return nil }
        (user, group) = (status.st_uid, status.st_gid)
    }
}

/// When the content of a file last changed, symbolic links followed; `nil` where it cannot be seen.
package func modificationTime(ofFileAt path: String) -> Instant? {
    var status = stat()
    guard stat(path, &status) == 0 else { return nil }
    return Instant(microseconds: Int64(status.st_mtim.tv_sec) * 1_000_000 + Int64(status.st_mtim.tv_nsec) / 1000)
}

/// Whether two paths are on one file system, symbolic links followed; yes where one of them cannot be seen.
package func areOnOneFileSystem(_ path: String, _ other: String) -> Bool {
    var (first, second) = (stat(), stat())
    guard stat(path, &first) == 0, stat(other, &second) == 0 else { return true }
    if first.st_dev == second.st_dev { return true }
    // Each subvolume of a Btrfs has a device number of its own. The mounts have the file system's.
    let mounts = MountTable.current
    guard let own = mounts.fileSystem(of: path), let others = mounts.fileSystem(of: other) else { return false }
    return own == others
}

/// Which file system each mount that this process sees is of, as `/proc/self/mountinfo` has it.
package struct MountTable: Sendable {
    /// Device numbers by the mounts' numbers.
    private let fileSystems: [Substring: Substring]

    /// The mounts as they are now; none where the system doesn't tell.
    package static var current: MountTable { MountTable(text(of: "/proc/self/mountinfo")) }

    /// - Parameter mountinfo: lines such as `36 35 0:31 /@home /home rw,relatime shared:1 - btrfs /dev/sda2 rw`.
    package init(_ mountinfo: String) {
        let mounts = mountinfo.split(separator: "\n").compactMap { line -> (Substring, Substring)? in
            let parts = line.split(separator: " ", maxSplits: 3)
            return parts.count == 4 ? (parts[0], parts[2]) : nil
        }
        fileSystems = Dictionary(mounts) { first, _ in first }
    }

    /// The device number of the file system of a mount, as `0:31`.
    package func fileSystem(ofMount number: Substring) -> Substring? { fileSystems[number] }

    /// The device number of the file system that a path is on, symbolic links followed; `nil` if that isn't known.
    package func fileSystem(of path: String) -> Substring? {
        let descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)
        guard descriptor >= 0 else { return nil }
        defer { close(descriptor) }
        let label = "mnt_id:"
        let lines = Self.text(of: "/proc/self/fdinfo/\(descriptor)").split(separator: "\n")
        guard let line = lines.first(where: { $0.hasPrefix(label) }) else { return nil }
        return fileSystem(ofMount: line.dropFirst(label.count).drop(while: \.isWhitespace))
    }

    private static func text(of path: String) -> String {
        // Paths of mounts need not be UTF-8.
        String(decoding: FileManager.default.contents(atPath: path) ?? Data(), as: UTF8.self)
    }
}

/// The topmost directory on the way to a path that is on the path's file system, symbolic links followed: mostly where that is
/// mounted. `nil` where the path cannot be seen.
package func mountPoint(of path: String) -> String? {
    var (own, above) = (stat(), stat())
    guard stat(path, &own) == 0 else { return nil }
    var point = path
    while true {
        let parent = parentDirectory(of: point)
        guard parent != point, stat(parent, &above) == 0, above.st_dev == own.st_dev else { return point }
        point = parent
    }
}

/// Which file a path or a descriptor names, and how long it is: another inode is another file, whatever its name.
package struct FileIdentity: Sendable, Hashable {
    private let device: UInt64
    private let inode: UInt64
    /// Octets.
    package let size: Int64

    /// The file at a path, symbolic links followed; `nil` where none can be seen.
    package init?(at path: String) {
        var status = stat()
        guard stat(path, &status) == 0 else { return nil }
        self.init(status)
    }

    /// An open file; `nil` for a descriptor that is none.
    package init?(of descriptor: Int32) {
        var status = stat()
        guard fstat(descriptor, &status) == 0 else { return nil }
        self.init(status)
    }

    private init(_ status: stat) {
        device = UInt64(status.st_dev)
        inode = UInt64(status.st_ino)
        size = Int64(status.st_size)
    }
}
