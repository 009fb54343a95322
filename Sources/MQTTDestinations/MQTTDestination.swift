import HealthReadings
import Logging
import MQTTLink
import ReadingDelivery
import ReadingFormats
import ReadingStore

/// Publishes every reading to an MQTT broker, and keeps there what was measured last, for Home Assistant and others.
///
/// | topic | what | kept by the broker |
/// |---|---|---|
/// | `TOPIC/readings/KIND` | each reading: `{"id", "person", "reading"}`; one that is taken back: `{"id", "person", "retracted": true}` | no |
/// | `TOPIC/devices/ID/KIND` | what a meter measured last of a person | yes |
/// | `TOPIC/devices/ID/battery` | its battery | yes |
/// | `TOPIC/status` | `online`, or `offline` once the gateway is gone | yes |
/// | `homeassistant/device/…/config` | which sensors there are | yes |
///
/// A reading counts as delivered when the broker has acknowledged its message (QoS 1). What is kept comes from the store, so
/// that an older reading never replaces a newer one, after a restart or a reconnection either.
///
/// Two people who use one meter have two devices in Home Assistant: each person's values can then be shown, shared and
/// hidden by themselves, and nobody's chart mixes two people.
public actor MQTTDestination: BrokerDestination {
    /// Its name in the settings.
    public nonisolated let name: String
    /// `mqtt`.
    public nonisolated let kind = "mqtt"
    /// What it can express.
    public nonisolated var rules: DestinationRules { MQTTDestination.rules }

    /// What an MQTT destination can express.
    public static let rules = DestinationRules(
        kinds: ReadingKind.delivered, hasUniqueSeconds: false, needsSource: false,
        canRetract: true)

    let place: MQTTPlace
    let sender: MQTTSender
    let store: ReadingStore
    let logger: Logger

    /// Whether the connection is kept between deliveries (``run(_:)``): only then does the gateway count as being there.
    var isKept = false
    var link: Link?
    var opening: Task<DeliveryFailure?, Never>?
    /// The version that the broker spoke last, and when.
    var version: (spoken: MQTTVersion, at: ContinuousClock.Instant)?
    /// What was said of retained messages that could not be published.
    var toldOfStates: MQTTError.Kind?
    /// The wait after Home Assistant has started, in milliseconds: every gateway of a home hears it at the same time.
    let birthDelay: ClosedRange<Int>
    let pace: MQTTPace
    /// The smallest message, in bytes, that the broker is known to end connections for.
    var cutSize: Int?

    /// Creates a destination; nothing is connected before the first delivery or ``run(_:)``.
    ///
    /// - Parameters:
    ///   - name: the destination's name in the settings.
    ///   - store: where readings, devices and people are.
    ///   - place: where to publish.
    ///   - sender: the program and its catalogue.
    ///   - logger: takes counts and kinds of failures; never a topic, a value or the broker's words.
    public init(
        name: String, store: ReadingStore, place: MQTTPlace, sender: MQTTSender,
        logger: Logger = Logger(label: "healthrelay.mqtt")
    ) {
        self.init(name: name, store: store, place: place, sender: sender, birthDelay: 0...3000, logger: logger)
    }

    init(
        name: String, store: ReadingStore, place: MQTTPlace, sender: MQTTSender, birthDelay: ClosedRange<Int>,
        pace: MQTTPace = MQTTPace(), logger: Logger = Logger(label: "healthrelay.mqtt")
    ) {
        self.name = name
        self.store = store
        self.place = place
        self.sender = sender
        self.birthDelay = birthDelay
        self.pace = pace
        self.logger = logger
    }

    /// The batch, behind it each of its large recordings by itself: if the connection ends behind one, it is known for which
    /// message, and one that the broker does not take now keeps nothing else of the batch waiting.
    public func parts(_ batch: DeliveryBatch) async throws(DeliveryFailure) -> [DeliveryPart] {
        let (count, pace) = (batch.items.count, self.pace)
        var batch = batch
        // An item is large: mostly none is moved.
        if batch.items.contains(where: { pace.isLarge($0) }) {
            batch.items = batch.items.filter { !pace.isLarge($0) } + batch.items.filter { pace.isLarge($0) }
        }
        return batch.parts(of: count) { pace.isLarge($0) ? count : 1 }
    }

    /// Publishes each reading, and once nothing of the target waits behind them, what was measured last.
    ///
    /// - Returns: the readings that the broker has acknowledged. Those that it refused beside these go on waiting.
    public func send(_ part: DeliveryPart) async throws(DeliveryFailure) -> [Outcome] {
        let (person, topic) = (JSONValue.string(part.person.clientUserID).text, topic(of: part.target.resource))
        if let item = part.items.first, part.items.count == 1, pace.isLarge(item) {
            let (link, refusal) = try await publishAlone(Self.message(of: item, person, topic))
            if refusal == nil { show([item], of: part, on: link) }
            if part.isLast { await settle(link) }
            return [Outcome(item.id, refusal.map(Outcome.Result.failed) ?? .delivered)]
        }
        let link = try await linked()
        let publications = part.items.map { link.connection.begin(Self.message(of: $0, person, topic)) }
        CrashPoint.reach("mqtt.published")
        // Brokers acknowledge in order: the others are known by then, and this waits once instead of for each.
        _ = try? await publications.last?.receipt()
        var (taken, failure): ([Int], MQTTError?) = ([], nil)
        for (index, publication) in publications.enumerated() {
            do throws(MQTTError) {
                try await publication.receipt()
                taken.append(index)
            } catch {
                failure = failure ?? error
            }
        }
        show(newest(taken, of: part.items), of: part, on: link)
        // Home Assistant stamps a state with its arrival: a backlog would be shown as if it were measured now.
        if part.isLast { await settle(link) }
        if taken.isEmpty, let failure { throw DeliveryFailure(failure) }
        return taken.map { Outcome(part.items[$0].id, .delivered) }
    }

    /// - Parameter person: the person's name as JSON.
    private static func message(of item: OutboxItem, _ person: String, _ topic: String) -> MQTTMessage {
        var payload: [UInt8] = []
        payload.reserveCapacity(1024)
        payload.append(contentsOf: #"{"id":"\#(item.reading.id)","person":\#(person),"reading":"#.utf8)
        item.reading.write(into: &payload)
        payload.append(UInt8(ascii: "}"))
        return MQTTMessage(topic: topic, payload: payload, contentType: "application/json")
    }

    private func show(_ items: [OutboxItem], of part: DeliveryPart, on link: Link) {
        for item in items {
            link.board.show(
                DeliveredReading(reading: item.reading, person: part.person.clientUserID, timestamp: item.timestamp))
        }
    }

    /// The last of each device.
    private func newest(_ indices: [Int], of items: [OutboxItem]) -> [OutboxItem] {
        var newest: [Int] = []
        for index in indices.reversed()
        where !newest.contains(where: { items[$0].reading.device == items[index].reading.device }) {
            newest.append(index)
        }
        return newest.reversed().map { items[$0] }
    }

    /// Publishes for each reading that it is taken back. If it was the last one measured, the one before takes its place.
    public func retract(_ items: [Retraction]) async throws(DeliveryFailure) -> [RetractionKey: Outcome.Result] {
        let link = try await linked()
        let publications = items.map { item in
            let document = JSONValue.object([
                "id": .string(item.reading.description), "person": .string(item.person), "retracted": true,
            ])
            return link.connection.begin(
                MQTTMessage(
                    topic: topic(of: item.kind), payload: Array(document.text.utf8), contentType: "application/json"))
        }
        let gone = Set(items.map(\.reading))
        if link.board.shows(anyOf: gone) {
            do {
                link.board.takeBack(gone, newest: try await store.newestDelivered(at: try await key()))
            } catch {
                throw DeliveryFailure(error)
            }
        }
        await settle(link)
        var (results, failure): ([RetractionKey: Outcome.Result], MQTTError?) = ([:], nil)
        for (item, publication) in zip(items, publications) {
            do throws(MQTTError) {
                try await publication.receipt()
                results[item.key] = .delivered
            } catch {
                failure = failure ?? error
            }
        }
        if results.isEmpty, let failure { throw DeliveryFailure(failure) }
        return results
    }

    private func topic(of kind: ReadingKind) -> String { "\(place.topic)/readings/\(kind.rawValue)" }
}
