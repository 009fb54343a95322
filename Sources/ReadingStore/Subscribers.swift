import HealthReadings

/// Those who are told of readings as they are committed.
struct Subscribers: Sendable {
    private var continuations: [Int: AsyncStream<[Reading]>.Continuation] = [:]
    private var next = 0

    mutating func add(_ continuation: AsyncStream<[Reading]>.Continuation) -> Int {
        next += 1
        continuations[next] = continuation
        return next
    }

    mutating func remove(_ number: Int) { continuations[number] = nil }

    /// Forgets all; they are to be finished outside any lock, since finishing calls back.
    mutating func removeAll() -> [AsyncStream<[Reading]>.Continuation] {
        defer { continuations = [:] }
        return Array(continuations.values)
    }

    func publish(_ readings: [Reading]) {
        for continuation in continuations.values { continuation.yield(readings) }
    }

    var isEmpty: Bool { continuations.isEmpty }
}

extension ReadingStore {
    /// Readings as they are committed, new or changed, one element for each commit; an empty one where some were erased.
    ///
    /// A listener that falls 1024 commits behind loses the oldest of them; the store has all.
    public func committedReadings() -> AsyncStream<[Reading]> {
        AsyncStream(bufferingPolicy: .bufferingNewest(1024)) { continuation in
            let number = subscribers.withLock { $0.add(continuation) }
            continuation.onTermination = { [weak self] _ in self?.subscribers.withLock { $0.remove(number) } }
        }
    }

    func publish(_ outcomes: [FrameOutcome]) {
        guard subscribers.withLock({ !$0.isEmpty }) else { return }
        let readings = outcomes.compactMap(\.changedReading)
        guard !readings.isEmpty else { return }
        subscribers.withLock { $0.publish(readings) }
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
