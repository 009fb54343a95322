/// A line of a program's log, for people and the journal, or as JSON for scripts.
package enum LogLine {
    /// - Parameter details: what stands behind the message, in the order of its names.
    package static func text(level: String, message: String, details: [String: String], asJSON: Bool) -> String {
        let details = details.sorted { $0.key < $1.key }
        guard asJSON else { return "\(level): \(message)" + details.map { " \($0.key)=\($0.value)" }.joined() }
        let members: [JSONValue.Member] =
            [
                .init("at", .string(Instant.systemClock.description)), .init("level", .string(level)),
                .init("message", .string(message)),
            ] + details.map { .init($0.key, .string($0.value)) }
        return JSONValue.object(members).text
    }
}
