import HealthReadings
import ReadingStore

/// Holds readings back for the one step in which a meter sends their context, so that each is told once and whole.
struct ContextJoin {
    private var pending: [Reading] = []

    /// What is to be told once these frames are stored: readings of the step before, and what changed of older ones.
    mutating func take(_ outcomes: [FrameOutcome]) -> [Reading] {
        var (ready, held) = (pending.count, [Reading]())
        var later: [Reading] = []
        for outcome in outcomes {
            guard let reading = outcome.changedReading else { continue }
            if case .new = outcome {
                held.append(reading)
            } else if let place = held.firstIndex(where: { $0.id == reading.id }) {
                held[place] = reading
            } else if let place = pending.firstIndex(where: { $0.id == reading.id }) {
                pending[place] = reading
            } else {
                later.append(reading)
            }
        }
        // Frames that bring nothing to tell leave those that wait where they are.
        if outcomes.allSatisfy({ if case .waiting = $0 { true } else { false } }) { ready = 0 }
        defer { pending = Array(pending.dropFirst(ready)) + held }
        return pending.prefix(ready) + later
    }

    /// What is still held back: the transfer is over.
    mutating func rest() -> [Reading] {
        defer { pending = [] }
        return pending
    }
}
