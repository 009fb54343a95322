import DeliveryFixture
import Foundation
import HealthReadings
import Logging
import MQTTLink
import ReadingFormats
import ReadingStore
import Synchronization
import TestBroker
import TestSupport

@testable import MQTTDestinations
@testable import ReadingDelivery

extension Fixture {
    /// A destination at a port of 127.0.0.1.
    func destination(
        _ port: UInt16, _ name: String = "home", user: String? = nil, password: String? = nil,
        tls: MQTTCertificates? = nil, isForHomeAssistant: Bool = true, logger: Logger = Fixture.quiet
    ) -> MQTTDestination {
        let broker = MQTTBroker(
            host: "127.0.0.1", port: port, tls: tls,
            credentials: user.map { MQTTCredentials(username: $0, password: password) })
        return MQTTDestination(
            name: name, store: store, place: MQTTPlace(broker: broker, isForHomeAssistant: isForHomeAssistant),
            sender: MQTTSender(version: "1.0") { model in
                model == "accuchek_guide" ? DeviceFacts(manufacturer: "Accu-Chek", model: "Guide") : nil
            }, birthDelay: 0...50, logger: logger)
    }

    /// A worker that waits little after failures.
    func worker(
        _ destination: MQTTDestination, batchLimit: Int = 500, logger: Logger = Fixture.quiet
    ) -> OutboxWorker {
        var options = OutboxWorker.Options()
        options.backoff = Backoff(first: .milliseconds(100), longest: .milliseconds(400), jitter: { 1 })
        options.batchLimit = batchLimit
        return OutboxWorker(store: store, destination: destination, options: options, logger: logger)
    }

    /// How many readings are delivered.
    func delivered(at name: String = "home") async throws -> Int {
        try await store.query(ReadingQuery(limit: 10_000)).readings.count { reading in
            reading.deliveries.contains { $0.destination == name && $0.state == .delivered }
        }
    }

    /// The names that the destination uses.
    var naming: Naming {
        get async throws { Naming(gateway: try await store.gatewayID(), base: "healthrelay") }
    }

    /// The id of a meter and a person.
    func id(device: UInt64 = 1, person: String = Fixture.user) async throws -> String {
        try await naming.id(
            of: DeviceDescription(address: DeviceAddress(bits: 0xC000_0000_0000 + device, kind: .random)),
            person: person)
    }
}

/// Hears everything that is published at a broker.
final class Listener: Sendable {
    private let connection: MQTTConnection
    private let heard = Mutex<[MQTTMessage]>([])
    private let task: Task<Void, Never>?

    /// - Parameter filter: the topics.
    init(_ broker: TestBroker, _ filter: String = "#") async throws {
        let connection = try await MQTTConnection.open(
            MQTTBroker(host: "127.0.0.1", port: broker.port),
            { () -> MQTTOptions in
                var options = MQTTOptions(clientID: "listener\(Int.random(in: 0..<1_000_000))")
                (options.buffer, options.bufferBytes) = (60_000, .max)
                return options
            }())
        self.connection = connection
        let (stream, continuation) = AsyncStream<MQTTMessage>.makeStream()
        task = Task {
            for await message in connection.messages { continuation.yield(message) }
            continuation.finish()
        }
        try await connection.subscribe(to: filter)
        Task { [weak self] in for await message in stream { self?.heard.withLock { $0.append(message) } } }
    }

    deinit { task?.cancel() }

    /// What was published, oldest first, what the broker kept from before included.
    var messages: [MQTTMessage] { heard.withLock(\.self) }

    /// The messages of a topic.
    func messages(_ topic: String) -> [MQTTMessage] { messages.filter { $0.topic == topic } }

    /// Publishes something.
    func publish(_ topic: String, _ text: String, isRetained: Bool = false) async throws {
        try await connection.publish(MQTTMessage(topic: topic, text: text, isRetained: isRetained))
    }

    /// The ids of the readings that were published, in this order.
    var ids: [String] {
        messages.filter { $0.topic.hasPrefix("healthrelay/readings/") && $0.document?["retracted"] == nil }
            .compactMap { $0.document?["id"] as? String }
    }
}

extension MQTTMessage {
    /// The content as a JSON object.
    var document: [String: Any]? { try? JSONSerialization.jsonObject(with: Data(payload)) as? [String: Any] }
}

/// What a broker keeps now, by topic.
func kept(_ broker: TestBroker, _ filter: String = "#") async throws -> [String: MQTTMessage] {
    let connection = try await MQTTConnection.open(
        MQTTBroker(host: "127.0.0.1", port: broker.port),
        MQTTOptions(clientID: "kept\(Int.random(in: 0..<1_000_000))"))
    try await connection.subscribe(to: filter)
    // What is published last comes last.
    try await connection.publish(MQTTMessage(topic: "end/\(filter.utf8.count)", text: "end"))
    try await connection.subscribe(to: "end/+")
    try await connection.publish(MQTTMessage(topic: "end/mark", text: "end"))
    var messages: [String: MQTTMessage] = [:]
    for await message in connection.messages {
        if message.topic == "end/mark" { break }
        if message.isRetained { messages[message.topic] = message }
    }
    await connection.close()
    return messages
}
