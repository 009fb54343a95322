import Glibc

/// Who owns a file, and who may use it.
package struct FileStatus: Sendable {
    /// Its type and its permissions, as `stat` gives them.
    package let mode: mode_t
    package let user: uid_t
    package let group: gid_t

    /// Looks at a file; `nil` if it isn't there or can't be looked at.
    package init?(_ path: String) {
        var status = stat()
        guard stat(path, &status) == 0 else { return nil }
        (mode, user, group) = (status.st_mode, status.st_uid, status.st_gid)
    }
}
