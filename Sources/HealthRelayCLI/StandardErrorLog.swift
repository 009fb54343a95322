import Foundation
import HealthReadings
import Logging

/// Logs to standard error: a line of text for people and the journal, or a JSON line for scripts.
struct StandardErrorLog: LogHandler {
    let label: String
    let asJSON: Bool
    var logLevel: Logger.Level = .info
    var metadata: Logger.Metadata = [:]

    subscript(metadataKey key: String) -> Logger.Metadata.Value? {
        get { metadata[key] }
        set { metadata[key] = newValue }
    }

    func log(event: LogEvent) {
        let merged = metadata.merging(event.metadata ?? [:]) { $1 }.sorted { $0.key < $1.key }
        if asJSON {
            let members: [JSONValue.Member] =
                [
                    .init("at", .string(Terminal.now.description)), .init("level", .string(event.level.rawValue)),
                    .init("message", .string(event.message.description)),
                ] + merged.map { .init($0.key, .string("\($0.value)")) }
            Terminal.error(JSONValue.object(members).text)
        } else {
            let details = merged.map { " \($0.key)=\($0.value)" }.joined()
            Terminal.error("\(event.level.rawValue): \(event.message)\(details)")
        }
    }
}
