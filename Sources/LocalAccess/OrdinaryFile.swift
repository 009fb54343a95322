import Glibc

/// Whether a path names an ordinary file or nothing: opening or reading a FIFO or a device may wait for ever.
func isAbsentOrRegular(_ path: String) -> Bool {
    var status = stat()
    return stat(path, &status) != 0 || status.st_mode & S_IFMT == S_IFREG
}
