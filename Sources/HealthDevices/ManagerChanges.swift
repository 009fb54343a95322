import GATTClient
import HealthReadings
import Synchronization

/// What a manager tells those that act on it: in the order it happened, and before the call that caused it returns.
final class ManagerChanges: Sendable {
    enum Change: Sendable {
        /// Which devices are paired may have changed.
        case pairings
        /// A reading of a device has ended, whoever asked for it.
        case ended(DeviceAddress, ReadingOutcome)
    }

    private struct State {
        /// In the order they came.
        var subscribers: [(number: Int, body: @Sendable (Change) -> Void)] = []
        var next = 0
    }

    private let state = Mutex(State())

    func post(_ change: Change) {
        for subscriber in state.withLock({ $0.subscribers }) { subscriber.body(change) }
    }

    /// - Parameter body: must not block.
    /// - Returns: what ends it.
    func subscribe(_ body: @escaping @Sendable (Change) -> Void) -> @Sendable () -> Void {
        let number = state.withLock { state in
            state.next += 1
            state.subscribers.append((state.next, body))
            return state.next
        }
        return { [weak self] in self?.state.withLock { $0.subscribers.removeAll { $0.number == number } } }
    }
}

/// How a reading ended, as far as it matters for when to read next.
enum ReadingOutcome: Sendable {
    /// All that is new came: so many records.
    case complete(model: String?, news: Int)
    /// It was left, or has hung up, and what it measures may come yet: it sends for as long as it is worn, or has sent
    /// nothing so far.
    case unfinished(model: String?, hasSent: Bool)
    /// The link was cut, and what had come was new: the next time there is less to bring.
    case cut(ContactFailure)
    /// Something else went wrong; `isLasting` where trying again soon cannot help.
    case failed(ContactFailure, isLasting: Bool)
    /// Nothing that says anything of the device: the radio went away, the reading was cancelled, the device was not
    /// there.
    case withdrawn

    /// What it says where the radio had gone.
    var withoutRadio: ReadingOutcome { if case .complete = self { self } else { .withdrawn } }

    /// - Parameters:
    ///   - course: what came of the transfer.
    ///   - mayBeMeasuring: whether a device of its model may send a record later, if it has sent none.
    init(_ result: Result<ContactSummary, any Error>, _ course: SharedTransfer.Course, mayBeMeasuring: Bool) {
        switch result {
        case .success(let summary):
            guard let failure = ContactFailure(summary) else {
                let hasSent = summary.received > 0
                self =
                    course.wasLeft || mayBeMeasuring && !hasSent
                    ? .unfinished(model: course.model, hasSent: hasSent)
                    : .complete(model: course.model, news: course.news)
                return
            }
            let wasCut = failure.code == TransferError.interrupted(received: 0).code
            self =
                wasCut && course.news > 0
                ? .cut(failure) : .failed(failure, isLasting: failure.code == TransferError.nothingToRead.code)
        case .failure(let error):
            switch error {
            case is CancellationError, RadioError.notSeen, RadioError.notBonded: self = .withdrawn
            case let error as RadioError where error.concernsTheRadio: self = .withdrawn
            case RadioError.forgottenByDevice: self = .failed(ContactFailure(error), isLasting: true)
            default: self = .failed(ContactFailure(error), isLasting: false)
            }
        }
    }
}
