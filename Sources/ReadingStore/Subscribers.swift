import HealthReadings
import Synchronization

extension ReadingStore {
    /// Readings as they are committed, new or changed, one element for each commit; an empty one where some were erased.
    ///
    /// A listener that falls 1024 commits behind loses the oldest of them; the store has all.
    public func committedReadings() -> AsyncStream<[Reading]> {
        subscribers.listen(buffering: 1024)
    }

    /// Rings when changes may have been committed; at most one ring is kept for a listener that is busy.
    package func changeRings() -> AsyncStream<Void> { changeBells.listen(buffering: 1) }

    func publish(_ outcomes: [FrameOutcome]) {
        guard outcomes.contains(where: { $0.changedReading != nil }) else { return }
        changeBells.ring()
        if subscribers.hasListeners { subscribers.send(outcomes.compactMap(\.changedReading)) }
    }

    /// Tells that readings were erased or pruned, or can be read again.
    func publishRemoval() {
        changeBells.ring()
        subscribers.send([])
    }
}

extension FrameOutcome {
    /// The reading that is new or differs now; nil where nothing changed.
    public var changedReading: Reading? {
        switch self {
        case .new(let reading), .revised(let reading), .clash(let reading, with: _): reading
        case .repeated, .waiting, .nothing, .malformed: nil
        }
    }
}
