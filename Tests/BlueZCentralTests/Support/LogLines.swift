import Logging
import Synchronization

/// Keeps what was logged, with its metadata.
final class LogLines: Sendable {
    private let lines = Mutex<[(level: Logger.Level, text: String)]>([])

    func logger(_ label: String) -> Logger {
        var logger = Logger(label: label) { _ in Handler(lines: self) }
        logger.logLevel = .debug
        return logger
    }

    /// What was logged at a level or above.
    func lines(from level: Logger.Level = .trace) -> [String] {
        lines.withLock { $0.filter { $0.level >= level }.map(\.text) }
    }

    private struct Handler: LogHandler {
        let lines: LogLines
        var metadata: Logger.Metadata = [:]
        var logLevel = Logger.Level.debug

        subscript(metadataKey key: String) -> Logger.Metadata.Value? {
            get { metadata[key] }
            set { metadata[key] = newValue }
        }

        func log(event: LogEvent) {
            let text = "\(event.message) \(event.metadata ?? [:])"
            lines.lines.withLock { $0.append((event.level, text)) }
        }
    }
}
