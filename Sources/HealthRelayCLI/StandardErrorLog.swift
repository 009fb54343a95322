import Foundation
import GatewaySettings
import HealthReadings
import Logging
import Synchronization

/// From which level on all loggers log; it can be changed while they are in use.
enum LogLevel {
    private static let level = Mutex(Logger.Level.info)

    static var current: Logger.Level {
        get { level.withLock(\.self) }
        set { level.withLock { $0 = newValue } }
    }
}

extension Settings {
    /// `log.level`.
    var logLevel: Logger.Level { self["log.level"].flatMap(Logger.Level.init(rawValue:)) ?? .info }
}

/// Logs to standard error: a line of text for people and the journal, or a JSON line for scripts.
struct StandardErrorLog: LogHandler {
    let label: String
    let asJSON: Bool
    /// A level of this logger's own; nil: the one all have.
    private var ownLevel: Logger.Level?
    var metadata: Logger.Metadata = [:]

    init(label: String, asJSON: Bool) {
        self.label = label
        self.asJSON = asJSON
    }

    var logLevel: Logger.Level {
        get { ownLevel ?? LogLevel.current }
        set { ownLevel = newValue }
    }

    subscript(metadataKey key: String) -> Logger.Metadata.Value? {
        get { metadata[key] }
        set { metadata[key] = newValue }
    }

    func log(event: LogEvent) {
        Terminal.error(
            LogLine.text(
                level: event.level.rawValue, message: event.message.description,
                details: metadata.merging(event.metadata ?? [:]) { $1 }.mapValues(\.description), asJSON: asJSON))
    }
}
