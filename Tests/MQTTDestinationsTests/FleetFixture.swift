import DeliveryFixture
import FleetDelivery
import FleetDocuments
import HealthReadings
import Logging
import MQTTLink
import ReadingStore
import Synchronization
import TestBroker
import TestSupport

@testable import MQTTDestinations
@testable import ReadingDelivery

extension Fixture {
    /// The gateway of the tests.
    static func gateway() throws -> GatewayID { try GatewayID("ward-7") }

    /// A fleet's destination at ports of 127.0.0.1.
    func fleet(
        _ ports: UInt16..., waitsForReceipt: Bool = true, sealing: SealingKey? = nil, tls: MQTTCertificates? = nil,
        pace: FleetPace = FleetPace(silence: .milliseconds(200), patience: .seconds(3)),
        steering: any FleetSteering = FleetRefusal()
    ) throws -> FleetDestination {
        FleetDestination(
            name: "fleet", store: store,
            place: FleetPlace(
                hosts: ports.map { MQTTBroker(host: "127.0.0.1", port: $0, tls: tls) }, gateway: try Self.gateway(),
                waitsForReceipt: waitsForReceipt, sealing: sealing),
            sender: FleetSender(
                version: "1.0", uptime: { 7 }, now: { Instant(seconds: Fixture.start + 100_000_000) },
                steering: steering),
            pace: pace, logger: Self.quiet)
    }

    /// A worker that waits little after failures.
    func worker(_ destination: FleetDestination, receiptTimeout: Duration = .seconds(600)) -> OutboxWorker {
        var options = OutboxWorker.Options()
        options.backoff = Backoff(first: .milliseconds(100), longest: .milliseconds(400), jitter: { 1 })
        options.receiptTimeout = receiptTimeout
        return OutboxWorker(store: store, destination: destination, options: options, logger: Self.quiet)
    }

    /// How many readings stand so with the fleet.
    func count(_ state: String) async throws -> Int {
        try await store.query(ReadingQuery(limit: 10_000)).readings.count { reading in
            reading.deliveries.contains { $0.destination == "fleet" && $0.state.name == state }
        }
    }

    /// The store's number of the fleet.
    func fleetKey() async throws -> DestinationKey {
        guard let known = try await store.destinations().first(where: { $0.name == "fleet" }) else {
            throw Failed("the store does not know the fleet")
        }
        return known.key
    }
}

/// A centre: takes batches of all gateways from a broker and answers as a test has it.
final class TestCentre: Sendable {
    /// How it answers a batch.
    typealias Answer = @Sendable (FleetBatch) -> FleetReceipt?

    private struct State {
        var batches: [FleetBatch] = []
        var hellos: [FleetHello] = []
        var statuses: [FleetStatus] = []
        var bodies: [ReadingID: (revision: Int64, body: String)] = [:]
        var answer: Answer
    }

    private let connection: MQTTConnection
    private let state: Mutex<State>
    private let task = Mutex<Task<Void, Never>?>(nil)

    /// Stores everything.
    static let storesAll: Answer = { FleetReceipt(gateway: $0.gateway, batch: $0.number, stored: $0.ids) }
    /// Says nothing.
    static let isSilent: Answer = { _ in nil }

    init(_ port: UInt16, opening: OpeningKey? = nil, _ answer: @escaping Answer = storesAll) async throws {
        state = Mutex(State(answer: answer))
        var options = MQTTOptions(clientID: "centre\(Int.random(in: 0..<1_000_000))")
        (options.buffer, options.bufferBytes) = (10_000, .max)
        connection = try await MQTTConnection.open(MQTTBroker(host: "127.0.0.1", port: port), options)
        for part in FleetTopic.Part.allCases where part.isFromGateway {
            try await connection.subscribe(to: FleetTopic.filter(part))
        }
        let connection = connection
        let task = Task { [weak self] in
            for await message in connection.messages { await self?.take(message, opening) }
        }
        self.task.withLock { $0 = task }
    }

    deinit { task.withLock { $0?.cancel() } }

    /// Batches in the order in which they came.
    var batches: [FleetBatch] { state.withLock(\.batches) }
    var hellos: [FleetHello] { state.withLock(\.hellos) }
    var statuses: [FleetStatus] { state.withLock(\.statuses) }
    /// What it has, with revisions applied and retractions removed.
    var stored: Set<ReadingID> { state.withLock { Set($0.bodies.filter { !$0.value.body.isEmpty }.keys) } }

    func answer(_ answer: @escaping Answer) { state.withLock { $0.answer = answer } }

    func send(_ receipt: FleetReceipt, to gateway: GatewayID? = nil) async throws {
        try await connection.publish(
            MQTTMessage(
                topic: FleetTopic(.receipts, of: gateway ?? receipt.gateway).description, text: receipt.document.text))
    }

    func send(_ configuration: FleetConfiguration) async throws {
        try await connection.publish(
            MQTTMessage(
                topic: FleetTopic(.config, of: configuration.gateway).description, text: configuration.document.text))
    }

    private func take(_ message: MQTTMessage, _ opening: OpeningKey?) async {
        guard let topic = try? FleetTopic(message.topic) else { return }
        switch topic.part {
        case .readings:
            guard let upload = try? FleetUpload(message.payload, from: topic.gateway) else { return }
            let batch: FleetBatch
            switch upload {
            case .plain(let plain): batch = plain
            case .sealed(let sealed):
                guard let opening, let opened = try? sealed.opened(with: opening) else { return }
                batch = opened
            }
            let receipt = state.withLock { state in
                state.batches.append(batch)
                guard let receipt = state.answer(batch) else { return FleetReceipt?.none }
                for reading in batch.readings
                where receipt.stored.contains(reading.id) && reading.revision > state.bodies[reading.id]?.revision ?? 0
                {
                    state.bodies[reading.id] = (reading.revision, reading.body.text)
                }
                for gone in batch.retracted
                where receipt.stored.contains(gone.id) && gone.revision > state.bodies[gone.id]?.revision ?? 0 {
                    state.bodies[gone.id] = (gone.revision, "")
                }
                return receipt
            }
            if let receipt { try? await send(receipt) }
        case .hello:
            guard let hello = try? FleetHello(message.payload, from: topic.gateway) else { return }
            state.withLock { $0.hellos.append(hello) }
        case .status:
            guard let status = try? FleetStatus(message.payload, from: topic.gateway) else { return }
            state.withLock { $0.statuses.append(status) }
        case .receipts, .config: break
        }
    }
}
