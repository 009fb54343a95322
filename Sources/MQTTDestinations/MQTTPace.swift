import HealthReadings
import ReadingDelivery
import ReadingStore

/// How often and how long. Most of it tells a message that the broker does not take from a connection that is just bad.
struct MQTTPace: Sendable {
    /// From how many samples on a recording is published by itself: the messages of other readings are small.
    var samples = 300
    /// How many connections in a row have to end behind a message.
    var cuts = 4
    /// How soon behind the message a connection ends, if that is why.
    var soon: Duration = .seconds(10)
    /// How long a connection has to carry other messages before the message is tried again, at least.
    var steady: Duration = .seconds(1)
    /// How long behind a discovery that says something new it is published once more, at least.
    var again: Duration = .seconds(10)

    /// Whether the message of a reading may be more than a broker takes.
    func isLarge(_ item: OutboxItem) -> Bool { (item.reading.record.value.series?.count ?? 0) >= samples }
}
