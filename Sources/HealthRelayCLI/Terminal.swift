import Foundation
import HealthReadings

/// The two streams of the process: data on standard output, everything else on standard error.
enum Terminal {
    static func data(_ line: String) { write(Array((line + "\n").utf8), to: 1) }
    /// Lines that come together, each with its end.
    static func data(_ lines: [UInt8]) { write(lines, to: 1) }
    static func error(_ line: String) { write(Array((line + "\n").utf8), to: 2) }

    /// The moment, by the system's clock.
    static var now: Instant {
        var time = timespec()
        clock_gettime(CLOCK_REALTIME, &time)
        return Instant(microseconds: Int64(time.tv_sec) * 1_000_000 + Int64(time.tv_nsec) / 1000)
    }

    /// Whether standard output is a terminal.
    static var isInteractive: Bool { isatty(1) == 1 }

    /// Writes all of it; a reader that has gone (`| head`) ends the program quietly, as it does any filter.
    private static func write(_ octets: [UInt8], to descriptor: Int32) {
        var rest = octets[...]
        while !rest.isEmpty {
            let count = rest.withUnsafeBytes { Glibc.write(descriptor, $0.baseAddress, $0.count) }
            if count > 0 {
                rest = rest.dropFirst(count)
            } else if errno == EPIPE {
                Glibc.exit(0)
            } else if errno != EINTR {
                return
            }
        }
    }
}
