import AMQPLink
import Crypto
import FleetDocuments
import FleetStore
import HealthReadings
import Logging
import ServiceLifecycle
import Synchronization

/// Reads the fleet's queues: commits what came, publishes the receipts, and only then acknowledges to the broker.
///
/// A collector that ends in between leaves the messages to another one, or to itself: they come again and change nothing.
package final class QueueReader: Service {
    /// The names of queues, and how they are read.
    package struct Plan: Sendable, Hashable {
        package var brokers: [AMQPBroker]
        package var readings = "readings"
        package var status = "status"
        package var groupSize = 3
        package var prefetch = 200
        /// How many octets are stored together, unless one document has more.
        package var octets = 16 << 20

        package init(brokers: [AMQPBroker]) { self.brokers = brokers }
    }

    /// The exchange that RabbitMQ's MQTT plugin publishes to.
    private static let exchange = "amq.topic"
    /// How long one look for messages takes at most.
    private static let look = Duration.seconds(1)
    /// How long the next node waits for its turn; a whole round that failed waits longer.
    private static let delays: [Duration] = [.milliseconds(200), .seconds(1), .seconds(5), .seconds(15)]
    /// How often a document that the store refuses is tried again alone, and after which time.
    private static let (retries, pause) = (2, Duration.milliseconds(100))
    /// How many refused documents are remembered.
    private static let mostRefused = 1000

    private let plan: Plan
    private let desk: DocumentDesk
    private let logger: Logger
    private let publisher: AnswerPublisher
    private let connected = Mutex(false)
    /// How many batches had been stored when a document was refused first, by its digest.
    private let refused = Mutex<[[UInt8]: Int]>([:])
    /// Ends the reader between a commit and its acknowledgement, as a kill would. For tests.
    private let afterCommit: @Sendable () async throws -> Void

    package init(
        _ plan: Plan, desk: DocumentDesk, logger: Logger,
        afterCommit: @escaping @Sendable () async throws -> Void = {}
    ) {
        self.plan = plan
        self.desk = desk
        self.logger = logger
        publisher = AnswerPublisher(logger: logger)
        self.afterCommit = afterCommit
    }

    /// Whether the queues are being read now.
    package var isConnected: Bool { connected.withLock(\.self) }

    /// Whether the broker takes no receipts now, because its disk or its memory is short.
    package var isBlocked: Bool { publisher.isBlocked }

    package func run() async throws {
        try await cancelWhenGracefulShutdown { try await self.readForever() }
    }

    private func readForever() async throws {
        var (turn, failures) = (0, 0)
        while !Task.isCancelled {
            let broker = plan.brokers[turn % plan.brokers.count]
            let connection = AMQPConnection(to: broker)
            do {
                try await prepare(connection, to: broker)
                logger.info("the queues are read", metadata: ["broker": "\(broker.host):\(broker.port)"])
                connected.withLock { $0 = true }
                while !Task.isCancelled {
                    try await read(connection)
                    // Only now: while the database is away, each connection is made and nothing can be taken.
                    failures = 0
                }
            } catch is CancellationError {
                await connection.close()
                break
            } catch {
                connected.withLock { $0 = false }
                await connection.close()
                logger.warning(
                    "the queues can't be read; trying the next node",
                    metadata: ["broker": "\(broker.host):\(broker.port)", "error": "\(error)"])
                turn += 1
                let round = failures / plan.brokers.count
                failures += 1
                // Collectors that lost the same node don't come back at the same moment.
                let delay = Self.delays[min(round, Self.delays.count - 1)]
                try? await Task.sleep(for: delay * Double.random(in: 0.5...1))
                continue
            }
            await connection.close()
        }
        await publisher.close()
        connected.withLock { $0 = false }
    }

    private func prepare(_ connection: AMQPConnection, to broker: AMQPBroker) async throws {
        try await connection.open()
        for (queue, part) in [(plan.readings, FleetTopic.Part.readings), (plan.status, .status), (plan.status, .hello)]
        {
            try await connection.declare(
                queue: queue, groupSize: plan.groupSize, exchange: Self.exchange,
                routingKey: FleetTopic.bindingKey(part))
        }
        try await connection.consume(queue: plan.readings, prefetch: plan.prefetch)
        try await connection.consume(queue: plan.status, prefetch: plan.prefetch)
        await publisher.use(broker)
    }

    /// Takes what has come: commit, receipts, acknowledgement.
    ///
    /// - Throws: what the broker or the store threw. The connection then has to end, so that the messages come again.
    private func read(_ connection: AMQPConnection) async throws {
        let deliveries = try await connection.next(most: plan.prefetch, octets: plan.octets, within: Self.look)
        guard let last = deliveries.last else { return await publisher.publish() }
        // A large group, or a database that waits for its standby, may take longer than the broker's patience.
        let beats = Task { [publisher, interval = Duration.seconds(connection.heartbeat) / 3] in
            while !Task.isCancelled {
                try? await Task.sleep(for: interval)
                try? await connection.beat()
                await publisher.beat()
            }
        }
        defer { beats.cancel() }
        let answers = try await take(deliveries)
        try await afterCommit()
        CrashPoint.reach("collector.after-commit")
        await publisher.publish(answers)
        CrashPoint.reach("collector.before-acknowledgement")
        try await connection.acknowledge(through: last.tag)
    }

    /// Takes documents at the same time, and those that the store refused once more behind the others.
    private func take(_ deliveries: [AMQPDelivery]) async throws -> [FleetAnswer] {
        var (answers, refused): ([FleetAnswer], [AMQPDelivery]) = ([], [])
        try await withThrowingTaskGroup(of: (FleetAnswer?, AMQPDelivery?).self) { group in
            for delivery in deliveries {
                group.addTask {
                    do { return (try await self.take(delivery), nil) } catch {
                        guard (error as? DocumentFailure)?.refusal != nil else { throw error }
                        return (nil, delivery)
                    }
                }
            }
            for try await (answer, delivery) in group {
                if let answer { answers.append(answer) }
                if let delivery { refused.append(delivery) }
            }
        }
        for delivery in refused {
            if let answer = try await takeRefused(delivery) { answers.append(answer) }
        }
        return answers
    }

    /// Publishes what a gateway is told. A gateway that isn't connected asks again when it is.
    package static func publish(_ answer: FleetAnswer, on connection: AMQPConnection) async throws {
        for receipt in answer.receipts {
            try await connection.publish(
                receipt.document.octets, exchange: exchange,
                routingKey: FleetTopic(.receipts, of: receipt.gateway).routingKey)
        }
        if let configuration = answer.configuration {
            try await connection.publish(
                configuration.document.octets, exchange: exchange,
                routingKey: FleetTopic(.config, of: answer.gateway).routingKey)
        }
    }

    /// Takes a document that the store refuses once more alone, and puts it aside if the store takes others and never this one.
    ///
    /// - Throws: the refusal, if nothing was stored since the document was refused first: the store itself may be at fault, and
    ///   the document has to come again.
    private func takeRefused(_ delivery: AMQPDelivery) async throws -> FleetAnswer? {
        let digest = Array(SHA256.hash(data: delivery.body))
        let before = refused.withLock { refused in
            if refused.count >= Self.mostRefused { refused = [:] }
            let before = refused[digest] ?? desk.counters.current.receipts
            refused[digest] = before
            return before
        }
        var tries = 0
        while true {
            try await Task.sleep(for: Self.pause)
            do {
                let answer = try await take(delivery)
                refused.withLock { $0[digest] = nil }
                return answer
            } catch {
                tries += 1
                guard let failure = error as? DocumentFailure, let refusal = failure.refusal else { throw error }
                if tries < Self.retries { continue }
                guard desk.counters.current.receipts > before else { throw error }
                refused.withLock { $0[digest] = nil }
                return try await reject(delivery, .badValue(refusal))
            }
        }
    }

    /// - Returns: what the gateway is told; `nil`: nothing.
    private func take(_ delivery: AMQPDelivery) async throws -> FleetAnswer? {
        let topic: FleetTopic
        do { topic = try FleetTopic(routingKey: delivery.routingKey) } catch {
            try await putAside(delivery, gateway: "", .document(error))
            return nil
        }
        do {
            switch topic.part {
            case .readings:
                let receipt = try await desk.keep(delivery.body, from: topic.gateway)
                return FleetAnswer(gateway: topic.gateway, receipts: [receipt])
            case .status, .hello: return try await desk.note(delivery.body, topic.part, from: topic.gateway)
            case .receipts, .config:
                // Somebody has bound the queue to what the centre itself publishes.
                let error = FleetDocumentError.unexpected(
                    at: "topic", expected: "what a gateway publishes", found: topic.part.rawValue)
                try await putAside(delivery, gateway: topic.gateway.description, .document(error))
            }
            return nil
        } catch {
            guard let failure = error as? DocumentFailure, failure.isForGood else { throw error }
            return try await reject(delivery, failure)
        }
    }

    /// Puts a document aside for good.
    ///
    /// - Returns: what its gateway is told.
    private func reject(_ delivery: AMQPDelivery, _ failure: DocumentFailure) async throws -> FleetAnswer? {
        let topic = try FleetTopic(routingKey: delivery.routingKey)
        try await putAside(delivery, gateway: topic.gateway.description, failure)
        guard topic.part == .readings, let number = FleetUpload.number(of: delivery.body) else { return nil }
        let receipt = FleetReceipt(
            gateway: topic.gateway, batch: number,
            failure: .init(code: failure.code, message: String(failure.words.prefix(500))))
        return FleetAnswer(gateway: topic.gateway, receipts: [receipt])
    }

    /// Keeps a document that can't be taken, so that it neither stops the queue nor gets lost.
    ///
    /// Of a gateway that has too many aside it isn't kept. The gateway gets the same receipt, or none, and keeps its readings.
    private func putAside(_ delivery: AMQPDelivery, gateway: String, _ failure: DocumentFailure) async throws {
        let isKept = try await desk.store.putAside(
            AsideDocument(
                received: desk.now(), gateway: gateway, reason: failure.code, words: failure.words,
                octets: delivery.body))
        let words: Logger.Message
        if isKept {
            desk.counters.putAside(failure.code)
            words = "a document of the queue was put aside"
        } else {
            desk.counters.drop(failure.code)
            words = "a document of the queue was dropped: too many of its gateway are aside"
        }
        logger.warning(
            words, metadata: ["gateway": "\(gateway)", "reason": "\(failure.code)", "words": "\(failure.words)"])
    }
}
