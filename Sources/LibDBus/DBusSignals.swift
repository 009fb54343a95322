import Synchronization

/// Signals of a subscription, in the order they came, in bursts: each element holds everything that one wake-up of the
/// event loop brought, together with what came before and was not taken yet; never empty.
///
/// The sequence can be iterated once. It is unbounded: a consumer that takes nothing makes it grow. The match rules are
/// taken off the bus when the iteration ends, or when the last copy is released without one. The iteration ends with
/// `nil` when the task is cancelled, and with ``DBusError/disconnected`` when the bus goes away or the connection is
/// closed.
public struct DBusSignals<Signal: Sendable>: AsyncSequence, Sendable {
    /// A burst.
    public typealias Element = [Signal]
    /// What ends it.
    public typealias Failure = DBusError

    private let claim: Claim

    init(_ subscription: DBusSubscription<Signal>) { claim = Claim(subscription) }

    /// The iterator; a second one finds nothing.
    public func makeAsyncIterator() -> Iterator { Iterator(subscription: claim.take()) }

    /// Takes burst after burst.
    public struct Iterator: AsyncIteratorProtocol {
        /// Its last reference takes the rules off the bus.
        private var subscription: DBusSubscription<Signal>?

        fileprivate init(subscription: DBusSubscription<Signal>?) { self.subscription = subscription }

        /// The next burst.
        public mutating func next() async throws(DBusError) -> [Signal]? { try await next(isolation: nil) }

        /// The next burst, without leaving the caller's executor.
        public mutating func next(isolation actor: isolated (any Actor)?) async throws(DBusError) -> [Signal]? {
            if !Task.isCancelled, let subscription {
                switch await subscription.next(isolation: actor) {
                case .signals(let burst): return burst
                case .ended(let error?):
                    self.subscription = nil
                    throw error
                case .ended(nil), .cancelled, .silence, .interrupted: break
                }
            }
            subscription = nil
            return nil
        }
    }

    /// Gives the subscription to the first iterator.
    private final class Claim: Sendable {
        private let subscription: Mutex<DBusSubscription<Signal>?>

        init(_ subscription: DBusSubscription<Signal>) { self.subscription = Mutex(subscription) }

        func take() -> DBusSubscription<Signal>? {
            subscription.withLock { subscription in
                defer { subscription = nil }
                return subscription
            }
        }
    }
}
