import Foundation
import HealthReadings
import Logging
import MQTTLink
import ReadingDelivery
import ReadingFormats
import ReadingStore

/// A connection, and what the broker keeps.
final class Link: BrokerLink {
    let connection: MQTTConnection
    let naming: Naming
    /// Whether the broker publishes `offline` when the connection is lost.
    let hasWill: Bool
    var board: Board
    /// What the broker keeps of ours, by topic, as far as we know.
    var retained: [String: String] = [:]
    /// When discoveries were published that say something new, until they are published once more.
    var changed: [String: ContinuousClock.Instant] = [:]
    /// Takes what comes.
    var reader: Task<Void, Never>?
    /// Publishes everything again, some time after Home Assistant has started.
    var birth: Task<Void, Never>?
    /// What came while the broker was asked what it keeps; `nil`: it is not asked.
    var survey: [String: [UInt8]]?
    /// How many bytes of it came.
    var surveyedBytes = 0
    /// How many messages have come that the broker had kept, others' too.
    var keptCount = 0
    /// Whether a discovery of another gateway points at ``HomeAssistant/Topics/sharedStatus``, or somebody else has the broker keep
    /// what is too large to be ours.
    var othersShareStatus = false
    /// Whether what the broker keeps there is this gateway's, of an earlier version.
    var hasFormerStatus = false

    init(connection: MQTTConnection, naming: Naming, hasWill: Bool, board: Board) {
        self.connection = connection
        self.naming = naming
        self.hasWill = hasWill
        self.board = board
    }

    deinit {
        reader?.cancel()
        birth?.cancel()
    }
}

extension MQTTDestination {
    /// Has the broker keep what the board shows.
    ///
    /// What fails is tried again with the next reading or connection: the readings themselves are delivered without it.
    ///
    /// - Parameter isWhole: publishes what the broker has already, too.
    func settle(_ link: Link, isWhole: Bool = false) async {
        var known: Set<String>?
        do {
            // A destination that is switched off, or has moved, is told nothing.
            guard try await store.standingHold(at: try await key()) == nil else { return }
            let (shown, people) = (try await store.shownDevices(at: try await key()), try await store.users())
            known = link.board.note(shown.devices, people)
            link.board.conceal(shown, of: people)
        } catch {
            logger.notice("devices and people could not be read", metadata: ["code": "\(DeliveryFailure(error).code)"])
        }
        // From here to the end of publishing nothing waits: what a topic is to show cannot change in between.
        let wanted = link.board.messages()
        var publications: [(topic: String, publication: MQTTPublication)] = []
        func publish(_ topic: String, _ text: String, isRetained: Bool = true) {
            publications.append(
                (
                    topic,
                    link.connection.begin(
                        MQTTMessage(topic: topic, text: text, isRetained: isRetained, contentType: "application/json"))
                ))
        }
        // Discovery comes first, the gateway's before its meters': what a state belongs to is known then.
        let isDiscovery = { (topic: String) in topic.hasPrefix("homeassistant/") }
        let gateway = link.naming.topics.gateway
        let order = wanted.keys.sorted {
            ($0 == gateway ? 0 : isDiscovery($0) ? 1 : 2, $0) < ($1 == gateway ? 0 : isDiscovery($1) ? 1 : 2, $1)
        }
        // A sensor whose unit changes would show its last value with the new one: it is told first that there is none.
        for id in link.board.meters.keys.sorted() {
            let discovery = link.naming.topics.discovery(of: id)
            guard let text = wanted[discovery], let former = link.retained[discovery],
                Self.units(in: text) != Self.units(in: former)
            else { continue }
            for (topic, state) in link.retained.sorted(by: { $0.key < $1.key })
            where topic.hasPrefix(link.naming.topics.states(of: id)) {
                guard let nothing = Self.withoutValues(state) else { continue }
                publish(topic, nothing)
                link.retained[topic] = nothing
            }
        }
        // While Home Assistant makes a sensor of one discovery, it drops from the next one whatever follows that sensor: of an
        // oximeter's heart rate and saturation, which come one after the other, the second might not be there until it restarts.
        let now = ContinuousClock.now
        for topic in order {
            guard let text = wanted[topic] else { continue }
            let isNew = link.retained[topic] != text
            let isDue = link.changed[topic].map { now - $0 >= pace.again } ?? false
            guard isWhole || isNew || isDue else { continue }
            if isDiscovery(topic) { link.changed[topic] = isNew ? now : nil }
            publish(topic, text)
            link.retained[topic] = text
        }
        var removed: [String: String] = [:]
        if let known {
            for (topic, text) in link.retained.sorted(by: { $0.key < $1.key })
            where wanted[topic] == nil && link.board.isObsolete(topic, known: known) {
                // A sensor goes on showing its value when a message is removed: it is told first that there is none.
                if !isDiscovery(topic), let nothing = Self.withoutValues(text) {
                    publish(topic, nothing, isRetained: false)
                }
                publish(topic, "")
                (link.retained[topic], removed[topic]) = (nil, text)
            }
        }
        var (failure, refused): (MQTTError?, [String: MQTTError]) = (nil, [:])
        for (topic, publication) in publications {
            do throws(MQTTError) {
                try await publication.receipt()
            } catch {
                // What was not taken off the broker is still there.
                link.retained[topic] = removed[topic]
                failure = failure ?? error
                let level = isDiscovery(topic) ? HomeAssistant.Topics.devices : place.topic + "/devices/"
                refused[level] = refused[level] ?? error
            }
        }
        await tell(failure, refused)
    }

    /// Tells once of each way in which the broker refuses what it is to keep; the store knows as long as it does.
    private func tell(_ failure: MQTTError?, _ refused: [String: MQTTError]) async {
        // A connection that has ended says nothing of what the broker would have kept.
        if let failure, [.cancelled, .closed, .lost].contains(failure.kind) { return }
        let words = refused.sorted { $0.key < $1.key }.map { level, error in
            let what =
                level == HomeAssistant.Topics.devices
                ? "Home Assistant is not told of meters" : "what was measured last is not kept there"
            return "the broker refuses what is published under \(level)#, so \(what): \(error.message)"
        }
        do {
            try await store.setWarnings(words, of: try await key())
        } catch {
            logger.debug("a warning could not be noted", metadata: ["code": "\(DeliveryFailure(error).code)"])
        }
        defer { toldOfStates = failure?.kind }
        guard let failure, failure.kind != toldOfStates else { return }
        logger.warning(
            "the broker does not keep what was measured last",
            metadata: ["destination": "\(name)", "error": "\(failure.kind.rawValue)"])
    }

    /// The units that a discovery names, by sensor.
    static func units(in discovery: String) -> [String: String] {
        let object = (try? JSONSerialization.jsonObject(with: Data(discovery.utf8))) as? [String: Any]
        let sensors = object?["components"] as? [String: [String: Any]] ?? [:]
        return sensors.compactMapValues { $0["unit_of_measurement"] as? String }
    }

    /// A state with null for everything in it.
    static func withoutValues(_ text: String) -> String? {
        guard let object = try? JSONSerialization.jsonObject(with: Data(text.utf8)) as? [String: Any] else {
            return nil
        }
        return JSONValue.object(object.keys.sorted().map { .init($0, .null) }).text
    }
}
