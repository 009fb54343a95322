import Foundation
import GatewaySettings
import HelperProcesses

/// A running `healthrelay-capture`: btsnoop on its output, lines for programs on its standard error.
final class CaptureHelperProcess {
    /// What the helper said on standard error.
    struct Words {
        /// Why it ended.
        var problem: (code: String, message: String)?
        /// Counts, at its end.
        var totals: [String: UInt64] = [:]
        /// The last line that is none of its own: a loader's, for one.
        var stray: String?
        /// What happened, not yet told.
        var notes: [(code: String, message: String)] = []
    }

    let path: String
    private let process = Process()
    private let (output, errors) = (Pipe(), Pipe())
    private let lifeline: Lifeline
    private var line: [UInt8] = []
    private(set) var words = Words()

    init(path: String, arguments: [String]) throws(Problem) {
        self.path = path
        let input = Pipe()
        lifeline = Lifeline(input.fileHandleForWriting)
        process.executableURL = URL(fileURLWithPath: path)
        process.arguments = arguments
        process.environment = HelperEnvironment.minimal(ProcessInfo.processInfo.environment)
        process.standardInput = input
        process.standardOutput = output
        process.standardError = errors
        do { try process.run() } catch {
            if access(path, X_OK) != 0 { throw CaptureHelperLocation.notPermitted(path) }
            throw Problem("capture_helper_failed", .unavailable, "\(path) cannot be run: \(error)")
        }
    }

    /// Asks the helper to end, from any thread: after its last whole record, or at once.
    var stop: @Sendable (_ atOnce: Bool) -> Void {
        let identifier = process.processIdentifier
        return { [isOver, lifeline] atOnce in
            lifeline.cut()
            // Not after it was waited for: the number may be another's by then.
            isOver.unlessSet { kill(identifier, atOnce ? SIGKILL : SIGTERM) }
        }
    }

    private let isOver = SharedFlag()

    /// What to wait for.
    var descriptors: (output: Int32, errors: Int32) {
        (output.fileHandleForReading.fileDescriptor, errors.fileHandleForReading.fileDescriptor)
    }

    /// Reads what there is of the recording; empty at its end.
    func readOutput() -> [UInt8] { Self.read(descriptors.output, most: 256 * 1024) }

    /// Reads what there is of standard error; false at its end.
    func readErrors() -> Bool {
        let octets = Self.read(descriptors.errors, most: 4096)
        for octet in octets {
            if octet != 0x0A {
                // A line is short; more is not the helper's.
                if line.count < 4096 { line.append(octet) }
                continue
            }
            interpret(String(decoding: line, as: UTF8.self))
            line = []
        }
        if octets.isEmpty, !line.isEmpty { interpret(String(decoding: line, as: UTF8.self)) }
        return !octets.isEmpty
    }

    private func interpret(_ text: String) {
        let parts = text.split(separator: "\t", maxSplits: 2, omittingEmptySubsequences: false).map(String.init)
        switch (parts.count, parts.first) {
        case (3, "problem"): words.problem = (parts[1], parts[2])
        case (3, "note"): words.notes.append((parts[1], parts[2]))
        case (3, "total"): words.totals[parts[1]] = UInt64(parts[2])
        default: if !text.isEmpty { words.stray = text }
        }
    }

    func takeNotes() -> [(code: String, message: String)] {
        defer { words.notes = [] }
        return words.notes
    }

    /// Waits for its end.
    /// - Returns: why it ended by itself; nil where it was asked to, or has ended in order.
    func finish(wasAsked: Bool) -> Problem? {
        lifeline.cut()
        while readErrors() {}
        process.waitUntilExit()
        isOver.set()
        if let (code, message) = words.problem {
            return Problem(
                code, Problem.ExitStatus(rawValue: process.terminationStatus) ?? .ourFault, message, hint: hint(code))
        }
        let isSignal = process.terminationReason == .uncaughtSignal
        if wasAsked || (!isSignal && process.terminationStatus == 0) { return nil }
        let why = words.stray ?? (isSignal ? "signal" : "status") + " \(process.terminationStatus)"
        return Problem("capture_helper_failed", .unavailable, "\(path) has ended: \(why)")
    }

    private func hint(_ code: String) -> String? {
        switch code {
        case "capture_not_permitted":
            "give the program the capability once: `sudo setcap cap_net_raw+ep \(path)`, or run this command with sudo"
        case "no_adapter": "plug one in, or name another with --adapter"
        case "no_bluetooth": "load the kernel's module (`sudo modprobe bluetooth`), and record outside containers"
        default: nil
        }
    }

    private static func read(_ descriptor: Int32, most: Int) -> [UInt8] {
        [UInt8](unsafeUninitializedCapacity: most) { buffer, count in
            while true {
                let result = Glibc.read(descriptor, buffer.baseAddress, most)
                if result < 0, errno == EINTR { continue }
                count = max(0, result)
                return
            }
        }
    }
}
