import Foundation
import GatewaySettings
import HealthReadings
import HelperProcesses
import Synchronization

/// The two streams of the process: data on standard output, everything else on standard error.
///
/// Lines are escaped here, whoever wrote them: see ``PrintableText``. Only ``errorPart(_:)`` writes as it is told.
enum Terminal {
    /// A reader that has gone (`| head`) ends the program quietly, as it does any filter.
    static func data(_ line: String) { data(Array((PrintableText.escaped(line) + "\n").utf8)) }
    /// Lines that come together, each with its end.
    static func data(_ lines: [UInt8]) { if !offer(lines: lines) { ProcessEnd.now(0) } }
    /// A line of what a gateway does while it runs: it runs on where that cannot be written, and its end is no failure.
    static func narrate(_ line: String) {
        if !write(Array((PrintableText.escaped(line) + "\n").utf8), to: 1, isNarration: true) { ProcessEnd.now(0) }
    }
    static func error(_ line: String) { errorPart(PrintableText.escaped(line) + "\n") }
    /// A text of several lines of our own.
    static func errorText(_ text: String) { errorPart(PrintableText.escaped(text, keepsLines: true) + "\n") }
    /// A part of a line that may move the cursor: a question, or what overwrites itself. What comes from outside must be
    /// escaped before.
    static func errorPart(_ text: String) { _ = write(Array(text.utf8), to: 2) }

    /// - Returns: false where nobody reads any more.
    static func offer(_ line: String) -> Bool { write(Array((PrintableText.escaped(line) + "\n").utf8), to: 1) }

    /// Lines that come together, each with its end.
    /// - Returns: false where nobody reads any more.
    static func offer(lines: [UInt8]) -> Bool { write(PrintableText.escaped(lines), to: 1) }

    /// Octets of a file: as they are, unless a person looks at them.
    /// - Returns: false where nobody reads any more.
    static func offer(_ octets: [UInt8]) -> Bool {
        write(isInteractive ? PrintableText.escaped(octets) : octets, to: 1)
    }

    /// Writes octets as they are, whoever looks at them.
    static func write(_ octets: [UInt8]) throws(POSIXError) {
        var rest = octets[...]
        while !rest.isEmpty {
            let count = rest.withUnsafeBytes { Glibc.write(1, $0.baseAddress, $0.count) }
            if count < 0, errno == EAGAIN {
                waitForRoom(1)
                continue
            }
            guard count >= 0 || errno == EINTR else { throw POSIXError(POSIXErrorCode(rawValue: errno) ?? .EIO) }
            rest = rest.dropFirst(max(count, 0))
        }
    }

    private static let firstFailure = Mutex<String?>(nil)

    /// Refuses to go on where standard output could not be written.
    ///
    /// - Throws: `output_failed`.
    static func requireWritten() throws(Problem) {
        guard let reason = firstFailure.withLock(\.self) else { return }
        throw failed(reason)
    }

    /// `output_failed`, for this reason.
    static func failed(_ reason: String) -> Problem {
        Problem(
            "output_failed", .inputOutput, "standard output cannot be written: \(reason)",
            hint: "free space, or write elsewhere; what was printed is not all of it")
    }

    /// Waits until a descriptor that does not block takes more: the other end of a pipe may have made it one.
    private static func waitForRoom(_ descriptor: Int32) {
        var state = pollfd(fd: descriptor, events: Int16(POLLOUT), revents: 0)
        // A signal only has the caller try again.
        _ = poll(&state, 1, -1)
    }

    /// Why not everything is where standard output goes: on disk, if that is a file; `nil` if it is.
    static var failure: String? {
        if let failure = firstFailure.withLock(\.self) { return failure }
        // A pipe, a terminal or /dev/null has nothing to synchronise.
        guard fsync(1) != 0, ![EINVAL, EROFS, ENOTSUP].contains(errno) else { return nil }
        return String(cString: strerror(errno))
    }

    /// Whether standard output is a pipe that nobody reads any more.
    static var readerHasGone: Bool {
        var state = pollfd(fd: 1, events: 0, revents: 0)
        return poll(&state, 1, 0) == 1 && state.revents & Int16(POLLERR) != 0
    }

    /// Whether standard output is a terminal.
    static var isInteractive: Bool { isatty(1) == 1 }

    /// Whether standard error is a terminal.
    static var showsErrors: Bool { isatty(2) == 1 }

    /// Writes all of it; to standard output nothing any more once a part of it could not be written, since what came after
    /// the gap would look whole.
    ///
    /// - Returns: false where the reader has gone.
    private static func write(_ octets: [UInt8], to descriptor: Int32, isNarration: Bool = false) -> Bool {
        if descriptor == 1, firstFailure.withLock(\.self) != nil { return true }
        var rest = octets[...]
        while !rest.isEmpty {
            let count = rest.withUnsafeBytes { Glibc.write(descriptor, $0.baseAddress, $0.count) }
            if count > 0 {
                rest = rest.dropFirst(count)
            } else if errno == EPIPE {
                return false
            } else if errno == EAGAIN {
                waitForRoom(descriptor)
            } else if errno != EINTR {
                let reason = String(cString: strerror(errno))
                if descriptor == 1, !isNarration { firstFailure.withLock { $0 = $0 ?? reason } }
                return true
            }
        }
        return true
    }
}
