import HealthReadings

/// Hands readings on once each, though a context that follows revises its record: a reading waits until as many others
/// have come as may lie between a record and its context.
public struct ReadingWindow: Sendable {
    private var waiting: [Reading] = []
    private let size: Int

    /// A window of this many readings.
    public init(size: Int = PassingJournal.window) { self.size = size }

    /// Takes readings that are new or revised; returns those that will not change any more.
    public mutating func take(_ readings: [Reading]) -> [Reading] {
        for reading in readings {
            if let index = waiting.lastIndex(where: { $0.id == reading.id }) {
                waiting[index] = reading
            } else {
                waiting.append(reading)
            }
        }
        guard waiting.count > size else { return [] }
        defer { waiting.removeFirst(waiting.count - size) }
        return Array(waiting.prefix(waiting.count - size))
    }

    /// Returns what still waits.
    public mutating func flush() -> [Reading] {
        defer { waiting = [] }
        return waiting
    }
}
