import Foundation
import HealthReadings

/// The two streams of the process: data on standard output, everything else on standard error.
enum Terminal {
    static func data(_ line: String) { write(line + "\n", to: 1) }
    static func error(_ line: String) { write(line + "\n", to: 2) }
    /// On standard error, without a new line: a question, or a line that is written over.
    static func ask(_ text: String) { write(text, to: 2) }

    /// The moment, by the system's clock.
    static var now: Instant {
        var time = timespec()
        clock_gettime(CLOCK_REALTIME, &time)
        return Instant(microseconds: Int64(time.tv_sec) * 1_000_000 + Int64(time.tv_nsec) / 1000)
    }

    /// Whether standard output is a terminal.
    static var isInteractive: Bool { isatty(1) == 1 }

    /// Writes all of it; a reader that has gone (`| head`) ends the program quietly, as it does any filter.
    private static func write(_ text: String, to descriptor: Int32) {
        var rest = Array(text.utf8)[...]
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
