import Foundation
import GatewaySettings
import HelperProcesses
import Synchronization
import UnixSignals

/// Ends work by SIGINT and SIGTERM, and by SIGHUP when the terminal goes away, without leaving anything half done.
enum Interruption {
    /// How often standard output is looked at.
    private static let lookInterval: Duration = .seconds(1)

    /// Does something until it ends or a signal comes. A signal cancels it and waits for it to put things in order; a
    /// second one does not wait.
    ///
    /// - Throws: what the work throws, or ``Problem`` with status 75 where a signal ended what had not been done yet.
    static func endingBySignal<Outcome: Sendable>(
        _ body: @escaping @Sendable () async throws -> Outcome
    ) async throws -> Outcome {
        try await interruptible(isEndless: false, body) { throw stopped }
    }

    /// The same for what may go on until it is stopped: this also ends when nobody reads standard output any more, even
    /// where there is nothing to print.
    ///
    /// - Parameter isEndless: whether to be stopped is how it is meant to end.
    static func endingBySignal(isEndless: Bool, _ body: @escaping @Sendable () async throws -> Void) async throws {
        try await interruptible(isEndless: isEndless, body) { if !isEndless { throw stopped } }
    }

    private static var stopped: Problem {
        Problem("interrupted", .tryAgain, "interrupted; readings that had arrived are kept")
    }

    private static func interruptible<Outcome: Sendable>(
        isEndless: Bool, _ body: @escaping @Sendable () async throws -> Outcome,
        whenStopped: () throws -> Outcome
    ) async throws -> Outcome {
        // A reader that has gone away is told by the write's error, so that devices are left in order.
        signal(SIGPIPE, SIG_IGN)
        // What was started with `nohup` outlives its terminal.
        let trapped: [UnixSignal] = isIgnored(SIGHUP) ? [.sigint, .sigterm] : [.sigint, .sigterm, .sighup]
        let signals = await UnixSignalsSequence(trapping: trapped)
        // What a command does after it can be stopped as any program can.
        defer { for each in trapped { signal(each.rawValue, SIG_DFL) } }
        let work = Task { try await body() }
        let interruption = Flag()
        return try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask {
                for await each in signals {
                    // That the terminal has gone is told by the shell, and once more by the kernel.
                    if interruption.raise(), each != .sighup { ProcessEnd.now(Problem.ExitStatus.tryAgain.rawValue) }
                    work.cancel()
                }
            }
            if isEndless {
                group.addTask {
                    while !Terminal.readerHasGone { try await Task.sleep(for: Self.lookInterval) }
                    _ = interruption.raise()
                    work.cancel()
                }
            }
            defer { group.cancelAll() }
            do {
                return try await work.value
            } catch  where interruption.isRaised && isInterruption(error) {
                return try whenStopped()
            }
        }
    }

    private static func isIgnored(_ number: Int32) -> Bool {
        var action = sigaction()
        guard sigaction(number, nil, &action) == 0 else { return false }
        return unsafeBitCast(action.__sigaction_handler, to: Int.self) == unsafeBitCast(SIG_IGN, to: Int.self)
    }

    private static func isInterruption(_ error: any Error) -> Bool {
        error is CancellationError || (error as? Problem)?.code == "interrupted"
    }
}

/// Something that happens once.
private final class Flag: Sendable {
    private let value = Mutex(false)
    var isRaised: Bool { value.withLock(\.self) }

    /// - Returns: whether it was raised before.
    func raise() -> Bool {
        value.withLock { value in
            defer { value = true }
            return value
        }
    }
}
