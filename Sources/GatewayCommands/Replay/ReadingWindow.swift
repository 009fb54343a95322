import HealthReadings

/// Hands readings on once each, though a context that follows revises its record: a reading waits until as many others
/// have come as may lie between a record and its context.
public struct ReadingWindow: Sendable {
    private var waiting: SlidingWindow<ReadingID, Reading>

    /// A window of this many readings, 1 or more.
    public init(size: Int = PassingJournal.window) { waiting = SlidingWindow(size: size) }

    /// Takes readings that are new or revised; returns those that will not change any more.
    public mutating func take(_ readings: [Reading]) -> [Reading] {
        var passed: [Reading] = []
        for reading in readings where !waiting.change(reading.id, { $0 = reading }) {
            if let oldest = waiting.append(reading, key: reading.id) { passed.append(oldest) }
        }
        return passed
    }

    /// Returns what still waits.
    public mutating func flush() -> [Reading] { waiting.removeAll() }
}
