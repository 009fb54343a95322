/// Signals that meet any of several match rules, in the order they were on the wire.
///
/// All rules fill one queue, so signals of different objects and interfaces keep their order. The event loop decodes a
/// signal once, however many of the rules it meets, and hands over in one burst what one wake-up brought. One task at a
/// time takes bursts.
///
/// The queue has no bound: no value may be lost, so a reader that takes nothing makes it grow. Ending the task that waits
/// leaves the subscription as it is; ``close()`` takes the rules off the bus.
package final class DBusSubscription<Signal: Sendable>: Sendable {
    private let connection: DBusConnection
    private let queue: SignalQueue<Signal>

    /// Makes a subscription without rules.
    ///
    /// - Parameter decode: runs on the event loop and must not block; `nil` drops the signal.
    package init(_ connection: DBusConnection, decode: @escaping @Sendable (borrowing DBusSignal) -> Signal?) {
        self.connection = connection
        queue = SignalQueue(decode)
    }

    deinit { close() }

    /// Adds rules. They are on the bus when this returns; if one is refused, none of them stays.
    ///
    /// - Throws: ``DBusError``: ``DBusError/invalidArgument(_:)`` for a rule that is not one, ``DBusError/cancelled`` if
    ///   the subscription was closed, or what the bus answers.
    package func add(_ matches: DBusMatch...) async throws(DBusError) { try await add(matches) }

    func add(_ matches: [DBusMatch]) async throws(DBusError) { try await connection.add(matches, to: queue) }

    /// Waits for the next burst.
    ///
    /// - Parameter timeout: how long to wait; zero takes what has come, and `nil` waits as long as it takes.
    package func next(
        within timeout: Duration? = nil, isolation: isolated (any Actor)? = #isolation
    ) async -> DBusOutcome<Signal> {
        let (number, ready) = queue.state.withLock { state -> (UInt64, DBusOutcome<Signal>?) in
            state.waits += 1
            if let outcome = state.take() { return (state.waits, outcome) }
            return (state.waits, timeout.map { $0 <= .zero } ?? false ? .silence : nil)
        }
        if let ready { return ready }
        var timer: Task<Void, Never>?
        defer { timer?.cancel() }
        return await withTaskCancellationHandler(
            operation: {
                await withCheckedContinuation(isolation: isolation) { continuation in
                    queue.wait(number, continuation)
                    if let timeout { timer = queue.stopWaiting(number, after: timeout) }
                    if Task.isCancelled { queue.stopWaiting(number, .cancelled) }
                }
            }, onCancel: { queue.stopWaiting(number, .cancelled) }, isolation: isolation)
    }

    /// Takes the signals that have been handed over by now, which includes all that came before an answer.
    package func drain() -> [Signal] {
        queue.state.withLock { state in
            defer { state.waiting = [] }
            return state.waiting
        }
    }

    /// Removes the last signal that meets the condition and has not been taken.
    package func removeLast(where isMeant: (Signal) -> Bool) {
        queue.state.withLock { state in
            if let index = state.waiting.lastIndex(where: isMeant) { state.waiting.remove(at: index) }
        }
    }

    /// Ends the wait of the reader, or its next wait, with ``DBusOutcome/interrupted``.
    package func interrupt() { queue.change { $0.isInterrupted = true } }

    /// Whether a task waits for signals.
    var hasReader: Bool { queue.state.withLock { $0.waiter != nil } }

    /// Takes the rules off the bus and ends the reader's wait. What has come can still be taken.
    package func close() {
        guard queue.end(with: nil) else { return }
        Task { [connection, queue] in await connection.remove(queue) }
    }
}

/// What a reader of a ``DBusSubscription`` gets.
package enum DBusOutcome<Signal: Sendable>: Sendable {
    /// Signals in order; never empty.
    case signals([Signal])
    /// Nothing came in time.
    case silence
    /// Nothing more will come, because the bus went away (with the error) or the subscription was closed.
    case ended(DBusError?)
    /// The waiting task was cancelled, or another took its place.
    case cancelled
    /// ``DBusSubscription/interrupt()`` was called.
    case interrupted
}

/// The queue of a subscription: filled by the event loop, emptied by the reader.
final class SignalQueue<Signal: Sendable>: Sendable {
    typealias Waiting = CheckedContinuation<DBusOutcome<Signal>, Never>

