import HealthReadings
import MQTTLink
import ReadingFormats

/// Where an MQTT destination publishes.
public struct MQTTPlace: Sendable {
    /// The broker.
    public var broker: MQTTBroker
    /// The topic that all others begin with.
    public var topic: String
    /// Whether Home Assistant is told which sensors there are.
    public var isForHomeAssistant: Bool

    /// The topic that all others begin with if none is named.
    public static let usualTopic = "healthrelay"

    /// Creates a place.
    ///
    /// - Parameters:
    ///   - broker: the broker.
    ///   - topic: the topic that all others begin with; see ``isTopic(_:)``.
    ///   - isForHomeAssistant: whether Home Assistant is told which sensors there are.
    public init(broker: MQTTBroker, topic: String = usualTopic, isForHomeAssistant: Bool = true) {
        self.broker = broker
        self.topic = topic
        self.isForHomeAssistant = isForHomeAssistant
    }

    /// Whether all topics of a destination can begin with a text: no wildcards, no control characters, no empty level, not a
    /// broker's own (`$SYS`), at most 128 bytes.
    public static func isTopic(_ text: String) -> Bool {
        (1...128).contains(text.utf8.count) && !text.hasPrefix("$")
            && text.unicodeScalars.allSatisfy { $0 != "+" && $0 != "#" && $0.properties.generalCategory != .control }
            && text.split(separator: "/", omittingEmptySubsequences: false).allSatisfy { !$0.isEmpty }
    }
}

/// The program as documents name it, and what it knows of models.
public struct MQTTSender: Sendable {
    /// The program's version.
    public var version: String
    /// What the catalogue says of a model's id.
    public var facts: @Sendable (String) -> DeviceFacts?

    /// Creates it.
    public init(version: String, facts: @escaping @Sendable (String) -> DeviceFacts? = { _ in nil }) {
        self.version = version
        self.facts = facts
    }
}
