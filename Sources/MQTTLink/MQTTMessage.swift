/// A message: what is published, or what came.
public struct MQTTMessage: Sendable, Hashable {
    /// How surely a message arrives.
    public enum Quality: Int32, Sendable, Hashable {
        /// Once or not at all; nothing is acknowledged.
        case atMostOnce = 0
        /// Once or more often; acknowledged.
        case atLeastOnce = 1
    }

    /// The topic, without wildcards.
    public var topic: String
    /// The content, at most 268,435,455 bytes.
    public var payload: [UInt8]
    /// How surely it arrives.
    public var quality: Quality
    /// Published: whether the broker keeps it for those who subscribe later. An empty retained message removes the one
    /// that is kept. Received: whether it was kept.
    public var isRetained: Bool
    /// What the content is: `application/json`. Sent with MQTT 5 only.
    public var contentType: String?

    /// Creates a message.
    public init(
        topic: String, payload: [UInt8], quality: Quality = .atLeastOnce, isRetained: Bool = false,
        contentType: String? = nil
    ) {
        self.topic = topic
        self.payload = payload
        self.quality = quality
        self.isRetained = isRetained
        self.contentType = contentType
    }

    /// Creates a message with a text as its content.
    public init(
        topic: String, text: String, quality: Quality = .atLeastOnce, isRetained: Bool = false,
        contentType: String? = nil
    ) {
        self.init(
            topic: topic, payload: Array(text.utf8), quality: quality, isRetained: isRetained, contentType: contentType)
    }

    /// The content as text; bytes that are no UTF-8 are replaced.
    public var text: String { String(decoding: payload, as: UTF8.self) }
}

/// What a broker said to a published message.
public struct MQTTReceipt: Sendable, Hashable {
    /// Whether somebody had subscribed to the topic. `nil` if the broker does not say so: MQTT 3.1.1 never does, MQTT 5 may
    /// leave it out.
    public var hasSubscribers: Bool?
}
