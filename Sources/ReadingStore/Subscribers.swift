import HealthReadings
import Synchronization

extension ReadingStore {
    /// Readings as they are committed, new or changed, one element for each commit; an empty one where some were erased.
    ///
    /// A listener that falls 1024 commits behind loses the oldest of them; the store has all.
    public func committedReadings() -> AsyncStream<[Reading]> {
        subscribers.listen(buffering: 1024)
    }

    func publish(_ outcomes: [FrameOutcome]) {
        guard subscribers.hasListeners else { return }
        let readings = outcomes.compactMap(\.changedReading)
        if !readings.isEmpty { subscribers.send(readings) }
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
