import HealthReadings
import ReadingStore
import ReadingSync

/// Tells a person each reading's way: stored, source checked, posted, acknowledged.
///
/// It prints values, so it is for replays of captures in front of a person, never for a service's log.
public actor Narrator {
    private let print: @Sendable (String) -> Void
    private var lines: [ReadingID: String] = [:]
    private var providers: [ReadingID: String] = [:]

    /// A narrator that says its lines through `print`.
    public init(print: @escaping @Sendable (String) -> Void) { self.print = print }

    /// A frame became durable.
    public func stored(_ outcome: FrameOutcome) {
        switch outcome {
        case .new(let reading):
            print("stored        \(reading.line)")
            if reading.excluded == nil {
                lines[reading.id] = "\(reading.time.instant?.description ?? "")  \(reading.record.words)"
                providers[reading.id] = reading.device.provider
            }
        case .clash(let reading, with: let other): print("clash         \(reading.line), kept beside \(other)")
        case .malformed(let error): print("malformed     \(error); its octets are kept")
        case .revised, .repeated, .waiting, .nothing: break
        }
    }

    /// Delivery went a step on.
    public func delivery(_ event: SyncEvent) {
        switch event {
        case .readings(let ids, .sourceChecked):
            let connected = Set(ids.compactMap { providers[$0] }).sorted().joined(separator: ", ")
            print("source        \(connected) is connected: \(ids.count) readings may go")
        case .readings(let ids, .posted):
            for id in ids { lines[id].map { print("posted        \($0)") } }
        case .readings(let ids, .acknowledged):
            for id in ids {
                guard let line = lines.removeValue(forKey: id) else { continue }
                providers[id] = nil
                print("acknowledged  \(line)")
            }
        case .readings(let ids, .setAside(let words)):
            for id in ids { print("refused       \(lines[id] ?? id.description): the server said: \(words)") }
        case .held(let target, let hold, let count, let reason):
            print("held          \(count) for \(target.provider): \(hold.words)" + (reason.map { " (\($0))" } ?? ""))
        case .failedSyncing(_, let failure), .paused(let failure):
            print("delivery      \(failure.message)")
        case .syncing, .successSyncing, .nothingToSync, .syncingCompleted: break
        }
    }
}
