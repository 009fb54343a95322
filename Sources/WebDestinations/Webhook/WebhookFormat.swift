import HealthReadings
import ReadingDelivery
import ReadingFormats
import ReadingStore

/// What the body of a webhook's request is.
///
/// A new format is a case here, with the body that it makes of a reading and of one that is taken back.
public enum WebhookFormat: String, Sendable, Hashable, CaseIterable {
    /// `{"type","timestamp","data"}`, as Standard Webhooks advises.
    case standard
    /// CloudEvents 1.0 in JSON, in structured mode.
    case cloudevents

    /// A body, and the event it tells of.
    struct Message {
        /// The `webhook-id`: the same each time that the event is sent.
        var id: String
        var mediaType: String
        var body: [UInt8]
    }

    /// The message about a reading.
    ///
    /// - Throws: `FormatOmission` if the format cannot express it.
    func message(_ item: OutboxItem, gateway: String) throws(FormatOmission) -> Message {
        message(WebhookEvent(item.reading, at: item.timestamp, revision: item.id.revision), gateway)
    }

    /// The message that a reading is taken back.
    func message(_ item: Retraction, gateway: String) -> Message {
        message(
            WebhookEvent(
                retracting: item.reading, kind: item.kind, person: item.person, at: item.timestamp,
                number: item.key.rawValue), gateway)
    }

    private func message(_ event: WebhookEvent, _ gateway: String) -> Message {
        let (document, format) =
            switch self {
            case .standard: (event.standard, ReadingFormat.standardWebhook)
            case .cloudevents: (event.cloudEvent(gateway: gateway), ReadingFormat.cloudEvent)
            }
        var body: [UInt8] = []
        document.write(into: &body)
        return Message(id: event.id, mediaType: format.mediaType, body: body)
    }
}
