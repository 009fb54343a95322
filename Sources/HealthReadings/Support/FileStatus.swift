import Foundation

/// Whether others than its owner may read, write or run a file, symbolic links followed; no where it cannot be seen.
package func isOpenToOthers(fileAt path: String) -> Bool {
    var status = stat()
    return stat(path, &status) == 0 && status.st_mode & 0o077 != 0
}

/// When the content of a file last changed, symbolic links followed; `nil` where it cannot be seen.
package func modificationTime(ofFileAt path: String) -> Instant? {
    var status = stat()
    guard stat(path, &status) == 0 else { return nil }
    return Instant(microseconds: Int64(status.st_mtim.tv_sec) * 1_000_000 + Int64(status.st_mtim.tv_nsec) / 1000)
}
