import Glibc

/// A pseudo-terminal in raw mode.
struct PseudoTerminal: Sendable {
    let master: Int32
    /// Held open: a terminal that nobody has open would hang up when its user closes it.
    private let slave: Int32
    /// The terminal's device.
    let name: String

    // <asm-generic/ioctls.h>
    private static let (lock, number): (UInt, UInt) = (0x4004_5431, 0x8004_5430)

    init() throws(EmulatedReader.Failure) {
        master = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC)
        guard master >= 0 else { throw EmulatedReader.Failure(what: "no pseudo-terminal") }
        var (isLocked, number): (Int32, Int32) = (0, 0)
        guard ioctl(master, Self.lock, &isLocked) == 0, ioctl(master, Self.number, &number) == 0 else {
            Glibc.close(master)
            throw EmulatedReader.Failure(what: "no terminal")
        }
        name = "/dev/pts/\(number)"
        slave = open(name, O_RDWR | O_NOCTTY | O_CLOEXEC)
        guard slave >= 0 else {
            Glibc.close(master)
            throw EmulatedReader.Failure(what: "no terminal \(name)")
        }
        var mode = termios()
        tcgetattr(slave, &mode)
        cfmakeraw(&mode)
        tcsetattr(slave, TCSANOW, &mode)
    }

    func close() {
        Glibc.close(master)
        Glibc.close(slave)
    }
}
