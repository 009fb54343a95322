import Foundation

/// The room on a file system, as `df` counts it: blocks that are reserved for the superuser are not free.
package struct DiskSpace: Sendable, Hashable {
    /// Bytes that are in use.
    package var used: Int64
    /// Bytes that this process may still write.
    package var free: Int64
    /// Tells file systems apart.
    package var fileSystem: UInt

    package init(used: Int64, free: Int64, fileSystem: UInt = 0) {
        (self.used, self.free, self.fileSystem) = (used, free, fileSystem)
    }

    /// Looks at the file system of a path.
    ///
    /// - Returns: `nil` if it cannot be asked.
    package init?(at path: String) {
        guard let space = Self.measure(path) else { return nil }
        self = space
    }

    /// Asks the kernel; tests put another answer in its place.
    @TaskLocal package static var measure: @Sendable (String) -> DiskSpace? = { path in
        var status = statvfs()
        guard statvfs(path, &status) == 0 else { return nil }
        let block = Int64(status.f_frsize)
        return DiskSpace(
            used: Int64(status.f_blocks - status.f_bfree) * block, free: Int64(status.f_bavail) * block,
            fileSystem: status.f_fsid)
    }

    /// How full it is.
    package enum Level: Sendable, Hashable, Comparable {
        /// There is room.
        case roomy
        /// At least 90 % are in use.
        case nearlyFull
        /// Less than 64 MiB are free: a store's log alone grows by some megabytes between two checkpoints.
        case full

        /// Its published name.
        package var name: String {
            switch self {
            case .roomy: "ok"
            case .nearlyFull: "nearly_full"
            case .full: "full"
            }
        }
    }

    /// How full it is.
    package var level: Level {
        if free < Self.leastFree { return .full }
        return percentUsed >= Self.nearlyFullPercent ? .nearlyFull : .roomy
    }

    /// The share in use, rounded down; 0 … 100.
    package var percentUsed: Int {
        let all = used + free
        return all > 0 ? Int(Double(used) / Double(all) * 100) : 0
    }

    private static let leastFree: Int64 = 64 << 20
    private static let nearlyFullPercent = 90

    /// Refuses work that would fill the file system of a path.
    ///
    /// - Parameter needed: bytes that the work writes, at most, before it frees any.
    /// - Throws: ``StoreError/tooLittleSpace(path:needed:free:)``. A file system that cannot be asked has room.
    package static func require(_ needed: Int64, at path: String) throws(StoreError) {
        guard let space = DiskSpace(at: path), space.free < needed else { return }
        throw .tooLittleSpace(path: path, needed: needed, free: space.free)
    }

    /// Refuses work that writes to two places, which may be on one file system.
    ///
    /// - Throws: ``StoreError/tooLittleSpace(path:needed:free:)``.
    package static func require(_ needed: Int64, at path: String, and other: String) throws(StoreError) {
        let isShared = DiskSpace(at: path)?.fileSystem == DiskSpace(at: other)?.fileSystem
        try require(isShared ? 2 * needed : needed, at: path)
        try require(isShared ? 2 * needed : needed, at: other)
    }
}

extension Int64 {
    /// Mebibytes, rounded up, for people.
    var mebibytes: String { "\((self + (1 << 20) - 1) >> 20) MiB" }
}
