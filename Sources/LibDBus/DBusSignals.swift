import Synchronization

/// Signals of a subscription, in the order they came, in bursts: each element is everything that one wake-up of the
/// event loop brought, together with what came before and was not taken yet; never empty.
///
/// It can be iterated once. Nothing is dropped: who takes nothing lets it grow. The match rule is taken off the bus when
/// the iteration ends, or when the last copy is let go of without one. Iterating ends with nil when the task is
/// cancelled, and with ``DBusError/disconnected`` when the bus goes away or the connection is closed.
public struct DBusSignals<Signal: Sendable>: AsyncSequence, Sendable {
    /// A burst.
    public typealias Element = [Signal]
    /// What ends it.
    public typealias Failure = DBusError

    private let subscription: SignalSubscription<Signal>

    init(_ subscription: SignalSubscription<Signal>) { self.subscription = subscription }

    /// The iterator; a second one finds nothing.
    public func makeAsyncIterator() -> Iterator { Iterator(subscription: subscription.claim()) }

    /// Takes burst after burst.
    public struct Iterator: AsyncIteratorProtocol {
        private var hold: IterationHold<Signal>?

        init(subscription: SignalSubscription<Signal>?) { hold = subscription.map { IterationHold($0) } }

        /// The next burst.
        public mutating func next() async throws(DBusError) -> [Signal]? { try await next(isolation: nil) }

        /// The next burst, without leaving the caller's executor.
        public mutating func next(isolation actor: isolated (any Actor)?) async throws(DBusError) -> [Signal]? {
            guard let subscription = hold?.subscription else { return nil }
            let taken = await withTaskCancellationHandler(
                operation: { await subscription.buffer.next(isolation: actor) },
                onCancel: { subscription.end() }, isolation: actor)
            if case .success(.some(let burst)) = taken { return burst }
            hold = nil
            return try taken.get()
        }
    }
}

/// What keeps a subscription: its stream and its iterator.
final class SignalSubscription<Signal: Sendable>: Sendable {
    let buffer: SignalBuffer<Signal>
    private let connection: DBusConnection
    private let number: UInt64
    private let isEnded = Atomic(false)
    private let isClaimed = Atomic(false)

    init(_ connection: DBusConnection, number: UInt64, buffer: SignalBuffer<Signal>) {
        (self.connection, self.number, self.buffer) = (connection, number, buffer)
    }

    deinit { end() }

    /// Itself, for the first who asks.
    func claim() -> SignalSubscription? {
        isClaimed.exchange(true, ordering: .relaxed) ? nil : self
    }

    func end() {
        if isEnded.exchange(true, ordering: .acquiringAndReleasing) { return }
        buffer.leave()
        Task { [connection, number] in await connection.unsubscribe(number) }
    }
}

/// Ends a subscription when its iterator is let go of.
final class IterationHold<Signal: Sendable>: Sendable {
    let subscription: SignalSubscription<Signal>

    init(_ subscription: SignalSubscription<Signal>) { self.subscription = subscription }

    deinit { subscription.end() }
}
