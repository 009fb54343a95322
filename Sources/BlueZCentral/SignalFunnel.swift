import LibDBus
import Synchronization

/// Signals of several match rules, decoded on the bus's event loop: in the order they were on the wire, by the burst.
///
/// What one wake-up of the event loop brought is handed out together. Used by one task at a time.
final class SignalFunnel<Event: Sendable>: Sendable {
    enum Outcome: Sendable {
        /// In order; never empty.
        case events([Event])
        /// Nothing came in time.
        case silence
        /// The bus went away, or the funnel was closed; everything before was handed out.
        case ended
        /// The waiting task was cancelled.
        case cancelled
        /// Somebody has poked.
        case poked
    }

    private struct Waiter {
        var number: UInt64
        var continuation: CheckedContinuation<Outcome, Never>
        var timer: Task<Void, Never>?
    }

    private struct State {
        /// Decoded, and not yet released: the event loop may be about to bring more.
        var staged: [Event] = []
        /// How many of the staged may be handed out.
        var released = 0
        var hasEnded = false
        var isPoked = false
        var waiter: Waiter?
        var waiters: UInt64 = 0
        var pumps: [Task<Void, Never>] = []
    }

    private let state = Mutex(State())

    deinit {
        let pumps = state.withLock(\.pumps)
        for pump in pumps { pump.cancel() }
    }

    /// Adds what a rule brings. The rule is on the bus when this returns.
    ///
    /// - Parameter decode: runs on the event loop; nil for what is not wanted.
    func add(
        _ rule: DBusMatch, on connection: DBusConnection,
        decode: @escaping @Sendable (borrowing DBusSignal) -> Event?
    ) async throws(DBusError) {
        let signals = try await connection.signals(rule) { [weak self] signal -> Bool? in
            guard let self, let event = decode(signal) else { return nil }
            state.withLock { $0.staged.append(event) }
            return true
        }
        let pump = Task(executorPreference: connection.taskExecutor) { [weak self] in
            do {
                for try await _ in signals { self?.release() }
            } catch {
                // That the bus went away is the end, which is told below.
            }
            self?.end()
        }
        let isClosed = state.withLock { state in
            state.pumps.append(pump)
            return state.hasEnded
        }
        if isClosed { pump.cancel() }
    }

    /// The next burst, waiting for it for a time, or for as long as it takes.
    func next(within timeout: Duration? = nil) async -> Outcome {
        let (number, ready) = state.withLock { state -> (UInt64, Outcome?) in
            state.waiters += 1
            guard let timeout, timeout <= .zero else { return (state.waiters, Self.take(&state)) }
            state.released = state.staged.count
            return (state.waiters, Self.take(&state) ?? .silence)
        }
        if let ready { return ready }
        return await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let waiter = Waiter(
                    number: number, continuation: continuation,
                    timer: timeout.map { timeout in
                        Task { [weak self] in
                            guard (try? await Task.sleep(for: timeout)) != nil else { return }
                            self?.resume(number, .silence)
                        }
                    })
                let (outcome, previous) = state.withLock { state -> (Outcome?, Waiter?) in
                    if let outcome = Self.take(&state) { return (outcome, nil) }
                    defer { state.waiter = waiter }
                    return (nil, state.waiter)
                }
                previous?.timer?.cancel()
                previous?.continuation.resume(returning: .cancelled)
                if let outcome {
                    waiter.timer?.cancel()
                    continuation.resume(returning: outcome)
                } else if Task.isCancelled {
                    resume(number, .cancelled)
                }
            }
        } onCancel: {
            resume(number, .cancelled)
        }
    }

    /// What has been decoded by now, without waiting for the burst's end.
    func drain() -> [Event] {
        state.withLock { state in
            defer {
                state.staged = []
                state.released = 0
            }
            return state.staged
        }
    }

    /// Removes the last event that has not been handed out and is meant.
    func removeLast(where isMeant: (Event) -> Bool) {
        state.withLock { state in
            guard let index = state.staged.lastIndex(where: isMeant) else { return }
            state.staged.remove(at: index)
            if index < state.released { state.released -= 1 }
        }
    }

    /// Removes the rules; what has come stays to be drained.
    func close() {
        let pumps = state.withLock { state in
            defer { state.pumps = [] }
            return state.pumps
        }
        for pump in pumps { pump.cancel() }
        end()
    }

    private static func take(_ state: inout State) -> Outcome? {
        if state.hasEnded { state.released = state.staged.count }
        if state.released > 0 {
            let events: [Event]
            if state.released == state.staged.count {
                events = state.staged
                state.staged = []
            } else {
                events = Array(state.staged.prefix(state.released))
                state.staged.removeFirst(state.released)
            }
            state.released = 0
            return .events(events)
        }
        if state.isPoked {
            state.isPoked = false
            return .poked
        }
        return state.hasEnded ? .ended : nil
    }

    /// Lets whoever waits, or is about to, look up.
    func poke() { signal { $0.isPoked = true } }

    private func release() { signal { $0.released = $0.staged.count } }

    private func end() { signal { $0.hasEnded = true } }

    /// Changes the state, and hands over what can be handed over now.
    private func signal(_ change: (inout State) -> Void) {
        let (waiter, outcome) = state.withLock { state -> (Waiter?, Outcome?) in
            change(&state)
            guard state.waiter != nil, let outcome = Self.take(&state) else { return (nil, nil) }
            defer { state.waiter = nil }
            return (state.waiter, outcome)
        }
        guard let waiter, let outcome else { return }
        waiter.timer?.cancel()
        waiter.continuation.resume(returning: outcome)
    }

    /// Ends a wait without a burst; events that have come go before silence.
    private func resume(_ number: UInt64, _ outcome: Outcome) {
        let (waiter, found) = state.withLock { state -> (Waiter?, Outcome) in
            guard state.waiter?.number == number else { return (nil, outcome) }
            defer { state.waiter = nil }
            if case .silence = outcome {
                state.released = state.staged.count
                return (state.waiter, Self.take(&state) ?? outcome)
            }
            return (state.waiter, outcome)
        }
        guard let waiter else { return }
        waiter.timer?.cancel()
        waiter.continuation.resume(returning: found)
    }
}
