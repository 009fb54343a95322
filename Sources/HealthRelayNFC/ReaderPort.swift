import CNFC
import Glibc
import NFCPipe

/// The device file of a reader, held and locked.
///
/// The lock is flock(2) on the device itself: two processes can open one serial port without an error, and would take
/// each other's answers. On the device it holds for every user and every name of the port (a link of /dev/serial as
/// well as ttyACM0), needs no folder that somebody must be able to write, and is gone with the process, however that
/// ends. Other programs for serial ports take the same one.
final class ReaderPort {
    /// The device's own path, behind all links.
    let path: String
    private let descriptor: Int32

    /// - Parameter isSerial: whether only a terminal will do.
    init(_ path: String, isSerial: Bool) throws(NFCFailure) {
        guard let resolved = realpath(path, nil) else { throw Self.failure(path, errno) }
        defer { free(resolved) }
        self.path = String(cString: resolved)
        let descriptor = Glibc.open(resolved, O_RDWR | O_NOCTTY | O_NONBLOCK | O_CLOEXEC)
        guard descriptor >= 0 else { throw Self.failure(path, errno) }
        guard flock(descriptor, LOCK_EX | LOCK_NB) == 0 else {
            let code = errno
            defer { Glibc.close(descriptor) }
            guard code == EWOULDBLOCK else { throw Self.failure(path, code) }
            throw .portInUse(path, pid: Self.owner(of: descriptor))
        }
        self.descriptor = descriptor
        if isSerial, isatty(descriptor) == 0 { throw .noPort(path) }
    }

    deinit { close(descriptor) }

    /// Whether the device has vanished.
    var isGone: Bool {
        var state = pollfd(fd: descriptor, events: 0, revents: 0)
        guard poll(&state, 1, 0) > 0 else { return false }
        return state.revents & Int16(POLLHUP | POLLERR | POLLNVAL) != 0
    }

    private static func failure(_ path: String, _ code: Int32) -> NFCFailure {
        switch code {
        case EACCES, EPERM: .notPermitted(path, group: group(of: path))
        case EBUSY: .portInUse(path, pid: nil)
        default: .noPort(path)
        }
    }

    private static func group(of path: String) -> String? {
        var status = stat()
        guard stat(path, &status) == 0, status.st_gid != 0, let entry = getgrgid(status.st_gid) else { return nil }
        return String(cString: entry.pointee.gr_name)
    }

    /// The process that has the lock, as the kernel tells it.
    private static func owner(of descriptor: Int32) -> Int32? {
        var status = stat()
        guard fstat(descriptor, &status) == 0, let file = fopen("/proc/locks", "re") else { return nil }
        defer { fclose(file) }
        var line = [CChar](repeating: 0, count: 256)
        while fgets(&line, Int32(line.count), file) != nil {
            // 1: FLOCK  ADVISORY  WRITE 4711 00:19:5 0 EOF
            let octets = line.prefix { $0 != 0 }.map { UInt8(truncatingIfNeeded: $0) }
            let fields = String(decoding: octets, as: UTF8.self).split(separator: " ")
            guard fields.count >= 6, fields[1] == "FLOCK", let pid = Int32(fields[4]), pid > 0 else { continue }
            let place = fields[5].split(separator: ":")
            guard place.count == 3, UInt64(place[2]) == UInt64(status.st_ino),
                let major = UInt32(place[0], radix: 16), let minor = UInt32(place[1], radix: 16),
                cnfc_is_device(status.st_dev, major, minor) != 0
            else { continue }
            return pid
        }
        return nil
    }
}