    struct Waiter {
        var number: UInt64
        var continuation: Waiting
    }

    struct State {
        /// What the reader may take.
        var waiting: [Signal] = []
        var isInterrupted = false
        var hasEnded = false
        var error: DBusError?
        var waiter: Waiter?
        var waits: UInt64 = 0

        mutating func take() -> DBusOutcome<Signal>? {
            if !waiting.isEmpty {
                var taken: [Signal] = []
                swap(&taken, &waiting)
                return .signals(taken)
            }
            if isInterrupted {
                isInterrupted = false
                return .interrupted
            }
            return hasEnded ? .ended(error) : nil
        }
    }

    let state = Lock(State())
    let decode: @Sendable (borrowing DBusSignal) -> Signal?

    init(_ decode: @escaping @Sendable (borrowing DBusSignal) -> Signal?) { self.decode = decode }

    var isClosed: Bool { state.withLock { $0.hasEnded } }

    /// Ends the queue behind everything that was handed over.
    ///
    /// - Parameter error: why; `nil` if the subscription was closed.
    /// - Returns: whether it had not ended before.
    @discardableResult func end(with error: DBusError?) -> Bool {
        change { state in
            if state.hasEnded { return false }
            (state.hasEnded, state.error) = (true, error)
            return true
        }
    }

    /// Changes the state, and hands the waiting reader what it can be told now.
    func change<Result: Sendable>(_ body: (inout State) -> Result) -> Result {
        let (result, waiter, outcome) = state.withLock { state -> (Result, Waiter?, DBusOutcome<Signal>?) in
            let result = body(&state)
            guard let waiter = state.waiter, let outcome = state.take() else { return (result, nil, nil) }
            state.waiter = nil
            return (result, waiter, outcome)
        }
        if let outcome { waiter?.continuation.resume(returning: outcome) }
        return result
    }

    /// Lets a reader wait, in place of the one before.
    func wait(_ number: UInt64, _ continuation: Waiting) {
        let waiter = Waiter(number: number, continuation: continuation)
        let previous = change { state in
            defer { state.waiter = waiter }
            return state.waiter
        }
        previous?.continuation.resume(returning: .cancelled)
    }

    /// Ends a reader's wait after a time, unless the task is cancelled before.
    func stopWaiting(_ number: UInt64, after timeout: Duration) -> Task<Void, Never> {
        Task { [weak self] in
            guard (try? await Task.sleep(for: timeout)) != nil else { return }
            self?.stopWaiting(number, .silence)
        }
    }

    /// Ends a reader's wait without signals.
    func stopWaiting(_ number: UInt64, _ outcome: DBusOutcome<Signal>) {
        let waiter = state.withLock { state -> Waiter? in
            guard state.waiter?.number == number else { return nil }
            defer { state.waiter = nil }
            return state.waiter
        }
        waiter?.continuation.resume(returning: outcome)
    }
}

/// The event loop's side of a subscription whose signals are decoded to a type.
final class DecodingRoute<Signal: Sendable>: SignalRoute {
    private let queue: SignalQueue<Signal>
    private let decode: @Sendable (borrowing DBusSignal) -> Signal?
    /// What the present wake-up has brought so far.
    private var burst: [Signal] = []

    init(_ queue: SignalQueue<Signal>) {
        (self.queue, decode) = (queue, queue.decode)
        super.init(queue)
    }

    override func receive(_ signal: borrowing DBusSignal) {
        if let element = decode(signal) { burst.append(element) }
    }

    override func release() -> Bool {
        if burst.isEmpty { return false }
        var full: [Signal] = []
        swap(&full, &burst)
        let waiter = queue.state.withLock { state -> SignalQueue<Signal>.Waiter? in
            if state.hasEnded { return nil }
            if let waiter = state.waiter {
                state.waiter = nil
                return waiter
            }
            if state.waiting.isEmpty { state.waiting = full } else { state.waiting.append(contentsOf: full) }
            return nil
        }
        waiter?.continuation.resume(returning: .signals(full))
        return true
    }

    override func end(with error: DBusError) {
        _ = release()
        queue.end(with: error)
    }
}
