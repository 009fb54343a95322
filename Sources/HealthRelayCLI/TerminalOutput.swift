import Foundation
import GatewayCommands
import GatewaySettings
import HealthReadings
import Synchronization

/// Nobody reads standard output any more: the program ends quietly, as any filter does.
struct OutputClosed: Error {}

/// An operation's terminal: prints its lines, shows how far it has come, and answers its questions.
final class TerminalOutput: OperationOutput {
    private struct State {
        /// Whether the last line of the terminal is a progress that the next one overwrites.
        var hasProgress = false
        var lastProgress: ContinuousClock.Instant?
    }

    /// How often progress is told where it cannot overwrite itself.
    private static let progressInterval: Duration = .seconds(1)
    /// How often it overwrites itself.
    private static let refreshInterval: Duration = .milliseconds(100)

    private let asJSON: Bool
    private let answers: AnswerSource
    private let isStream: Bool
    private let hasVerdict: Bool
    private let overwrites: Bool
    private let state = Mutex(State())

    /// - Parameters:
    ///   - isStream: whether the lines have no end: then the first one that cannot be written ends the operation.
    ///     Other work is done to its end, and the command says then that its output is not whole.
    ///   - hasVerdict: whether the command's status tells more than that its lines were written. A reader that has gone
    ///     ends any other command, with 0.
    init(asJSON: Bool, answers: AnswerSource, isStream: Bool = false, hasVerdict: Bool = false) {
        self.asJSON = asJSON
        self.answers = answers
        self.isStream = isStream
        self.hasVerdict = hasVerdict
        overwrites = !asJSON && isatty(2) == 1
    }

    func data(_ line: String) throws {
        clearProgress()
        guard Terminal.offer(line) || hasVerdict else { throw OutputClosed() }
        if isStream { try Terminal.requireWritten() }
    }

    /// A file has what was said, a terminal nothing that it would obey.
    func octets(_ octets: [UInt8]) throws {
        clearProgress()
        guard Terminal.offer(octets) else { throw OutputClosed() }
    }

    func settle() throws {
        if let reason = Terminal.failure {
            throw Problem(
                "output_failed", .inputOutput, "standard output cannot be written: \(reason)",
                hint: "free space, or write elsewhere; nothing is lost: start the command again")
        }
    }

    func note(_ line: String) {
        clearProgress()
        Self.note(line, asJSON: asJSON)
    }

    /// A line for standard error, where no progress is shown.
    static func note(_ line: String, asJSON: Bool) {
        // One that is a document already stays what it is.
        Terminal.error(asJSON && !line.hasPrefix("{") ? logLine("notice", line).text : PrintableText.escaped(line))
    }

    func warn(_ problem: Problem) {
        clearProgress()
        Failure.report(problem, asJSON: asJSON)
    }

    func progress(_ progress: TransferProgress) {
        // That a transfer begins is of interest where what says so goes again.
        guard overwrites || progress.received > 0 else { return }
        show(progress.line, .init("progress", progress.document), isLast: progress.isComplete)
    }

    /// A script that asked for no documents is not told.
    func progress(_ progress: WorkProgress) {
        guard overwrites || asJSON else { return }
        show(progress.line, .init("work", progress.document), isLast: false)
    }

    func pressure(_ pressure: CuffPressure) { show(pressure.line, .init("pressure", pressure.document), isLast: false) }

    /// Shows a line that the next one replaces, or not more often than people read where it cannot be replaced.
    private func show(_ line: String, _ member: JSONValue.Member, isLast: Bool) {
        let now = ContinuousClock.now
        let isDue = state.withLock { state in
            let interval = overwrites ? Self.refreshInterval : Self.progressInterval
            if let last = state.lastProgress, now - last < interval, !isLast { return false }
            state.lastProgress = now
            state.hasProgress = overwrites && !isLast
            return true
        }
        guard isDue else { return }
        if overwrites {
            Terminal.errorPart("\r\u{1B}[K" + PrintableText.escaped(line) + (isLast ? "\n" : ""))
        } else {
            Terminal.error(asJSON ? Self.logLine("info", line, [member]).text : line)
        }
    }

    func ask(_ question: Question) async throws -> Answer {
        clearProgress()
        return try await answers.answer(question)
    }

    /// A line as ``StandardErrorLog`` writes it.
    private static func logLine(_ level: String, _ message: String, _ more: [JSONValue.Member] = []) -> JSONValue {
        .object(
            [
                .init("at", .string(Instant.systemClock.description)), .init("level", .string(level)),
                .init("message", .string(message)),
            ] + more)
    }

    /// Takes away what is shown of a progress that has ended, or will not go on.
    func clearProgress() {
        let hadProgress = state.withLock { state in
            defer { state.hasProgress = false }
            return state.hasProgress
        }
        if hadProgress { Terminal.errorPart("\r\u{1B}[K") }
    }
}
