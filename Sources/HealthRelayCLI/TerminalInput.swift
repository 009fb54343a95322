import Dispatch
import Foundation
import GatewaySettings
import HealthReadings

/// What a person types.
enum TerminalInput {
    /// Whether standard input is a terminal.
    static var isThere: Bool { isatty(0) == 1 }

    /// Refuses what a person has to confirm where nobody can be asked.
    ///
    /// - Parameter reason: why somebody has to: `forgetting cannot be undone`.
    static func require(because reason: String, hint: String) throws(Problem) {
        guard isThere else {
            throw Problem("not_confirmed", .usage, "\(reason), and there is no terminal to confirm at", hint: hint)
        }
    }

    /// Asks, and waits for a yes or for anything else.
    static func yes(_ prompt: String) async throws -> Bool {
        let line = try await line(prompt) ?? ""
        return ["y", "yes"].contains(line.trimmingCharacters(in: .whitespacesAndNewlines).lowercased())
    }

    /// Asks and waits for a line that is not shown; nil where the input has ended.
    ///
    /// - Throws: `CancellationError` where the answer is no longer wanted.
    static func secret(_ prompt: String) async throws -> String? {
        var attributes = termios()
        guard tcgetattr(0, &attributes) == 0 else { return try await line(prompt) }
        var hidden = attributes
        hidden.c_lflag &= ~tcflag_t(ECHO)
        tcsetattr(0, TCSAFLUSH, &hidden)
        defer {
            tcsetattr(0, TCSAFLUSH, &attributes)
            Terminal.errorPart("\n")
        }
        return try await line(prompt)
    }

    /// Asks and waits for a line; nil where the input has ended. Holds no thread while it waits.
    ///
    /// - Throws: `CancellationError` where the answer is no longer wanted.
    static func line(_ prompt: String) async throws -> String? {
        Terminal.errorPart(PrintableText.escaped(prompt))
        let lines = AsyncStream<String?> { continuation in
            let source = DispatchSource.makeReadSource(fileDescriptor: 0, queue: .global())
            source.setEventHandler {
                // A terminal hands out one line at a time.
                var octets = [UInt8](repeating: 0, count: 1024)
                let count = read(0, &octets, octets.count)
                guard count >= 0 || errno != EINTR && errno != EAGAIN else { return }
                continuation.yield(count > 0 ? String(decoding: octets[..<count], as: UTF8.self) : nil)
                continuation.finish()
            }
            // The source is only cancelled here, which any thread may do.
            nonisolated(unsafe) let watched = source
            continuation.onTermination = { _ in watched.cancel() }
            source.resume()
        }
        for await line in lines { return line }
        Terminal.errorPart("\n")
        throw CancellationError()
    }
}
