import Logging
import Synchronization

/// Keeps what was logged, with its metadata.
public final class LogLines: Sendable {
    private let kept = Mutex<[(level: Logger.Level, text: String)]>([])

    /// A log of no lines yet.
    public init() {}

    /// A logger whose lines are kept here from a level on.
    public func logger(_ label: String = "test", from level: Logger.Level = .info) -> Logger {
        var logger = Logger(label: label) { _ in Handler(lines: self, logLevel: level) }
        logger.logLevel = level
        return logger
    }

    /// What was logged at a level or above.
    public func lines(from level: Logger.Level = .trace) -> [String] {
        kept.withLock { $0.filter { $0.level >= level }.map(\.text) }
    }

    /// All of it.
    public var text: String { lines().joined(separator: "\n") }

    private struct Handler: LogHandler {
        let lines: LogLines
        var metadata: Logger.Metadata = [:]
        var logLevel: Logger.Level

        subscript(metadataKey key: String) -> Logger.Metadata.Value? {
            get { metadata[key] }
            set { metadata[key] = newValue }
        }

        func log(event: LogEvent) {
            let text = "\(event.level) \(event.message) \(metadata) \(event.metadata ?? [:])"
            lines.kept.withLock { $0.append((event.level, text)) }
        }
    }
}
